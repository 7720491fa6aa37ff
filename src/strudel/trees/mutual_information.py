"""Mutual information of every pair of variables, or of columns of any number of values.

In:  pair counts and the total weight; or the number of every column's value in every row.
Out: float64 `(n_vars, n_vars)` in nats, zero on the diagonal.

Smoothing adds `alpha` to each of the four cells of a pair, hence `2 alpha` to the two cells of a
single variable, so that pairs always sum to their margins. A pair of columns gets as many virtual
rows, evenly spread over its cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from strudel._numba import kernel, run_blocks, soonest
from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.data.bits import BitMatrix, pair_counts, x_log_x
from strudel.tables.column_codes import ColumnCode


def pairwise_mutual_information(counts: CountArray, total: float, alpha: float = 1.0) -> FloatArray:
    """Smoothed mutual information of all pairs."""
    information = np.zeros_like(counts)
    fill = soonest(_pairwise_mutual_information, 5e-6 * counts.size)
    fill(counts, float(total), float(alpha), information)
    return information


@kernel
def _pairwise_mutual_information(
    counts: CountArray, total: float, alpha: float, information: FloatArray
) -> None:
    """Fill the symmetric `information` (n_vars, n_vars)."""
    n_vars = len(counts)
    if total + 4.0 * alpha <= 0.0:
        return
    single = np.empty(n_vars)
    for v in range(n_vars):
        single[v] = single_term(counts[v, v], total, alpha)
    for i in range(n_vars):
        for j in range(i + 1, n_vars):
            value = pair_information(
                counts[i, j], counts[i, i], counts[j, j], single[i] + single[j], total, alpha
            )
            information[i, j] = value
            information[j, i] = value


@kernel
def single_term(one: float, total: float, alpha: float) -> float:
    """What one variable adds to the information of its pairs."""
    return float(x_log_x(one + 2.0 * alpha) + x_log_x(total - one + 2.0 * alpha))


@kernel
def pair_information(
    both: float, one: float, other: float, single: float, total: float, alpha: float
) -> float:
    """The information of two variables that are 1 in `one`, `other` and together in `both` rows."""
    # Paired so that exchanging the two variables, or 0 and 1 in one of them, adds the same numbers
    # in the same order: what ties on paper then ties to the last bit.
    pair = (x_log_x(both + alpha) + x_log_x(total - one - other + both + alpha)) + (
        x_log_x(one - both + alpha) + x_log_x(other - both + alpha)
    )
    scale = total + 4.0 * alpha
    # H(i) + H(j) - H(i, j), with the common log of the scale taken out.
    return (pair - single) / scale + math.log(scale)


def column_information(
    columns: Sequence[ColumnCode],
    values: IntArray,
    weight: FloatArray,
    alpha: float = 1.0,
    bits: BitMatrix | None = None,
) -> FloatArray:
    """Smoothed mutual information of all pairs of columns.

    Where values are unknown, every pair has the rows that know both. `bits` are the same rows, if
    all values are known: columns of one variable are quicker to count there.
    """
    n_values = np.array([column.n_values for column in columns], dtype=np.int32)
    is_done = np.array([bits is not None and column.is_bit for column in columns], dtype=np.bool_)
    information = np.zeros((len(columns), len(columns)))
    single = np.flatnonzero(is_done).tolist()
    if bits is not None and single:
        words = bits.words[[columns[c].start for c in single]]
        counts = pair_counts(BitMatrix(words, bits.n_rows, bits.row_weight))
        information[np.ix_(single, single)] = pairwise_mutual_information(
            counts, bits.total_weight, alpha
        )
    if not is_done.all():
        run_blocks(
            lambda part: _information_of_column(
                values, n_values, is_done, weight, part.start, float(alpha), information
            ),
            len(columns),
            1,
        )
    return information


@kernel
def _information_of_column(
    values: IntArray,
    n_values: IntArray,
    is_done: NDArray[np.bool_],
    weight: FloatArray,
    i: int,
    alpha: float,
    information: FloatArray,
) -> None:
    """Fill line and column i of `information` from i on, except for pairs that are both done."""
    k = n_values[i]
    cells = np.empty((k, n_values.max()))
    for j in range(i + 1, len(values)):
        if is_done[i] and is_done[j]:
            continue
        m = n_values[j]
        cells[:, :m] = 0.0  # weights are added first: their sums are exact, in any order
        for s in range(len(weight)):
            if values[i, s] != NONE and values[j, s] != NONE:
                cells[values[i, s], values[j, s]] += weight[s]
        information[i, j] = information[j, i] = _information_of_cells(cells, k, m, alpha)


@kernel
def _information_of_cells(cells: FloatArray, k: int, m: int, alpha: float) -> float:
    """What two columns tell about each other, from the weight of each pair of their values."""
    one, other = np.zeros(k), np.zeros(m)
    pair = 0.0
    for x in range(k):
        for y in range(m):
            cell = cells[x, y] + 4.0 * alpha / (k * m)
            one[x] += cell
            other[y] += cell
            pair += x_log_x(cell)
    for x in range(k):
        pair -= x_log_x(one[x])
    for y in range(m):
        pair -= x_log_x(other[y])
    scale = one.sum()
    # H(i) + H(j) - H(i, j), with the common log of the scale taken out.
    return pair / scale + np.log(scale) if scale > 0.0 else 0.0


def conditional_table(
    values: IntArray,
    parent_values: IntArray | None,
    n_values: int,
    n_parent_values: int,
    weight: FloatArray,
    alpha: float,
) -> CountArray:
    """P(value | parent's value), smoothed like the information; one line without a parent.

    Even where nothing is known.
    """
    up = np.zeros_like(values) if parent_values is None else parent_values
    is_known = (values != NONE) & (up != NONE)
    cell = up[is_known].astype(np.int64) * n_values + values[is_known]
    n_cells = n_parent_values * n_values
    count: CountArray = np.bincount(cell, weight[is_known], n_cells).astype(np.float64)
    table = count.reshape(n_parent_values, n_values) + 4.0 * alpha / count.size
    total = table.sum(axis=1, keepdims=True)
    even = np.full_like(table, 1.0 / table.shape[1])
    return np.divide(table, total, out=even, where=total > 0.0)
