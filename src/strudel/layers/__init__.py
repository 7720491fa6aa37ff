"""Circuits as layers of networks, with PyTorch (an extra), and for other libraries.

Read `levels` first: the order of a pass. Then `passes`, up and down through a circuit, and
`triton_passes`, the same on a GPU; `module`, which is what people train and ask; `convert`, which
makes one; and `exports`, for pyjuice and cirkit.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
