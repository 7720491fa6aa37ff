"""Vtrees from data: variables that depend on one another stand close together.

In:  a `BitMatrix` and the name of a method; or a `BitMatrix` and a vtree.
Out: `Vtree`; or the `ChowLiuTree` with most mutual information that the vtree has room for, so that
     `compile_chow_liu` makes a circuit of linear size.

The methods ``"top_down"`` and ``"bottom_up"`` are those of LearnPSDD (Liang, Bekker and Van den
Broeck 2017): halves and pairs of variables. They and ``"clusters"`` look at the mutual information
of pairs only.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from strudel._numba import kernel
from strudel._types import NONE, ByteArray, FloatArray, IntArray
from strudel.data.bits import BitMatrix, pair_counts
from strudel.data.validation import as_bits
from strudel.trees.chow_liu import ChowLiuTree, conditional_tables, learn_chow_liu_tree
from strudel.trees.mutual_information import pairwise_mutual_information
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


N_STARTS = 16


def bisect(weight: FloatArray) -> ByteArray:
    """Halve rows with as little weight between them as possible: the side, 0 or 1, of each.

    The larger half of an odd number is the second. The problem is NP-hard. Halves are grown from up
    to 16 rows that are far from one another, each is improved by the swaps of Kernighan and Lin
    (1970), and the best is kept. On 800 matrices of random weights with 6 to 12 rows that missed
    the optimum once. On the mutual information of plants, dna, cr52 and c20ng (69 to 910 variables)
    the cut is 4 % below to 0.03 % above that of METIS; so that library is not needed.
    """
    n = len(weight)
    if n < 2:
        return np.ones(n, dtype=np.uint8)
    # A row without weights makes an odd number even, and the half it joins the smaller one.
    even = np.zeros((n + n % 2, n + n % 2))
    even[:n, :n] = weight
    best_cut = np.inf
    for seed in _seeds(even[:n, :n]):
        side = _grow(even, seed)
        _swap(even, side)
        cut = even[side == 0][:, side == 1].sum()
        if cut < best_cut - SMALLEST_GAIN:
            best, best_cut = side, cut
    best = best[:n]
    if n % 2:
        return best if best.sum() > n // 2 else 1 - best
    return best if best[0] == 0 else 1 - best


def _seeds(weight: FloatArray) -> list[int]:
    """The row with most weight, then repeatedly the one that has least with those so far."""
    seeds = [int(weight.sum(axis=1).argmax())]
    nearness = weight[seeds[0]].copy()
    while len(seeds) < min(N_STARTS, len(weight)):
        nearness[seeds[-1]] = np.inf
        seeds.append(int(nearness.argmin()))
        nearness = np.maximum(nearness, weight[seeds[-1]])
    return seeds


def _grow(weight: FloatArray, seed: int) -> ByteArray:
    """Let half of the rows join `seed` on side 0, always the one that saves most of the cut."""
    side = np.ones(len(weight), dtype=np.uint8)
    gain = -weight.sum(axis=1)
    for _ in range(len(weight) // 2):
        side[seed] = 0
        gain += 2.0 * weight[seed]
        gain[seed] = -np.inf
        seed = int(gain.argmax())
    return side


@kernel
def _swap(weight: FloatArray, side: ByteArray) -> None:
    """Swap rows of the two sides, every row at most once, keep the best prefix, and start again."""
    n = len(weight)
    gain = np.empty(n)  # what the cut loses when a row alone changes sides
    is_done = np.empty(n, dtype=np.bool_)
    first = np.empty(n // 2, dtype=np.int32)
    second = np.empty(n // 2, dtype=np.int32)
    while True:
        for i in range(n):
            is_done[i] = False
            gain[i] = 0.0
            for j in range(n):
                gain[i] += weight[i, j] if side[i] != side[j] else -weight[i, j]
        total, best_total, n_kept = 0.0, SMALLEST_GAIN, 0
        for k in range(n // 2):
            a, b = _best_pair(weight, side, gain, is_done)
            total += gain[a] + gain[b] - 2.0 * weight[a, b]
            first[k], second[k] = a, b
            is_done[a] = is_done[b] = True
            if total > best_total:
                best_total, n_kept = total, k + 1
            for i in range(n):
                change = 2.0 * (weight[i, a] - weight[i, b])
                gain[i] += change if side[i] == 0 else -change
        if n_kept == 0:
            return
        for k in range(n_kept):
            side[first[k]], side[second[k]] = 1, 0


@kernel
def _best_pair(
    weight: FloatArray, side: ByteArray, gain: FloatArray, is_done: NDArray[np.bool_]
) -> tuple[int, int]:
    """A row of side 0 and one of side 1 to swap: one of them is the best of its side alone."""
    top_0, top_1 = NONE, NONE
    for i in range(len(side)):
        if is_done[i]:
            continue
        if side[i] == 0:
            if top_0 == NONE or gain[i] > gain[top_0]:
                top_0 = i
        elif top_1 == NONE or gain[i] > gain[top_1]:
            top_1 = i
    a, b, best = top_0, top_1, gain[top_0] + gain[top_1] - 2.0 * weight[top_0, top_1]
    for i in range(len(side)):
        if is_done[i]:
            continue
        other = top_1 if side[i] == 0 else top_0
        saved = gain[i] + gain[other] - 2.0 * weight[i, other]
        if saved > best:
            best = saved
            a, b = (i, other) if side[i] == 0 else (other, i)
    return a, b


MAX_CHAIN = 20  # exchanges of a chain; longer ones gained nothing
BREADTH = 5  # first exchanges to try; with 1 cr52 reached 99.7 % of the optimum instead of 99.9
SMALLEST_GAIN = 1e-12  # of swaps or a chain; sums in another order differ by less


def pair_up(weight: FloatArray) -> IntArray:
    """Pairs with as much weight inside as possible: the partner of every row, NONE for one left.

    Edmonds' exact algorithm costs the cube of the rows: rustworkx took 10.6 s for the 889 variables
    of cr52 (one core). So pairs are made in two ways, from the heaviest down and from the best
    assignment, and chains of exchanges improve both until none is left. That takes 1 s, and reaches
    99.6 % of the optimum on dna and 99.7 to 100 % on plants, tmovie and cr52. Of 800 matrices of
    random weights with 6 to 12 rows it found the optimum of each.
    """
    n = len(weight)
    # The partner of a row without weights is the one that is left out.
    even = np.zeros((n + n % 2, n + n % 2))
    even[:n, :n] = weight
    best, best_weight = np.empty(0, dtype=np.int32), -np.inf
    for partner in (_heaviest_first(even), _from_assignment(even)):
        _exchange(even, partner)
        total = float(even[np.arange(len(even)), partner].sum())
        if total > best_weight + SMALLEST_GAIN:
            best, best_weight = partner, total
    best = best[:n]
    best[best == n] = NONE
    return best


def _heaviest_first(weight: FloatArray) -> IntArray:
    """Take the heaviest pair whose rows are both free, again and again."""
    i, j = np.triu_indices(len(weight), 1)
    order = np.argsort(-weight[i, j], kind="stable")
    partner = np.full(len(weight), NONE, dtype=np.int32)
    for a, b in zip(i[order].tolist(), j[order].tolist(), strict=True):
        if partner[a] == NONE and partner[b] == NONE:
            partner[a], partner[b] = b, a
    return partner


def _from_assignment(weight: FloatArray) -> IntArray:
    """Every row chooses another, no two the same, and the cycles of choices fall into pairs."""
    from scipy.optimize import linear_sum_assignment  # late: slow to load, and rarely needed

    choice_weight = weight.copy()
    np.fill_diagonal(choice_weight, -1.0 - np.abs(weight).sum())
    choice = linear_sum_assignment(choice_weight, maximize=True)[1].tolist()
    partner = np.full(len(weight), NONE, dtype=np.int32)
    is_seen = [False] * len(weight)
    left_over = []
    for start in range(len(weight)):
        cycle: list[int] = []
        row = start
        while not is_seen[row]:
            is_seen[row] = True
            cycle.append(row)
            row = choice[row]
        if not cycle:
            continue
        # An even cycle falls into pairs in two ways, an odd one leaves over any one of its rows.
        ring = np.array(cycle)
        rings = [np.roll(ring, -turn) for turn in range(len(ring) if len(ring) % 2 else 2)]
        n_pairs = len(ring) // 2
        best = max(
            rings, key=lambda r: weight[r[0 : 2 * n_pairs : 2], r[1 : 2 * n_pairs : 2]].sum()
        )
        first, second = best[0 : 2 * n_pairs : 2], best[1 : 2 * n_pairs : 2]
        partner[first], partner[second] = second, first
        left_over += best[2 * n_pairs :].tolist()
    if left_over:
        rest = np.array(left_over)
        partner[rest] = rest[_heaviest_first(weight[np.ix_(rest, rest)])]
    return partner


@kernel
def _exchange(weight: FloatArray, partner: IntArray) -> None:
    """Improve pairs until no chain of exchanges does.

    A chain opens the pair (a, b), gives b the partner that gains most, goes on with the row that
    one leaves alone, and may close with a after every step.
    """
    n = len(weight)
    held = np.empty(n)  # the weight of every row's pair
    for c in range(n):
        held[c] = weight[c, partner[c]]
    stamp = np.zeros(n, dtype=np.int64)
    joined = np.empty(MAX_CHAIN, dtype=np.int32)
    tried = np.zeros(n, dtype=np.int64)  # the turn in which a row was the first to be joined
    now, turn, a, n_quiet = 0, 0, 0, 0
    while n_quiet < n:
        n_quiet += 1
        turn += 1
        b = partner[a]
        for _ in range(min(BREADTH, n - 2)):
            now += 1
            stamp[a] = stamp[b] = now
            total, best_total, n_kept, end = -held[a], SMALLEST_GAIN, 0, b
            for k in range(min(MAX_CHAIN, n // 2 - 1)):
                best, gain = NONE, -np.inf
                for c in range(n):
                    is_better = weight[end, c] - held[c] > gain
                    if is_better and stamp[c] != now and (k > 0 or tried[c] != turn):
                        best, gain = c, weight[end, c] - held[c]
                if k == 0:
                    tried[best] = turn
                alone = partner[best]
                joined[k] = best
                stamp[best] = stamp[alone] = now
                total += gain
                end = alone
                if total + weight[a, end] > best_total:
                    best_total, n_kept = total + weight[a, end], k + 1
            if n_kept > 0:
                end = b
                for k in range(n_kept):
                    c = joined[k]
                    alone = partner[c]
                    partner[end], partner[c] = c, end
                    held[end] = held[c] = weight[end, c]
                    end = alone
                partner[end], partner[a] = a, end
                held[end] = held[a] = weight[end, a]
                n_quiet = 0
                break
        a = (a + 1) % n


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
    >>> compile_chow_liu(tree, vtree).vtree.n_vars
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
    """The parent of every variable in the best tree that fits a vtree, NONE at its root.

    A tree of dependences fits a vtree if every vtree node meets the rest in one variable only.
    Either the node *shows* one of its own variables, x, and all edges of the tree that leave it
    start at x; or it *hangs* on one variable u outside, and all edges that leave it end at u. A sum
    per value of x or of u is then enough. For a vtree made from the Chow-Liu tree that tree fits,
    and nothing is better; for others some edges have to be replaced.

    The best tree comes from dynamic programming over the vtree, with two values per node:

        shows(v, x) = shows(a, x) + hangs(b, x)        a is the child of v that holds x, b the other
        hangs(v, u) = max of   information(u, y) + shows(v, y)   over all y below v
                               hangs(left, u) + hangs(right, u)

    Time is at most the square of the variables times the depth, memory the square.
    """
    n_vars = vtree.n_vars
    # Variables in the order of the leaves: those below a vtree node are then a range.
    order, spans = vtree.order, np.stack(vtree.node_span, axis=1).tolist()
    by_place = information[np.ix_(order, order)]
    sides = np.stack([vtree.node_left, vtree.node_right], axis=1).tolist()
    shows = np.zeros(n_vars)  # the value of the highest node above each variable so far
    hangs = np.zeros((vtree.n_nodes, n_vars))
    # The variable by which a node hangs on another, NONE where its two children do one by one.
    via = np.full((vtree.n_nodes, n_vars), NONE, dtype=np.int32)
    for v, ((first, last), (left, right)) in enumerate(zip(spans, sides, strict=True)):
        if left != NONE:
            middle = spans[right][0]
            shows[first:middle] += hangs[right, first:middle]
            shows[middle:last] += hangs[left, middle:last]
        values = by_place[:, first:last] + shows[first:last]
        via[v], hangs[v] = first + values.argmax(axis=1), values.max(axis=1)
        if left != NONE:
            apart = hangs[left] + hangs[right]
            via[v][apart > hangs[v]] = NONE
            hangs[v] = np.maximum(hangs[v], apart)
    root = int(np.flatnonzero(shows >= shows.max() - TIE)[0])
    parent = np.full(n_vars, NONE, dtype=np.int32)
    pending = [(vtree.root, root)]  # a node with the variable it shows, or on which it hangs
    while pending:
        v, x = pending.pop()
        first, last = spans[v]
        if not first <= x < last and via[v, x] != NONE:
            y = int(via[v, x])
            parent[order[y]] = order[x]
            x = y
        if sides[v][0] != NONE:
            pending += [(side, x) for side in sides[v]]
    return parent
