"""Rows of which some values are unknown, each with a weight.

In:  a table of 0, 1 and NaN.
Out: `PartialRows`: codes 0, 1 and UNKNOWN, equal rows merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import ByteArray, FloatArray
from strudel.data.bits import BitMatrix, exact_weights
from strudel.data.validation import check_evidence, check_sample_weight
from strudel.queries.passes import decode, distinct_rows, encode

if TYPE_CHECKING:
    from strudel.circuits.mixture import Mixture
    from strudel.learning.incomplete.expected_flows import ExpectedFlows, Passes


@dataclass(frozen=True, eq=False)
class PartialRows:
    """Distinct rows that count, in the order of their codes."""

    codes: ByteArray  # (n_rows, n_vars) 0, 1 or UNKNOWN
    weight: FloatArray  # (n_rows,) exact, so that sums do not depend on their order

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return len(self.codes)

    @property
    def n_vars(self) -> int:
        """Number of columns."""
        return self.codes.shape[1]

    @cached_property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return float(self.weight.sum())

    @property
    def evidence(self) -> FloatArray:
        """The rows as 0, 1 and NaN."""
        return decode(self.codes)

    def expect(self, passes: Passes, mixture: Mixture, n_groups: int = 1) -> ExpectedFlows:
        """Expected flows of all rows; rows in partitions know their own way."""
        return passes.expect(self, mixture, n_groups)

    def mean_log_probability(self, passes: Passes, mixture: Mixture) -> float:
        """Mean log-likelihood of what is known of the rows."""
        return float(self.weight @ passes.log_probabilities(self, mixture) / self.total_weight)


def partial_rows(
    X: PartialRows | BitMatrix | ArrayLike,
    sample_weight: ArrayLike | None = None,
    n_vars: int | None = None,
) -> PartialRows:
    """Check rows and merge equal ones; those of weight zero are left out."""
    if isinstance(X, PartialRows):
        return X
    if isinstance(X, BitMatrix):
        return merge_codes(X.unpack(), X.row_weight)
    codes = encode(check_evidence(X, n_vars=n_vars))
    weight = None if sample_weight is None else check_sample_weight(sample_weight, len(codes))
    return merge_codes(codes, weight)


def merge_codes(codes: ByteArray, weight: FloatArray | None) -> PartialRows:
    """Merge equal rows of codes; those of weight zero are left out."""
    weight = np.ones(len(codes)) if weight is None else exact_weights(weight)
    distinct, place = distinct_rows(codes[weight > 0.0])
    merged = np.bincount(place, weights=weight[weight > 0.0], minlength=len(distinct))
    return PartialRows(distinct, merged.astype(np.float64, copy=False))
