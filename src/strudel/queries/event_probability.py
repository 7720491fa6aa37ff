"""Probabilities of what is known, of events, and of components given them.

In:  a model; an event; evidence.
Out: exact probabilities, one per row of evidence.

Facts about single columns are evidence. Counts are one walk of polynomials (`queries.counting`). An
event of a few conditions is a few cases that exclude each other, each of them evidence. All else,
and such an event given many rows where PySDD is installed, is compiled to a circuit on the model's
own vtree, and multiplied.
"""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from typing import Any

import numpy as np

from strudel._torch import find_device
from strudel._types import AnyArray, FloatArray
from strudel.algebra.event_circuit import at_bounds, event_circuit
from strudel.algebra.operands import two_circuits
from strudel.circuits.circuit import Circuit
from strudel.circuits.products import MAX_PAIRS, product
from strudel.circuits.properties import why_not_deterministic
from strudel.circuits.walks import component_logs
from strudel.data.validation import slices
from strudel.errors import CircuitPropertyError, NoValueError, StrudelError
from strudel.logic.column_classes import cases_of, column_leaves, conjunction_of, count_of
from strudel.logic.events import Event
from strudel.logic.terms import said_event
from strudel.queries.by_block import lazily
from strudel.queries.counting import log_counts
from strudel.queries.given import (
    IMPOSSIBLE,
    circuit_of,
    component_posterior,
    facts_of,
    log_mean,
    raise_if_impossible,
    remembered,
)
from strudel.queries.likelihood import in_blocks, logs_of_rows
from strudel.tables.evidence import Evidence
from strudel.tables.schema import Columns

MAX_CASE_ROWS = 2**16  # cases times rows of evidence; more are worth a compiler
FEW_COUNTED = 4  # facts of a count that is asked by cases
FAINT = -575.0  # nats; less probable counts are looked at again in logs


@lazily("given")
def probability(
    model: Any, event: Any, given: Any = None, *, log: bool = False, max_pairs: int = MAX_PAIRS
) -> float | FloatArray:
    """The probability of an event, given evidence.

    Parameters
    ----------
    model : Circuit or fitted estimator
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
    circuit = circuit_of(model)
    if not isinstance(event, Event) and hasattr(event, "vtree") and hasattr(event, "edge_left"):
        circuit, known, evidence = facts_of(circuit, given)
        found = _probability_of_circuit(circuit, event, known, evidence, max_pairs)
    else:
        said = said_event(event, circuit.columns)
        about = column_leaves(said, circuit.columns)
        circuit, known, evidence = facts_of(circuit, given, about)
        log_given = _log_given(circuit, known, evidence, max_pairs)
        both = said if known is None else said & known
        log_both = log_joint(circuit, both, evidence, max_pairs)
        found = np.minimum(log_both - log_given, 0.0)  # rounding may leave 1e-16
    found = found if log else np.exp(found)
    return float(found[0]) if evidence.is_single else found


@lazily("given")
def log_marginal(
    model: Any, given: Any, *, density: bool = True, device: Any = "cpu"
) -> FloatArray:
    """Log-probability of what is given: partly observed rows, or an event.

    Parameters
    ----------
    model : Circuit or fitted estimator
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
    circuit, event, evidence = facts_of(circuit_of(model), given, may_be_impossible=True)
    log_p = log_joint(circuit, event, evidence, device=find_device(device))
    log_density = evidence.log_density() if density else 0.0
    return log_p + log_density + circuit.log_total


@lazily("X", "given")
def log_conditional(model: Any, X: Any, given: Any = None) -> FloatArray:
    """Log-probability of partly observed rows given others, ``log p(X | given)``.

    Parameters
    ----------
    model : Circuit or fitted estimator
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
    circuit = circuit_of(model)
    _, event, evidence = facts_of(circuit, X, name="X", may_be_impossible=True)
    _, known_event, known = facts_of(circuit, given)
    if len(known) not in (1, len(evidence)):
        raise ValueError(
            f"given must have one row or as many as X ({len(evidence)}), but has {len(known)}."
        )
    log_given = _log_given(circuit, known_event, known, MAX_PAIRS)
    both = evidence.together(known)
    events = [own for own in (event, known_event) if own is not None]
    joined = events[0] & events[-1] if len(events) == 2 else next(iter(events), None)
    log_both = log_joint(circuit, joined, both)
    return log_both + both.log_density() - known.log_density() - log_given


@lazily("given")
def responsibilities(model: Any, given: Any, *, device: Any = "cpu") -> FloatArray:
    """Probability of every component given each row.

    Parameters
    ----------
    model : Circuit or fitted estimator
    given : evidence in any form, as in `probability`
        For example rows of 0, 1, or NaN where the value is unknown.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where rows are evaluated, as in `log_likelihood`.

    Returns
    -------
    ndarray of shape (n_rows, n_components)
        Each row adds up to 1.

    Raises
    ------
    ValueError
        If a row has probability zero.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from strudel.circuits import even_structure, figure_1_circuit
    >>> parts = figure_1_circuit(), even_structure(figure_1_circuit())
    >>> mixture = replace(
    ...     parts[0],
    ...     leaf_log_p=np.hstack([part.leaf_log_p for part in parts]),
    ...     edge_log_theta=np.hstack([part.edge_log_theta for part in parts]),
    ...     log_weight=np.log([0.5, 0.5]),
    ... )
    >>> responsibilities(mixture, [[1, 1, 0, 1], [1, 0, 1, np.nan]]).round(2)
    array([[0.61, 0.39],
           [0.16, 0.84]])
    """
    circuit, event, evidence = facts_of(circuit_of(model), given)
    logs = _logs_of_event(circuit, event, evidence, device=find_device(device))
    _need_possible(event, log_mean(circuit, logs))
    return component_posterior(circuit, logs)


# Events together with evidence


def _log_given(
    circuit: Circuit, event: Event | None, evidence: Evidence, max_pairs: int
) -> FloatArray:
    """Log-probability of what is given, which must be possible."""
    log_given = log_joint(circuit, event, evidence, max_pairs)
    _need_possible(event, log_given)
    return log_given


def _need_possible(event: Event | None, log_given: FloatArray) -> None:
    if event is not None and log_given[0] == -np.inf:
        raise NoValueError(f"The given event {IMPOSSIBLE}", "Give another one.", column="")
    raise_if_impossible(log_given)


def log_joint(
    circuit: Circuit,
    event: Event | None,
    evidence: Evidence,
    max_pairs: int = MAX_PAIRS,
    device: Any = None,
) -> FloatArray:
    """Log-probability `(n_rows,)` of an event together with every row."""
    return in_blocks(
        circuit,
        evidence,
        lambda rows: _logs_of_event(circuit, event, rows, max_pairs, device),
    )


def _logs_of_event(
    circuit: Circuit,
    event: Event | None,
    evidence: Evidence,
    max_pairs: int = MAX_PAIRS,
    device: Any = None,
) -> FloatArray:
    """Log-probability of an event together with every row, under every component `(n_rows, k)`."""
    facts = {} if event is None else conjunction_of(event, circuit.columns)
    if event is None or facts is not None:
        return logs_of_rows(circuit, evidence.within(facts) if facts else evidence, device)
    counted = count_of(event, circuit.columns)
    if counted is None or len(counted.inside) <= FEW_COUNTED:
        return _logs_of_cases(circuit, event, evidence, max_pairs)
    logs, is_faint = log_counts(circuit, evidence, counted, FAINT)
    if is_faint.any():
        logs[is_faint] = _logs_of_cases(circuit, event, evidence.take(is_faint), max_pairs)
    return logs


def _logs_of_cases(
    circuit: Circuit, event: Event, evidence: Evidence, max_pairs: int
) -> FloatArray:
    """The same for an event that is more than facts and a count."""
    cases = cases_of(event, circuit.columns)
    if cases is None:
        return _logs_of_compiled(circuit, event, evidence, max_pairs)
    if len(cases) * len(evidence) > MAX_CASE_ROWS and find_spec("pysdd") is not None:
        with contextlib.suppress(StrudelError):  # too large: then by cases
            return _logs_of_compiled(circuit, event, evidence, max_pairs)
    logs = np.full((len(evidence), circuit.n_components), -np.inf)
    if not cases:
        return logs
    for part in slices(len(evidence), max(1, MAX_CASE_ROWS // len(cases))):
        rows: AnyArray = np.arange(part.start, part.stop)
        asked = evidence.take(rows).within_each(cases)
        own = np.full((len(asked), circuit.n_components), -np.inf)
        may_be = np.logical_and.reduce([asked.is_possible(c) for c in range(len(circuit.columns))])
        own[may_be] = component_logs(circuit, asked.take(may_be))
        logs[part] = np.logaddexp.reduce(own.reshape(len(cases), len(rows), -1), axis=0)
    return logs


def _logs_of_compiled(
    circuit: Circuit, event: Event, evidence: Evidence, max_pairs: int
) -> FloatArray:
    """The same by the product of the model and the circuit of the event."""
    key = event, max_pairs
    columns, both = remembered(circuit, key, lambda: _with_event(circuit, event, max_pairs))
    if both is None:
        return np.full((len(evidence), circuit.n_components), -np.inf)
    return component_logs(both, evidence.refined(columns))


def _with_event(circuit: Circuit, event: Event, max_pairs: int) -> tuple[Columns, Circuit | None]:
    """The product of the model and the circuit of an event, and its columns."""
    fine = at_bounds(circuit, event)
    made = event_circuit(fine, event)
    both = None if made is None else product(fine, made, max_pairs, "probability")
    return fine.columns, both


def _probability_of_circuit(
    circuit: Circuit, event: Any, known: Event | None, evidence: Evidence, max_pairs: int
) -> FloatArray:
    """The log-probability of an event that is a circuit of parameters 0 and 1."""
    if known is not None:
        raise TypeError(
            "The event must not be a Circuit if `given` is an event. Use multiply and condition."
        )
    for name in ("edge_log_theta", "leaf_log_p"):
        logs = getattr(event, name, np.zeros(0))
        if np.any((logs != 0.0) & (logs != -np.inf)):
            raise ValueError(
                "A circuit given as an event must have only the parameters 0 and 1. Use multiply "
                "for any other circuit."
            )
    circuit, made = two_circuits(circuit, event, "probability")
    reason = why_not_deterministic(made)
    if reason is not None:
        raise CircuitPropertyError(
            "probability counts every row of an event once, which needs a deterministic circuit, "
            f"but {reason}."
        )
    evidence = evidence.refined(circuit.columns)
    log_given = _log_given(circuit, None, evidence, max_pairs)
    both = product(circuit, made, max_pairs, "probability")
    log_both = log_mean(both, component_logs(both, evidence)) + made.log_total
    return np.minimum(log_both - log_given, 0.0)
