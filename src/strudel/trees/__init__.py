"""Step 2: `BitMatrix` -> `ChowLiuTree` -> `Vtree`.

Reading order: mutual_information, chow_liu, vtree; then vtree_learning with bisection and pairing,
and fitting_tree; column_information and column_tree for columns of many values.
"""
