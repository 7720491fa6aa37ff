"""STEP 4b  circuits on one vtree -> circuits and numbers: products, quotients, divergences.

Read `pairs` first: whatever takes two circuits is one pass over the pairs of their nodes. `settle`
makes circuits of the results; `products`, `conditioning`, `marginals` and `divergences` are public.
"""
