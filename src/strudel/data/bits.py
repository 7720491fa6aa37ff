"""Bit-packed tables, 64 rows to a word, one line of words per variable; and what they count.

In:  a 0/1 matrix `(n_rows, n_vars)`, and a weight per row if rows count more or less than once.
Out: `BitMatrix`; `pair_counts`, how often two variables are both 1, exact; `x ln x` of counts, what
     entropies and log-likelihoods are made of.

Weights are rounded to multiples of one power of two, small enough to keep every sum of weights
exact in `float64`. Counts are therefore the same whatever the order of summation and the number of
threads, and a count can be updated by differences without drifting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from strudel._numba import in_threads, kernel, popcount, soonest
from strudel._types import AnyArray, ByteArray, CountArray, FloatArray, IntArray, WordArray

UNKNOWN = 2  # the code of a value that is unknown, beside 0 and 1


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


def exact_weights(sample_weight: ArrayLike) -> FloatArray:
    """Round weights to multiples of a power of two, so that all their sums are exact in `float64`.

    The change is below 5e-16 of the total for each row; whole numbers do not change while their
    total is below 2**51.
    """
    weight = np.asarray(sample_weight, dtype=np.float64)
    total = float(weight.sum())
    if total <= 0.0:
        return weight.copy()
    # Sums in another order may end just below or above a power of two, as of weights that add up
    # to one: a little more than the total is always above.
    _, exponent = np.frexp(total * (1.0 + 2.0**-40))
    quantum = float(np.ldexp(1.0, max(int(exponent) - 51, -1074)))  # the smallest float64
    rounded: FloatArray = np.round(weight / quantum) * quantum
    return rounded


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


LARGEST_TABLE = 2**22  # entries, 32 MiB; beyond, logarithms are taken one by one


@kernel
def x_log_x(x: float) -> float:
    """`x ln x` of a number; 0 where it is not positive."""
    return x * math.log(x) if x > 0.0 else 0.0


def x_log_x_of(x: FloatArray) -> FloatArray:
    """`x ln x` of every entry; 0 where it is not positive."""
    logs = np.log(x, out=np.zeros_like(x), where=x > 0.0)
    return np.multiply(x, logs, out=logs)


def x_log_x_table(weight: FloatArray) -> FloatArray:
    """`x ln x` for all counts that whole weights can add up to; empty for other weights."""
    if not np.all(weight == np.round(weight)) or weight.sum() >= LARGEST_TABLE:
        return np.zeros(0)
    table = np.empty(int(weight.sum()) + 1)
    _x_log_x_table(table)
    return table


@kernel
def _x_log_x_table(table: FloatArray) -> None:
    """Fill the table, to the last digit as `x_log_x` computes it."""
    for i in range(len(table)):
        table[i] = x_log_x(np.float64(i))


@kernel
def x_log_x_in(table: FloatArray, x: float) -> float:
    """`x ln x`; whole numbers are looked up where all weights are whole."""
    if x <= 0.0:
        return 0.0
    return table[np.int64(x)] if len(table) else x * np.log(x)


def encode(evidence: FloatArray) -> AnyArray:
    """Codes 0, 1 and UNKNOWN for 0, 1 and NaN."""
    return np.where(np.isnan(evidence), UNKNOWN, evidence).astype(np.uint8)


def decode(codes: AnyArray) -> FloatArray:
    """0, 1 and NaN for the codes 0, 1 and UNKNOWN."""
    return np.where(codes == UNKNOWN, np.nan, codes).astype(np.float64)
