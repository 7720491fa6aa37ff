"""Anything that can be an event, as an `Event`.

In:  an event, a string, a `Cnf`, `Dnf`, `Nnf` or `Sdd`, a dict of values, or one row.
Out: `Event`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strudel._names import names_of, places_of
from strudel.data.validation import check_evidence
from strudel.logic.column_events import ColumnTerm
from strudel.logic.event_grammar import parse_event
from strudel.logic.events import FALSE_EVENT, TRUE_EVENT, Event
from strudel.logic.formula import AND, LITERAL, Cnf, Dnf, Nnf
from strudel.logic.sdd import Sdd
from strudel.tables.coded_rows import code_of
from strudel.tables.columns import is_missing

FORMULAS = (Cnf, Dnf, Nnf, Sdd)


def is_formula(item: Any) -> bool:
    """Whether something is an event and not a row or rows of values."""
    return isinstance(item, (Event, str, bool, np.bool_, *FORMULAS))


def as_event(item: Any, n_vars: int, feature_names: Sequence[str] | None = None) -> Event:
    """An event over the variables of a model."""
    if isinstance(item, str):
        names = names_of(n_vars, feature_names)
        return parse_event(item, places_of(names), code_of(names))
    if isinstance(item, FORMULAS) and item.n_vars > n_vars:
        raise ValueError(
            f"The event is over {item.n_vars} variables, but the model has only {n_vars}."
        )
    found = None if isinstance(item, Mapping) else event_of(item)
    if found is not None:
        return found
    names = names_of(n_vars, feature_names)
    if isinstance(item, Mapping) and code_of(names) is not None:
        return _in_columns(item, names)
    rows = check_evidence(item, n_vars=n_vars, feature_names=feature_names, name="event")
    if len(rows) != 1:
        raise ValueError(
            f"An event must be one row, but has {len(rows)}. Join several with | or Dnf."
        )
    known = np.flatnonzero(~np.isnan(rows[0]))
    return _literals("and", 2 * known + rows[0, known].astype(np.int64))


def _in_columns(row: Mapping[Any, Any], names: tuple[str, ...]) -> Event:
    """The event that columns of a table, or 0/1 variables of theirs, have these values."""
    code = code_of(names)
    assert code is not None
    events = []
    for name, value in row.items():
        is_single = not isinstance(value, tuple | list | set | frozenset | range | np.ndarray)
        if is_single and is_missing(value):
            continue
        if isinstance(name, str) and name in code.names:
            events.append(ColumnTerm(code.column(name), names).agrees(value))
        else:
            known = check_evidence({name: value}, feature_names=names, n_vars=len(names))[0]
            var = np.flatnonzero(~np.isnan(known))
            events.append(_literals("and", 2 * var + known[var].astype(np.int64)))
    return Event("and", tuple(events))


def event_of(item: Any) -> Event | None:
    """An event from what needs no model to be one; None for anything else, rows included."""
    if isinstance(item, Event):
        return item
    if isinstance(item, str):
        return parse_event(item)
    if isinstance(item, bool | np.bool_):
        return TRUE_EVENT if item else FALSE_EVENT
    if isinstance(item, Mapping):
        return _values(item)
    if isinstance(item, Sdd):
        return Event("sdd", sdd=item)
    if isinstance(item, Cnf | Dnf):
        outer, inner = ("and", "or") if isinstance(item, Cnf) else ("or", "and")
        groups = np.split(item.literal, item.group_start[1:-1]) if item.n_groups else []
        return Event(outer, tuple(_literals(inner, group) for group in groups))
    return _from_nnf(item) if isinstance(item, Nnf) else None


def _literals(kind: str, literals: Any) -> Event:
    return Event(kind, tuple(_literal(literal) for literal in literals.tolist()))


def _literal(literal: int) -> Event:
    event = Event("variable", var=literal // 2)
    return event if literal % 2 else ~event


def _values(values: Mapping[Any, Any]) -> Event:
    events = []
    for name, value in values.items():
        if value is None or not isinstance(value == value, bool | np.bool_) or value != value:
            continue  # unknown: None, NaN, or NA, which does not even say whether it equals itself
        if value not in (0, 1):
            raise ValueError(f"The value of {name!r} must be 0, 1 or NaN, but is {value!r}.")
        event = Event("variable", var=name)
        events.append(event if value == 1 else ~event)
    return Event("and", tuple(events))


def _from_nnf(nnf: Nnf) -> Event:
    events: list[Event] = []
    for node in range(nnf.n_nodes):
        if nnf.node_kind[node] == LITERAL:
            events.append(_literal(int(nnf.node_literal[node])))
        else:
            kind = "and" if nnf.node_kind[node] == AND else "or"
            events.append(Event(kind, tuple(events[child] for child in nnf.children(node))))
    return events[-1]
