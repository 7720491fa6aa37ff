"""The tree-shaped network with most mutual information among those that a vtree has room for.

In:  a `BitMatrix` and any `Vtree`.
Out: `ChowLiuTree` that `compile_chow_liu` accepts for this vtree, with a circuit of linear size.

A tree of dependences fits a vtree if every vtree node meets the rest in one variable only. Either
the node *shows* one of its own variables, x, and all edges of the tree that leave it start at x; or
it *hangs* on one variable u outside, and all edges that leave it end at u. A sum per value of x or
of u is then enough. For a vtree made from the Chow-Liu tree that tree fits, and nothing is better;
for others some edges have to be replaced.

The best tree comes from dynamic programming over the vtree, with two values per node:

    shows(v, x) = shows(a, x) + hangs(b, x)          a is the child of v that holds x, b the other
    hangs(v, u) = max of   information(u, y) + shows(v, y)   over all y below v
                           hangs(left, u) + hangs(right, u)

Time is at most the square of the variables times the depth, memory the square.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from strudel._numba import kernel
from strudel._types import NONE, FloatArray, IntArray
from strudel.data.bits import BitMatrix
from strudel.data.counts import pair_counts
from strudel.data.validation import as_bits
from strudel.trees.chow_liu import ChowLiuTree, conditional_tables
from strudel.trees.mutual_information import pairwise_mutual_information
from strudel.trees.vtree import Vtree

TIE = 1e-12  # nats; sums of the same numbers in another order differ by less


def learn_tree_for_vtree(
    X: BitMatrix | ArrayLike, vtree: Vtree, *, alpha: float = 1.0
) -> ChowLiuTree:
    """Learn the best tree that fits a vtree.

    Parameters
    ----------
    X : BitMatrix or array-like of shape (n_rows, n_vars)
        Fully observed 0/1 rows.
    vtree : Vtree
        Over the same variables.
    alpha : float
        Virtual rows added to each of the four cells of a pair of variables.

    Returns
    -------
    ChowLiuTree
        To be compiled with `compile_chow_liu(tree, vtree)`. Where the Chow-Liu tree fits, this one
        has as much mutual information.

    Examples
    --------
    >>> from strudel.circuits import compile_chow_liu
    >>> X = [[0, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0]]
    >>> vtree = Vtree.from_nested(((0, 2), (1, 3)))
    >>> tree = learn_tree_for_vtree(X, vtree)
    >>> tree.var_parent
    array([-1,  0,  0,  1], dtype=int32)
    >>> compile_chow_liu(tree, vtree).n_vars
    4
    """
    bits = as_bits(X)
    if bits.n_vars != vtree.n_vars:
        raise ValueError(
            f"The rows have {bits.n_vars} columns, but the vtree has {vtree.n_vars} variables."
        )
    counts = pair_counts(bits)
    information = pairwise_mutual_information(counts, bits.total_weight, alpha)
    parent = best_parents(information, vtree)
    return ChowLiuTree(parent, conditional_tables(parent, counts, bits.total_weight, alpha))


def best_parents(information: FloatArray, vtree: Vtree) -> IntArray:
    """The parent of every variable in the best tree, NONE at its root."""
    n_vars = vtree.n_vars
    # Variables in the order of the leaves: those below a vtree node are then a range.
    order = vtree.order
    by_place = np.ascontiguousarray(information[np.ix_(order, order)])
    first, last = vtree.node_span
    shows = np.zeros(n_vars)
    hangs = np.zeros((vtree.n_nodes, n_vars))
    via = np.full((vtree.n_nodes, n_vars), NONE, dtype=np.int32)
    parent = np.full(n_vars, NONE, dtype=np.int32)
    _fill(by_place, vtree.node_left, vtree.node_right, first, last, shows, hangs, via)
    root = int(np.flatnonzero(shows >= shows.max() - TIE)[0])
    _read(vtree.node_left, vtree.node_right, first, last, via, root, parent)
    is_root = parent == NONE
    var_parent = np.full(n_vars, NONE, dtype=np.int32)
    var_parent[order] = np.where(is_root, NONE, order[parent])
    return var_parent


@kernel
def _fill(
    information: FloatArray,
    node_left: IntArray,
    node_right: IntArray,
    first: IntArray,
    last: IntArray,
    shows: FloatArray,
    hangs: FloatArray,
    via: IntArray,
) -> None:
    """Both values of every vtree node, children before parents.

    `shows[x]` holds the value of the highest node above x so far; `via[v, u]` is the variable by
    which v hangs on u, or NONE where its two children do so one by one.
    """
    n_vars = len(shows)
    for v in range(len(first)):
        left, right = node_left[v], node_right[v]
        if left != NONE:
            for x in range(first[left], last[left]):
                shows[x] += hangs[right, x]
            for x in range(first[right], last[right]):
                shows[x] += hangs[left, x]
        for u in range(n_vars):
            if first[v] <= u < last[v]:
                continue
            best, value = first[v], information[u, first[v]] + shows[first[v]]
            for y in range(first[v] + 1, last[v]):
                if information[u, y] + shows[y] > value:
                    best, value = y, information[u, y] + shows[y]
            if left != NONE and hangs[left, u] + hangs[right, u] > value:
                best, value = NONE, hangs[left, u] + hangs[right, u]
            via[v, u], hangs[v, u] = best, value


@kernel
def _read(
    node_left: IntArray,
    node_right: IntArray,
    first: IntArray,
    last: IntArray,
    via: IntArray,
    root: int,
    parent: IntArray,
) -> None:
    """Walk down the choices: `parent` of every variable, all of them places."""
    # A node with the variable it shows, or on which it hangs.
    pending = [(len(first) - 1, root)]
    while len(pending) > 0:
        v, x = pending.pop()
        if not first[v] <= x < last[v]:
            y = via[v, x]
            if y == NONE:
                pending.append((node_left[v], x))
                pending.append((node_right[v], x))
                continue
            parent[y] = x
            x = y
        if node_left[v] != NONE:
            pending.append((node_left[v], x))
            pending.append((node_right[v], x))
