"""Expected outputs of a form, as decisions and explanations need them.

In:  a model, a form, and partly known rows that are possible.
Out: one row of outputs each, also where there is one output only.
"""

from __future__ import annotations

import numpy as np

from strudel._types import FloatArray
from strudel.predictions.expected import expected_prediction
from strudel.predictions.forms import Form
from strudel.queries.model import Model


def expected_outputs(model: Model, form: Form, rows: FloatArray) -> FloatArray:
    """The expectation of what a form adds up, `(n_rows, n_outputs)`.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> from strudel.predictions.forms import LinearForm
    >>> form = LinearForm(np.array([[2.0], [0.0], [0.0], [0.0]]), np.array([1.0]))
    >>> expected_outputs(figure_1_circuit(), form, np.array([[np.nan, 1.0, 1.0, 0.0]])).round(4)
    array([[1.8]])
    """
    return np.asarray(expected_prediction(model, form, rows)).reshape(len(rows), form.n_outputs)
