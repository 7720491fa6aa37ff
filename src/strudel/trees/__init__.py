"""Step 2: `BitMatrix` -> `ChowLiuTree` -> `Vtree`.

Reading order: mutual_information, chow_liu, vtree.
"""
