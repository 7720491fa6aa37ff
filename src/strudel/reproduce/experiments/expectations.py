"""Q6: predict from incomplete rows, by expectations and after imputation.

In:  a regression set.
Out: root mean square errors by predictor, way of removing, method, share missing and repeat.

Bits of the test rows are removed, 0 to 100 %, and the target is predicted: by the expectation of a
regression circuit under a circuit or a mixture on its vtree, or by the regression circuit after
imputation. All methods see the same removed bits. Two ways to remove: "bits", another random set of
bits for every row; "set", one random set of bits for all rows. Predictors are the authors'
regression circuit, and one of our own on the vtree of the Chow-Liu tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.predictor import PredictorCircuit
from strudel.predictions.expected import expected_prediction
from strudel.queries.likelihood import log_likelihood
from strudel.reproduce.experiments.imputation import fill, soft_evaluate
from strudel.reproduce.experiments.measures import stopwatch
from strudel.reproduce.experiments.regression_densities import density_models
from strudel.reproduce.experiments.regression_sets import (
    RegressionSet,
    load_regression_set,
    regression_circuit,
)
from strudel.reproduce.tasks import Settings

MISSING, QUICK_MISSING = tuple(range(0, 101, 10)), (0, 20, 40, 60, 80, 100)  # per cent
METHODS = ("median", "mean", "MICE", "MPE", "circuit", "mixture")
PROTOCOLS = ("bits", "set")
PREDICTORS, QUICK_PREDICTORS = ("authors", "ours"), ("authors",)
N_REPEATS, N_QUICK_REPEATS = 3, 1
SMALL_SET = 500  # test rows, below which repeats are tripled
MOST_ROWS, MOST_QUICK_ROWS = 1200, 200
# Test rows times edges of a density model, per second that the experiment may take.
ROW_EDGES_PER_SECOND = 13_000


def run(name: str, settings: Settings) -> dict[str, Any]:
    """All errors of one regression set."""
    most_rows = MOST_QUICK_ROWS if settings.is_quick else MOST_ROWS
    data = load_regression_set(name).with_test_rows(most_rows)
    is_quick = settings.is_quick
    models, errors = {}, []
    for whose in QUICK_PREDICTORS if is_quick else PREDICTORS:
        predictor = regression_circuit(data, whose, settings.seed)
        most_edges = max(int(ROW_EDGES_PER_SECOND * settings.seconds) // len(data.test), 500)
        with stopwatch() as watch:
            circuit, mixture = density_models(data, predictor.vtree, most_edges, settings.seed)
        models[whose] = {
            "predictor_edges": predictor.structure.n_edges,
            "complete_rmse": rmse(predictor.evaluate(data.test)[:, 0], data.y_test),
            "edges": circuit.n_edges,
            "test": log_likelihood(circuit, data.test).mean(),
            "components": mixture.n_components,
            "mixture_edges": mixture.n_edges,
            "mixture_test": log_likelihood(mixture, data.test).mean(),
            "seconds": watch.seconds,
        }
        errors += _errors(data, whose, predictor, circuit, mixture, is_quick)
    return {"models": models, "errors": errors, "n_rows": len(data.test)}


def _errors(
    data: RegressionSet,
    whose: str,
    predictor: PredictorCircuit,
    circuit: Circuit,
    mixture: Mixture,
    is_quick: bool,
) -> list[dict[str, Any]]:
    n_repeats = N_QUICK_REPEATS if is_quick else N_REPEATS
    if len(data.test) < SMALL_SET and not is_quick:
        n_repeats *= 3
    found = []
    for protocol in PROTOCOLS:
        for per_cent in QUICK_MISSING if is_quick else MISSING:
            for repeat in range(1 if per_cent in (0, 100) else n_repeats):
                missing = removed(data, protocol, per_cent, repeat)
                for method in METHODS:
                    # MICE is slow and does not use the predictor: one repeat is enough.
                    if method == "MICE" and (repeat or is_quick or whose != "authors"):
                        continue
                    if method in ("circuit", "mixture"):
                        rows = np.where(missing, np.nan, data.test)
                        model = circuit if method == "circuit" else mixture
                        predicted = np.asarray(expected_prediction(model, predictor, rows))
                    else:
                        filled = fill(method, data, missing, circuit)
                        predicted = soft_evaluate(predictor, filled)
                    found.append(
                        {
                            "predictor": whose,
                            "protocol": protocol,
                            "method": method,
                            "missing": per_cent,
                            "repeat": repeat,
                            "rmse": rmse(predicted.reshape(-1), data.y_test),
                        }
                    )
    return found


def removed(data: RegressionSet, protocol: str, per_cent: int, repeat: int) -> AnyArray:
    """Which bits of the test rows are unknown."""
    rng = np.random.default_rng([repeat, per_cent, protocol == "set"])
    n_rows, n_vars = data.test.shape
    n_removed = round(per_cent / 100 * n_vars)
    if protocol == "bits":
        return rng.random((n_rows, n_vars)).argsort(axis=1).argsort(axis=1) < n_removed
    gone = np.zeros(n_vars, dtype=bool)
    gone[rng.permutation(n_vars)[:n_removed]] = True
    return np.broadcast_to(gone, (n_rows, n_vars))


def rmse(predicted: FloatArray, target: FloatArray) -> float:
    """Root mean square error."""
    return float(np.sqrt(np.mean((predicted - target) ** 2)))
