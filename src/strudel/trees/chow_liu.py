"""Chow-Liu trees: the tree-shaped Bayesian network closest to the data.

In:  a `BitMatrix`.
Out: `ChowLiuTree`, rooted at its Jordan centre, so that the vtree made from it stays shallow, or
     elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from strudel._display import Shown
from strudel._numba import kernel, popcount
from strudel._types import NONE, AnyArray, CountArray, FloatArray, IntArray, WordArray
from strudel.data.bits import (
    MOST_PLANES,
    BitMatrix,
    bit_planes,
    pack_columns,
    pair_counts,
    x_log_x_of,
)
from strudel.data.validation import as_bits, check_evidence, check_sample_weight
from strudel.trees.mutual_information import (
    pair_information,
    pairwise_mutual_information,
    single_term,
)

MANY_VARIABLES = 4096  # two tables of all pairs are 256 MB


@dataclass(frozen=True, eq=False)
class ChowLiuTree(Shown):
    """A tree (or forest) over the variables with one conditional table per variable."""

    var_parent: IntArray  # (n_vars,) parent variable, NONE at a root
    var_theta: FloatArray  # (n_vars, 2) P(X = 1 | parent = 0) and 1; the same twice at a root

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return len(self.var_parent)

    @property
    def roots(self) -> IntArray:
        """The variables without a parent, in increasing order."""
        return np.flatnonzero(self.var_parent == NONE).astype(np.int32)

    def children(self) -> list[list[int]]:
        """For every variable its children, in increasing order."""
        children: list[list[int]] = [[] for _ in range(self.n_vars)]
        for var, parent in enumerate(self.var_parent):
            if parent != NONE:
                children[parent].append(var)
        return children

    def parents_first(self) -> list[int]:
        """The variables that can be reached from the roots, level by level."""
        children = self.children()
        order: list[int] = self.roots.tolist()
        for var in order:  # grows while it is walked
            order.extend(children[var])
        return order

    def __repr__(self) -> str:
        return f"ChowLiuTree(n_vars={self.n_vars}, roots={self.roots.tolist()})"


def learn_chow_liu_tree(
    X: BitMatrix | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    alpha: float = 1.0,
    root: Literal["centre", "hub"] | int = "centre",
) -> ChowLiuTree:
    """Learn the maximum spanning tree of the smoothed pairwise mutual information.

    Parameters
    ----------
    X : BitMatrix or array-like of shape (n_rows, n_vars)
        0, 1, or NaN where the value is unknown. Every pair of columns is counted on the rows that
        know both of them.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row counts.
    alpha : float
        Virtual rows added to each of the four cells of a pair of variables.
    root : {"centre", "hub"} or int
        The root: the Jordan centre, so that the tree is shallow; the variable with most neighbours
        (of several, the lowest index); or this variable. The distribution is the same, but the
        vtree made from it is not.

    Returns
    -------
    ChowLiuTree

    Examples
    --------
    >>> tree = learn_chow_liu_tree([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
    >>> tree.var_parent
    array([-1,  0,  0], dtype=int32)
    """
    if not isinstance(X, BitMatrix) and np.any(np.isnan(rows := check_evidence(X))):
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, len(rows))
        cases = available_cases(rows, sample_weight)
        parent = spanning_tree(cases.mutual_information(alpha), root)
        return ChowLiuTree(parent, cases.conditional_tables(parent, alpha))
    bits = as_bits(X, sample_weight)
    if bits.n_vars > MANY_VARIABLES:
        planes, units = _planes_of(bits)
        if len(planes) <= MOST_PLANES:
            return _learn_wide_tree(bits, planes, units, float(alpha), root)
    counts, total = pair_counts(bits), bits.total_weight
    parent = spanning_tree(pairwise_mutual_information(counts, total, alpha), root)
    return ChowLiuTree(parent, conditional_tables(parent, counts, total, alpha))


def spanning_tree(weight: FloatArray, root: Literal["centre", "hub"] | int = "centre") -> IntArray:
    """The parent of every variable in the spanning tree of most weight, NONE at its root."""
    return _rooted(_maximum_spanning_tree(len(weight), lambda v, _: weight[v]), root)


def _rooted(neighbour: IntArray, root: Literal["centre", "hub"] | int) -> IntArray:
    """The parents in a tree of which every variable but one names a neighbour."""
    _, parent = _breadth_first(_adjacency(neighbour), _find_root(neighbour, root))
    return np.array(parent, dtype=np.int32)


def _maximum_spanning_tree(
    n_vars: int, weights_of: Callable[[int, AnyArray], FloatArray]
) -> IntArray:
    """Prim's algorithm from variable 0: the variable through which each was reached.

    `weights_of` a variable are those of its edges, asked once; the variables that are inside by
    then do not matter. Equal weights go to the edge with the smaller larger endpoint, then the
    smaller other one. That makes the order of edges total, so the tree is the one Kruskal's
    algorithm finds with the same rule, without sorting.
    """
    var = np.arange(n_vars)
    neighbour = np.full(n_vars, NONE, dtype=np.int32)
    is_inside = np.zeros(n_vars, dtype=bool)
    weight, rank = np.full(n_vars, -np.inf), np.zeros(n_vars, dtype=np.int64)
    newest = 0
    for _ in range(n_vars - 1):
        is_inside[newest] = True
        own = weights_of(newest, is_inside)
        own_rank = np.maximum(var, newest) * n_vars + np.minimum(var, newest)
        is_better = (own > weight) | ((own == weight) & (own_rank < rank)) | (neighbour == NONE)
        is_better &= ~is_inside
        neighbour[is_better] = newest
        weight[is_better], rank[is_better] = own[is_better], own_rank[is_better]
        outside = np.flatnonzero(~is_inside)
        tied = outside[weight[outside] == weight[outside].max()]
        newest = int(tied[rank[tied].argmin()])
    return neighbour


def _planes_of(bits: BitMatrix) -> tuple[WordArray, FloatArray]:
    """Packed binary digits of the weights of rows, and what each is worth."""
    if bits.row_weight is None:
        return np.full((1, bits.words.shape[1]), ~np.uint64(0)), np.ones(1)
    planes, unit = bit_planes(bits.row_weight)
    return planes, np.ldexp(unit, np.arange(min(len(planes), MOST_PLANES + 1)))


def _learn_wide_tree(
    bits: BitMatrix,
    planes: WordArray,
    units: FloatArray,
    alpha: float,
    root: Literal["centre", "hub"] | int,
) -> ChowLiuTree:
    """The same tree without a table of all pairs: 20,000 variables would need 6 GB for two of them.

    Every pair is counted when it is asked for, once.
    """
    n_vars, total = bits.n_vars, float(bits.total_weight)
    rows = bits.words, planes, units

    def rows_of(pairs: Iterable[tuple[int, int]]) -> FloatArray:
        return np.array([_rows_of_both(*rows, i, j) for i, j in pairs])

    one = rows_of((v, v) for v in range(n_vars))

    def information_of(v: int, is_inside: AnyArray) -> FloatArray:
        information = np.zeros(n_vars)
        if total + 4.0 * alpha > 0.0:
            _information_of(*rows, v, is_inside, one, total, alpha, information)
        return information

    parent = _rooted(_maximum_spanning_tree(n_vars, information_of), root)
    up = np.where(parent == NONE, np.arange(n_vars), parent)
    both = rows_of(enumerate(up.tolist()))
    return ChowLiuTree(parent, _tables(parent == NONE, one, one[up], both, total, alpha))


@kernel
def _information_of(
    words: WordArray,
    planes: WordArray,
    units: FloatArray,
    v: int,
    is_left_out: AnyArray,
    one: FloatArray,
    total: float,
    alpha: float,
    information: FloatArray,
) -> None:
    """What a variable and each of the others tell about each other."""
    mine = single_term(one[v], total, alpha)
    for other in range(len(words)):
        if not is_left_out[other]:
            low, high = min(v, other), max(v, other)
            both = _rows_of_both(words, planes, units, low, high)
            single = mine + single_term(one[other], total, alpha)
            information[other] = pair_information(both, one[low], one[high], single, total, alpha)


@kernel
def _rows_of_both(words: WordArray, planes: WordArray, units: FloatArray, i: int, j: int) -> float:
    """The weight of the rows where two variables are 1."""
    weight = 0.0
    for p in range(len(planes)):
        n_rows = 0
        for w in range(words.shape[1]):
            n_rows += popcount(words[i, w] & words[j, w] & planes[p, w])
        weight += units[p] * n_rows
    return weight


def _find_root(neighbour: IntArray, root: Any) -> int:
    """The variable that `root` stands for."""
    if isinstance(root, str) and root == "centre":
        return jordan_centre(neighbour)
    if isinstance(root, str) and root == "hub":
        return int(np.argmax([len(others) for others in _adjacency(neighbour)]))
    if isinstance(root, Integral) and 0 <= int(root) < len(neighbour):
        return int(root)
    raise ValueError(
        f"root must be 'centre', 'hub' or a variable from 0 to {len(neighbour) - 1}, "
        f"but is {root!r}."
    )


def jordan_centre(neighbour: IntArray) -> int:
    """The variable whose farthest variable is nearest, counted in hops; the lower index of two.

    `neighbour` holds one tree neighbour per variable and NONE at one of them.
    """
    adjacent = _adjacency(neighbour)
    one_end = _breadth_first(adjacent, 0)[0][-1]
    order, parent = _breadth_first(adjacent, one_end)
    path = [order[-1]]
    while parent[path[-1]] != NONE:
        path.append(parent[path[-1]])
    # The centre of a tree is the middle of any longest path; an odd number of hops has two middles.
    return min(path[(len(path) - 1) // 2], path[len(path) // 2])


def _adjacency(neighbour: IntArray) -> list[list[int]]:
    adjacent: list[list[int]] = [[] for _ in neighbour]
    for var, other in enumerate(neighbour.tolist()):
        if other != NONE:
            adjacent[var].append(other)
            adjacent[other].append(var)
    return adjacent


def _breadth_first(adjacent: list[list[int]], start: int) -> tuple[list[int], list[int]]:
    """The variables in breadth-first order from `start`, and the parent of each."""
    order = [start]
    parent = [NONE] * len(adjacent)
    for var in order:
        for other in adjacent[var]:
            if other != parent[var]:
                parent[other] = var
                order.append(other)
    return order, parent


def conditional_tables(
    parent: IntArray, counts: CountArray, total: float, alpha: float
) -> FloatArray:
    """P(X = 1 | parent), smoothed like the mutual information, from the counts of complete rows."""
    one = np.broadcast_to(np.diagonal(counts)[:, np.newaxis], counts.shape)
    cases = AvailableCases(np.broadcast_to(total, counts.shape), one, counts)
    return cases.conditional_tables(parent, alpha)


def learn_class_tree(classes: Sequence[BitMatrix], *, alpha: float = 0.5) -> ChowLiuTree:
    """The tree with the largest mutual information given the class; its tables are of all rows.

    Dependence that the class itself explains does not count (Friedman, Geiger and Goldszmidt 1997
    call the classifier "tree-augmented naive Bayes"). `alpha` virtual rows are added to each of the
    four cells of a pair, in every class.
    """
    counts = [pair_counts(bits) for bits in classes]
    totals = [bits.total_weight for bits in classes]
    information = np.zeros_like(counts[0])
    for count, total in zip(counts, totals, strict=True):
        information += total * pairwise_mutual_information(count, total, alpha)
    parent = spanning_tree(information)
    tables = conditional_tables(parent, np.sum(counts, axis=0), sum(totals), alpha)
    return ChowLiuTree(parent, tables)


@dataclass(frozen=True, eq=False)
class AvailableCases:
    """Weights of the rows that know both of two variables; the diagonal is about single ones.

    Dropping all rows with an unknown value would leave hardly any row of a wide table; a pair of
    columns loses only the rows that do not know one of the two.
    """

    known: CountArray  # (n_vars, n_vars) both are known
    one: CountArray  # (n_vars, n_vars) the first is 1, and the second is known
    both: CountArray  # (n_vars, n_vars) both are 1

    def mutual_information(self, alpha: float = 1.0) -> FloatArray:
        """Smoothed mutual information of all pairs, `alpha` virtual rows in each of four cells."""
        one, other = self.one, self.one.T
        cells = (
            self.both,
            one - self.both,
            other - self.both,
            self.known - one - other + self.both,
        )
        scale = self.known + 4.0 * alpha
        pair = sum(x_log_x_of(cell + alpha) for cell in cells)
        single = x_log_x_of(one + 2.0 * alpha) + x_log_x_of(self.known - one + 2.0 * alpha)
        # H(i) + H(j) - H(i, j), with the common log of the scale taken out.
        has_rows = scale > 0.0
        rest = np.divide(pair - (single + single.T), scale, out=np.zeros_like(one), where=has_rows)
        information: FloatArray = rest + np.log(np.where(has_rows, scale, 1.0))
        np.fill_diagonal(information, 0.0)
        return information

    def conditional_tables(self, parent: IntArray, alpha: float) -> FloatArray:
        """P(X = 1 | parent), smoothed like the mutual information; 1/2 where nothing is known."""
        var = np.arange(len(parent))
        is_root = parent == NONE
        up = np.where(is_root, var, parent)
        one, one_up = self.one[var, up], self.one[up, var]
        return _tables(is_root, one, one_up, self.both[var, up], self.known[var, up], alpha)


def _tables(
    is_root: AnyArray,
    one: CountArray,
    one_up: CountArray,
    both: CountArray,
    known: CountArray | float,
    alpha: float,
) -> FloatArray:
    """P(X = 1 | parent) from weights of rows: the variable, its parent, or both are 1."""
    known = np.broadcast_to(known, one.shape)
    joint = np.stack([one - both, both], axis=1) + alpha
    margin = np.stack([known - one_up, one_up], axis=1) + 2 * alpha
    joint[is_root] = (one + 2 * alpha)[is_root, None]
    margin[is_root] = (known + 4 * alpha)[is_root, None]
    theta = np.full(joint.shape, 0.5)
    np.divide(joint, margin, out=theta, where=margin > 0)
    return theta


def available_cases(X: FloatArray, sample_weight: FloatArray | None = None) -> AvailableCases:
    """Count every pair of columns on the rows that know both."""
    # Ones and known cells side by side: their pair counts hold all three tables.
    is_known = ~np.isnan(X)
    counts = pair_counts(pack_columns(np.hstack([X == 1.0, is_known]), sample_weight))
    n = X.shape[1]
    return AvailableCases(counts[n:, n:], counts[:n, n:], counts[:n, :n])
