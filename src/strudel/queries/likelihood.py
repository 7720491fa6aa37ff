"""Likelihood of fully observed rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import flow_log_likelihood
from strudel.circuits.properties import check_decomposable, check_smooth
from strudel.data.bits import pack_columns
from strudel.data.validation import check_binary
from strudel.errors import CircuitPropertyError
from strudel.queries.model import circuit_of
from strudel.queries.passes import log_probabilities

BLOCK_CELLS = 2**25  # cells packed at a time, so that a million rows need little extra memory


def log_likelihood(model: Circuit, X: ArrayLike) -> FloatArray:
    """Log-likelihood of fully observed rows.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Rows pass a deterministic circuit by its flows; any other smooth and decomposable circuit is
        evaluated.
    X : array-like of shape (n_rows, n_vars)
        0 and 1.

    Returns
    -------
    ndarray of shape (n_rows,)
        Exact natural logs; ``-inf`` where a row is impossible.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> log_likelihood(figure_1_circuit(), [[1, 0, 1, 0]]).round(4)
    array([-3.9528])
    """
    circuit = circuit_of(model)
    if not (circuit.is_smooth and circuit.is_decomposable):
        check_smooth(circuit, "log_likelihood")
        check_decomposable(circuit, "log_likelihood")
    table, _ = check_binary(X, n_vars=circuit.n_vars, feature_names=circuit.feature_names)
    log_p = np.empty(len(table))
    block = max(512, BLOCK_CELLS // circuit.n_vars)
    try:
        for start in range(0, len(table), block):
            rows = slice(start, start + block)
            log_p[rows] = flow_log_likelihood(circuit, pack_columns(table[rows]))
    except CircuitPropertyError:  # some row takes two edges of one sum: a real sum
        return log_probabilities(circuit, table.astype(np.float64), "log_likelihood")
    return log_p
