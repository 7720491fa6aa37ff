"""Predict from incomplete rows after filling them in.

In:  a `RegressionSet`, which bits of its test rows are unknown, and a regression circuit.
Out: predictions, with medians, means, chained equations (MICE) or the most probable completion in
     the place of what is unknown.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.predictor import PredictorCircuit
from strudel.queries.maximum.most_probable import most_probable_state
from strudel.reproduce.experiments.regression_sets import RegressionSet

MICE_ROWS = 2000  # training rows that MICE sees


def fill(method: str, data: RegressionSet, missing: AnyArray, circuit: Circuit) -> FloatArray:
    """The test rows with numbers from 0 to 1 in the place of unknown bits."""
    if method == "median":
        return np.where(missing, np.median(data.train, axis=0), data.test)
    if method == "mean":
        return np.where(missing, data.train.mean(axis=0), data.test)
    if method == "MICE":
        return chained_equations(data, missing)
    states, _ = most_probable_state(circuit, np.where(missing, np.nan, data.test))
    return states.reshape(data.test.shape).astype(float)


def chained_equations(data: RegressionSet, missing: AnyArray) -> FloatArray:
    """Unknown bits by scikit-learn's IterativeImputer, fitted beside complete training rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from sklearn.linear_model import Ridge

    if not missing.any():
        return data.test.astype(float)
    complete = data.train[:MICE_ROWS]
    imputer = IterativeImputer(
        Ridge(1.0),
        max_iter=3,
        n_nearest_features=20,
        min_value=0.0,
        max_value=1.0,
        keep_empty_features=True,
        random_state=0,
        tol=1e-2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # three rounds are enough
        filled = imputer.fit_transform(np.vstack([complete, np.where(missing, np.nan, data.test)]))
    return np.asarray(filled[len(complete) :])


def soft_evaluate(predictor: PredictorCircuit, rows: FloatArray) -> FloatArray:
    """The regression circuit on rows of numbers between 0 and 1, as the authors evaluate it.

    Every product multiplies and every sum adds, so on 0 and 1 it is `predictor.evaluate`, and on
    means it is the expectation if all bits were independent.
    """
    circuit = predictor.structure
    value: list[Any] = [None] * circuit.n_nodes
    total: list[Any] = [None] * circuit.n_nodes
    for var in range(circuit.n_vars):
        one = rows[:, var].astype(float)
        for literal, share in ((2 * var, 1.0 - one), (2 * var + 1, one)):
            value[literal] = share
            total[literal] = share * predictor.literal_weight[literal, 0]
    for node in range(2 * circuit.n_vars, circuit.n_nodes):
        value[node] = total[node] = 0.0
        for e in range(circuit.node_edges[node], circuit.node_edges[node + 1]):
            left, right = circuit.edge_left[e], circuit.edge_right[e]
            other = value[right] if right >= 0 else 1.0
            both = value[left] * other
            below = total[left] * other + (value[left] * total[right] if right >= 0 else 0.0)
            value[node] = value[node] + both
            total[node] = total[node] + both * predictor.edge_weight[e, 0] + below
    return np.asarray(total[circuit.root] + predictor.bias[0])
