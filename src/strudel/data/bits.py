"""Bit-packed tables: 64 rows to a word, one line of words per variable.

In:  a 0/1 matrix `(n_rows, n_vars)`, and a weight per row if rows count more or less than once.
Out: `BitMatrix`.

Weights are rounded to multiples of one power of two, small enough to keep every sum of weights
exact in `float64`. Counts are therefore the same whatever the order of summation and the number of
threads, and a count can be updated by differences without drifting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import ByteArray, FloatArray, IntArray, WordArray


@dataclass(frozen=True, eq=False)
class BitMatrix:
    """A 0/1 table, packed by column."""

    words: WordArray  # (n_vars, n_words) bit `r % 64` of word `r // 64` is row r; 0 past the last
    n_rows: int
    row_weight: FloatArray | None = None  # (n_rows,) exact weights; None when every row counts once

    @property
    def n_vars(self) -> int:
        """Number of columns."""
        return len(self.words)

    @property
    def total_weight(self) -> float:
        """Sum of the row weights; the number of rows when there are none."""
        return float(self.n_rows if self.row_weight is None else self.row_weight.sum())

    @property
    def weights(self) -> FloatArray:
        """The row weights as an array, ones when there are none."""
        return np.ones(self.n_rows) if self.row_weight is None else self.row_weight

    def unpack(self) -> ByteArray:
        """The table as a `uint8` matrix `(n_rows, n_vars)`."""
        if self.n_rows == 0 or self.n_vars == 0:
            return np.zeros((self.n_rows, self.n_vars), dtype=np.uint8)
        columns = np.unpackbits(
            self.words.astype("<u8", copy=False).view(np.uint8),
            axis=1,
            bitorder="little",
            count=self.n_rows,
        )
        return np.ascontiguousarray(columns.T)


def pack_columns(X: ArrayLike, sample_weight: ArrayLike | None = None) -> BitMatrix:
    """Pack a clean 0/1 matrix `(n_rows, n_vars)`.

    Examples
    --------
    >>> bits = pack_columns([[1, 0], [1, 1], [0, 1]])
    >>> bits.words
    array([[3],
           [6]], dtype=uint64)
    """
    table = np.asarray(X, dtype=np.uint8)
    n_rows = table.shape[0]
    weight = None if sample_weight is None else exact_weights(sample_weight)
    return BitMatrix(_pack(np.ascontiguousarray(table.T)), n_rows, weight)


def pack_rows(X: ArrayLike) -> WordArray:
    """Pack a clean 0/1 matrix by row: bit `v % 64` of word `v // 64` of a row is variable v."""
    return _pack(np.asarray(X, dtype=np.uint8))


def _pack(table: ByteArray) -> WordArray:
    """Pack the last axis of a 0/1 matrix, 64 to a word, little end first."""
    n_words = -(-table.shape[1] // 64)
    packed = np.zeros((table.shape[0], n_words * 8), dtype=np.uint8)
    if table.size:
        packed[:, : -(-table.shape[1] // 8)] = np.packbits(table, axis=1, bitorder="little")
    return packed.view("<u8").astype(np.uint64, copy=False)


def exact_weights(sample_weight: ArrayLike, total: float | None = None) -> FloatArray:
    """Round weights to multiples of a power of two, so that all their sums are exact in `float64`.

    The change is below 5e-16 of the total for each row; whole numbers do not change while their
    total is below 2**51. `total` is that of all rows, where these are only a part of them.
    """
    weight = np.asarray(sample_weight, dtype=np.float64)
    total = float(weight.sum()) if total is None else total
    if total <= 0.0:
        return weight.copy()
    quantum = weight_quantum(total)
    rounded: FloatArray = np.round(weight / quantum) * quantum
    return rounded


def weight_quantum(total: float) -> float:
    """The power of two to whose multiples weights with this total are rounded."""
    # Sums in another order may end just below or above a power of two, as of weights that add up
    # to one: a little more than the total is always above.
    _, exponent = np.frexp(total * (1.0 + 2.0**-40))
    return float(np.ldexp(1.0, max(int(exponent) - 51, -1074)))  # the smallest float64


def merge_equal_rows(bits: BitMatrix) -> tuple[BitMatrix, IntArray]:
    """Replace equal rows by one row with their total weight.

    Returns the merged table, distinct rows in the order of their first appearance, and for each
    original row its place there.
    """
    rows = pack_rows(bits.unpack())
    keys = rows.view(np.dtype((np.void, rows.shape[1] * 8))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    place = rank[inverse].astype(np.int32)
    weight = np.bincount(place, weights=bits.weights).astype(np.float64, copy=False)
    merged = BitMatrix(
        _pack(np.ascontiguousarray(bits.unpack()[np.sort(first)].T)), len(first), weight
    )
    return merged, place


MERGE_BELOW = 0.5  # merge equal rows when that at least halves them


def merge_if_it_pays(bits: BitMatrix) -> BitMatrix:
    """Merge equal rows if there are many: most rows of a narrow table are copies of one another."""
    if bits.n_rows < 2:
        return bits
    merged, _ = merge_equal_rows(bits)
    return merged if merged.n_rows <= MERGE_BELOW * bits.n_rows else bits
