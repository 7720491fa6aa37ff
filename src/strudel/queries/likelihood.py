"""Likelihood of rows: by flows if they are complete, otherwise of what is known."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from strudel._torch import find_device
from strudel._types import FloatArray
from strudel.circuits.bit_likelihood import rows_log_likelihood as rows_log_likelihood
from strudel.data.validation import check_binary, check_evidence, check_partial
from strudel.queries.arguments import log_density_in
from strudel.queries.by_block import by_block
from strudel.queries.model import Model, model_of
from strudel.tables.table_code import coded_table


@by_block("X")
def log_likelihood(model: Model, X: ArrayLike, *, device: Any = "cpu") -> FloatArray:
    """Log-likelihood of fully observed rows.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Rows pass a deterministic circuit by its flows, and components of a mixture that share a
        structure by one flow; any other smooth and decomposable circuit is evaluated.
    X : array-like of shape (n_rows, n_vars)
        0 and 1.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        "cuda" multiplies flows and parameters on a GPU, which pays for many rows and components; it
        needs PyTorch. Logs are then right to 1e-5 of their size.

    Returns
    -------
    ndarray of shape (n_rows,)
        Exact natural logs; ``-inf`` where a row is impossible.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> log_likelihood(figure_1_circuit(), [[1, 0, 1, 0]]).round(4)
    array([-3.9528])
    """
    model = model_of(model)
    table, _ = check_binary(X, n_vars=model.n_vars, feature_names=model.feature_names)
    return rows_log_likelihood(model, table, find_device(device)) + log_density_in(model, X)


@by_block("X")
def observed_log_likelihood(model: Model, X: Any) -> FloatArray:
    """Log-likelihood of the known values of every row; unknown ones (NaN) are summed out.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    X : array-like or frame of shape (n_rows, n_columns)
        The columns of the model, NaN or None where a value is unknown. A frame may have them in any
        order, and lack some.

    Returns
    -------
    ndarray of shape (n_rows,)
        Exact natural logs; ``-inf`` where a row is impossible.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> observed_log_likelihood(figure_1_circuit(), [[1, np.nan, 0, 1]]).round(2)
    array([-1.63])
    """
    model = model_of(model)
    code, names = model.table_code, model.feature_names
    if code is not None:
        rows: Any = coded_table(X, code, "X", may_be_missing=True)
        if rows is None:  # they are the variables already
            rows = check_evidence(X, n_vars=model.n_vars, feature_names=tuple(names or ()))
        return rows_log_likelihood(model, rows) + log_density_in(model, X)
    return rows_log_likelihood(model, check_partial(X, n_vars=model.n_vars, feature_names=names)[0])
