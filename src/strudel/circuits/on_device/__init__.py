"""Passes through a circuit on a device of PyTorch: their order, and kernels for GPUs."""
