"""Likelihood of rows: by flows if they are complete, otherwise of what is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from strudel._torch import find_device
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.flows import flow_log_likelihood
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.circuits.properties import check_properties
from strudel.data.bits import pack_columns
from strudel.data.validation import check_binary, check_evidence, check_partial, slices
from strudel.errors import CircuitPropertyError
from strudel.queries.arguments import log_density_in
from strudel.queries.by_block import by_block
from strudel.queries.mixture_likelihood import mixture_flow_log_likelihood
from strudel.queries.model import Model, model_of, structure_of
from strudel.queries.probabilities import log_probabilities
from strudel.tables.table_code import coded_table

BLOCK_CELLS = 2**25  # cells packed at a time, so that a million rows need little extra memory


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


def rows_log_likelihood(model: Model, rows: AnyArray, device: Any = None) -> FloatArray:
    """Log-likelihood of rows of the 0/1 variables; where values are unknown, of the known ones.

    `rows` are uint8, or float64 with NaN where a value is unknown. They can be evaluated on a
    `torch.device`.
    """
    check_properties(structure_of(model), "log_likelihood", "smooth", "decomposable")
    if rows.dtype == np.uint8:
        return _log_likelihood_of_complete(model, rows, device)
    has_gap = np.isnan(rows).any(axis=1)
    log_p = np.empty(len(rows))
    if has_gap.any():
        log_p[has_gap] = log_probabilities(model, rows[has_gap], "log_likelihood", device)
    if not has_gap.all():
        complete = rows[~has_gap].astype(np.uint8)
        log_p[~has_gap] = _log_likelihood_of_complete(model, complete, device)
    return log_p


def _log_likelihood_of_complete(model: Model, table: ByteArray, device: Any) -> FloatArray:
    try:
        if device is not None:
            from strudel.queries.flows_on_device import log_likelihood_on  # late: needs torch

            return log_likelihood_on(device, as_mixture(model), table)
        if isinstance(model, Mixture):
            return mixture_flow_log_likelihood(model, table)
        log_p = np.empty(len(table))
        for rows in slices(len(table), max(512, BLOCK_CELLS // model.n_vars)):
            log_p[rows] = flow_log_likelihood(model, pack_columns(table[rows]))
        return log_p
    except CircuitPropertyError:  # some row takes two edges of one sum: a real sum
        return log_probabilities(model, table.astype(np.float64), "log_likelihood", device)
