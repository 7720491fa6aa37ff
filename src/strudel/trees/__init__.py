"""Step 2: `BitMatrix` -> `ChowLiuTree` -> `Vtree`.

Reading order: mutual_information, chow_liu, vtree; then vtree_learning with bisection and pairing,
and fitting_tree.
"""
