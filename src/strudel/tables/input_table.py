"""A table as an estimator gets it: of 0 and 1 already, or to be encoded.

In:  a frame, an array or a list of rows, and the option `columns`.
Out: `InputTable`: its 0/1 rows, under each of the encoders that are worth a try.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _check_feature_names, _get_feature_names

from strudel._types import AnyArray, FloatArray
from strudel.data.lazy import is_lazy
from strudel.data.validation import (
    as_frame,
    check_evidence,
    check_partial,
    check_shape,
    check_shared_names,
    is_single_row,
    read_values,
)
from strudel.errors import (
    EmptyColumnWarning,
    IdentifierWarning,
    ManyCategoriesWarning,
    MissingForAReasonWarning,
)
from strudel.tables.columns import RawTable
from strudel.tables.encoder import TableEncoder, new_encoder

FIRST_ROWS = 1000  # of the first block of a lazy table


@dataclass(frozen=True, eq=False)
class InputTable:
    """A table, and what may turn it into 0 and 1."""

    X: Any
    n_rows: int
    evidence: FloatArray | None  # the rows, if they are of 0, 1 and NaN already
    encoders: tuple[TableEncoder | None, ...]  # not fitted; (None,) if there is nothing to encode

    def take(self, rows: AnyArray) -> InputTable:
        """Some of the rows."""
        if self.evidence is not None:
            part = self.evidence[rows]
            return replace(self, X=part, n_rows=len(part), evidence=part)
        part = take_rows(self.X, np.flatnonzero(rows))
        return replace(self, X=part, n_rows=int(np.sum(rows)))

    def fitted_on(self, e: int, train: AnyArray, y: AnyArray) -> TableEncoder | None:
        """An encoder that has seen only some rows; what is new to it is unknown."""
        encoder = self.encoders[e]
        if encoder is None:
            return None
        encoder = clone(encoder).set_params(unknown="missing")
        with warnings.catch_warnings():
            for said_of_all_rows in (
                EmptyColumnWarning,
                IdentifierWarning,
                ManyCategoriesWarning,
                MissingForAReasonWarning,
            ):
                warnings.simplefilter("ignore", said_of_all_rows)
            fitted: TableEncoder = encoder.fit(take_rows(self.X, np.flatnonzero(train)), y[train])
        return fitted

    def fitted(self, e: int, y: AnyArray | None = None) -> TableEncoder | None:
        """An encoder, fitted on all rows."""
        encoder = self.encoders[e]
        return None if encoder is None else clone(encoder).fit(self.X, y)

    def rows(self, encoder: TableEncoder | None) -> FloatArray:
        """All rows under a fitted encoder."""
        if encoder is not None:
            return encoder.code_.encode(self.X)
        assert self.evidence is not None
        return self.evidence


def look_at_table(X: Any, columns: Any, n_bins: Sequence[Any] = ("auto",)) -> InputTable:
    """Look at a table; one that is not 0/1 gets encoders with these numbers of cells."""
    encoder = new_encoder(columns)
    if is_lazy(X) and hasattr(X, "columns"):
        raise ValueError(
            "X must be a frame in memory to learn from here, but is lazy. Take a sample of "
            "the rows, and call its compute()."
        )
    X = dense(X)
    if isinstance(columns, TableEncoder):
        return InputTable(X, n_rows_of(X), None, (encoder,))
    if columns is None and is_binary(X):
        evidence = check_evidence(X)
        return InputTable(X, len(evidence), evidence, (None,))
    # A column of numbers with two values at fit may have others later.
    encoders = tuple(clone(encoder).set_params(n_bins=n) for n in n_bins)
    return InputTable(X, n_rows_of(X), None, encoders)


def dense(X: Any) -> Any:
    """A sparse matrix as an array; any other table as it is."""
    return X.toarray() if hasattr(X, "toarray") else X


def is_binary(X: Any) -> bool:
    """Whether a table is of 0, 1 and unknown values; of a lazy one, its first block."""
    if is_lazy(X):
        parts = X.partitions if hasattr(X, "partitions") else X.blocks
        first = (parts[place].compute() for place in range(X.npartitions))
        X = next((rows[:FIRST_ROWS] for rows in first if len(rows)), [])
    if hasattr(X, "toarray"):
        X = X.data[np.newaxis] if hasattr(X, "data") else X.toarray()
    elif is_single_row(X):  # no table at all, as the encoder will say
        return False
    try:
        check_evidence(X)
    except Exception:  # whatever a library says of its own types
        return False
    return True


def n_rows_of(X: Any) -> int:
    """Number of rows of any table; whether it is one is up to the encoder."""
    shape = getattr(X, "shape", None) or read_values(X, "X")[0].shape
    return int(shape[0]) if shape else 0


def take_rows(X: Any, rows: AnyArray) -> Any:
    """Some rows of a frame, an array or a list of rows, in their own kind."""
    if isinstance(X, RawTable):
        columns = tuple(replace(raw, values=raw.values[rows]) for raw in X.columns)
        return replace(X, columns=columns, n_rows=len(columns[0].values))
    frame = as_frame(X)
    return read_values(X, "X")[0][rows] if frame is None else frame[rows.tolist()].to_native()


def keep_features(estimator: Any, X: Any, n_features: int) -> None:
    """Remember the number and the names of the columns, as scikit-learn does."""
    _check_feature_names(estimator, X, reset=True)
    if isinstance(X, RawTable) and X.has_names:
        estimator.feature_names_in_ = np.array(X.names, dtype=object)
    estimator.n_features_in_ = n_features


def text_names(X: Any) -> list[str] | None:
    """The names of the columns, if they are text; those of several types are refused."""
    if isinstance(X, RawTable):
        return X.names if X.has_names else None
    if not is_lazy(X):
        as_frame(X)  # refuses names that repeat
    names = _get_feature_names(X)
    return None if names is None else list(names)


def names_to_match(estimator: Any, X: Any) -> tuple[str, ...] | None:
    """The columns of fit by which those of a table are found, if both have names.

    If only one of them has, they are found by their place, and scikit-learn's warning says so.
    """
    own = getattr(estimator, "feature_names_in_", None)
    if own is not None and text_names(X) is not None:
        return tuple(own)
    _check_feature_names(estimator, X, reset=False)
    return None


def rows_like(estimator: Any, X: Any) -> FloatArray:
    """0/1 rows with NaN of a table with the columns that an estimator was fitted on."""
    encoder = getattr(estimator, "encoder_", None)
    names = names_to_match(estimator, X)
    X = dense(X)
    if encoder is not None:
        return encoder.code_.encode(X)
    if is_single_row(X):
        check_shape(read_values(X, "X")[0].shape, "X")
    if names is None:
        return check_evidence(X, n_vars=estimator.n_features_in_)
    if isinstance(X, RawTable):
        check_shared_names(X.names, names, "X")
        return check_evidence(X.select(names), n_vars=len(names))
    rows, _ = check_partial(X, n_vars=len(names), feature_names=names)
    return rows.astype(np.float64)
