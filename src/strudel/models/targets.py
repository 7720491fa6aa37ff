"""Targets of rows: numbers or classes, as predictors get them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from strudel._types import AnyArray
from strudel.tables.columns import is_missing


def as_target(y: Any, estimator: Any) -> AnyArray:
    """One value per row."""
    if y is None:  # in scikit-learn's words, which its estimator checks look for
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    return np.asarray(column_or_1d(y, warn=True))


def as_labels(y: Any, estimator: Any) -> AnyArray:
    """One known class per row."""
    labels = as_target(y, estimator)
    # In a list, NaN beside text: NumPy would make it a text of its own.
    cells = y if isinstance(y, list | tuple) else labels.tolist()
    row = next((row for row, label in enumerate(cells) if is_missing(label)), None)
    if row is not None:  # "contains NaN" are scikit-learn's words
        raise ValueError(
            f"Input y contains NaN or None: the class is unknown at row {row}. A classifier learns "
            "from rows whose class is known: drop the others, as with X[y.notna()] in pandas."
        )
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels
