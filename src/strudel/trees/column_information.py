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
from scipy.special import xlogy

from strudel._numba import kernel, run_blocks
from strudel._types import CountArray, FloatArray, IntArray
from strudel.data.bits import BitMatrix
from strudel.data.column_codes import ColumnCode
from strudel.data.counts import pair_counts
from strudel.trees.mutual_information import pairwise_mutual_information


def column_information(
    bits: BitMatrix, columns: Sequence[ColumnCode], values: IntArray, alpha: float = 1.0
) -> FloatArray:
    """Smoothed mutual information of all pairs of columns.

    Examples
    --------
    >>> from strudel.data.bits import pack_columns
    >>> from strudel.data.column_codes import column_values
    >>> columns = [ColumnCode(0, [[0, 0], [1, 0], [1, 1]]), ColumnCode(2, [[0], [1]])]
    >>> bits = pack_columns([[0, 0, 0], [1, 0, 1], [1, 1, 1]] * 100)
    >>> column_information(bits, columns, column_values(bits, columns)).round(3)
    array([[0.   , 0.598],
           [0.598, 0.   ]])
    """
    n_values = np.array([column.n_values for column in columns], dtype=np.int32)
    is_bit = np.array([column.is_bit for column in columns], dtype=np.bool_)
    information = np.zeros((len(columns), len(columns)))
    # Among single variables the packed words are counted, 64 rows at a time.
    single = np.flatnonzero(is_bit).tolist()
    if single:
        words = bits.words[[columns[c].start for c in single]]
        counts = pair_counts(BitMatrix(words, bits.n_rows, bits.row_weight))
        information[np.ix_(single, single)] = pairwise_mutual_information(
            counts, bits.total_weight, alpha
        )
    if not is_bit.all():
        weight, scale = bits.weights, bits.total_weight + 4.0 * alpha
        margins = np.zeros(len(columns))
        for c, k in enumerate(n_values.tolist()):
            margin = np.bincount(values[c], weights=weight, minlength=k) + 4.0 * alpha / k
            margins[c] = xlogy(margin, margin).sum()
        run_blocks(
            lambda part: _information_of_column(
                values,
                n_values,
                is_bit,
                weight,
                margins,
                part.start,
                float(alpha),
                scale,
                information,
            ),
            len(columns),
            1,
        )
    return information


@kernel
def _information_of_column(
    values: IntArray,
    n_values: IntArray,
    is_bit: NDArray[np.bool_],
    weight: FloatArray,
    margins: FloatArray,
    i: int,
    alpha: float,
    scale: float,
    information: FloatArray,
) -> None:
    """Fill line and column i of `information` from i on, except for pairs of single variables."""
    if scale <= 0.0:
        return
    cells = np.empty(n_values[i] * n_values.max())
    for j in range(i + 1, len(values)):
        if is_bit[i] and is_bit[j]:
            continue
        k = n_values[j]
        n_cells = n_values[i] * k
        cells[:n_cells] = 4.0 * alpha / n_cells
        for s in range(len(weight)):
            cells[values[i, s] * k + values[j, s]] += weight[s]
        pair = 0.0
        for c in range(n_cells):
            if cells[c] > 0.0:
                pair += cells[c] * np.log(cells[c])
        # H(i) + H(j) - H(i, j), with the common log of the scale taken out.
        value = (pair - (margins[i] + margins[j])) / scale + np.log(scale)
        information[i, j] = value
        information[j, i] = value


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
    cell = values.astype(np.int64)
    if parent_values is not None:
        cell += parent_values.astype(np.int64) * n_values
    n_cells = n_parent_values * n_values
    count = np.bincount(cell, weights=weight, minlength=n_cells) + 4.0 * alpha / n_cells
    table = count.reshape(n_parent_values, n_values)
    total = table.sum(axis=1, keepdims=True)
    even = np.full_like(table, 1.0 / n_values)
    return np.divide(table, total, out=even, where=total > 0.0)
