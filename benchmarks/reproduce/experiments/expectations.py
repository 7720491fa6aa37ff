"""Q6: predict from incomplete rows, by expectations and after imputation.

In:  a regression set.
Out: root mean square errors by predictor, way of removing, method, share missing and repeat.

Bits of the test rows are removed, 0 to 100 %, and the target is predicted: by the expectation of a
regression circuit under a circuit or a mixture on its vtree, or by the regression circuit after
imputation. All methods see the same removed bits. Two ways to remove: "bits", another random set of
bits for every row; "set", one random set of bits for all rows. Predictors are the authors'
regression circuit, and one of our own on the vtree of the Chow-Liu tree. The sets, of Khosravi et
al. (2019), are one-hot bits in the folder that STRUDEL_DATA names.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from reproduce.experiments.measures import stopwatch
from reproduce.tasks import Settings
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.algebra.products import multiply
from strudel.circuits.circuit import Circuit
from strudel.circuits.predictor import PredictorCircuit, even_structure
from strudel.data.bits import pack_columns
from strudel.io.read_write import read
from strudel.learning.bits.fold import folded, unfold
from strudel.learning.mixtures.em import fit_mixture
from strudel.learning.options import MixtureOptions, SearchOptions
from strudel.learning.parameters import closed_form
from strudel.learning.search.learn_structure import first_circuit, grow
from strudel.logic.event_compiler import circuit_of_sdd, compile_event
from strudel.models.predictor_circuits import RegressionCircuit
from strudel.predictions.expected import expected_prediction
from strudel.queries.likelihood import log_likelihood
from strudel.queries.most_probable import most_probable_state
from strudel.trees.vtree import Vtree

MISSING, QUICK_MISSING = tuple(range(0, 101, 10)), (0, 20, 40, 60, 80, 100)  # per cent
METHODS = ("median", "mean", "MICE", "MPE", "circuit", "mixture")
PROTOCOLS = ("bits", "set")
PREDICTORS, QUICK_PREDICTORS = ("authors", "ours"), ("authors",)
N_REPEATS, N_QUICK_REPEATS = 3, 1
SMALL_SET = 500  # test rows, below which repeats are tripled
MOST_ROWS, MOST_QUICK_ROWS = 1200, 200
# Test rows times edges of a density model, per second that the experiment may take.
ROW_EDGES_PER_SECOND = 13_000
MICE_ROWS = 2000  # training rows that MICE sees
COMPONENTS = (5, 10, 20)
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class RegressionSet:
    """Rows of bits, and a number to be predicted from them."""

    name: str
    train: ByteArray
    valid: ByteArray
    test: ByteArray
    y_train: FloatArray
    y_valid: FloatArray
    y_test: FloatArray
    features: list[AnyArray]  # the bits of every original feature

    def with_test_rows(self, n_rows: int) -> RegressionSet:
        """The same with the first test rows only; they are shuffled."""
        return replace(self, test=self.test[:n_rows], y_test=self.y_test[:n_rows])


def missing_files(name: str) -> list[str]:
    """The missing files of a set and its circuit, relative to STRUDEL_DATA."""
    folder = os.environ.get("STRUDEL_DATA")
    wanted = [f"expectation/{name}.npz", f"expectation/circuits/{name}.glc"]
    return [path for path in wanted if not folder or not (Path(folder) / path).is_file()]


def load_regression_set(name: str) -> RegressionSet:
    """Read a set."""
    with np.load(_folder() / f"{name}.npz") as file:
        arrays = dict(file)
    n_vars = int(arrays["n_vars"])
    feature = arrays["feature_map"]
    parts: dict[str, Any] = {f"y_{part}": arrays[f"y_{part}"] for part in PARTS}
    for part in PARTS:
        parts[part] = np.unpackbits(arrays[f"x_{part}"], axis=1, count=n_vars)
    features = [np.flatnonzero(feature == f) for f in np.unique(feature)]
    return RegressionSet(name=name, features=features, **parts)


def regression_circuit(data: RegressionSet, whose: str, seed: int) -> PredictorCircuit:
    """The circuit of the authors, or one learned here."""
    if whose == "authors":
        return cast(PredictorCircuit, read(_folder() / "circuits" / f"{data.name}.glc"))
    model = RegressionCircuit(random_state=seed)
    model.fit(data.train, data.y_train, X_valid=data.valid, y_valid=data.y_valid)
    return model.predictor_


def _folder() -> Path:
    return Path(os.environ["STRUDEL_DATA"]) / "expectation"


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
            "edges": circuit.size,
            "test": log_likelihood(circuit, data.test).mean(),
            "components": mixture.n_components,
            "mixture_edges": mixture.size,
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
    mixture: Circuit,
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
    value: list[Any] = []
    total: list[Any] = []
    for leaf, var in enumerate(circuit.leaf_column.tolist()):
        cells = slice(*circuit.leaf_first[leaf : leaf + 2])
        one = rows[:, var].astype(float)
        share = np.array([1.0 - one, one]) * (circuit.leaf_log_p[cells] > -np.inf)
        value.append(share.sum(axis=0))
        total.append(predictor.cell_weight[cells, 0] @ share)
    for first, last in pairwise(circuit.sum_edges.tolist()):
        own, added = np.zeros(len(rows)), np.zeros(len(rows))
        for e in range(first, last):
            left, right = circuit.edge_left[e], circuit.edge_right[e]
            both = value[left] * value[right]
            own += both
            added += both * predictor.edge_weight[e, 0]
            added += total[left] * value[right] + value[left] * total[right]
        value.append(own)
        total.append(added)
    return np.asarray(total[-1] + predictor.bias[0])


def density_models(
    data: RegressionSet, vtree: Vtree, most_edges: int, seed: int
) -> tuple[Circuit, Circuit]:
    """Learn a circuit of about `most_edges` edges at most, and a mixture."""
    train, valid = pack_columns(data.train), pack_columns(data.valid)
    search = SearchOptions(vtree=vtree)
    first = one_hot(folded(first_circuit(train, search)), data, most_edges)
    start = unfold(first, None).structure
    grown = grow(train, valid, search=search, start=start, rng=seed)
    growing, columns = grown.growing, grown.history.columns()
    is_small = columns["n_edges"] <= max(most_edges, start.n_edges)
    best = int(np.argmax(np.where(is_small, columns["valid"], -np.inf)))
    circuit = folded(closed_form(growing.snapshot(best), train))
    options = MixtureOptions(smoothing="single", pseudocount="auto")
    mixtures = []
    for n_splits in sorted({0, best // 4, best}):
        structure = growing.snapshot(n_splits)
        for k in COMPONENTS:
            if k > COMPONENTS[0] and k * structure.n_edges > COMPONENTS[0] * most_edges:
                break
            learned = fit_mixture(structure, train, k, X_valid=valid, options=options, rng=seed)
            mixture = folded(learned)
            mixtures.append((float(log_likelihood(mixture, data.valid).mean()), mixture))
    return circuit, max(mixtures, key=lambda pair: pair[0])[1]


def one_hot(circuit: Circuit, data: RegressionSet, most_edges: int) -> Circuit:
    """The circuit times "at most one bit" of every feature, the widest first, while it is small.

    The vtrees of the authors are random, so the bits of one feature are scattered; the search then
    knows that they are one-hot.
    """
    share = data.train.mean(axis=0)
    entropies = [
        -(share[bits] * np.log(np.maximum(share[bits], 1e-9))).sum() for bits in data.features
    ]
    for place in np.argsort(entropies)[::-1]:
        bits = data.features[place]
        if len(bits) < 2:
            continue
        event = f"at_most(1, {', '.join(f'x{var}' for var in bits)})"
        allowed = circuit_of_sdd(compile_event(event, circuit.vtree))
        assert allowed is not None  # some rows have at most one bit
        both = multiply(even_structure(circuit), allowed, normalize=True)
        if both.size <= most_edges:
            circuit = both
    return circuit
