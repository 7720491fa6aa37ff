"""Pairwise counts: how often two variables are both 1.

In:  a `BitMatrix`.
Out: float64 `(n_vars, n_vars)`, exact; the diagonal holds the single counts.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import in_threads, kernel, popcount, soonest
from strudel._types import CountArray, FloatArray, WordArray
from strudel.data.bits import BitMatrix, pack_rows

MOST_PLANES = 24  # binary digits of weights that are counted one by one


def pair_counts(bits: BitMatrix) -> CountArray:
    """Weight of the rows where both variables are 1, for every pair of variables."""
    counts = np.zeros((bits.n_vars, bits.n_vars))
    if bits.row_weight is None:
        _fill_pair_counts(bits.words, counts)
        return counts
    planes, unit = bit_planes(bits.row_weight)
    if len(planes) <= MOST_PLANES:
        for plane in planes:
            part = np.zeros_like(counts)
            _fill_pair_counts(bits.words & plane, part)
            counts += unit * part
            unit *= 2.0
        return counts
    # Otherwise they are a matrix product; every partial sum is exact, in whatever order.
    table = bits.unpack()
    block = max(1, 2**22 // max(1, bits.n_vars))
    for start in range(0, bits.n_rows, block):
        chunk = table[start : start + block].astype(np.float64)
        counts += chunk.T @ (chunk * bits.row_weight[start : start + block, None])
    return counts


def bit_planes(weight: FloatArray) -> tuple[WordArray, float]:
    """Packed binary digits of the weights, the lowest first, and what the lowest one is worth.

    Weights are whole multiples of a power of two (`exact_weights`), so there are finitely many; for
    rows that were merged, as many as their largest number has digits.
    """
    positive = weight[weight > 0.0]
    if len(positive) == 0:
        return np.zeros((0, -(-len(weight) // 64)), dtype=np.uint64), 1.0
    digits = (np.frexp(positive)[0] * 2.0**53).astype(np.int64)  # the mantissa as a whole number
    exponent = np.frexp(positive)[1] - 53
    n_zeros = np.log2((digits & -digits).astype(np.float64)).astype(np.int64)
    lowest = int((exponent + n_zeros).min())
    n_planes = int(np.frexp(weight.max())[1]) - lowest
    if n_planes > MOST_PLANES:
        return np.zeros((n_planes, 0), dtype=np.uint64), 1.0
    whole = np.ldexp(weight, -lowest).astype(np.uint64)
    digit = np.arange(n_planes, dtype=np.uint64)[:, None]
    return pack_rows(((whole >> digit) & np.uint64(1)).astype(np.uint8)), float(
        np.ldexp(1.0, lowest)
    )


def _fill_pair_counts(words: WordArray, counts: CountArray) -> None:
    fill = soonest(_pair_counts, 0.2e-6 * len(words) * words.size)
    in_threads(fill, (len(words) + 1) // 2, words, counts)


@kernel
def _pair_counts(first: int, last: int, words: WordArray, counts: CountArray) -> None:
    """Fill the symmetric `counts` (n_vars, n_vars) from `words` (n_vars, n_words)."""
    n_vars, n_words = words.shape
    # Row i meets n_vars - i partners: with n_vars - 1 - i beside it, iterations are equal work.
    for half in range(first, last):
        for side in range(2):
            i = half if side == 0 else n_vars - 1 - half
            if side == 1 and i == half:
                continue
            for j in range(i, n_vars):
                both = 0
                for w in range(n_words):
                    both += popcount(words[i, w] & words[j, w])
                counts[i, j] = both
                counts[j, i] = both
