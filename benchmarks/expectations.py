"""Predict from incomplete rows (Q6 of the paper): expectations against imputation.

python benchmarks/expectations.py [abalone ...] [--repeats 3] [--csv q6.csv] [--plot q6.png]

Four regression sets of Khosravi et al. (2019), one-hot bits, from $STRUDEL_DATA/expectation. Bits
of the test rows are removed, 0 to 100 %, and the target is predicted: by the expectation of a
regression circuit under a circuit or a mixture on its vtree, or by the regression circuit after
imputation. The error is the root mean square, averaged over repeats; all methods see the same
removed bits.

Two ways to remove: "bits", another random set of bits for every row; "set", one random set of bits
for all rows (--features: whole original features instead of bits).

Predictors are the authors' regression circuit, and a `RegressionCircuit` of our own on the vtree of
the Chow-Liu tree. Density models start from the tree that fits the vtree best, times "at most one
bit" for as many original features as the size allows, since that is what one-hot means.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import Ridge

from strudel import (
    Circuit,
    MixtureOptions,
    PredictorCircuit,
    RegressionCircuit,
    SearchOptions,
    expected_prediction,
    fit_mixture,
    fit_parameters,
    log_likelihood,
    most_probable_state,
    multiply,
    pack_columns,
    read,
)
from strudel.learning.structure import first_circuit, grow
from strudel.logic.compile_event import compile_event
from strudel.logic.event_circuit import event_circuit

PARTS = ("train", "valid", "test")
NAMES = ("abalone", "delta-ailerons", "elevators", "insurance")
MISSING = tuple(range(0, 101, 10))  # per cent
SMALL_SET = 500  # test rows, below which repeats are tripled
ROW_EDGES = 12_000_000  # test rows times edges of a density model: what the experiment may cost
COMPONENTS = (5, 10, 20)
MICE_ROWS = 2000  # training rows that MICE sees
METHODS = ("median", "mean", "MICE", "MPE", "circuit", "mixture")


@dataclass(frozen=True)
class Data:
    """One regression set."""

    name: str
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    y_train: np.ndarray
    y_valid: np.ndarray
    y_test: np.ndarray
    features: list[np.ndarray]  # the bits of every original feature


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(NAMES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1200, help="test rows, at most")
    parser.add_argument("--features", action="store_true", help="remove whole features, not bits")
    parser.add_argument("--plain", action="store_true", help="do not use that bits are one-hot")
    parser.add_argument("--methods", nargs="*", default=METHODS, choices=METHODS)
    parser.add_argument("--csv", help="write every error here")
    parser.add_argument("--plot", help="write a plot here")
    parser.add_argument("--out", help="write json here")
    args = parser.parse_args()
    load_kernels()
    started = time.perf_counter()
    results: list[dict[str, Any]] = []
    models: list[dict[str, Any]] = []
    for name in args.names or NAMES:
        data = load(name, args.rows)
        for whose in ("authors", "ours"):
            results += experiment(data, whose, args, models)
            machine.write(args.out, {"models": models, "errors": results})
    print(f"{time.perf_counter() - started:.0f} s in all")
    summarise(results)
    if args.csv:
        with Path(args.csv).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(results[0]))
            writer.writeheader()
            writer.writerows(results)
    if args.plot:
        plot(args.plot, results)


def load_kernels() -> None:
    """Ask something small, so that the first dataset does not pay for the compiler."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(200, 4), dtype=np.uint8)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=200)
    features = [np.array([0, 1]), np.array([2, 3])]
    data = Data("", X, X, X, y, y, y, features)
    predictor = regression_circuit(data, "ours")
    models = density_models(data, predictor.vtree, is_plain=True)
    for method in ("MPE", "circuit", "mixture"):
        predict(method, data, rng.random(X.shape) < 0.5, predictor, models)


def load(name: str, most_rows: int) -> Data:
    folder = Path(os.environ["STRUDEL_DATA"]) / "expectation"
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file)
    n_vars = int(arrays["n_vars"])
    rows = [np.unpackbits(arrays[f"x_{part}"], axis=1)[:, :n_vars] for part in PARTS]
    targets = [arrays[f"y_{part}"] for part in PARTS]
    rows[-1], targets[-1] = rows[-1][:most_rows], targets[-1][:most_rows]  # rows are shuffled
    feature = arrays["feature_map"]
    return Data(
        name,
        *rows,
        *targets,
        features=[np.flatnonzero(feature == f) for f in np.unique(feature)],
    )


# Predictors and density models


def regression_circuit(data: Data, whose: str) -> PredictorCircuit:
    """That of the authors, or one learned here."""
    if whose == "authors":
        folder = Path(os.environ["STRUDEL_DATA"]) / "expectation" / "circuits"
        return read(folder / f"{data.name}.glc")
    model = RegressionCircuit(random_state=0)
    model.fit(data.train, data.y_train, X_valid=data.valid, y_valid=data.y_valid)
    return model.predictor_


def density_models(data: Data, vtree: Any, is_plain: bool) -> dict[str, Any]:
    """The best circuit and the best mixture on a vtree that are small enough, by validation."""
    most_edges = ROW_EDGES // len(data.test)
    train, valid = pack_columns(data.train), pack_columns(data.valid)
    search = SearchOptions(vtree=vtree)
    start = first_circuit(train, search)
    if not is_plain:
        start = one_hot(start, data, most_edges)
    _, growing, history = grow(train, valid, search=search, start=start, rng=0)
    columns = history.columns()
    small = columns["n_edges"] <= max(most_edges, start.n_edges)
    best = int(np.argmax(np.where(small, columns["valid"], -np.inf)))
    circuit = fit_parameters(growing.snapshot(best), train)
    mixtures = []
    for n_splits in sorted({0, best // 4, best}):
        structure = growing.snapshot(n_splits)
        for k in COMPONENTS:
            if k > COMPONENTS[0] and k * structure.n_edges > COMPONENTS[0] * most_edges:
                break
            mixture = fit_mixture(
                structure,
                train,
                k,
                X_valid=valid,
                options=MixtureOptions(smoothing="single", pseudocount="auto"),
                rng=0,
            )
            mixtures.append((float(log_likelihood(mixture, data.valid).mean()), mixture))
    return {"circuit": circuit, "mixture": max(mixtures, key=lambda pair: pair[0])[1]}


def one_hot(circuit: Circuit, data: Data, most_edges: int) -> Circuit:
    """The circuit times "at most one bit" of every feature, the widest first, while it is small."""
    share = data.train.mean(axis=0)
    entropies = [
        -(share[bits] * np.log(np.maximum(share[bits], 1e-9))).sum() for bits in data.features
    ]
    for place in np.argsort(entropies)[::-1]:
        bits = data.features[place]
        if len(bits) < 2:
            continue
        event = f"at_most(1, {', '.join(f'x{var}' for var in bits)})"
        allowed = event_circuit(compile_event(event, circuit.vtree))
        assert allowed is not None  # some rows have at most one bit
        uniform = circuit.with_parameters(np.zeros(circuit.n_edges))
        both = multiply(uniform, allowed, normalize=True)
        if both.n_edges <= most_edges:
            circuit = both
    return circuit


# What is removed


def removed(data: Data, protocol: str, per_cent: int, repeat: int, by_feature: bool) -> np.ndarray:
    """Which bits of the test rows are unknown."""
    rng = np.random.default_rng([repeat, per_cent, protocol == "set"])
    n_rows, n_vars = data.test.shape
    if protocol == "bits":
        n_removed = round(per_cent / 100 * n_vars)
        return rng.random((n_rows, n_vars)).argsort(axis=1).argsort(axis=1) < n_removed
    gone = np.zeros(n_vars, dtype=bool)
    if by_feature:
        n_removed = round(per_cent / 100 * len(data.features))
        for place in rng.permutation(len(data.features))[:n_removed]:
            gone[data.features[place]] = True
    else:
        gone[rng.permutation(n_vars)[: round(per_cent / 100 * n_vars)]] = True
    return np.broadcast_to(gone, (n_rows, n_vars))


# Predictions


def predict(
    method: str,
    data: Data,
    missing: np.ndarray,
    predictor: PredictorCircuit,
    models: dict[str, Any],
) -> np.ndarray:
    if method in ("circuit", "mixture"):
        rows = np.where(missing, np.nan, data.test)
        return np.asarray(expected_prediction(models[method], predictor, rows)).reshape(-1)
    if method == "median":
        filled = np.where(missing, np.median(data.train, axis=0), data.test)
    elif method == "mean":
        filled = np.where(missing, data.train.mean(axis=0), data.test)
    elif method == "MICE":
        filled = chained_equations(data, missing)
    else:
        states, _ = most_probable_state(models["circuit"], np.where(missing, np.nan, data.test))
        filled = states.reshape(data.test.shape)
    return soft_evaluate(predictor, filled)


def chained_equations(data: Data, missing: np.ndarray) -> np.ndarray:
    """Unknown bits by scikit-learn's IterativeImputer, fitted beside complete training rows."""
    key = data.name, missing.tobytes()  # the same for both predictors
    if key not in IMPUTED:
        IMPUTED[key] = _chained_equations(data, missing).astype(np.float32)
    return IMPUTED[key]


IMPUTED: dict[Any, np.ndarray] = {}


def _chained_equations(data: Data, missing: np.ndarray) -> np.ndarray:
    if not missing.any():
        return data.test.astype(float)
    rows = np.vstack([data.train[:MICE_ROWS], np.where(missing, np.nan, data.test)])
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
        warnings.simplefilter("ignore", ConvergenceWarning)  # three rounds must do
        return imputer.fit_transform(rows)[len(data.train[:MICE_ROWS]) :]


def soft_evaluate(predictor: PredictorCircuit, rows: np.ndarray) -> np.ndarray:
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
    return total[circuit.root] + predictor.bias[0]


# The experiment


def experiment(
    data: Data, whose: str, args: argparse.Namespace, models: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    start = time.perf_counter()
    predictor = regression_circuit(data, whose)
    density = density_models(data, predictor.vtree, args.plain)
    learned = time.perf_counter() - start
    complete = rmse(predictor.evaluate(data.test)[:, 0], data.y_test)
    about = {
        "dataset": data.name,
        "predictor": whose,
        "predictor_edges": predictor.structure.n_edges,
        "complete": complete,
        "edges": density["circuit"].n_edges,
        "circuit_test": float(log_likelihood(density["circuit"], data.test).mean()),
        "components": density["mixture"].n_components,
        "mixture_edges": density["mixture"].n_edges,
        "mixture_test": float(log_likelihood(density["mixture"], data.test).mean()),
        "seconds": learned,
    }
    models.append(about)
    print(
        "\n{dataset}, {predictor}: {predictor_edges} edges, complete rows {complete:.5g}; circuit "
        "{edges} edges, test {circuit_test:.3f}; mixture of {components} x {mixture_edges} edges, "
        "test {mixture_test:.3f}; learned in {seconds:.1f} s".format(**about),
        flush=True,
    )
    repeats = args.repeats if len(data.test) >= SMALL_SET else 3 * args.repeats
    results = []
    for protocol in ("bits", "set"):
        for method in args.methods:
            begin = time.perf_counter()
            errors = []
            for per_cent in MISSING:
                # MICE takes minutes: one repeat has to do. Nothing is random at 0 and 100 %.
                few = method == "MICE" or per_cent in (0, 100)
                for repeat in range(1 if few else repeats):
                    missing = removed(data, protocol, per_cent, repeat, args.features)
                    predicted = predict(method, data, missing, predictor, density)
                    results.append(
                        {
                            "dataset": data.name,
                            "predictor": whose,
                            "protocol": protocol,
                            "method": method,
                            "missing": per_cent,
                            "repeat": repeat,
                            "rmse": rmse(predicted, data.y_test),
                        }
                    )
                errors.append(np.mean([r["rmse"] for r in results[-(1 if few else repeats) :]]))
            print(
                f"{protocol:5s}{method:8s}"
                + "".join(f"{error:10.4g}" for error in errors)
                + f"   {time.perf_counter() - begin:6.1f} s",
                flush=True,
            )
    return results


def rmse(predicted: np.ndarray, target: np.ndarray) -> float:
    return float(np.sqrt(np.mean((predicted - target) ** 2)))


def mean_errors(results: list[dict[str, Any]], **wanted: Any) -> dict[int, float]:
    """The mean error by what is missing."""
    chosen = [r for r in results if all(r[key] == value for key, value in wanted.items())]
    return {
        per_cent: float(np.mean([r["rmse"] for r in chosen if r["missing"] == per_cent]))
        for per_cent in sorted({r["missing"] for r in chosen})
    }


def summarise(results: list[dict[str, Any]]) -> None:
    """Whether the circuit beats imputation from 20 to 80 %, and the mixture the circuit."""
    print()
    for whose in ("authors", "ours"):
        for protocol in ("bits", "set"):
            for name in dict.fromkeys(r["dataset"] for r in results):
                errors = {
                    method: mean_errors(
                        results, dataset=name, predictor=whose, protocol=protocol, method=method
                    )
                    for method in dict.fromkeys(r["method"] for r in results)
                }
                middle = [m for m in MISSING if 20 <= m <= 80]
                if not {"circuit", "mixture", "mean", "median"} <= set(errors):
                    return
                first = mean_errors(
                    results,
                    dataset=name,
                    predictor=whose,
                    protocol=protocol,
                    method="circuit",
                    repeat=0,
                )  # as MICE, which sees no other repeat
                beaten = [
                    baseline
                    for baseline, own in (
                        (method, first if method == "MICE" else errors["circuit"])
                        for method in errors
                        if method not in ("circuit", "mixture")
                    )
                    if all(own[m] < errors[baseline][m] for m in middle)
                ]
                ratio = np.mean([errors["mixture"][m] / errors["circuit"][m] for m in middle])
                print(
                    f"{whose:8s}{protocol:5s}{name:15s} circuit beats, at every 20-80 %: "
                    f"{', '.join(beaten) or 'none'}; mixture / circuit {ratio:.4f}"
                )


def plot(path: str, results: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(r["dataset"] for r in results))
    lines = [(whose, protocol) for whose in ("authors", "ours") for protocol in ("bits", "set")]
    figure, axes = plt.subplots(
        len(lines),
        len(names),
        figsize=(3.6 * len(names), 2.8 * len(lines)),
        squeeze=False,
        layout="constrained",
    )
    for row, (whose, protocol) in zip(axes, lines, strict=True):
        for axis, name in zip(row, names, strict=True):
            for method in dict.fromkeys(r["method"] for r in results):
                errors = mean_errors(
                    results, dataset=name, predictor=whose, protocol=protocol, method=method
                )
                style = "-" if method in ("circuit", "mixture") else "--"
                axis.plot(list(errors), list(errors.values()), style, marker=".", label=method)
            axis.set_title(f"{name}, {whose}, {protocol}", fontsize=9)
            axis.grid(alpha=0.3)
            axis.ticklabel_format(axis="y", scilimits=(-3, 4))
    for axis in axes[-1]:
        axis.set_xlabel("missing, %")
    for axis in axes[:, 0]:
        axis.set_ylabel("RMSE")
    axes[0, 0].legend(fontsize=7)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
