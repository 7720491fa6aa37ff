"""Probability of partly observed rows: unknown values are summed out."""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._torch import find_device
from strudel._types import AnyArray, FloatArray
from strudel.data.containers import read_named_rows
from strudel.data.validation import check_evidence
from strudel.errors import NoValueError
from strudel.queries.arguments import given_rows, log_density_in
from strudel.queries.by_block import lazily
from strudel.queries.model import Model, model_of
from strudel.queries.probabilities import log_probabilities
from strudel.queries.soft_evidence import absorb, absorbed_rows
from strudel.tables.coded_rows import known_numbers, known_values, log_density_of


@lazily("X")
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
    parts = absorbed_rows(model, X)
    if parts is not None:
        logs = [part.log_probability + log_marginal(part.model, part.rest)[0] for part in parts]
        return np.array(logs)
    evidence = check_evidence(X, n_vars=model.n_vars, feature_names=model.feature_names)
    log_density = log_density_in(model, X)
    place = find_device(device)
    if place is None:
        return log_probabilities(model, evidence, "log_marginal") + log_density
    from strudel.queries.likelihood import rows_log_likelihood  # late: it needs this module

    return rows_log_likelihood(model, evidence, place) + log_density


@lazily("X", "given")
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
    parts = absorbed_rows(model, X), absorbed_rows(model, given)
    if parts[0] is not None or parts[1] is not None:
        return _conditional_of_parts(model, X, given)
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
    log_density, differ = _density_besides(model, X, given)
    return np.where(contradicts | differ, -np.inf, log_both + log_density - log_given)


def _density_besides(model: Model, X: Any, given: Any) -> tuple[FloatArray | float, AnyArray]:
    """The log-density of numbers of `X` that are not given, and where those of both differ."""
    code = model.table_code
    if code is None:
        return 0.0, np.zeros(1, dtype=bool)
    numbers, known = known_numbers(X, code), known_numbers(given, code)
    differ, left = np.zeros(1, dtype=bool), {}
    for name, values in numbers.items():
        others = np.broadcast_to(known.get(name, np.array([np.nan])), values.shape)
        differ = differ | ((values != others) & ~np.isnan(values) & ~np.isnan(others))
        left[name] = np.where(np.isnan(others), values, np.nan)
    return log_density_of(left, code), differ


def _as_dicts(model: Model, X: Any) -> list[dict[Any, Any]]:
    """Any rows as dicts by column or variable."""
    dicts = read_named_rows(X) if X is not None else [{}]
    if dicts is not None:
        return [dict(row) for row in dicts]
    assert model.table_code is not None
    values: Any = known_values(X, model.table_code)
    if not values:  # rows of the 0/1 variables
        values = dict(enumerate(given_rows(model, X)[0].T.tolist()))
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _conditional_of_parts(model: Model, X: Any, given: Any) -> FloatArray:
    """The same where evidence takes parts of cells: one row after the other."""
    rows, known = (_as_dicts(model, item) for item in (X, given))
    if len(known) not in (1, len(rows)):
        raise ValueError(
            f"given must have one row or as many as X ({len(rows)}), but has {len(known)}."
        )
    found = np.empty(len(rows))
    for i, row in enumerate(rows):
        under, rest, _ = absorb(model, known[i % len(known)])
        log_given = log_marginal(under, rest)
        raise_if_impossible(log_given, i)
        try:
            inside, wanted, log_p = absorb(under, row)
            own, other = (given_rows(inside, one)[0] for one in (wanted, rest))
        except NoValueError:  # what is asked for and what is given have no value in common
            found[i] = -np.inf
            continue
        contradicts = np.any((own != other) & ~np.isnan(own) & ~np.isnan(other))
        _, differ = _density_besides(inside, wanted, rest)
        both = log_marginal(inside, rest | wanted)[0] + log_p - log_given[0]
        found[i] = -np.inf if contradicts or differ.any() else both
    return found


def raise_if_impossible(log_given: FloatArray, first_row: int = 0) -> None:
    """Refuse to condition on evidence of probability zero; rows count from `first_row`."""
    impossible = np.flatnonzero(log_given == -np.inf)
    if len(impossible):
        raise ValueError(
            f"Row {first_row + impossible[0]} of the evidence has probability zero under the "
            "model, so it cannot be conditioned on. Set some of its values to NaN."
        )
