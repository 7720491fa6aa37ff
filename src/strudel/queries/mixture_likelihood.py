"""The posterior of the components of a mixture."""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._torch import find_device
from strudel._types import FloatArray
from strudel.algebra.evidence import Absorbed
from strudel.circuits.bit_likelihood import (
    mixture_flow_log_likelihood as mixture_flow_log_likelihood,
)
from strudel.circuits.bit_likelihood import rows_responsibilities as rows_responsibilities
from strudel.queries.arguments import given_rows
from strudel.queries.by_block import by_block
from strudel.queries.model import Model, model_of


def _of_all_components(answer: FloatArray, facts: Absorbed) -> FloatArray:
    """Zero for components that what is given excludes."""
    weight = np.zeros((len(answer), len(facts.kept)))
    weight[:, facts.kept] = answer
    return weight


@by_block("given", with_facts=_of_all_components)
def responsibilities(model: Model, given: Any, *, device: Any = "cpu") -> FloatArray:
    """Probability of every component given each row.

    Parameters
    ----------
    model : Mixture or fitted estimator
        Smooth and decomposable. A single circuit is a mixture of one component.
    given : evidence in any form, as in `probability`
        For example rows of 0, 1, or NaN where the value is unknown.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where rows are evaluated, as in `log_likelihood`.

    Returns
    -------
    ndarray of shape (n_rows, n_components)
        Each row adds up to 1.

    Raises
    ------
    ValueError
        If a row has probability zero.

    Examples
    --------
    >>> from strudel import Mixture
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> uniform = np.log(np.where(circuit.edge_log_theta == 0.0, 1.0, 0.5))
    >>> log_theta = np.column_stack([circuit.edge_log_theta, uniform])
    >>> mixture = Mixture(circuit, log_theta, np.log([0.5, 0.5]))
    >>> responsibilities(mixture, [[1, 1, 0, 1], [1, 0, 1, np.nan]]).round(2)
    array([[0.61, 0.39],
           [0.16, 0.84]])
    """
    model = model_of(model)
    rows, _ = given_rows(model, given)
    return rows_responsibilities(model, rows, find_device(device))
