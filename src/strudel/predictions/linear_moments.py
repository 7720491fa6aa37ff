"""Moments of linear models, on any vtree.

In:  a circuit or mixture, a `LinearForm`, rows.
Out: log-probabilities of the rows, and `Moments` of the prediction given each.

The mean of a sum is the sum of the means, so the probability of every variable is enough. For
higher moments a linear model is a predictor circuit without a choice: one node at every vtree node.
"""

from __future__ import annotations

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.compile import compile_factorized
from strudel.circuits.predictor import PredictorCircuit
from strudel.predictions.circuit_moments import circuit_moments
from strudel.predictions.moments import Moments
from strudel.predictions.predictor_forms import LinearForm
from strudel.queries.model import Model
from strudel.queries.probabilities import literal_probabilities


def linear_moments(
    model: Model, form: LinearForm, codes: AnyArray, order: int, query: str
) -> tuple[FloatArray, Moments]:
    """Log-probability of every row of codes, and the moments given it; NaN where impossible."""
    if order == 1:
        log_p, ones = literal_probabilities(model, codes, query)
        nothing = np.empty((len(codes), 0, form.n_outputs))
        # Not a matrix product, whose last digits depend on how many rows there are.
        return log_p, Moments(np.einsum("rv,vo->ro", ones, form.weight) + form.bias, nothing)
    structure = compile_factorized(model.vtree)
    weight = np.zeros((2 * form.n_vars, form.n_outputs))
    weight[1::2] = form.weight
    nothing = np.zeros((structure.n_edges, form.n_outputs))
    predictor = PredictorCircuit(structure, weight, nothing, form.bias, "regression")
    return circuit_moments(model, predictor, codes, order, query)
