"""First and second moments: how probable every value of every column is, and every pair of ones.

One walk up and one down give the probability of all cells at once; pairs take one such row per
variable.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from strudel._types import FloatArray
from strudel.errors import CircuitPropertyError
from strudel.queries.by_block import lazily
from strudel.queries.cells import cell_probabilities
from strudel.queries.given import Asked, as_shown, ask, raise_if_impossible, where_known
from strudel.tables.column import Column
from strudel.tables.schema import Columns


class ColumnMarginals(Mapping[str, dict[Any, Any]]):
    """The probability of every value of every column: ``marginals["smoker"]["yes"]``.

    Cells of numbers and dates are keyed by text such as ``"[40, 60)"``, all else by the value
    itself.

    Examples
    --------
    >>> from strudel import Strudel, marginal_probabilities
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> marginals = marginal_probabilities(model, {"x1": 60})
    >>> round(marginals["x1"][60], 4)
    1.0
    """

    def __init__(self, columns: Columns, probabilities: dict[str, FloatArray]) -> None:
        self.columns = columns
        self._of = probabilities  # column -> (..., n_values)
        self._is_single = all(found.ndim == 1 for found in probabilities.values())

    def __getitem__(self, name: str) -> dict[Any, Any]:
        column = self.columns[self.columns.place(name)]
        found = np.moveaxis(self._of[name], -1, 0)
        chances = found.tolist() if found.ndim == 1 else list(found)
        return dict(zip(column.keys, chances, strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def to_frame(self) -> Any:
        """A frame of the kind that the model was learned from; pandas if that was an array.

        With one row per column and value; or if several rows are given, one row for each of them
        and one column per value, such as ``smoker=yes``.
        """
        import narwhals as nw

        container: Any = "pandas" if self.columns.container == "numpy" else self.columns.container
        if self._is_single:
            content: dict[str, Any] = {"column": [], "value": [], "probability": []}
            for column in self.columns:
                content["column"] += [column.name] * column.n_values
                content["value"] += column.labels
                content["probability"] += self._of[column.name].tolist()
        else:
            content = {
                f"{column.name}={label}": self._of[column.name][:, place].tolist()
                for column in self.columns
                for place, label in enumerate(column.labels)
            }
        return nw.from_dict(content, backend=container).to_native()

    def __repr__(self) -> str:
        if not self._is_single:
            n_rows = len(next(iter(self._of.values())))
            return f"ColumnMarginals({len(self)} columns, {n_rows} rows)"
        lines = [f"  {column.name}: {self._line(column)}" for column in self.columns]
        return "ColumnMarginals\n" + "\n".join(lines)

    def _line(self, column: Column) -> str:
        chances = zip(column.labels, self._of[column.name].tolist(), strict=True)
        return "   ".join(f"{label} {chance:.3f}" for label, chance in chances)

    def _repr_html_(self) -> str:
        """A table for notebooks, with a bar for each probability."""
        if not self._is_single:
            return f"<pre>{html.escape(repr(self))}</pre>"
        rows = []
        for column in self.columns:
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


@lazily("given")
def marginal_probabilities(model: Any, given: Any = None) -> Any:
    """Probability that each variable is 1, given what is known.

    Parameters
    ----------
    model : Circuit or fitted estimator
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    ndarray of shape (n_rows, n_vars)
        Without the first axis when `given` is a single row, a dict or nothing. Exactly 0 or 1 for
        what is known. If the model was learned from a table, `ColumnMarginals`: the probability of
        every value of every column.

    Raises
    ------
    ValueError
        If a row of `given` has probability zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> marginal_probabilities(figure_1_circuit(), {"X3": 1}).round(4)
    array([0.4, 0.9, 1. , 0.2])
    """
    asked = as_shown(ask(model, given))
    circuit, evidence = asked.circuit, asked.evidence
    places = range(len(circuit.columns))
    log_p, cells = cell_probabilities(circuit, evidence, places)
    raise_if_impossible(log_p)
    if circuit.columns.are_bits:
        ones = np.column_stack([own[:, 1] for own in cells])
        return ones[0] if asked.is_single else ones
    names = circuit.columns.names
    found = dict(zip(names, cells, strict=True)) | _where_known(asked)
    for column in circuit.columns:
        if column.shown is not column:
            found[column.name] = np.add.reduceat(found[column.name], column.first_of_group, axis=1)
    if asked.is_single:
        found = {name: own[0] for name, own in found.items()}
    return ColumnMarginals(circuit.columns.shown, found)


def _where_known(asked: Asked) -> dict[str, FloatArray]:
    """The same of columns that are missing for a reason, in rows that have a value of them."""
    columns, found = asked.circuit.columns, {}
    for name in columns.missingness.caused:
        known = where_known(asked.circuit, [name])
        evidence = asked.evidence.over(known.columns)
        _, [found[name]] = cell_probabilities(known, evidence, [columns.place(name)])
    return found


@lazily("given")
def pair_probabilities(model: Any, given: Any = None) -> FloatArray:
    """Probability that two variables are both 1, for every pair, given what is known.

    Parameters
    ----------
    model : Circuit or fitted estimator
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    ndarray of shape (n_rows, n_vars, n_vars)
        Symmetric, with the marginal probabilities on the diagonal. Without the first axis when
        `given` is a single row, a dict or nothing.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> pair_probabilities(figure_1_circuit())[2:, 2:].round(4)  # X3 and X4
    array([[0.6 , 0.12],
           [0.12, 0.4 ]])
    """
    asked = ask(model, given)
    columns, evidence = asked.circuit.columns, asked.evidence
    if not columns.are_bits:
        raise CircuitPropertyError(
            "pair_probabilities is about 0/1 variables, but the model is one of a table: see "
            "correlations and mutual_information."
        )
    places = range(len(columns))
    log_p, cells = cell_probabilities(asked.circuit, evidence, places)
    raise_if_impossible(log_p)
    ones = np.column_stack([own[:, 1] for own in cells])
    pairs = np.empty((len(ones), len(columns), len(columns)))
    for place in places:
        with_one = evidence.within({place: ((1.0, 2.0),)})
        _, given_one = cell_probabilities(asked.circuit, with_one, places)
        shares = np.nan_to_num(np.column_stack([own[:, 1] for own in given_one]))
        pairs[:, place] = ones[:, [place]] * shares
    pairs = (pairs + pairs.transpose(0, 2, 1)) / 2.0  # equal up to rounding
    diagonal = np.arange(len(columns))
    pairs[:, diagonal, diagonal] = ones
    return pairs[0] if asked.is_single else pairs


@lazily("given")
def covariance(model: Any, given: Any = None) -> FloatArray:
    """Covariance of every two variables, given what is known.

    Parameters
    ----------
    model : Circuit or fitted estimator
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    ndarray of shape (n_rows, n_vars, n_vars)
        Symmetric; zero where a variable is known. Without the first axis when `given` is a single
        row, a dict or nothing.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> covariance(figure_1_circuit())[2:, 2:].round(4)  # X3 and X4
    array([[ 0.24, -0.12],
           [-0.12,  0.24]])
    """
    pairs = pair_probabilities(model, given)
    ones = np.diagonal(pairs, axis1=-2, axis2=-1)
    return pairs - ones[..., :, np.newaxis] * ones[..., np.newaxis, :]
