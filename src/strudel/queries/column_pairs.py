"""What every two columns of a table have to do with each other, exact and given what is known.

In:  a model of a table; without a table, every 0/1 variable is a column.
Out: `Correlations`; `ColumnPairs`, how much every two columns tell about each other.

Both are sums over the probabilities of every two cells together: one question for every cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from strudel._display import plotting
from strudel._types import FloatArray, IntArray
from strudel.data.bits import x_log_x_of
from strudel.queries.cells import cell_probabilities, log_probabilities
from strudel.queries.given import (
    Asked,
    as_shown,
    ask,
    each_as_shown,
    pandas_frame,
    raise_if_impossible,
)
from strudel.tables.column import Column


class Correlations(NamedTuple):
    """The correlation of every two columns that have an order."""

    names: tuple[str, ...]
    values: FloatArray  # (n_columns, n_columns) NaN for a column that is certain

    def to_frame(self) -> Any:
        """A pandas frame with the names of the columns."""
        content = {"": list(self.names)} | dict(zip(self.names, self.values.T, strict=True))
        return pandas_frame(content).set_index("").rename_axis(None)

    def plot(self, ax: Any = None) -> Any:
        """Draw them: blue if positive, orange if negative.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; pyplot's current axes by default.
        """
        return plotting("heat_maps").plot_correlations(self, ax)


def correlations(model: Any, given: Any = None) -> Correlations:
    """How strongly numbers rise and fall together: Pearson's correlation of every two columns.

    Parameters
    ----------
    model : Circuit or fitted estimator
    given : evidence in any form, as in `probability`, of one row, optional
        Nothing is known by default.

    Returns
    -------
    Correlations
        `names` and `values`, `to_frame()` and `plot()`. Numbers and dates count with their
        densities, ordinals with their places 0, 1, 2, ..., columns of two values with 0 and 1.
        Categories of more values have no order and are left out: see `mutual_information`.

    Examples
    --------
    >>> from strudel import Strudel
    >>> from strudel.queries import correlations
    >>> rows = [[20, "no"], [30, "no"], [60, "yes"], [70, "yes"]] * 25
    >>> model = Strudel(n_components=1, max_splits=0, random_state=0).fit(rows)
    >>> correlations(model).values.round(1)
    array([[1. , 0.9],
           [0.9, 1. ]])
    """
    asked = as_shown(ask(model, given))
    columns = asked.circuit.columns
    own = [asked.evidence.column(place) for place in range(len(columns))]
    moments = {p: m for p, column in enumerate(own) if (m := _moments(column)) is not None}
    kept = list(moments)
    joint, first = cells_together(asked, kept)
    chance = joint.diagonal()
    mean = np.concatenate([np.zeros(0), *(moments[place][0] for place in kept)])
    variance = np.concatenate([np.zeros(0), *(moments[place][1] for place in kept)])
    for at, stop in pairwise([*first.tolist(), len(mean)]):
        # About the mean of the column, so that no large numbers are subtracted.
        mean[at:stop] -= chance[at:stop] @ mean[at:stop]
    together = mean[:, np.newaxis] * joint * mean
    covariance = np.add.reduceat(np.add.reduceat(together, first, axis=0), first, axis=1)
    covariance[np.diag_indices(len(kept))] = np.add.reduceat(chance * (variance + mean**2), first)
    deviation = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    deviation[deviation == 0.0] = np.nan
    values = np.clip(covariance / np.outer(deviation, deviation), -1.0, 1.0)
    return Correlations(tuple(columns[c].name for c in kept), values)


def _moments(column: Column) -> tuple[FloatArray, FloatArray] | None:
    """The mean and the variance of a column given each of its values or cells."""
    if column.is_numeric:
        mean, variance = column.cells.moments()
        return np.nan_to_num(mean), np.nan_to_num(variance)
    if column.kind == "ordinal" or column.n_values == 2:
        return np.arange(column.n_values, dtype=np.float64), np.zeros(column.n_values)
    return None


# Every two columns


class ColumnPairs(NamedTuple):
    """What every two columns tell about each other."""

    names: tuple[str, ...]
    information: FloatArray  # (n_columns, n_columns) in nats, 0 on the diagonal
    entropy: FloatArray  # (n_columns,) in nats, 0 for what is known

    @property
    def share(self) -> FloatArray:
        """The information over the smaller entropy: 0 tells nothing, 1 tells the value."""
        smaller = np.minimum.outer(self.entropy, self.entropy)
        share = np.zeros_like(self.information)
        np.divide(self.information, smaller, out=share, where=smaller > 1e-12)
        return np.minimum(share, 1.0)


def column_pairs(model: Any, given: Any = None) -> ColumnPairs:
    """The mutual information of every two columns, given one row of what is known.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> column_pairs(figure_1_circuit()).information[2:].round(4)  # of X3 and X4 with the others
    array([[0.0442, 0.1007, 0.    , 0.1284],
           [0.0109, 0.0246, 0.1284, 0.    ]])
    """
    [(_, asked)] = each_as_shown(ask(model, given).one_row())
    names = asked.circuit.columns.names
    joint, first = cells_together(asked, list(range(len(names))))
    entropy = -np.add.reduceat(x_log_x_of(joint.diagonal()), first)
    together = np.add.reduceat(np.add.reduceat(x_log_x_of(joint), first, axis=0), first, axis=1)
    information = entropy[:, np.newaxis] + entropy + together
    information[information < 1e-12] = 0.0  # what rounding leaves of nothing
    np.fill_diagonal(information, 0.0)
    return ColumnPairs(tuple(map(str, names)), information, entropy)


def cells_together(asked: Asked, places: Sequence[int]) -> tuple[FloatArray, IntArray]:
    """How probable every two cells of some columns are together, given one row.

    Also the number of the first cell of each column. One question for every cell.
    """
    circuit, evidence = asked.circuit, asked.one_row().evidence
    raise_if_impossible(log_probabilities(circuit, evidence))
    widths = [circuit.columns[place].n_cells for place in places]
    first = np.cumsum([0, *widths], dtype=np.int32)
    joint = np.zeros((int(first[-1]), int(first[-1])))
    _, chances = cell_probabilities(circuit, evidence, places)
    for at, place, chance in zip(first, places, chances, strict=False):
        cells = np.flatnonzero(chance[0] > 0.0)
        states = evidence.with_states({place: cells}, len(cells))
        _, found = cell_probabilities(circuit, states, places)
        joint[at + cells] = chance[0, cells, np.newaxis] * np.hstack(found)
    joint = (joint + joint.T) / 2.0  # equal up to rounding
    return np.nan_to_num(joint), first[:-1]
