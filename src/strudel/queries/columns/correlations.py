"""Correlations of the columns of a table, exact under the model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strudel._display import plotting
from strudel._types import FloatArray
from strudel.algebra.evidence import takes_evidence
from strudel.queries.column_pairs import values_together
from strudel.queries.columns.joint_table import code_of_model, pandas_frame
from strudel.queries.model import Model, model_of
from strudel.tables.coded_column import CodedColumn


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


@takes_evidence("given")
def correlations(model: Model, given: Any = None) -> Correlations:
    """How strongly numbers rise and fall together: Pearson's correlation of every two columns.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
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
    found = model_of(model)
    columns = code_of_model(found).columns
    moments = [_moments(column) for column in columns]
    words, is_asked = [column.cell_words for column in columns], [m is not None for m in moments]
    joint, first = values_together(found, given, words, is_asked)
    chance = joint.diagonal()
    mean, variance = np.zeros(len(chance)), np.zeros(len(chance))
    kept = []
    for c, (column, at) in enumerate(zip(columns, first.tolist(), strict=True)):
        own_moments = moments[c]
        if own_moments is not None:
            kept.append(c)
            own = slice(at, at + column.n_values)
            mean[own], variance[own] = own_moments
            # About the mean of the column, so that no large numbers are subtracted.
            mean[own] -= chance[own] @ mean[own]
    together = mean[:, np.newaxis] * joint * mean
    covariance = np.add.reduceat(np.add.reduceat(together, first, axis=0), first, axis=1)
    covariance[np.diag_indices(len(columns))] = np.add.reduceat(
        chance * (variance + mean**2), first
    )
    covariance = covariance[np.ix_(kept, kept)]
    deviation = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    deviation[deviation == 0.0] = np.nan
    values = np.clip(covariance / np.outer(deviation, deviation), -1.0, 1.0)
    return Correlations(tuple(columns[c].name for c in kept), values)


def _moments(column: CodedColumn) -> tuple[FloatArray, FloatArray] | None:
    """The mean and the variance of a column given each of its values or cells."""
    if column.is_numeric:
        if column.density is None:
            return column.cell_means, np.zeros(column.n_values)
        mean, variance = column.cells.moments()
        return np.nan_to_num(mean), np.nan_to_num(variance)
    if column.kind == "ordinal" or column.n_values == 2:
        return np.arange(column.n_values, dtype=np.float64), np.zeros(column.n_values)
    return None
