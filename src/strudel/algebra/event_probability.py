"""The probability of an event about 0/1 variables, for predictors.

In:  a circuit or a mixture; an event; rows of 0, 1 and NaN.
Out: exact log-probabilities.

Conjunctions are evidence. Counts are one pass of polynomials (`queries/counting.py`). An event of a
few conditions is a few conjunctions that exclude each other (`event_cases`). All else, and such an
event given many rows where PySDD is installed, is compiled to an SDD on the model's own vtree,
whose pairs with the circuit are added up.
"""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from typing import Any

import numpy as np

from strudel._types import FloatArray
from strudel.algebra.event_cases import cases_log_probabilities, event_cases
from strudel.algebra.given_event import EventPairs, event_pairs
from strudel.algebra.inner_bounds import has_bounds, with_coins
from strudel.algebra.operands import columns_of
from strudel.algebra.pairs import MAX_PAIRS
from strudel.circuits.circuit import Circuit
from strudel.circuits.evaluate import evaluate_edges
from strudel.circuits.passes import decode, distinct_rows, encode
from strudel.circuits.walks import raise_if_impossible
from strudel.errors import StrudelError
from strudel.logic.event_forms import as_event
from strudel.logic.events import Event
from strudel.queries.model import Model
from strudel.queries.probabilities import log_probabilities

MAX_CASE_ROWS = 2**16  # cases times rows of evidence; more are worth a compiler


def event_log_probabilities(
    model: Model, event: Any, rows: FloatArray, max_pairs: int = MAX_PAIRS
) -> FloatArray:
    """The log-probability of an event given each row of the 0/1 variables."""
    log_given = log_probabilities(model, rows, "probability")
    raise_if_impossible(log_given)
    log_joint = _log_probabilities(model, event, rows, max_pairs)
    return np.minimum(log_joint - log_given, 0.0)  # rounding may leave 1e-16


def _log_probabilities(
    model: Model, event: Any, evidence: FloatArray, max_pairs: int
) -> FloatArray:
    """Log-probability of the event together with every row of evidence."""
    codes, place = distinct_rows(encode(evidence))
    rows = decode(codes)
    if not isinstance(event, Circuit):
        event = as_event(event, model.n_vars, model.feature_names)
    return _other_log_probabilities(model, event, rows, max_pairs)[place]


def _other_log_probabilities(
    model: Model, event: Event | Circuit, rows: FloatArray, max_pairs: int
) -> FloatArray:
    """The same for distinct rows."""
    if not isinstance(event, Circuit):
        cases = event_cases(model, event)
        if cases is not None:
            is_much = len(cases.codes) * len(rows) > MAX_CASE_ROWS
            if is_much and not cases.bounds and find_spec("pysdd") is not None:
                with contextlib.suppress(StrudelError):  # too large: then by cases
                    return _compiled_log_probabilities(model, event, rows, max_pairs)
            return cases_log_probabilities(model, cases, rows)
        if has_bounds(event):
            larger, event = with_coins(model, event)
            open_rows = np.full((len(rows), larger.n_vars), np.nan)
            open_rows[:, : model.n_vars] = rows
            return _log_probabilities(larger, event, open_rows, max_pairs)
    return _compiled_log_probabilities(model, event, rows, max_pairs)


def _compiled_log_probabilities(
    model: Model, event: Event | Circuit, rows: FloatArray, max_pairs: int
) -> FloatArray:
    """The same from the pairs of the model and the compiled event."""
    found = event_pairs(model, event, "probability", max_pairs, by_cases=False)
    if found is None:
        return np.full(len(rows), -np.inf)
    return _pairs_log_probabilities(model, found, rows)


def _pairs_log_probabilities(model: Model, found: EventPairs, rows: FloatArray) -> FloatArray:
    """One pass over the pairs per component."""
    log_p = np.full(len(rows), -np.inf)
    for c, log_weight in enumerate(columns_of(model).log_weight):
        one = evaluate_edges(found.pairs.edges, found.weights_of(c), rows)
        np.logaddexp(log_p, one + log_weight, out=log_p)
    return log_p
