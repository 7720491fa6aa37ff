"""Answers in the columns of a table, of models over the 0/1 variables of its code.

In:  rows of 0/1 variables, or what is known.
Out: frames of the kind that was encoded; `ColumnMarginals`, the probability of every value.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.queries.columns.known_columns import shares_where_known
from strudel.queries.columns.value_probabilities import (
    codeword_shares,
    linear_shares,
    respects,
)
from strudel.queries.model import Model
from strudel.tables.coded_column import CodedColumn
from strudel.tables.filled_table import has_mean
from strudel.tables.table_code import TableCode, known_numbers, known_values

QUERY = "marginal_probabilities"


def as_table(
    model: Model,
    rows: AnyArray,
    given: Any = None,
    rng: np.random.Generator | None = None,
    *,
    with_missing: bool = False,
) -> Any:
    """Rows `(n_rows, ..., n_vars)` as one frame; as they are if the model has no code.

    What is given stays as it was given; all else is decoded, numbers as the median of their cell,
    or with a generator as a draw from it. Rows `with_missing` values have them as the table had.
    A pandas frame keeps its index, and names of columns that are not text.
    """
    code = model.table_code
    if code is None:
        return rows
    flat = rows.reshape(-1, model.n_vars)
    known = {}
    for name, values in known_values(given, code).items():
        n_answers = len(flat) // len(values)  # to each row that is given
        known[name] = [value for value in values for _ in range(n_answers)]
    table = code.decode(flat, known, rng, with_missing=with_missing)
    if code.container == "pandas" and hasattr(given, "index") and hasattr(given, "columns"):
        table.index = given.index.repeat(len(table) // max(len(given), 1))
        is_named = any(isinstance(name, str) for name in given.columns)
        if not is_named and len(given.columns) == len(table.columns):
            table.columns = given.columns
    return table


class ColumnMarginals(Mapping[str, dict[Any, Any]]):
    """The probability of every value of every column: ``marginals["smoker"]["yes"]``.

    Cells of numbers and dates are keyed by text such as ``"[40, 60)"``, all else by the value
    itself. As an array, it is the probability that each 0/1 variable is 1.

    Attributes
    ----------
    variables : ndarray of shape (n_vars,) or (n_rows, n_vars)
        The probability that each 0/1 variable is 1.

    Examples
    --------
    >>> from strudel import Strudel, marginal_probabilities
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> marginals = marginal_probabilities(model, {"x1": 60})
    >>> round(marginals["x1"][60], 4)
    1.0
    """

    def __init__(
        self, code: TableCode, probabilities: dict[str, FloatArray], variables: FloatArray
    ) -> None:
        self.code, self.variables = code, variables
        self._of = probabilities  # column -> (..., n_values)

    def __getitem__(self, name: str) -> dict[Any, Any]:
        column = self.code.column(name)
        found = np.moveaxis(self._of[name], -1, 0)
        chances = found.tolist() if found.ndim == 1 else list(found)
        return dict(zip(column.keys, chances, strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return np.array(self.variables, dtype=dtype)

    @staticmethod
    def joined(parts: Sequence[ColumnMarginals]) -> ColumnMarginals:
        """Those of several rows, from some of each."""
        first = parts[0]
        of = {name: np.concatenate([part._of[name] for part in parts]) for name in first}
        return ColumnMarginals(first.code, of, np.concatenate([part.variables for part in parts]))

    def to_frame(self) -> Any:
        """A frame of the kind that the model was learned from; pandas if that was an array.

        With one row per column and value; or if several rows are given, one row for each of them
        and one column per value, such as ``smoker=yes``.
        """
        import narwhals as nw

        container: Any = "pandas" if self.code.container == "numpy" else self.code.container
        if self.variables.ndim == 1:
            content: dict[str, Any] = {"column": [], "value": [], "probability": []}
            for column in self.code.columns:
                content["column"] += [column.name] * column.n_values
                content["value"] += column.labels
                content["probability"] += self._of[column.name].tolist()
        else:
            content = {
                f"{column.name}={label}": self._of[column.name][:, place].tolist()
                for column in self.code.columns
                for place, label in enumerate(column.labels)
            }
        return nw.from_dict(content, backend=container).to_native()

    def __repr__(self) -> str:
        if self.variables.ndim > 1:
            return f"ColumnMarginals({len(self)} columns, {len(self.variables)} rows)"
        lines = [f"  {column.name}: {self._line(column)}" for column in self.code.columns]
        return "ColumnMarginals\n" + "\n".join(lines)

    def _line(self, column: CodedColumn) -> str:
        chances = zip(column.labels, self._of[column.name].tolist(), strict=True)
        return "   ".join(f"{label} {chance:.3f}" for label, chance in chances)

    def _repr_html_(self) -> str:
        """A table for notebooks, with a bar for each probability."""
        if self.variables.ndim > 1:
            return f"<pre>{html.escape(repr(self))}</pre>"
        rows = []
        for column in self.code.columns:
            for place, label in enumerate(column.labels):
                chance = float(self._of[column.name][place])
                name = html.escape(column.name) if place == 0 else ""
                style = f"background:#4c78a8;height:0.8em;width:{100 * chance:.1f}px"
                bar = f'<div style="{style}"></div>'
                rows.append(
                    f"<tr><th>{name}</th><td>{html.escape(label)}</td>"
                    f"<td>{chance:.3f}</td><td>{bar}</td></tr>"
                )
        return f"<table>{''.join(rows)}</table>"


def column_marginals(
    model: Model,
    evidence: FloatArray,
    log_given: FloatArray,
    variables: FloatArray,
    given: Any,
    is_single: bool,
) -> ColumnMarginals:
    """The probability of every value, given each row of evidence of positive probability.

    `log_given` are the log-probabilities of the rows, and `variables` the probabilities of the 0/1
    variables. A column of one variable has them; else a value has the probability of its codeword.
    Where a model leaves impossible codes some probability, it is shared among the possible ones in
    proportion.
    """
    code = model.table_code
    assert code is not None
    found: dict[str, FloatArray] = {}
    for column in code.columns:
        if len(column.cell_words) <= 2 and column.stop - column.start == 1:
            one = variables[:, column.start]
            both = [one if word[0] else 1.0 - one for word in column.cell_words]
            found[column.name] = column.of_values(np.column_stack(both))
        elif respects(model, column, QUERY):
            found[column.name] = linear_shares(column, variables[:, column.start : column.stop])
        else:
            found[column.name] = codeword_shares(model, column, evidence, log_given, QUERY)
    found |= shares_where_known(model, code.columns, evidence, QUERY)
    for name, places in known_numbers(given, code).items():
        if code.column(name).is_shared:  # the bits that are given say the cell alone
            known = np.flatnonzero(~np.isnan(places))
            found[name][known] = np.eye(found[name].shape[1])[places[known].astype(np.int64)]
    if is_single:
        return ColumnMarginals(code, {name: p[0] for name, p in found.items()}, variables[0])
    return ColumnMarginals(code, found, variables)


def expected_values(column: CodedColumn, shares: FloatArray) -> list[Any]:
    """The mean of a number or a date, and the most probable value of all else."""
    if has_mean(column):
        means = np.einsum("rv,v->r", shares, _values_to_average(column))  # the same for any rows
        return list(means.tolist())
    return [column.values[place] for place in shares.argmax(axis=1)]


def _values_to_average(column: CodedColumn) -> FloatArray:
    """The mean of every cell of numbers or dates; the values of a column of 0 and 1."""
    return column.cell_means if column.is_numeric else np.array(column.values, dtype=np.float64)
