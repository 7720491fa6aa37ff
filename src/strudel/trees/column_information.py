"""Mutual information of every pair of columns, each of any number of values.

In:  the number of every column's value in every row, and the weights of the rows.
Out: float64 `(n_columns, n_columns)` in nats, zero on the diagonal.

Smoothing adds `4 alpha` virtual rows to every pair of columns, evenly spread over its cells, so
that pairs always sum to their margins. For two columns of two values that is `alpha` per cell, as
in `mutual_information`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from strudel._numba import kernel, run_blocks
from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.data.bits import BitMatrix
from strudel.data.column_codes import ColumnCode
from strudel.data.counts import pair_counts
from strudel.trees.mutual_information import pairwise_mutual_information


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

    Examples
    --------
    >>> columns = [ColumnCode(0, [[0, 0], [1, 0], [1, 1]]), ColumnCode(2, [[0], [1]])]
    >>> values = np.array([[0, 1, 2] * 100, [0, 1, 1] * 100], dtype=np.int32)
    >>> column_information(columns, values, np.ones(300)).round(3)
    array([[0.   , 0.598],
           [0.598, 0.   ]])
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
    one, other = np.empty(k), np.empty(n_values.max())
    for j in range(i + 1, len(values)):
        if is_done[i] and is_done[j]:
            continue
        m = n_values[j]
        cells[:, :m] = 4.0 * alpha / (k * m)
        for s in range(len(weight)):
            if values[i, s] != NONE and values[j, s] != NONE:
                cells[values[i, s], values[j, s]] += weight[s]
        one[:] = 0.0
        other[:m] = 0.0
        pair = 0.0
        for x in range(k):
            for y in range(m):
                one[x] += cells[x, y]
                other[y] += cells[x, y]
                pair += _xlogx(cells[x, y])
        for x in range(k):
            pair -= _xlogx(one[x])
        for y in range(m):
            pair -= _xlogx(other[y])
        scale = one.sum()
        if scale > 0.0:
            # H(i) + H(j) - H(i, j), with the common log of the scale taken out.
            information[i, j] = information[j, i] = pair / scale + np.log(scale)


@kernel
def _xlogx(x: float) -> float:
    """x ln x, continued by 0 at 0."""
    return x * np.log(x) if x > 0.0 else 0.0


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
    count = np.bincount(cell, weight[is_known], minlength=n_cells) + 4.0 * alpha / n_cells
    table = count.reshape(n_parent_values, n_values)
    total = table.sum(axis=1, keepdims=True)
    even = np.full_like(table, 1.0 / n_values)
    return np.divide(table, total, out=even, where=total > 0.0)
