"""Pairwise counts: how often two variables are both 1.

In:  a `BitMatrix`.
Out: float64 `(n_vars, n_vars)`, exact; the diagonal holds the single counts.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import parallel_kernel, popcount, prange
from strudel._types import CountArray, WordArray
from strudel.data.bits import BitMatrix


def pair_counts(bits: BitMatrix) -> CountArray:
    """Weight of the rows where both variables are 1, for every pair of variables.

    Examples
    --------
    >>> from strudel.data.bits import pack_columns
    >>> pair_counts(pack_columns([[1, 1], [1, 0], [1, 1]]))
    array([[3., 2.],
           [2., 2.]])
    """
    counts = np.zeros((bits.n_vars, bits.n_vars))
    if bits.row_weight is None:
        _pair_counts(bits.words, counts)
        return counts
    # Weighted counts are a matrix product; every partial sum is exact, in whatever order.
    table = bits.unpack()
    block = max(1, 2**22 // max(1, bits.n_vars))
    for start in range(0, bits.n_rows, block):
        part = table[start : start + block].astype(np.float64)
        counts += part.T @ (part * bits.row_weight[start : start + block, None])
    return counts


@parallel_kernel
def _pair_counts(words: WordArray, counts: CountArray) -> None:
    """Fill the symmetric `counts` (n_vars, n_vars) from `words` (n_vars, n_words)."""
    n_vars, n_words = words.shape
    # Row i meets n_vars - i partners: with n_vars - 1 - i beside it, iterations are equal work.
    for half in prange((n_vars + 1) // 2):
        for side in range(2):
            i = np.int64(half) if side == 0 else n_vars - 1 - np.int64(half)
            if side == 1 and i == np.int64(half):
                continue
            for j in range(i, n_vars):
                both = 0
                for w in range(n_words):
                    both += popcount(words[i, w] & words[j, w])
                counts[i, j] = both
                counts[j, i] = both
