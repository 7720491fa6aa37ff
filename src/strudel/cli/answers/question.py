"""A question to a model, as `strudel query` understood it, and tables of lines.

In:  what was typed, checked against the model.
Out: `Question`; lines on the screen, as many as were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from strudel.cli.column_words import in_words
from strudel.cli.console import note, show_table
from strudel.cli.evidence import variable_names

if TYPE_CHECKING:
    from strudel._types import AnyArray, FloatArray
    from strudel.queries.model import Model
    from strudel.tables.table_code import TableCode

Answer: TypeAlias = dict[str, Any]
Line: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Question:
    """What was asked, checked against the model."""

    model: Model  # over 0/1 variables, given parts of cells of a table
    before: Model  # over the same variables, given nothing
    kept: AnyArray | None  # (n_components,) which components of `before` are left in `model`
    log_parts: float  # log-probability of what is given beside `rows`
    words: Mapping[str, str]  # what `rows` does not say, by column
    code: TableCode | None  # how the columns of a table became those variables, if they did
    rows: FloatArray  # (n_rows, n_vars) what is given
    has_evidence: bool
    k: int
    max_seconds: float | None
    event: Any
    of: Any
    variables: list[str] | None
    asked_columns: list[str] | None  # of a table, before they became variables
    a: list[str] | None
    b: list[str] | None
    a_columns: list[str] | None  # the same, before they became variables
    b_columns: list[str] | None
    beyond: list[str] | None  # columns
    at: list[str] | None  # shares of quantiles, or values, as they were typed
    groups: Sequence[Any]  # dicts of what is known of each, and how that was typed
    table: Any  # rows to look at, as people have them

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all variables."""
        return variable_names(self.model)

    @property
    def columns(self) -> list[int]:
        """The numbers of the variables in question, all by default."""
        names = self.names
        return [names.index(name) for name in self.variables or names]

    def given(self, row: int) -> dict[str, Any]:
        """What is given in one row."""
        if self.code is not None:
            return dict(in_words(self.code, self.rows[row])) | dict(self.words)
        return self.known_of(row) | dict(self.words)

    def state(self, row: AnyArray) -> dict[str, Any]:
        """All values of a row, by variable or column."""
        if self.code is not None:
            return dict(in_words(self.code, row))
        return self.by_name(range(self.model.n_vars), row)

    def known_of(self, row: int) -> dict[str, Any]:
        """What is given in one row, by variable."""
        known = np.flatnonzero(~np.isnan(self.rows[row]))
        return self.by_name(known.tolist(), self.rows[row, known].astype(int))

    def by_name(self, columns: Iterable[int], values: Any) -> dict[str, Any]:
        """Values as a dict."""
        names = self.names
        return {names[i]: value for i, value in zip(columns, values.tolist(), strict=True)}


def show_lines(
    columns: tuple[str, ...],
    lines: list[Line],
    n_lines: float,
    order: Callable[[Line], float],
    is_sorted: bool = False,
) -> None:
    """All lines as they come if they are few, else the first by `order`."""
    shown = lines
    if len(lines) > n_lines:
        shown = sorted(lines, key=order)[: int(n_lines)]
    show_table(columns, sorted(shown) if is_sorted else shown)
    if len(shown) < len(lines):
        note(f"note: {len(shown)} of {len(lines):,} lines shown; --all or --json gives all")
