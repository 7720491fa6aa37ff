"""How long expected predictions take: a forest on half-missing rows, and the stored answers.

    python benchmarks/expected_prediction_speed.py

needs $STRUDEL_DATA with expectation/. Times are those of one run, kernels compiled before.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

import strudel

FOLDER = Path(os.environ["STRUDEL_DATA"]) / "expectation"


def table(name: str):
    data = np.load(FOLDER / f"{name}.npz")
    n_vars = int(data["n_vars"])
    parts = ("x_train", "x_valid", "x_test")
    rows = [np.unpackbits(data[part], axis=1)[:, :n_vars] for part in parts]
    return *rows, data["y_train"]


def authors(name: str):
    circuits = FOLDER / "circuits"
    vtree = strudel.read(circuits / f"{name}.vtree")
    return (
        strudel.read(circuits / f"{name}.psdd", vtree=vtree),
        strudel.read(circuits / f"{name}.glc"),
    )


def timed(what: str, run) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    run()
    print(f"{what:70} {time.perf_counter() - start:7.2f} s, {time.process_time() - cpu:6.2f} s cpu")


def forest() -> None:
    train, valid, test, target = table("abalone")
    rows = np.concatenate([test, valid])[:1000].astype(float)
    rows[np.random.default_rng(0).random(rows.shape) < 0.5] = np.nan
    predictor = RandomForestRegressor(100, max_depth=6, random_state=0).fit(train, target)
    line = Ridge().fit(train, target)
    learned = strudel.Strudel(n_components=1, max_splits=1000, random_state=0).fit(
        train, X_valid=valid
    )
    for name, model in (("authors' PSDD", authors("abalone")[0]), ("Strudel", learned.circuit_)):
        what = f"abalone, {name}, {model.n_edges} edges, 1,000 half-missing rows"
        strudel.expected_prediction(model, predictor, rows[:2])  # compiles
        timed(f"{what}: forest", lambda m=model: strudel.expected_prediction(m, predictor, rows))
        timed(f"{what}: linear", lambda m=model: strudel.expected_prediction(m, line, rows))


def golden() -> None:
    _, _, test, _ = table("delta-ailerons")
    stored = np.load(FOLDER / "golden" / "delta-ailerons.npz")
    missing = np.unpackbits(stored["missing"], axis=2)[:, :, : test.shape[1]]
    rows = np.where(missing == 1, np.nan, test).reshape(-1, test.shape[1])
    model, predictor = authors("delta-ailerons")
    strudel.expected_prediction(model, predictor, rows[:2])
    timed(
        f"delta-ailerons, {len(rows)} rows: regression circuit",
        lambda: strudel.expected_prediction(model, predictor, rows),
    )
    found = strudel.expected_prediction(model, predictor, rows)
    wanted = stored["pred_circuit"].ravel()
    print(f"largest relative difference {np.max(np.abs(found / wanted - 1.0)):.1e}")
    timed(
        "the same, variance",
        lambda: strudel.predictions.prediction_variance(model, predictor, rows),
    )


def other_sets() -> None:
    for name in ("abalone", "elevators", "insurance"):
        rows = table(name)[2][:1000].astype(float)
        rows[np.random.default_rng(0).random(rows.shape) < 0.5] = np.nan
        model, predictor = authors(name)
        what = f"{name}, {len(rows)} half-missing rows: regression circuit"
        timed(what, lambda m=model, q=predictor, x=rows: strudel.expected_prediction(m, q, x))


if __name__ == "__main__":
    golden()
    other_sets()
    forest()
