"""The probability of an event.

In:  a circuit, a mixture or a fitted estimator; an event; what is given.
Out: an exact probability, or one per row.

Conjunctions are evidence. Counts are one pass of polynomials (`queries/counting.py`). An event of a
few conditions is a few conjunctions that exclude each other (`event_cases`). All else, and such an
event given many rows where PySDD is installed, is compiled to an SDD on the model's own vtree,
whose pairs with the circuit are added up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.algebra.event_cases import cases_log_probabilities, event_cases
from strudel.algebra.given_event import EventPairs, event_pairs, simple_event_of
from strudel.algebra.inner_bounds import bounds_of, has_bounds, with_coins
from strudel.algebra.operands import columns_of
from strudel.algebra.pairs import MAX_PAIRS
from strudel.circuits.circuit import Circuit
from strudel.circuits.evaluate import evaluate_edges
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import decode, distinct_rows, encode
from strudel.errors import StrudelError
from strudel.logic.event_forms import as_event, is_formula
from strudel.logic.events import Event
from strudel.logic.simple_events import SimpleEvent
from strudel.queries.arguments import given_rows
from strudel.queries.by_block import by_block
from strudel.queries.counting import count_ones
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model, model_of, structure_of
from strudel.queries.probabilities import log_probabilities
from strudel.queries.soft_evidence import with_code
from strudel.tables.table_code import known_numbers

MAX_CASE_ROWS = 2**16  # cases times rows of evidence; more are worth a compiler
FEW_COUNTED = 4  # literals of a count that is asked of a mixture by cases
FAINT = 1e-250  # counts below are looked at again in logs


@by_block("given", about=("event",), has_own_events=True)
def probability(
    model: Any, event: Any, given: Any = None, *, log: bool = False, max_pairs: int = MAX_PAIRS
) -> float | FloatArray:
    """The probability of an event, given evidence.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        In normal form.
    event : Event, str, Cnf, Dnf, Nnf, Sdd, dict, row, or Circuit
        For example ``"a & ~(b | c)"``, an expression of `variables`, or what `read` returns for a
        formula file. A circuit must be deterministic, on the model's vtree, with parameters 0 and 1
        only.
    given : evidence, optional
        Nothing is known by default. Every query takes it in any of these forms: a text or another
        event (``"age > 60 & smoker = yes | cough = yes"``); a dict of values, sets and intervals
        (``{"age": (60, None), "city": {"Rome", "Oslo"}}``, where ``(low, high)`` is ``low <= x <
        high``), or a list of them; a row, or rows, of 0, 1 and NaN where the value is unknown; a
        frame with some or all columns.
    log : bool
        Whether to return the natural log, which keeps small probabilities apart.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, of the model and the compiled event, at about 60
        bytes each.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` is a table

    Raises
    ------
    ValueError
        If what is given has probability zero, or the event cannot be read.
    MissingDependencyError
        If the event needs PySDD, which is not installed. Rows, conjunctions, single clauses, counts
        of variables, SDDs on the model's vtree, and any formula of a few conditions do not.

    Examples
    --------
    >>> from strudel import variables
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> round(probability(circuit, "X1 & ~(X2 | X3)"), 4)
    0.14
    >>> x = variables(circuit)
    >>> round(probability(circuit, x["X1"] >> x["X2"], given={"X3": 1}), 4)
    0.96
    >>> round(probability(circuit, "at_least(2, X1, X2, X4)"), 4)
    0.5656
    """
    model = model_of(model)
    if is_formula(given):
        found, is_single = _given_event(model, event, given, max_pairs), True
    else:
        rows, is_single = given_rows(model, given)
        found = np.empty(len(rows))
        for own, at in _models_at(model, event, given, len(rows)):
            found[own] = event_log_probabilities(at, event, rows[own], max_pairs)
    found = found if log else np.exp(found)
    return float(found[0]) if is_single else found


def _models_at(
    model: Model, event: Any, given: Any, n_rows: int
) -> Iterator[tuple[AnyArray, Model]]:
    """Rows of evidence, and the model whose columns hold only the numbers that they give.

    Of columns of which an event has bounds inside cells: the 0/1 variables tell the cell alone.
    """
    code = model.table_code
    every = np.arange(n_rows)
    if code is None or given is None or isinstance(event, Circuit):
        yield every, model
        return
    bounded = bounds_of(as_event(event, model.n_vars, model.feature_names))
    known = {name: x for name, x in known_numbers(given, code).items() if name in bounded}
    if not known:
        yield every, model
        return
    numbers = np.nan_to_num(np.column_stack(list(known.values())), nan=np.inf)  # NaNs differ
    few, place = np.unique(numbers, axis=0, return_inverse=True)
    for i, row in enumerate(few.tolist()):
        at = {name: x for name, x in zip(known, row, strict=True) if np.isfinite(x)}
        columns = (own.at(at[own.name]) if own.name in at else own for own in code.columns)
        yield every[place.ravel() == i], with_code(model, replace(code, columns=tuple(columns)))


def _given_event(model: Model, event: Any, given: Any, max_pairs: int) -> FloatArray:
    """The log-probability of an event given another one."""
    given = as_event(given, model.n_vars, model.feature_names)
    nothing = np.full((1, model.n_vars), np.nan)
    log_given = _log_probabilities(model, given, nothing, max_pairs)
    if log_given[0] == -np.inf:
        raise ValueError(
            "The given event has probability zero under the model, so it cannot be conditioned "
            "on. Give another event."
        )
    if isinstance(event, Circuit):
        raise TypeError(
            "The event must not be a Circuit if `given` is an event. Use multiply and condition."
        )
    both = as_event(event, model.n_vars, model.feature_names) & given
    log_joint = _log_probabilities(model, both, nothing, max_pairs)
    return np.minimum(log_joint - log_given, 0.0)  # rounding may leave 1e-16


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
    simple = simple_event_of(model, event)
    if simple is not None and 0 < len(simple.counted) <= FEW_COUNTED and isinstance(model, Mixture):
        simple = None  # a few cases are quicker than the counts of every component
    log_p = np.full(len(rows), -np.inf)
    is_open = np.ones(len(rows), dtype=np.bool_)
    if simple is not None:
        log_p, is_open = _simple_log_probabilities(model, simple, rows)
    if is_open.any():
        log_p[is_open] = _other_log_probabilities(model, event, rows[is_open], max_pairs)
    return log_p[place]


def _other_log_probabilities(
    model: Model, event: Event | Circuit, rows: FloatArray, max_pairs: int
) -> FloatArray:
    """The same for an event that is more than literals and a count."""
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


def _simple_log_probabilities(
    model: Model, simple: SimpleEvent, rows: FloatArray
) -> tuple[FloatArray, AnyArray]:
    """Literals are evidence, and counts have a pass of their own.

    Also returns where a count is so improbable that its pass, which is not in logs, may be off.
    """
    literals = np.array(simple.literals, dtype=np.int64)
    var, value = literals // 2, literals % 2
    is_against = np.any(rows[:, var] == 1 - value, axis=1)
    rows = rows.copy()
    rows[:, var] = value
    log_p = log_probabilities(model, rows, "probability")
    log_p[is_against] = -np.inf
    is_faint = np.zeros(len(rows), dtype=np.bool_)
    if not simple.counted:
        return (log_p if simple.low == 0 else np.full(len(rows), -np.inf)), is_faint
    is_possible = log_p > -np.inf
    if is_possible.any() and simple.low <= simple.high:
        counts = _counts(model, np.array(simple.counted), rows[is_possible])
        total = counts[:, simple.low : simple.high + 1].sum(axis=1)
        is_faint[is_possible] = (total < FAINT) & _may_count(simple, rows[is_possible])
        with np.errstate(divide="ignore"):
            log_p[is_possible] += np.log(total)
    elif is_possible.any():
        log_p[:] = -np.inf
    return log_p, is_faint


def _may_count(simple: SimpleEvent, rows: FloatArray) -> AnyArray:
    """Whether what is known of each row leaves room for the count."""
    counted = np.array(simple.counted)
    known = rows[:, counted // 2]
    n_true = (known == counted % 2).sum(axis=1)
    n_open = np.isnan(known).sum(axis=1)
    return (n_true <= simple.high) & (n_true + n_open >= simple.low)


def _counts(model: Model, counted: AnyArray, rows: FloatArray) -> FloatArray:
    """The probability of every number of literals that hold, given each row."""
    flipped = counted[counted % 2 == 0] // 2
    if len(flipped):  # count zeros of these variables as ones of others
        model, rows = _flip(model, flipped), rows.copy()
        rows[:, flipped] = 1.0 - rows[:, flipped]
    is_counted = np.zeros(model.n_vars, dtype=np.bool_)
    is_counted[counted // 2] = True
    return count_ones(model, is_counted, rows)


def _flip(model: Model, variables: AnyArray) -> Model:
    """The model of the same table with the zeros and ones of some columns exchanged."""
    circuit = structure_of(model)
    number = np.arange(circuit.n_nodes + 1, dtype=np.int32)
    number[-1] = -1  # NONE stays NONE
    number[2 * variables], number[2 * variables + 1] = 2 * variables + 1, 2 * variables
    circuit = replace(
        circuit, edge_left=number[circuit.edge_left], edge_right=number[circuit.edge_right]
    )
    if isinstance(model, Mixture):
        return replace(model, structure=circuit)
    return circuit
