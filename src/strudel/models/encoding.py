"""What an encoder does for an estimator: a table goes in, 0/1 rows are learned from.

In:  the `encoder` option, and the table to fit on.
Out: a fitted `TableEncoder`; what the estimator keeps of it.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from sklearn.base import clone

from strudel.tables.encoder import TableEncoder


def encoder_for(estimator: Any, X: Any, y: Any = None, continued: Any = None) -> Any:
    """The fitted encoder of an estimator; None without one.

    A fit that goes on from the circuit `continued` keeps the code of its variables.
    """
    encoder = estimator.encoder
    if encoder is None:
        return None
    if not isinstance(encoder, TableEncoder) and not (
        isinstance(encoder, str) and encoder == "auto"
    ):
        raise TypeError(
            f"encoder must be None, 'auto' or a TableEncoder, but is {encoder!r}. Put any other "
            "transformer before the model in a pipeline."
        )
    if continued is not None and continued.table_code is not None:
        return fitted_encoder(encoder, continued.table_code)
    made = TableEncoder() if isinstance(encoder, str) else clone(encoder)
    return made.fit(X, y)


def fitted_encoder(encoder: Any, code: Any) -> TableEncoder:
    """An encoder with this code, as `fit` would have left it."""
    made = clone(encoder) if isinstance(encoder, TableEncoder) else TableEncoder()
    made.code_ = code
    made.n_features_in_ = len(code.columns)
    if code.container != "numpy":
        made.feature_names_in_ = np.array(code.names, dtype=object)
    return made


def keep_encoder(estimator: Any, encoder: TableEncoder | None) -> None:
    """Remember the encoder, and the table's columns as features."""
    if encoder is None:
        if hasattr(estimator, "encoder_"):
            del estimator.encoder_
        return
    estimator.encoder_ = encoder
    estimator.n_features_in_ = encoder.n_features_in_
    if hasattr(encoder, "feature_names_in_"):
        estimator.feature_names_in_ = encoder.feature_names_in_
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def raise_with_advice(error: ValueError) -> NoReturn:
    """Say of a table that is not 0/1 how to learn from it."""
    if "must hold only 0 and 1" not in str(error) or "holds NaN" in str(error):
        raise error
    raise ValueError(
        f"{error} Or let the model encode text, numbers and dates: encoder=TableEncoder()."
    ) from None
