"""The gaps of a table, filled by a classifier: those of its inputs and those of the class.

In:  a `StrudelClassifier`, and a table with the inputs, the class or both.
Out: the inputs in rows of 0/1 variables, filled; and the class of every row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.cli.columns import encode_table
from strudel.cli.commands.predict import columns_of
from strudel.cli.frames import split_target, to_frame
from strudel.cli.models import read_file

if TYPE_CHECKING:
    from strudel.circuits.mixture import Mixture
    from strudel.models.classifier import StrudelClassifier
    from strudel.tables.columns import RawTable


def read_classifier(path: Path) -> StrudelClassifier | None:
    """The classifier in a file, if it holds one."""
    from strudel.models.classifier import StrudelClassifier

    held = read_file(path)
    return held if isinstance(held, StrudelClassifier) else None


def without_target(
    model: StrudelClassifier, table: RawTable, source: str
) -> tuple[RawTable, list[Any]]:
    """The inputs, and the class of every row: None where it is unknown, or no column has it."""
    names = [column.name for column in table.columns]
    if model.target_name_ not in names or not table.has_names or len(names) == 1:
        return table, [None] * table.n_rows
    return split_target(table, source, model.target_name_)


def input_rows(model: StrudelClassifier, table: RawTable, source: str) -> FloatArray:
    """The inputs as rows of 0, 1 and NaN."""
    from strudel.data.validation import check_evidence

    if hasattr(model, "encoder_"):
        return encode_table(model.encoder_.code_, table, source)
    return check_evidence(to_frame(columns_of(model, table, source)), n_vars=model.n_features_in_)


def fill_rows(
    model: StrudelClassifier,
    rows: FloatArray,
    classes: list[Any],
    fill: Callable[[Mixture, FloatArray], FloatArray],
    strategy: str,
    seed: int | list[int],
) -> tuple[FloatArray, list[Any]]:
    """All inputs and all classes; known ones stay, and the inputs are filled given the class.

    An unknown class is the most probable one, or drawn; the means do not depend on it.
    """
    class_model, values = model._class_model(), model.classes_.tolist()
    place = {value: k for k, value in enumerate(values)}
    label: IntArray = np.array([place.get(value, NONE) for value in classes], dtype=np.int32)
    gaps = np.array([value is None for value in classes])
    found = label.copy()
    if gaps.any():
        found[gaps] = _classes(class_model.joint_logs(rows[gaps]), strategy, seed)
    filled = class_model.filled(rows, label if strategy == "mean" else found, fill)
    both = zip(classes, found, strict=True)
    return filled, [value if k == NONE else values[k] for value, k in both]


def _classes(logs: FloatArray, strategy: str, seed: int | list[int]) -> AnyArray:
    if strategy == "sample":  # the largest of logs with such noise is a draw
        logs = logs + np.random.default_rng(seed).gumbel(size=logs.shape)
    return np.asarray(logs.argmax(axis=1))
