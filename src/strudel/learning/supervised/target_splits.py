"""Splits that help to predict a target, where those of the search help to describe the rows.

In:  a `GrowingCircuit`, and what a predictor still gets wrong: for every row the gradient of its
     log-loss or half squared error, and the second derivative.
Out: edges and variables to split, the most helpful first.

Splitting an edge on a variable gives the rows of either value a weight of their own. To second
order the penalised loss then falls by half of ``G1^2 / (H1 + alpha) + G0^2 / (H0 + alpha)``, less
what one weight for both would gain, where G and H add up the derivatives of the rows. Logistic
circuits are grown in much the same way (Liang and Van den Broeck 2019).
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel, lowest_bit
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES, undecided_places

FEWEST_ROWS = 10.0  # weight of the rows through an edge that is split
TIE = 1e-6  # gains that differ by less, relatively, are equal: BLAS libraries round differently


def split_for_target(
    growing: GrowingCircuit,
    gradient: FloatArray,
    hessian: FloatArray,
    *,
    alpha: float,
    n_splits: int,
) -> int:
    """Make the best `n_splits` splits, or fewer if there are no more; returns how many.

    `gradient` and `hessian` are (n_rows, n_outputs) and carry the weights of the rows. No two of
    the splits are on the same variable, because the same residual often shows at many edges.
    """
    edges, places = _candidates(growing, gradient, hessian, alpha)
    taken: set[int] = set()
    for edge, place in zip(edges.tolist(), places.tolist(), strict=True):
        if len(taken) == n_splits:
            break
        # A split higher up may have ended this edge, or decided the variable for it.
        if place not in taken and _is_open(growing, edge, place):
            growing.split(edge, place)
            taken.add(place)
    return len(taken)


def _is_open(growing: GrowingCircuit, edge: int, place: int) -> bool:
    """Whether an edge still exists and both values of a variable occur below it."""
    g = growing.growth
    return g.edge["death"][edge] == ALIVE and place in undecided_places(g, edge).tolist()


def _candidates(
    growing: GrowingCircuit, gradient: FloatArray, hessian: FloatArray, alpha: float
) -> tuple[IntArray, IntArray]:
    """Every edge that gains by a split, with the best place, by falling gain."""
    g = growing.growth
    n_edges = int(g.size[N_EDGES])
    gain, place = np.zeros(n_edges), np.full(n_edges, NONE, dtype=np.int32)
    slot = np.full(n_edges, NONE, dtype=np.int32)
    _score_splits(
        g.train_active,
        g.train_words,
        g.train_weight,
        gradient,
        hessian,
        g.vtree,
        alpha,
        slot,
        gain,
        place,
    )
    found = np.flatnonzero(gain > 0.0)
    rank = np.round(np.log(gain[found]) / TIE)  # ties go to the lowest edge
    edges: IntArray = found[np.argsort(-rank, kind="stable")].astype(np.int32)
    return edges, place[edges]


@kernel
def _score_splits(
    active: IntArray,
    words: WordArray,
    weight: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
    vtree: AnyArray,
    alpha: float,
    slot: IntArray,
    gain: FloatArray,
    place: IntArray,
) -> None:
    """Fill `gain` and `place` (n_edges,); `slot` (n_edges,) is NONE before and after."""
    n_vtree_nodes, n_rows = active.shape
    n_outputs = gradient.shape[1]
    row_slot = np.empty(n_rows, dtype=np.int32)
    order = np.empty(n_rows, dtype=np.int32)
    edge = np.empty(n_rows, dtype=np.int32)
    for v in range(n_vtree_nodes):
        first, last = vtree[v]["first"], vtree[v]["last"]
        if last - first < 2:
            continue
        # Sort the rows by their edge, edges in the order in which they appear.
        n_slots = 0
        end = np.zeros(n_rows + 1, dtype=np.int32)
        for s in range(n_rows):
            e = active[v, s]
            row_slot[s] = NONE
            if e == NONE:
                continue
            if slot[e] == NONE:
                slot[e] = n_slots
                edge[n_slots] = e
                n_slots += 1
            row_slot[s] = slot[e]
            end[slot[e] + 1] += 1
        for i in range(n_slots):
            slot[edge[i]] = NONE
            end[i + 1] += end[i]
        next_one = end[:n_slots].copy()
        for s in range(n_rows):
            if row_slot[s] != NONE:
                order[next_one[row_slot[s]]] = s
                next_one[row_slot[s]] += 1
        for i in range(n_slots):
            total = 0.0
            for at in range(end[i], end[i + 1]):
                total += weight[order[at]]
            if total < FEWEST_ROWS:
                continue
            rows = order[end[i] : end[i + 1]]
            gain[edge[i]], place[edge[i]] = _best_place(
                words, gradient, hessian, rows, first, last, n_outputs, alpha
            )


@kernel
def _best_place(
    words: WordArray,
    gradient: FloatArray,
    hessian: FloatArray,
    rows: IntArray,
    first: int,
    last: int,
    n_outputs: int,
    alpha: float,
) -> tuple[float, int]:
    """The most helpful place among ``first:last`` for some rows, and its gain."""
    ones = np.zeros(last - first, dtype=np.int64)
    above = np.zeros((last - first, n_outputs))
    below = np.zeros((last - first, n_outputs))
    all_above = np.zeros(n_outputs)
    all_below = np.zeros(n_outputs)
    for s in rows:
        for k in range(n_outputs):
            all_above[k] += gradient[s, k]
            all_below[k] += hessian[s, k]
        for w in range(first // 64, (last - 1) // 64 + 1):
            word = words[s, w]
            while word:
                p = w * 64 + lowest_bit(word)
                word &= word - np.uint64(1)
                if first <= p < last:
                    ones[p - first] += 1
                    for k in range(n_outputs):
                        above[p - first, k] += gradient[s, k]
                        below[p - first, k] += hessian[s, k]
    best, best_place = 0.0, NONE
    for p in range(last - first):
        if ones[p] == 0 or ones[p] == len(rows):
            continue
        total = 0.0
        for k in range(n_outputs):
            zero_above = all_above[k] - above[p, k]
            zero_below = all_below[k] - below[p, k]
            total += (
                above[p, k] ** 2 / (below[p, k] + alpha)
                + zero_above**2 / (zero_below + alpha)
                - all_above[k] ** 2 / (all_below[k] + alpha)
            )
        if total > best * (1.0 + TIE):
            best, best_place = total, first + p
    return best, best_place
