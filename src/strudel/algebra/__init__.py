"""Circuits on one vtree -> circuits and numbers: products, quotients, divergences.

Read `pairs` first: whatever takes two circuits is one pass over the pairs of their nodes.
`normalize_weights` makes circuits of the results. Then `products`, `conditioning`,
`marginalization`, `divergences`.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
