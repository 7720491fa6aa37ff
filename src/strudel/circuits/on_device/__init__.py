"""Passes through a circuit and products of flows on a device of PyTorch, with kernels for GPUs."""
