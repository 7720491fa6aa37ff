"""Probability of partly observed rows: unknown values are summed out."""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._torch import find_device
from strudel._types import AnyArray, FloatArray
from strudel.algebra.conditioning import condition
from strudel.algebra.evidence import absorbed_rows, said_facts
from strudel.circuits.walks import raise_if_impossible as raise_if_impossible
from strudel.data.validation import check_evidence, read_named_rows
from strudel.logic.event_forms import is_formula
from strudel.queries.arguments import given_rows, log_density_in
from strudel.queries.by_block import lazily
from strudel.queries.model import Model, model_of
from strudel.queries.probabilities import log_probabilities
from strudel.tables.table_code import known_numbers, known_values, log_density_of


@lazily("given")
def log_marginal(
    model: Model, given: Any, *, density: bool = True, device: Any = "cpu"
) -> FloatArray:
    """Log-probability of what is given: partly observed rows, or an event.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    given : evidence in any form, as in `probability`
        For example rows of 0, 1, or NaN where the value is unknown.
    density : bool, default=True
        Whether a number or date that is given counts with its density; else with the probability of
        its cell, as in `most_probable_state`.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where rows are evaluated, as in `log_likelihood`.

    Returns
    -------
    ndarray of shape (n_rows,)
        Exact natural logs; ``-inf`` where the evidence is impossible. An event or a dict is one
        row.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> log_marginal(figure_1_circuit(), [[1, np.nan, 0, 1]]).round(2)
    array([-1.63])
    >>> log_marginal(figure_1_circuit(), "X1 & ~X3 & X4 | ~X4 & X2").round(2)
    array([-0.37])
    """
    model = model_of(model)
    facts = absorbed_rows(model, given)
    place = find_device(device)
    if facts is None:
        return _rows_log_marginal(model, given, place, density)
    logs = [
        -np.inf
        if one is None
        else one.log_probability + _rows_log_marginal(*one[:2], place, density)[0]
        for one in facts
    ]
    return np.array(logs)


def _rows_log_marginal(model: Model, rows: Any, place: Any, density: bool) -> FloatArray:
    """The same for rows, or dicts of values of which no cell is cut."""
    evidence, _ = given_rows(model, rows)
    log_density = log_density_in(model, rows, density)
    if place is None:
        return log_probabilities(model, evidence, "log_marginal") + log_density
    from strudel.queries.likelihood import rows_log_likelihood  # late: it needs this module

    return rows_log_likelihood(model, evidence, place) + log_density


@lazily("X", "given")
def log_conditional(model: Model, X: Any, given: Any = None) -> FloatArray:
    """Log-probability of partly observed rows given others, ``log p(X | given)``.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable; in normal form if `X` or `given` has events, sets or intervals.
    X, given : evidence in any form, as in `probability`
        For example rows of 0, 1, or NaN where the value is unknown; one row of `given` serves all
        rows of `X`.

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
    if said_facts(model, X) is not None or said_facts(model, given) is not None:
        return _conditional_of_facts(model, X, given)
    rows = check_evidence(X, n_vars=model.n_vars, feature_names=model.feature_names)
    known, _ = given_rows(model, given)
    _check_numbers_of_rows(len(rows), len(known))
    known = np.broadcast_to(known, rows.shape)
    log_given = log_probabilities(model, known, "log_conditional")
    raise_if_impossible(log_given)
    both = np.where(np.isnan(rows), known, rows)
    log_both = log_probabilities(model, both, "log_conditional")
    contradicts = np.any((rows != known) & ~np.isnan(rows) & ~np.isnan(known), axis=1)
    log_density, differ = _density_besides(model, X, given)
    return np.where(contradicts | differ, -np.inf, log_both + log_density - log_given)


def _check_numbers_of_rows(n_rows: int, n_given: int) -> None:
    if n_given not in (1, n_rows):
        raise ValueError(f"given must have one row or as many as X ({n_rows}), but has {n_given}.")


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


def _one_by_one(model: Model, X: Any) -> list[Any]:
    """An event, or any rows as dicts by column or variable."""
    if is_formula(X):
        return [X]
    dicts = read_named_rows(X) if X is not None else [{}]
    if dicts is not None:
        return list(dicts)
    values: Any = {} if model.table_code is None else known_values(X, model.table_code)
    if not values:  # rows of the 0/1 variables
        values = dict(enumerate(given_rows(model, X)[0].T.tolist()))
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _conditional_of_facts(model: Model, X: Any, given: Any) -> FloatArray:
    """The same for events, sets and intervals: one row after the other, given a model each."""
    rows, known = (_one_by_one(model, item) for item in (X, given))
    _check_numbers_of_rows(len(rows), len(known))
    models = [condition(model, one) for one in known]
    logs = [log_marginal(models[i % len(known)], row)[0] for i, row in enumerate(rows)]
    return np.array(logs)
