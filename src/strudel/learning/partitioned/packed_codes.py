"""Packed rows of which some values are unknown: a bit for the value, one for whether it is known.

In:  rows of codes 0, 1 and UNKNOWN, with weights or without.
Out: `PackedCodes`, or a plain `BitMatrix` where everything is known; either as codes again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.data.bits import BitMatrix, pack_columns
from strudel.learning.partitioned.row_numbers import digest_rows
from strudel.queries.passes import UNKNOWN


@dataclass(frozen=True, eq=False)
class PackedCodes:
    """Rows with gaps, in a quarter of the memory of codes."""

    values: BitMatrix  # with the weights; 0 where a value is unknown
    known: BitMatrix

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.values.n_rows

    @property
    def row_weight(self) -> FloatArray | None:
        """Exact weights; None when every row counts once."""
        return self.values.row_weight

    @property
    def weights(self) -> FloatArray:
        """The row weights as an array, ones when there are none."""
        return self.values.weights

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return self.values.total_weight

    def unpack(self) -> ByteArray:
        """The rows as codes 0, 1 and UNKNOWN."""
        codes: ByteArray = np.where(self.known.unpack() == 1, self.values.unpack(), UNKNOWN)
        return codes.astype(np.uint8, copy=False)

    def __sizeof__(self) -> int:
        weight = 0 if self.row_weight is None else self.row_weight.nbytes
        return int(self.values.words.nbytes + self.known.words.nbytes + weight)


PackedRows = BitMatrix | PackedCodes


def pack_codes(codes: ByteArray, weight: FloatArray | None) -> PackedRows:
    """Rows of codes with their exact weights, packed; those of weight zero need no values."""
    known = codes != UNKNOWN
    if weight is not None:
        known |= (weight == 0.0)[:, np.newaxis]
    values = pack_columns(np.where(known & (codes != UNKNOWN), codes, 0))
    rows = BitMatrix(values.words, values.n_rows, weight)
    return rows if known.all() else PackedCodes(rows, pack_columns(known))


def rows_where(rows: PackedRows, kept: AnyArray) -> PackedRows:
    """Some of the rows."""
    if isinstance(rows, PackedCodes):
        values, known = _bits_where(rows.values, kept), _bits_where(rows.known, kept)
        return PackedCodes(values, known)
    return _bits_where(rows, kept)


def _bits_where(bits: BitMatrix, kept: AnyArray) -> BitMatrix:
    weight = None if bits.row_weight is None else bits.row_weight[kept]
    return BitMatrix(pack_columns(bits.unpack()[kept]).words, int(kept.sum()), weight)


def knows_something(rows: PackedRows) -> AnyArray:
    """Which rows have a value that is known."""
    if isinstance(rows, BitMatrix):
        return np.ones(rows.n_rows, dtype=np.bool_)
    return np.asarray(rows.known.unpack().any(axis=1))


def n_known(rows: PackedRows) -> AnyArray:
    """How many of the rows that count know each variable, and last how many know none."""
    counts = rows.weights > 0.0
    if isinstance(rows, BitMatrix):
        return np.append(np.full(rows.n_vars, counts.sum()), 0)
    known = rows.known.unpack()[counts]
    return np.append(known.sum(axis=0, dtype=np.int64), (~known.any(axis=1)).sum())


def n_unknown(rows: PackedRows) -> int:
    """How many values are unknown."""
    if isinstance(rows, BitMatrix):
        return 0
    return int(rows.known.unpack().size - rows.known.unpack().sum())


def has_gaps(rows: PackedRows) -> bool:
    """Whether some value is unknown."""
    return isinstance(rows, PackedCodes)


def digest_packed(rows: PackedRows, first: int) -> int:
    """What tells rows and their order from others; sums over parts do, too."""
    if isinstance(rows, BitMatrix):
        return digest_rows(rows, first)
    return digest_rows(rows.values, first, 1 - rows.known.unpack())
