"""Which rows of a part are learned from, held out, sampled or in a bootstrap sample.

In:  the packed rows of a part, a seed, and the number of its first row.
Out: some of the rows. It depends on the numbers of rows, so not on the parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import poisson

from strudel._types import AnyArray, FloatArray
from strudel.data.bits import BitMatrix, merge_equal_rows, pack_columns
from strudel.learning.partitioned.packed_codes import PackedRows, knows_something, rows_where
from strudel.learning.partitioned.row_numbers import uniform_numbers

POISSON = poisson.cdf(np.arange(20), 1.0)  # chance of at most so many draws of a row by a bag


@dataclass(frozen=True, eq=False)
class BaggedRows:
    """Distinct rows of a part, and how often every bootstrap sample holds each."""

    rows: BitMatrix
    bag_weight: AnyArray  # (n_bags, n_rows)


def take_rows(rows: PackedRows, low: float, high: float, seed: int, first: int) -> PackedRows:
    """The rows of a part whose random number lies between two bounds, if they know something."""
    is_plain = isinstance(rows, BitMatrix) and rows.row_weight is None
    if low <= 0.0 and high >= 1.0 and is_plain:
        return rows
    return rows_where(rows, _is_taken(rows, low, high, seed, first))


def _is_taken(rows: PackedRows, low: float, high: float, seed: int, first: int) -> AnyArray:
    number = uniform_numbers(seed, first, rows.n_rows)
    kept = (number >= low) & (number < high) & knows_something(rows)
    return kept if rows.row_weight is None else kept & (rows.row_weight > 0.0)


def sample_rows(
    rows: PackedRows,
    low: float,
    high: float,
    seed: int,
    share: float,
    sample_seed: int,
    first: int,
) -> PackedRows:
    """A share of these rows, by random numbers of their own."""
    kept = _is_taken(rows, low, high, seed, first)
    kept &= uniform_numbers(sample_seed, first, rows.n_rows) < share
    return rows_where(rows, kept)


def bag_rows(
    bits: BitMatrix,
    low: float,
    high: float,
    seed: int,
    n_bags: int,
    bag_seed: int,
    first: int,
) -> BaggedRows:
    """The same rows, merged, with how often each bag holds them.

    A row of weight w is drawn a Poisson number of times, w on average: so nobody needs to know all
    rows to draw, and a row counts as much as w rows of weight one.
    """
    kept = _is_taken(bits, low, high, seed, first)
    rows = BitMatrix(pack_columns(bits.unpack()[kept]).words, int(kept.sum()), bits.weights[kept])
    if rows.n_rows == 0:
        return BaggedRows(rows, np.zeros((n_bags, 0), dtype=np.float32))
    merged, place = merge_equal_rows(rows)
    weight = np.empty((n_bags, merged.n_rows))
    for bag in range(n_bags):
        number = uniform_numbers(bag_seed + (bag << 32), first, bits.n_rows)[kept]
        n_draws = _poisson_draws(number, rows.weights)
        weight[bag] = np.bincount(place, n_draws, minlength=merged.n_rows)
    is_small = weight.max() < 2**24  # which float32 holds exactly
    return BaggedRows(merged, weight.astype(np.float32) if is_small else weight)


def _poisson_draws(number: FloatArray, mean: FloatArray) -> FloatArray:
    """Poisson numbers of given means, from uniform ones."""
    if np.all(mean == 1.0):
        return np.searchsorted(POISSON, number, side="right").astype(np.float64)
    return np.asarray(poisson.ppf(number, mean), dtype=np.float64)
