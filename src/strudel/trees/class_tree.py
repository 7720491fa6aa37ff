"""The best tree inside the classes: dependence that the class itself explains does not count.

In:  the rows of every class, as one `BitMatrix` each.
Out: `ChowLiuTree` with the largest mutual information given the class (Friedman, Geiger and
     Goldszmidt 1997 call the classifier "tree-augmented naive Bayes"); its tables are those of all
     rows together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strudel.data.bits import BitMatrix
from strudel.data.counts import pair_counts
from strudel.trees.chow_liu import ChowLiuTree, conditional_tables, spanning_tree
from strudel.trees.mutual_information import pairwise_mutual_information


def learn_class_tree(classes: Sequence[BitMatrix], *, alpha: float = 0.5) -> ChowLiuTree:
    """Learn the maximum spanning tree of the mutual information given the class.

    `alpha` virtual rows are added to each of the four cells of a pair, in every class.
    """
    counts = [pair_counts(bits) for bits in classes]
    totals = [bits.total_weight for bits in classes]
    information = np.zeros_like(counts[0])
    for count, total in zip(counts, totals, strict=True):
        information += total * pairwise_mutual_information(count, total, alpha)
    parent = spanning_tree(information)
    tables = conditional_tables(parent, np.sum(counts, axis=0), sum(totals), alpha)
    return ChowLiuTree(parent, tables)
