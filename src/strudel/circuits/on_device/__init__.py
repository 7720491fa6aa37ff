"""Circuits on a device of PyTorch, with kernels for GPUs.

For modules and questions: a pass through a circuit over columns (`levels`, `passes`,
`triton_passes`), and log-probabilities of rows (`column_rows`). For the learner, over bits: EM and
likelihoods as products of flows (`flow_products`, `flow_shares`), and steps of networks
that are `recorded`.
"""
