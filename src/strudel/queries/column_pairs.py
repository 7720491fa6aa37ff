"""How much every two columns of a table tell about each other, exact and given what is known.

In:  a model of a table; without a table, every 0/1 variable is a column.
Out: `ColumnPairs`.

Whether a column has a value is a sum of its 0/1 variables: one of them under a one-hot code, the
difference of two under a thermometer code. So the probability of every two values together is a
sum of probabilities of two variables together, which take one pass for each variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from strudel._names import names_of
from strudel._types import FloatArray, IntArray
from strudel.data.bits import x_log_x_of
from strudel.queries.columns.value_probabilities import value_sums
from strudel.queries.model import Model, model_of
from strudel.queries.variable_probabilities import pairs_among


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
    found = model_of(model)
    code = found.table_code
    if code is None:
        names = names_of(found.n_vars, found.feature_names)
        codewords = [np.array([[0], [1]])] * found.n_vars
    else:
        names = code.names
        codewords = [column.cell_words for column in code.columns]
    joint, first = values_together(found, given, codewords)
    entropy = -np.add.reduceat(x_log_x_of(joint.diagonal()), first)
    together = np.add.reduceat(np.add.reduceat(x_log_x_of(joint), first, axis=0), first, axis=1)
    information = entropy[:, np.newaxis] + entropy + together
    information[information < 1e-12] = 0.0  # what rounding leaves of nothing
    np.fill_diagonal(information, 0.0)
    return ColumnPairs(tuple(map(str, names)), information, entropy)


def values_together(
    model: Model, given: Any, codewords: list[Any], is_asked: Sequence[bool] | None = None
) -> tuple[FloatArray, IntArray]:
    """The probability of every two values together, and the number of each column's first value.

    If only some columns are asked for, the values of others have any numbers.
    """
    n_vars, asked = model.n_vars, None
    if is_asked is not None:
        asked = np.repeat(is_asked, [words.shape[1] for words in codewords])
    moments = np.ones((n_vars + 1, n_vars + 1))  # of all variables, and of a last one that is 1
    moments[:n_vars, :n_vars] = pairs_among(model, given, asked)
    moments[n_vars, :n_vars] = moments[:n_vars, n_vars] = moments.diagonal()[:n_vars]
    first = np.cumsum([0, *(len(words) for words in codewords)], dtype=np.int32)
    values = np.zeros((first[-1], n_vars + 1))  # how to sum variables for each value
    start = 0
    for at, words in zip(first, codewords, strict=False):
        stop = start + words.shape[1]
        sums = value_sums(words)
        values[at : at + len(words), start:stop] = sums[:, :-1]
        values[at : at + len(words), n_vars] = sums[:, -1]
        start = stop
    # Rounding leaves -1e-17 of what is impossible.
    return np.maximum(values @ moments @ values.T, 0.0), first[:-1]
