"""Circuits over the columns of a table: how they are made, their properties, walks and flows.

Reading order: `circuit`, `builder`, `compile` (with Figure 1), `properties`, `walks` with `passes`,
`flows`, `reweigh`, `products`, `other_columns`, `predictor`; `sum_product_graph` is for files.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
