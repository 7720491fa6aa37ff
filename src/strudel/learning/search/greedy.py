"""What to split next: the edge with most rows, the variable that tells most about the others.

In:  a `GrowingCircuit`.
Out: one edge (eFLOW); one place, a variable's position among the vtree's leaves (vMI).

How much a variable tells about the others is a sum of mutual information on the rows of the edge.
That of a pair is H(i) + H(j) - H(i, j), so all that is needed per pair is the sum of x ln x over
its four smoothed cells.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel, lowest_bit, popcount
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.data.bits import LARGEST_TABLE, x_log_x, x_log_x_of
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import (
    ALIVE,
    N_HEAP,
    ROOT,
    STAMP,
    Growth,
    pop,
    rows_through,
    undecided_places,
)
from strudel.learning.options import EdgeScore, TieRule, VariableScore
from strudel.learning.search.best_first import Gains


def pick_edge(
    growing: GrowingCircuit,
    score: EdgeScore,
    rng: np.random.Generator,
    tie_rule: TieRule = "root_first",
) -> int | None:
    """The edge to split, or None when no variable is undecided anywhere.

    ``"flow"`` takes the edge with the largest weight of training rows (eFLOW). Of several,
    ``"root_first"`` takes the one nearest the root, then the oldest; ``"depth_first"`` the one
    whose sum a depth-first walk from the root, left before right, leaves first. ``"random"`` takes
    any (eRAND).
    """
    if score == "random":
        candidates = growing.candidates()
        return int(rng.choice(candidates)) if len(candidates) else None
    g = growing.growth
    edge = _largest_flow(g.size, g.heap, g.edge)
    if edge == NONE or g.edge["train"][edge] == 0.0:
        # Only edges without rows are left, and those of the last split are not in the heap yet.
        growing.queue_all()
        g = growing.growth  # it may have moved
        edge = _largest_flow(g.size, g.heap, g.edge)
    if edge == NONE:
        return None
    return int(_first_left(g) if tie_rule == "depth_first" else edge)


@kernel
def _largest_flow(size: AnyArray, heap: AnyArray, edge: AnyArray) -> int:
    """The first edge of the heap that is still what it was when it entered."""
    while size[N_HEAP] and _is_stale(heap, edge, 0):
        pop(size, heap)
    return heap[0]["edge"] if size[N_HEAP] else NONE


@kernel
def _first_left(g: Growth) -> int:
    """Of the edges tied for the largest flow, the first that a depth-first walk leaves."""
    # Equal keys are the top of the heap, a tree by themselves: walk it without taking anything out.
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    n_tied = 0
    pending = [0]
    while len(pending) > 0:
        i = pending.pop()
        if i >= g.size[N_HEAP] or g.heap[i]["key"] != g.heap[0]["key"]:
            continue
        pending.append(2 * i + 1)
        pending.append(2 * i + 2)
        e = g.heap[i]["edge"]
        if _is_stale(g.heap, g.edge, i) or g.edge[e]["stamp"] == stamp:
            continue
        g.edge[e]["stamp"] = stamp
        n_tied += 1
        v = g.node[g.edge[e]["parent"]]["vtree"]
        while v != NONE and g.vtree[v]["stamp"] != stamp:
            g.vtree[v]["stamp"] = stamp
            v = g.vtree[v]["parent"]
    if n_tied == 1:
        return g.heap[0]["edge"]
    first = np.empty(1, dtype=np.int32)
    in_depth_first_order(g, stamp, first)
    return first[0]


@kernel
def _is_stale(heap: AnyArray, edge: AnyArray, i: int) -> bool:
    """Whether the edge of a heap entry died or changed its count since."""
    e = heap[i]["edge"]
    return edge[e]["death"] != ALIVE or edge[e]["train"] != heap[i]["key"]


@kernel
def in_depth_first_order(g: Growth, stamp: int, found: IntArray) -> None:
    """Fill `found` with the first stamped edges in post-order, below stamped vtree nodes only."""
    n_found = 0
    nodes = [int(g.size[ROOT])]
    edges = [int(g.node[g.size[ROOT]]["first"])]  # next edge to descend into
    sides = [0]
    g.node[g.size[ROOT]]["stamp"] = stamp
    while len(nodes) > 0:
        e = edges[-1]
        if e == NONE:
            n = nodes.pop()
            edges.pop()
            sides.pop()
            e = g.node[n]["first"]
            while e != NONE:
                if g.edge[e]["stamp"] == stamp:
                    found[n_found] = e
                    n_found += 1
                    if n_found == len(found):
                        return
                e = g.edge[e]["next"]
            continue
        child = g.edge[e]["left"] if sides[-1] == 0 else g.edge[e]["right"]
        if sides[-1] == 0:
            sides[-1] = 1
        else:
            sides[-1] = 0
            edges[-1] = g.edge[e]["next"]
        if child == NONE or g.node[child]["stamp"] == stamp or g.node[child]["first"] == NONE:
            continue
        if g.vtree[g.node[child]["vtree"]]["stamp"] != stamp:
            continue
        g.node[child]["stamp"] = stamp
        nodes.append(int(child))
        edges.append(int(g.node[child]["first"]))
        sides.append(0)


class VariablePicker:
    """Chooses a variable below an edge; keeps its working memory from one split to the next."""

    def __init__(self, growing: GrowingCircuit, score: VariableScore, alpha: float = 1.0) -> None:
        g = growing.growth
        self.score = score
        self.alpha = float(alpha)
        self.growing = growing
        n_vars = len(g.place_var)
        if score == "random":  # needs no memory
            return
        if score == "gain":
            self.gains = Gains(growing)
            return
        # Information does not change when all weights and alpha are multiplied by one number:
        # completions that count 1/4 are as quick as rows that count 1.
        scale = _whole_scale(g.train_weight)
        self.weight = weight = g.train_weight * scale
        self.alpha *= scale
        self.is_unit = bool(np.all(weight == 1.0))
        # Larger totals are counted as real weights.
        is_whole = bool(np.all(weight == np.round(weight))) and weight.sum() < LARGEST_TABLE
        total = int(weight.sum()) if is_whole else 0
        # x ln x for x = alpha + count; counts are whole numbers unless the rows have real weights.
        self.table = x_log_x_of(np.arange(total + 1.0) + self.alpha) if is_whole else np.zeros(0)
        n_words = -(-len(weight) // 64) if self.is_unit else 0
        self.columns = np.zeros((n_vars, n_words), dtype=np.uint64)
        self.pair = np.zeros((n_vars, n_vars), dtype=np.int32 if is_whole else np.float64)
        self.touched = np.empty(n_vars * (n_vars - 1) // 2 if is_whole else 0, dtype=np.int32)
        self.slot = np.full(total + 1, NONE, dtype=np.int32)

    def pick(self, edge: int, rng: np.random.Generator) -> int:
        """The place of the variable to split on.

        ``"mutual_information"`` sums, for every variable still undecided below the edge, its
        smoothed mutual information with the other undecided ones on the rows through the edge
        (vMI); the largest wins, then the lowest variable. ``"random"`` takes any (vRAND).
        ``"gain"`` takes the one whose split gains most per new parameter.
        """
        g = self.growing.growth
        if self.score == "gain":
            return self.gains.best_place(edge)
        if self.score == "random":
            return int(rng.choice(undecided_places(g, edge)))
        places, n_rows = _list_places_and_rows(g, edge)
        rows = g.train_rows[:n_rows]
        scores = np.zeros(len(places))
        if len(self.table):
            score_whole(
                g.train_words,
                self.weight,
                rows,
                places,
                self.alpha,
                self.table,
                self.is_unit,
                self.columns,
                self.pair.ravel(),
                self.touched,
                self.slot,
                scores,
            )
        else:
            score_real(g.train_words, self.weight, rows, places, self.alpha, self.pair, scores)
        return int(best_place(g.place_var, places, scores, self.growing.train_total))


@kernel
def best_place(place_var: IntArray, places: IntArray, scores: FloatArray, total: float) -> int:
    """The place with the largest score; of several, that of the lowest variable."""
    # Sums in another order differ in the last digits, so equal means equal up to rounding.
    slack = 1e-12 * (1.0 + len(places)) * (1.0 + np.log1p(total))
    largest = -np.inf  # `scores.max()` takes half a second to compile
    for score in scores:
        largest = max(largest, score)
    enough = largest - slack
    best = NONE
    for i in range(len(places)):
        if scores[i] >= enough and (best == NONE or place_var[places[i]] < place_var[best]):
            best = places[i]
    return best


def _whole_scale(weight: FloatArray) -> float:
    """The smallest power of two up to 64 that makes all weights whole; 1 if there is none."""
    for scale in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0):
        if np.all(weight * scale == np.round(weight * scale)):
            return scale
    return 1.0


@kernel
def _list_places_and_rows(g: Growth, edge: int) -> tuple[IntArray, int]:
    """The undecided places below `edge`; and how many rows it has, listed in `train_rows`."""
    v = g.node[g.edge[edge]["parent"]]["vtree"]
    return undecided_places(g, edge), rows_through(g.train_active[v], edge, g.train_rows)


@kernel
def score_whole(
    words: WordArray,
    weight: FloatArray,
    rows: IntArray,
    places: IntArray,
    alpha: float,
    table: FloatArray,
    is_unit: bool,
    columns: WordArray,
    pair: AnyArray,
    touched: IntArray,
    slot: IntArray,
    scores: FloatArray,
) -> None:
    """Fill `scores` for rows with whole-number weights.

    The pair terms `x ln x` of the four cells are looked up in `table`. Swapping 0 and 1 in a column
    changes no mutual information, so every column counts its rarer value; then either all pairs are
    counted by popcounts of columns, or, where ones are few, only the pairs that occur together are
    visited and all others are filled in by groups of equal counts.
    """
    m = len(places)
    n_rows = len(rows)
    total = 0
    for i in range(n_rows):
        total += int(weight[rows[i]])
    first_word, local, keep = _words_of(places)
    n_words = len(keep)
    single = np.zeros(m, dtype=np.int64)
    n_row_words = (n_rows + 63) // 64
    if is_unit:
        _gather_columns(words, rows, places, columns)
        for i in range(m):
            for w in range(n_row_words):
                single[i] += popcount(columns[i, w])
    else:
        for k in range(n_rows):
            s = rows[k]
            for w in range(n_words):
                word = words[s, first_word + w] & keep[w]
                while word:
                    single[local[w * 64 + lowest_bit(word)]] += int(weight[s])
                    word &= word - np.uint64(1)

    flip = np.zeros(n_words, dtype=np.uint64)
    for i in range(m):
        if 2 * single[i] > total:
            single[i] = total - single[i]
            flip[places[i] // 64 - first_word] |= np.uint64(1) << np.uint64(places[i] % 64)
    n_visits = 0  # pairs of ones over all rows
    for k in range(n_rows):
        ones = 0
        for w in range(n_words):
            ones += popcount((words[rows[k], first_word + w] ^ flip[w]) & keep[w])
        n_visits += ones * (ones - 1) // 2

    n_pairs = m * (m - 1) // 2
    # Costs in nanoseconds, measured: a visit, a lookup of four cells, and a word of popcount.
    sparse_cost = 1.5 * n_visits + 6.0 * min(n_visits, n_pairs)
    dense_cost = n_pairs * (4.0 + 0.15 * n_row_words)
    if is_unit and dense_cost <= sparse_cost:
        for i in range(m):
            if flip[places[i] // 64 - first_word] >> np.uint64(places[i] % 64) & np.uint64(1):
                for w in range(n_row_words):
                    columns[i, w] = ~columns[i, w]
                spare = n_row_words * 64 - n_rows
                columns[i, n_row_words - 1] &= ~np.uint64(0) >> np.uint64(spare)
        _add_all_pairs(columns, n_row_words, single, total, table, scores)
    else:
        _add_groups(single, total, table, slot, scores)
        _add_visited_pairs(
            words,
            weight,
            rows,
            first_word,
            flip,
            keep,
            local,
            single,
            total,
            table,
            pair,
            touched,
            scores,
        )
    _finish(single, float(total), alpha, scores)


@kernel
def _words_of(places: IntArray) -> tuple[int, IntArray, WordArray]:
    """The first word with a place; the number of every place; a bit for each in the words."""
    first_word = places[0] // 64
    n_words = places[-1] // 64 - first_word + 1
    local = np.empty(n_words * 64, dtype=np.int32)
    keep = np.zeros(n_words, dtype=np.uint64)
    for i in range(len(places)):
        local[places[i] - first_word * 64] = i
        keep[places[i] // 64 - first_word] |= np.uint64(1) << np.uint64(places[i] % 64)
    return first_word, local, keep


@kernel
def _gather_columns(words: WordArray, rows: IntArray, places: IntArray, columns: WordArray) -> None:
    """Turn the listed rows into packed columns, one per place, by 64 x 64 transposition."""
    square = np.empty(64, dtype=np.uint64)
    m = len(places)
    n_rows = len(rows)
    for block in range((n_rows + 63) // 64):
        i = 0
        while i < m:
            w = places[i] // 64
            for k in range(64):
                r = block * 64 + k
                square[k] = words[rows[r], w] if r < n_rows else np.uint64(0)
            _transpose(square)
            while i < m and places[i] // 64 == w:
                columns[i, block] = square[places[i] % 64]
                i += 1


@kernel
def _transpose(square: WordArray) -> None:
    """Transpose a 64 x 64 bit matrix in place: bit j of line i goes to bit i of line j."""
    half = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while half:
        shift = np.uint64(half)
        k = 0
        while k < 64:
            for i in range(k, k + half):
                swap = ((square[i] >> shift) ^ square[i + half]) & mask
                square[i] ^= swap << shift
                square[i + half] ^= swap
            k += 2 * half
        half //= 2
        mask ^= mask << np.uint64(half)


@kernel
def _cells(a: int, b: int, both: int, total: int, table: FloatArray) -> float:
    """Sum of x ln x over the four cells of a pair."""
    return table[both] + table[a - both] + table[b - both] + table[total - a - b + both]


@kernel
def _add_all_pairs(
    columns: WordArray,
    n_words: int,
    single: AnyArray,
    total: int,
    table: FloatArray,
    scores: FloatArray,
) -> None:
    """Add the cells of every pair to both of its variables."""
    for i in range(1, len(single)):
        mine = 0.0
        for j in range(i):
            both = 0
            for w in range(n_words):
                both += popcount(columns[i, w] & columns[j, w])
            cells = _cells(single[i], single[j], both, total, table)
            mine += cells
            scores[j] += cells
        scores[i] += mine


@kernel
def _add_groups(
    single: AnyArray, total: int, table: FloatArray, slot: IntArray, scores: FloatArray
) -> None:
    """Add the cells of all pairs as if none occurred together; equal counts are one group."""
    m = len(single)
    group_count = np.empty(m, dtype=np.int64)
    group_size = np.zeros(m, dtype=np.int64)
    n_groups = 0
    for i in range(m):
        if slot[single[i]] == NONE:
            slot[single[i]] = n_groups
            group_count[n_groups] = single[i]
            n_groups += 1
        group_size[slot[single[i]]] += 1
    sums = np.zeros(n_groups)
    for a in range(n_groups):
        sums[a] += (group_size[a] - 1) * _cells(group_count[a], group_count[a], 0, total, table)
        for b in range(a):
            cells = _cells(group_count[a], group_count[b], 0, total, table)
            sums[a] += group_size[b] * cells
            sums[b] += group_size[a] * cells
    for i in range(m):
        scores[i] += sums[slot[single[i]]]
    for a in range(n_groups):
        slot[group_count[a]] = NONE


@kernel
def _add_visited_pairs(
    words: WordArray,
    weight: FloatArray,
    rows: IntArray,
    first_word: int,
    flip: WordArray,
    keep: WordArray,
    local: IntArray,
    single: AnyArray,
    total: int,
    table: FloatArray,
    pair: AnyArray,
    touched: IntArray,
    scores: FloatArray,
) -> None:
    """Correct the pairs that do occur together; leaves `pair` (m * m or more) all zero again."""
    m = len(single)
    ones = np.empty(m, dtype=np.int32)
    n_touched = 0
    for k in range(len(rows)):
        s = rows[k]
        w_s = int(weight[s])
        if w_s == 0:  # a pair is new when its count is zero: such rows must not touch it
            continue
        n_ones = 0
        for w in range(len(keep)):
            word = (words[s, first_word + w] ^ flip[w]) & keep[w]
            while word:
                i = local[w * 64 + lowest_bit(word)]
                word &= word - np.uint64(1)
                base = i * m
                for b in range(n_ones):
                    at = base + ones[b]
                    if pair[at] == 0:
                        touched[n_touched] = at
                        n_touched += 1
                    pair[at] += w_s
                ones[n_ones] = i
                n_ones += 1
    for k in range(n_touched):
        at = touched[k]
        i, j = at // m, at % m
        both = int(pair[at])
        pair[at] = 0
        gain = _cells(single[i], single[j], both, total, table) - _cells(
            single[i], single[j], 0, total, table
        )
        scores[i] += gain
        scores[j] += gain


@kernel
def _finish(single: AnyArray, total: float, alpha: float, scores: FloatArray) -> None:
    """From sums of pair cells to sums of mutual information: H(i) + H(j) - H(i, j)."""
    m = len(single)
    scale = total + 4.0 * alpha
    if scale <= 0.0:
        scores[:] = 0.0
        return
    margin = np.empty(m)
    for i in range(m):
        margin[i] = x_log_x(single[i] + 2.0 * alpha) + x_log_x(total - single[i] + 2.0 * alpha)
    margins = margin.sum()
    for i in range(m):
        others = (m - 1) * margin[i] + (margins - margin[i])
        scores[i] = (scores[i] - others) / scale + (m - 1) * np.log(scale)


@kernel
def score_real(
    words: WordArray,
    weight: FloatArray,
    rows: IntArray,
    places: IntArray,
    alpha: float,
    pair: FloatArray,
    scores: FloatArray,
) -> None:
    """Fill `scores` for rows with real weights; leaves `pair` all zero again.

    As with whole weights every column counts its rarer value, and only pairs that occur together
    are visited. The product of two matrices of ones and weights took 3 to 30 times as long.
    """
    m = len(places)
    first_word, local, keep = _words_of(places)
    n_words = len(keep)
    total = 0.0
    single = np.zeros(m)
    for s in rows:
        w_s = weight[s]
        if w_s == 0.0:
            continue
        total += w_s
        for w in range(n_words):
            word = words[s, first_word + w] & keep[w]
            while word:
                single[local[w * 64 + lowest_bit(word)]] += w_s
                word &= word - np.uint64(1)
    flip = np.zeros(n_words, dtype=np.uint64)
    for i in range(m):
        if 2.0 * single[i] > total:
            single[i] = total - single[i]
            flip[places[i] // 64 - first_word] |= np.uint64(1) << np.uint64(places[i] % 64)
    ones = np.empty(m, dtype=np.int32)
    for s in rows:
        w_s = weight[s]
        if w_s == 0.0:
            continue
        n_ones = 0
        for w in range(n_words):
            word = (words[s, first_word + w] ^ flip[w]) & keep[w]
            while word:
                i = local[w * 64 + lowest_bit(word)]
                word &= word - np.uint64(1)
                mine = pair[i]
                for b in range(n_ones):
                    mine[ones[b]] += w_s
                ones[n_ones] = i
                n_ones += 1
    _add_real_pairs(single, pair, total, alpha, scores)
    _finish(single, total, alpha, scores)


@kernel
def _add_real_pairs(
    single: FloatArray, pair: FloatArray, total: float, alpha: float, scores: FloatArray
) -> None:
    """Add the cells of every pair to both of its variables; leaves `pair` zero below its diagonal.

    Of pairs that never occur together only one cell depends on both.
    """
    m = len(single)
    alone = np.empty(m)
    for i in range(m):
        alone[i] = x_log_x(single[i] + alpha)
    nothing = x_log_x(alpha)
    for i in range(m):
        mine = 0.0
        for j in range(i):
            both = pair[i, j]
            neither = x_log_x(total - single[i] - single[j] + both + alpha)
            if both == 0.0:
                cells = nothing + alone[i] + alone[j] + neither
            else:
                pair[i, j] = 0.0
                cells = (
                    x_log_x(both + alpha)
                    + x_log_x(single[i] - both + alpha)
                    + x_log_x(single[j] - both + alpha)
                    + neither
                )
            mine += cells
            scores[j] += cells
        scores[i] += mine
