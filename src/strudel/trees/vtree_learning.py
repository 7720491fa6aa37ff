"""Vtrees from data: variables that depend on one another stand close together.

In:  a `BitMatrix` and the name of a method.
Out: `Vtree`.

The methods ``"top_down"`` and ``"bottom_up"`` are those of LearnPSDD (Liang, Bekker and Van den
Broeck 2017). They and ``"clusters"`` look at the mutual information of pairs only.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import NONE, FloatArray, IntArray
from strudel.data.bits import BitMatrix
from strudel.data.counts import pair_counts
from strudel.data.validation import as_bits
from strudel.trees.bisection import bisect
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.mutual_information import pairwise_mutual_information
from strudel.trees.pairing import pair_up
from strudel.trees.vtree import (
    Vtree,
    VtreeNodes,
    balanced_vtree,
    linear_vtree,
    random_vtree,
    vtree_from_chow_liu,
)

VtreeMethod = Literal[
    "chow_liu", "bottom_up", "top_down", "clusters", "balanced", "linear", "random"
]


def learn_vtree(
    X: BitMatrix | ArrayLike,
    method: VtreeMethod = "chow_liu",
    *,
    alpha: float = 1.0,
    rng: np.random.Generator | int | None = None,
) -> Vtree:
    """A vtree for the rows.

    Parameters
    ----------
    X : BitMatrix or array-like of shape (n_rows, n_vars)
        Fully observed 0/1 rows.
    method : str
        - ``"chow_liu"``: along the Chow-Liu tree, every variable above those that hang on it.
        - ``"top_down"``: halve the variables, again and again, with as little mutual information
          between the halves as possible.
        - ``"bottom_up"``: pair the variables, then the pairs, and so on, with as much mutual
          information within the pairs as possible; between two sets it is the mean over their
          variables.
        - ``"clusters"``: join the two sets of variables whose least dependent pair depends most,
          again and again (complete linkage); sets may differ in size.
        - ``"balanced"``, ``"linear"``: in the order of the columns, regardless of the rows.
        - ``"random"``: any vtree, at random.
    alpha : float
        Virtual rows added to each of the four cells of a pair of variables.
    rng : numpy Generator or seed
        Used by ``"random"`` only.

    Returns
    -------
    Vtree

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pair = rng.integers(0, 2, size=(200, 2))
    >>> X = np.hstack([pair, pair ^ (rng.random((200, 2)) < 0.1)])  # 0 goes with 2, and 1 with 3
    >>> learn_vtree(X, "top_down").to_nested()
    ((0, 2), (1, 3))
    >>> learn_vtree(X, "bottom_up").to_nested()
    ((0, 2), (1, 3))
    """
    check_method(method)
    bits = as_bits(X)
    if method == "chow_liu":
        return vtree_from_chow_liu(learn_chow_liu_tree(bits, alpha=alpha))
    if method in ("balanced", "linear", "random"):
        return vtree_by_method(np.zeros((bits.n_vars, 0)), method, rng)
    information = pairwise_mutual_information(pair_counts(bits), bits.total_weight, alpha)
    return vtree_by_method(information, method)


def vtree_by_method(
    information: FloatArray, method: VtreeMethod, rng: np.random.Generator | int | None = None
) -> Vtree:
    """A vtree over variables of this mutual information, by any method but "chow_liu"."""
    if method == "balanced":
        return balanced_vtree(len(information))
    if method == "linear":
        return linear_vtree(len(information))
    if method == "random":
        return random_vtree(len(information), rng)
    if method == "top_down":
        return _top_down(information)
    return _bottom_up(information) if method == "bottom_up" else _clusters(information)


def check_method(method: object, must_be: str = "method must be") -> None:
    """Refuse what is not the name of a method."""
    if not isinstance(method, str) or method not in get_args(VtreeMethod):
        names = ", ".join(get_args(VtreeMethod))
        raise ValueError(f"{must_be} one of {names}, but is {method!r}.")


def _top_down(information: FloatArray) -> Vtree:
    nodes = VtreeNodes()

    def build(variables: IntArray) -> int:
        """A node over some variables; halves are equal, so the stack stays shallow."""
        if len(variables) == 1:
            return nodes.leaf(int(variables[0]))
        side = bisect(information[np.ix_(variables, variables)])
        left = build(variables[side == 0])
        return nodes.inner(left, build(variables[side == 1]))

    build(np.arange(len(information), dtype=np.int32))
    return nodes.build()


def _bottom_up(information: FloatArray) -> Vtree:
    nodes = VtreeNodes()
    trees = np.array([nodes.leaf(var) for var in range(len(information))])
    size = np.ones(len(trees))
    total = information.copy()  # mutual information between two sets, over all pairs of variables
    while len(trees) > 1:
        partner = pair_up(total / np.outer(size, size))
        # Every pair stands where its first set stood, and the set left out stays where it is.
        rows = np.arange(len(trees))
        kept = rows[(partner == NONE) | (rows < partner)]
        joined = np.where(partner == NONE, rows, partner)[kept]
        is_pair = joined != kept
        trees = np.array(
            [
                nodes.inner(int(trees[i]), int(trees[j])) if i != j else int(trees[i])
                for i, j in zip(kept.tolist(), joined.tolist(), strict=True)
            ]
        )
        total = total[kept] + total[joined] * is_pair[:, np.newaxis]
        total = total[:, kept] + total[:, joined] * is_pair
        np.fill_diagonal(total, 0.0)
        size = size[kept] + np.where(is_pair, size[joined], 0.0)
    return nodes.build()


def _clusters(information: FloatArray) -> Vtree:
    from scipy.cluster.hierarchy import linkage  # late: takes a fifth of a second to load
    from scipy.spatial.distance import squareform

    nodes = VtreeNodes()
    trees = [nodes.leaf(var) for var in range(len(information))]
    if len(trees) > 1:
        distance = squareform(information.max() - information, checks=False)
        for first, second in linkage(distance, "complete")[:, :2].astype(int).tolist():
            trees.append(nodes.inner(trees[first], trees[second]))
    return nodes.build()
