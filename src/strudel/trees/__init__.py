"""`BitMatrix` -> `ChowLiuTree` -> `Vtree`.

Reading order: `mutual_information`, `chow_liu`, `vtree`; then `vtree_learning` with `bisection` and
`pairing`, and `tree_for_vtree`; `column_tree` is for columns of many values.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
