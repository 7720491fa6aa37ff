"""Circuits on one vtree -> circuits and numbers: products, quotients, divergences.

Whatever takes two circuits is one pass over the pairs of their nodes (`circuits.products`).
Read `operands` first, then `conditioning`, `products`, `marginalization`, `divergences`.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
