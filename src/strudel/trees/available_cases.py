"""Pairwise counts where values are unknown: every pair of columns on the rows that know both.

In:  rows of 0, 1 and NaN.
Out: `AvailableCases`: three tables of counts, and from them mutual information and the tables of a
     tree.

Dropping all rows with an unknown value would leave hardly any row of a wide table; a pair of
columns loses only the rows that do not know one of the two. Each pair has its own number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.data.bits import pack_columns
from strudel.data.counts import pair_counts
from strudel.data.x_log_x import x_log_x_of


@dataclass(frozen=True, eq=False)
class AvailableCases:
    """Weights of rows, for every pair of variables; the diagonal is about single variables."""

    known: CountArray  # (n_vars, n_vars) both are known
    one: CountArray  # (n_vars, n_vars) the first is 1, and the second is known
    both: CountArray  # (n_vars, n_vars) both are 1

    def mutual_information(self, alpha: float = 1.0) -> FloatArray:
        """Smoothed mutual information of all pairs, `alpha` virtual rows in each of four cells."""
        one, other = self.one, self.one.T
        cells = (
            self.both,
            one - self.both,
            other - self.both,
            self.known - one - other + self.both,
        )
        scale = self.known + 4.0 * alpha
        pair = sum(x_log_x_of(cell + alpha) for cell in cells)
        single = x_log_x_of(one + 2.0 * alpha) + x_log_x_of(self.known - one + 2.0 * alpha)
        # H(i) + H(j) - H(i, j), with the common log of the scale taken out.
        has_rows = scale > 0.0
        rest = np.divide(pair - (single + single.T), scale, out=np.zeros_like(one), where=has_rows)
        information: FloatArray = rest + np.log(np.where(has_rows, scale, 1.0))
        np.fill_diagonal(information, 0.0)
        return information

    def conditional_tables(self, parent: IntArray, alpha: float) -> FloatArray:
        """P(X = 1 | parent), smoothed like the mutual information; 1/2 where nothing is known."""
        var = np.arange(len(parent))
        is_root = parent == NONE
        up = np.where(is_root, var, parent)
        one, one_up = self.one[var, up], self.one[up, var]
        both, known = self.both[var, up], self.known[var, up]
        joint = np.stack([one - both, both], axis=1) + alpha
        margin = np.stack([known - one_up, one_up], axis=1) + 2 * alpha
        joint[is_root] = (one + 2 * alpha)[is_root, None]
        margin[is_root] = (known + 4 * alpha)[is_root, None]
        theta = np.full(joint.shape, 0.5)
        np.divide(joint, margin, out=theta, where=margin > 0)
        return theta


def complete_cases(counts: CountArray, total: float) -> AvailableCases:
    """The cases of rows that know everything, from their pair counts and their weight."""
    one = np.broadcast_to(np.diagonal(counts)[:, np.newaxis], counts.shape)
    return AvailableCases(np.broadcast_to(total, counts.shape), one, counts)


def available_cases(X: FloatArray, sample_weight: FloatArray | None = None) -> AvailableCases:
    """Count every pair of columns on the rows that know both."""
    # Ones and known cells side by side: their pair counts hold all three tables.
    is_known = ~np.isnan(X)
    counts = pair_counts(pack_columns(np.hstack([X == 1.0, is_known]), sample_weight))
    n = X.shape[1]
    return AvailableCases(counts[n:, n:], counts[:n, n:], counts[:n, :n])
