"""Probability of partly observed rows: unknown values are summed out."""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._torch import find_device
from strudel._types import FloatArray
from strudel.data.validation import check_evidence
from strudel.queries.arguments import given_rows
from strudel.queries.by_block import by_block
from strudel.queries.model import Model, model_of
from strudel.queries.probabilities import log_probabilities


@by_block("X")
def log_marginal(model: Model, X: Any, *, device: Any = "cpu") -> FloatArray:
    """Log-probability of partly observed rows.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    X : array-like of shape (n_rows, n_vars), frame, or dict by feature name
        0, 1, or NaN where the value is unknown.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where rows are evaluated, as in `log_likelihood`.

    Returns
    -------
    ndarray of shape (n_rows,)
        Exact natural logs; ``-inf`` where the evidence is impossible.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> log_marginal(figure_1_circuit(), [[1, np.nan, 0, 1]]).round(2)
    array([-1.63])
    """
    model = model_of(model)
    evidence = check_evidence(X, n_vars=model.n_vars, feature_names=model.feature_names)
    place = find_device(device)
    if place is None:
        return log_probabilities(model, evidence, "log_marginal")
    from strudel.queries.likelihood import rows_log_likelihood  # late: it needs this module

    return rows_log_likelihood(model, evidence, place)


@by_block("X", "given")
def log_conditional(model: Model, X: Any, given: Any) -> FloatArray:
    """Log-probability of partly observed rows, given others: ``log p(X | given)``.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    X, given : array-like of shape (n_rows, n_vars), frame, or dict by feature name
        0, 1, or NaN where the value is unknown; one row of `given` serves all rows of `X`.

    Returns
    -------
    ndarray of shape (n_rows,)
        ``-inf`` where `X` contradicts `given`.

    Raises
    ------
    ValueError
        If a row of `given` has probability zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> log_conditional(figure_1_circuit(), {"X1": 1}, given={"X3": 1}).round(4)  # log 0.4
    array([-0.9163])
    """
    model = model_of(model)
    rows = check_evidence(X, n_vars=model.n_vars, feature_names=model.feature_names)
    known, _ = given_rows(model, given)
    if len(known) not in (1, len(rows)):
        raise ValueError(
            f"given must have one row or as many as X ({len(rows)}), but has {len(known)}."
        )
    known = np.broadcast_to(known, rows.shape)
    log_given = log_probabilities(model, known, "log_conditional")
    raise_if_impossible(log_given)
    both = np.where(np.isnan(rows), known, rows)
    log_both = log_probabilities(model, both, "log_conditional")
    contradicts = np.any((rows != known) & ~np.isnan(rows) & ~np.isnan(known), axis=1)
    return np.where(contradicts, -np.inf, log_both - log_given)


def raise_if_impossible(log_given: FloatArray, first_row: int = 0) -> None:
    """Refuse to condition on evidence of probability zero; rows count from `first_row`."""
    impossible = np.flatnonzero(log_given == -np.inf)
    if len(impossible):
        raise ValueError(
            f"Row {first_row + impossible[0]} of the evidence has probability zero under the "
            "model, so it cannot be conditioned on. Set some of its values to NaN."
        )
