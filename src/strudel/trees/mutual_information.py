"""Mutual information of every pair of variables, from counts.

In:  pair counts and the total weight.
Out: float64 `(n_vars, n_vars)` in nats, zero on the diagonal.

Smoothing adds `alpha` to each of the four cells of a pair, hence `2 alpha` to the two cells of a
single variable, so that pairs always sum to their margins.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import CountArray, FloatArray
from strudel.data.x_log_x import x_log_x


def pairwise_mutual_information(counts: CountArray, total: float, alpha: float = 1.0) -> FloatArray:
    """Smoothed mutual information of all pairs."""
    information = np.zeros_like(counts)
    _pairwise_mutual_information(counts, float(total), float(alpha), information)
    return information


@kernel
def _pairwise_mutual_information(
    counts: CountArray, total: float, alpha: float, information: FloatArray
) -> None:
    """Fill the symmetric `information` (n_vars, n_vars)."""
    n_vars = len(counts)
    scale = total + 4.0 * alpha
    if scale <= 0.0:
        return
    single = np.empty(n_vars)
    for v in range(n_vars):
        one = counts[v, v]
        single[v] = x_log_x(one + 2.0 * alpha) + x_log_x(total - one + 2.0 * alpha)
    for i in range(n_vars):
        for j in range(i + 1, n_vars):
            both = counts[i, j]
            # Paired so that exchanging the two variables, or 0 and 1 in one of them, adds the
            # same numbers in the same order: what ties on paper then ties to the last bit.
            pair = (
                x_log_x(both + alpha) + x_log_x(total - counts[i, i] - counts[j, j] + both + alpha)
            ) + (x_log_x(counts[i, i] - both + alpha) + x_log_x(counts[j, j] - both + alpha))
            # H(i) + H(j) - H(i, j), with the common log of the scale taken out.
            value = (pair - (single[i] + single[j])) / scale + np.log(scale)
            information[i, j] = value
            information[j, i] = value
