"""Minimum bisection: two halves of equal size with as little weight between them as possible.

In:  a symmetric matrix of weights with a zero diagonal.
Out: the side, 0 or 1, of every row.

The problem is NP-hard. Halves are grown from up to 16 rows that are far from one another, each is
improved by the swaps of Kernighan and Lin (1970), and the best is kept. On 800 matrices of random
weights with 6 to 12 rows that missed the optimum once. On the mutual information of plants, dna,
cr52 and c20ng (69 to 910 variables) the cut is 4 % below to 0.03 % above that of METIS; so that
library is not needed. It takes whole numbers only, and its halves are not always equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strudel._numba import kernel
from strudel._types import NONE, ByteArray, FloatArray

N_STARTS = 16
SMALLEST_GAIN = 1e-12  # of a pass of swaps; sums in another order differ by less


def bisect(weight: FloatArray) -> ByteArray:
    """Halve the rows of `weight`; the larger half of an odd number is the second."""
    n = len(weight)
    if n < 2:
        return np.ones(n, dtype=np.uint8)
    # A row without weights makes an odd number even, and the half it joins the smaller one.
    even = np.zeros((n + n % 2, n + n % 2))
    even[:n, :n] = weight
    side = np.empty(len(even), dtype=np.uint8)
    best = np.empty(len(even), dtype=np.uint8)
    best_cut = np.inf
    for seed in _seeds(even[:n, :n]):
        _grow(even, seed, side)
        _swap(even, side)
        cut = _cut(even, side)
        if cut < best_cut - SMALLEST_GAIN:
            best_cut = cut
            best[:] = side
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


@kernel
def _grow(weight: FloatArray, seed: int, side: ByteArray) -> None:
    """Let half of the rows join `seed` on side 0, always the one that saves most of the cut."""
    n = len(weight)
    gain = np.empty(n)
    for i in range(n):
        gain[i] = 2.0 * weight[i, seed]
        for j in range(n):
            gain[i] -= weight[i, j]
        side[i] = 1
    side[seed] = 0
    for _ in range(n // 2 - 1):
        best = NONE
        for i in range(n):
            if side[i] == 1 and (best == NONE or gain[i] > gain[best]):
                best = i
        side[best] = 0
        for i in range(n):
            gain[i] += 2.0 * weight[i, best]


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


@kernel
def _cut(weight: FloatArray, side: ByteArray) -> float:
    """The weight between the two sides."""
    cut = 0.0
    for i in range(len(side)):
        for j in range(i):
            if side[i] != side[j]:
                cut += weight[i, j]
    return cut
