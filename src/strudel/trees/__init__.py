"""`BitMatrix` -> `ChowLiuTree` -> `Vtree`.

Reading order: `mutual_information`, `chow_liu`, `vtree`, `vtree_learning`; `column_tree` is for
columns of many values.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
