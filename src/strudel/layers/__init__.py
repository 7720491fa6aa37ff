"""Circuits as layers of networks, with PyTorch (an extra), and for other libraries.

Read `module` first: what people train and ask. Then `exports`: `to_torch`, which makes one, and
what goes to pyjuice and cirkit. The passes themselves are in `strudel.circuits`.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
