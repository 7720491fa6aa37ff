"""Packed rows of a part, of which some values may be unknown, and which of them are taken.

In:  rows of codes 0, 1 and UNKNOWN, with weights or without.
Out: `PackedCodes`, or a plain `BitMatrix` where everything is known; the rows that are learned
     from, held out, sampled or in a bootstrap sample, by their numbers: so not by the parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import poisson

from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.passes import UNKNOWN
from strudel.data.bits import BitMatrix, merge_equal_rows, pack_columns, pack_rows

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # steps of it meet all numbers before they repeat
POISSON = poisson.cdf(np.arange(20), 1.0)  # chance of at most this many draws of a row by a bag


def uniform_numbers(seed: int, first: int, n: int) -> FloatArray:
    """Random numbers for the rows from `first` on; those of a row depend on its number only."""
    return generator_at(seed, first).random(n)


def generator_at(seed: int, n_drawn: int) -> np.random.Generator:
    """A generator from which this many numbers have been drawn."""
    block, skipped = divmod(n_drawn, 4)  # it makes four numbers at a time
    generator = np.random.Generator(np.random.Philox(key=seed).advance(block))
    generator.random(skipped)
    return generator


def hash_rows(rows: AnyArray, seed: int | AnyArray) -> AnyArray:
    """A number of 64 bits for the values of every row, and a seed for all or for each."""
    state = np.broadcast_to(np.asarray(seed, dtype=np.uint64), len(rows)).copy()
    for words in pack_rows(rows).T:
        state = mixed(state ^ words)
    return state


def mixed(x: AnyArray) -> AnyArray:
    """The finaliser of splitmix64."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def digest_rows(bits: BitMatrix, first: int, gaps: AnyArray | None = None) -> int:
    """A digest of rows, their weights and their order; those of parts add up.

    `gaps` is 1 where a value is unknown.
    """
    with np.errstate(over="ignore"):
        numbers = (first + 1 + np.arange(bits.n_rows, dtype=np.uint64)) * GOLDEN
    each = hash_rows(bits.unpack(), mixed(numbers))
    if bits.row_weight is not None:
        each = mixed(each ^ bits.row_weight.view(np.uint64))
    if gaps is not None:
        with_gaps = gaps.any(axis=1)
        each[with_gaps] = mixed(each[with_gaps] ^ hash_rows(gaps[with_gaps], 0))
    return int(each.sum(dtype=np.uint64))


@dataclass(frozen=True, eq=False)
class PackedCodes:
    """Rows with gaps, a bit for the value and one for whether it is known."""

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
    """A digest of rows and their order; those of parts add up."""
    if isinstance(rows, BitMatrix):
        return digest_rows(rows, first)
    return digest_rows(rows.values, first, 1 - rows.known.unpack())


@dataclass(frozen=True, eq=False)
class BaggedRows:
    """Distinct rows of a part, and how often every bootstrap sample holds each."""

    rows: BitMatrix
    bag_weight: AnyArray  # (n_bags, n_rows)


class Share(NamedTuple):
    """The rows whose random number lies between two bounds."""

    low: float = 0.0
    high: float = 1.0
    seed: int = 0

    def holds(self, first: int, n: int) -> AnyArray:
        """Which of the n rows from number `first` on are in it."""
        number = uniform_numbers(self.seed, first, n)
        return (number >= self.low) & (number < self.high)


def take_rows(rows: PackedRows, share: Share, first: int) -> PackedRows:
    """The rows of a part in a share, if they know something."""
    is_plain = isinstance(rows, BitMatrix) and rows.row_weight is None
    if share.low <= 0.0 and share.high >= 1.0 and is_plain:
        return rows
    return rows_where(rows, _is_taken(rows, share, first))


def _is_taken(rows: PackedRows, share: Share, first: int) -> AnyArray:
    kept = share.holds(first, rows.n_rows) & knows_something(rows)
    return kept if rows.row_weight is None else kept & (rows.row_weight > 0.0)


def sample_rows(rows: PackedRows, share: Share, sample: Share, first: int) -> PackedRows:
    """The rows in both shares."""
    return rows_where(rows, _is_taken(rows, share, first) & sample.holds(first, rows.n_rows))


def bag_rows(bits: BitMatrix, share: Share, n_bags: int, seed: int, first: int) -> BaggedRows:
    """The same rows, merged, with how often each bag holds them.

    A row of weight w is drawn a Poisson number of times, w on average: so nobody needs to know all
    rows to draw, and a row counts as much as w rows of weight one.
    """
    kept = _is_taken(bits, share, first)
    rows = BitMatrix(pack_columns(bits.unpack()[kept]).words, int(kept.sum()), bits.weights[kept])
    if rows.n_rows == 0:
        return BaggedRows(rows, np.zeros((n_bags, 0), dtype=np.float32))
    merged, place = merge_equal_rows(rows)
    weight = np.empty((n_bags, merged.n_rows))
    for bag in range(n_bags):
        number = uniform_numbers(seed + (bag << 32), first, bits.n_rows)[kept]
        n_draws = _poisson_draws(number, rows.weights)
        weight[bag] = np.bincount(place, n_draws, minlength=merged.n_rows)
    is_small = weight.max() < 2**24  # which float32 holds exactly
    return BaggedRows(merged, weight.astype(np.float32) if is_small else weight)


def _poisson_draws(number: FloatArray, mean: FloatArray) -> FloatArray:
    """Poisson numbers of given means, from uniform ones."""
    if np.all(mean == 1.0):
        return np.searchsorted(POISSON, number, side="right").astype(np.float64)
    return np.asarray(poisson.ppf(number, mean), dtype=np.float64)
