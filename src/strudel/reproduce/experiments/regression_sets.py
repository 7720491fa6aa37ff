"""The four regression sets of Khosravi et al. (2019), as one-hot bits.

In:  a name, and the folder that STRUDEL_DATA names.
Out: `RegressionSet`, and the authors' regression circuit or one of our own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.predictor import PredictorCircuit
from strudel.io.read_write import read
from strudel.models.regression import RegressionCircuit

NAMES = ("abalone", "delta-ailerons", "elevators", "insurance")
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
