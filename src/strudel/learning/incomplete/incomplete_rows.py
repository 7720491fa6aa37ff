"""The rows to learn from when some values are unknown, and what they become when completed.

In:  training and validation rows as codes 0, 1 and UNKNOWN, with weights or without.
Out: `IncompleteRows`: merged for passes, completed by a model for everything that needs all values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from strudel._types import ByteArray, FloatArray
from strudel.data.bits import BitMatrix, exact_weights, pack_columns
from strudel.learning.incomplete.completions import complete_rows
from strudel.learning.incomplete.partial_rows import PartialRows, merge_codes
from strudel.queries.model import Model
from strudel.queries.passes import UNKNOWN

ENOUGH_ROWS = 2**16  # completed rows to aim for: with more of each, chance tells the search less
MOST_COPIES = 16


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """Rows in their order, all of which count and know something."""

    train: ByteArray  # (n_rows, n_vars) codes
    train_weight: FloatArray | None
    valid: ByteArray | None
    valid_weight: FloatArray | None

    @cached_property
    def train_rows(self) -> PartialRows:
        """Training rows, equal ones merged."""
        return merge_codes(self.train, self.train_weight)

    @cached_property
    def valid_rows(self) -> PartialRows | None:
        """Validation rows, equal ones merged."""
        return None if self.valid is None else merge_codes(self.valid, self.valid_weight)

    @property
    def n_copies(self) -> int:
        """Completions of every row that make enough rows together: a power of two."""
        wanted = max(ENOUGH_ROWS // max(len(self.train), 1), 1)
        return min(2 ** (wanted.bit_length() - 1), MOST_COPIES)

    def completed(
        self, model: Model, n: int, rng: np.random.Generator
    ) -> tuple[BitMatrix, BitMatrix | None]:
        """`n` completions of every training and validation row, each of 1/n of the row's weight."""
        train = _complete(model, self.train, self.train_weight, n, rng)
        if self.valid is None:
            return train, None
        return train, _complete(model, self.valid, self.valid_weight, n, rng)

    def columns(self, is_kept: FloatArray) -> IncompleteRows:
        """The same rows with fewer columns."""
        valid = None if self.valid is None else np.ascontiguousarray(self.valid[:, is_kept])
        train = np.ascontiguousarray(self.train[:, is_kept])
        return IncompleteRows(train, self.train_weight, valid, self.valid_weight)


def _complete(
    model: Model, codes: ByteArray, weight: FloatArray | None, n: int, rng: np.random.Generator
) -> BitMatrix:
    if not np.any(codes == UNKNOWN):
        return pack_columns(codes, weight)
    rows = complete_rows(model, codes, n, rng).reshape(-1, codes.shape[1])
    if n == 1:
        return pack_columns(rows, weight)
    each = np.ones(len(codes)) if weight is None else exact_weights(weight)
    return pack_columns(rows, np.repeat(each / n, n))
