"""Rows with unknown values at the edge: codes, rows and columns of which nothing is known.

In:  checked tables of 0, 1 and NaN, split into training and validation rows.
Out: `Incomplete`: the rows as structural EM takes them, and a first completion of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strudel._names import names_of
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.errors import NothingKnownWarning
from strudel.learning.incomplete.first_model import first_tree
from strudel.learning.incomplete.incomplete_rows import IncompleteRows
from strudel.queries.passes import UNKNOWN, encode
from strudel.tables.column_codes import ColumnCode

SHOWN = 8  # columns that a warning names


def as_codes(
    table: ByteArray | FloatArray, names: tuple[str, ...] | None
) -> tuple[ByteArray, tuple[str, ...] | None]:
    """A table as codes 0, 1 and UNKNOWN; a complete one as it is."""
    codes: ByteArray = table if table.dtype == np.uint8 else encode(table)  # type: ignore[assignment,arg-type]
    return codes, names


def has_unknown(*tables: ByteArray | None) -> bool:
    """Whether any value is unknown."""
    return any(table is not None and bool(np.any(table == UNKNOWN)) for table in tables)


@dataclass(eq=False)
class Incomplete:
    """Rows that know something, of columns of which something is known."""

    rows: IncompleteRows
    of_all_columns: IncompleteRows  # the same rows, with columns of which nothing is known
    is_known: AnyArray  # (n_vars,) columns that the rows still have
    tree: Circuit | None = None  # the model that completed them first

    @classmethod
    def of(
        cls,
        train: ByteArray,
        weight: FloatArray | None,
        valid: ByteArray | None,
        valid_weight: FloatArray | None,
        names: Sequence[str] | None,
        can_drop: bool,
    ) -> Incomplete:
        """Leave out rows and, if `can_drop`, columns of which nothing is known, and say so."""
        train, weight = _rows_that_count(train, weight, "Training")
        if valid is not None:
            valid, valid_weight = _rows_that_count(valid, valid_weight, "Validation")
        if len(train) == 0:
            raise ValueError(
                "Learning needs at least one known value, but every value of the training rows is "
                "NaN."
            )
        if valid is not None and len(valid) == 0:  # there are no other rows to check against
            valid, valid_weight = train, weight
        is_known = np.any(train != UNKNOWN, axis=0)
        if not is_known.all():
            _warn_of_columns(np.flatnonzero(~is_known), names_of(train.shape[1], names))
        if not can_drop:
            is_known = np.ones_like(is_known)
        rows = IncompleteRows(train, weight, valid, valid_weight)
        return cls(rows if is_known.all() else rows.columns(is_known), rows, is_known)

    def completed(
        self,
        start: Circuit | None,
        rng: np.random.Generator,
        columns: Sequence[ColumnCode] | None = None,
    ) -> tuple[BitMatrix, BitMatrix | None]:
        """A first completion, by the circuit to continue from or by a tree."""
        if start is None:
            self.tree = first_tree(self.rows, columns=columns)
        model = start or self.tree
        assert model is not None
        return self.rows.completed(model, 1, rng)


def _rows_that_count(
    table: ByteArray, weight: FloatArray | None, name: str
) -> tuple[ByteArray, FloatArray | None]:
    """The rows of positive weight that know something."""
    counts = np.ones(len(table), dtype=np.bool_) if weight is None else weight > 0.0
    knows = np.any(table != UNKNOWN, axis=1)
    n_left_out = int(np.count_nonzero(counts & ~knows))
    if n_left_out:
        warnings.warn(
            f"{name} rows without a known value tell nothing and are left out: {n_left_out} of "
            f"{len(table)}.",
            NothingKnownWarning,
            stacklevel=6,
        )
    kept = counts & knows
    return table[kept], None if weight is None else weight[kept]


def _warn_of_columns(columns: AnyArray, names: Sequence[str]) -> None:
    shown = ", ".join(repr(names[column]) for column in columns[:SHOWN])
    shown += ", ..." if len(columns) > SHOWN else ""
    words = "column" if len(columns) == 1 else "columns"
    warnings.warn(
        f"The training rows tell nothing of {words} {shown}: the model makes a fair coin of each, "
        "independent of all others.",
        NothingKnownWarning,
        stacklevel=6,
    )
