"""Anything that can be an event, as an `Event`.

In:  an event, a string, a `Cnf`, `Dnf`, `Nnf` or `Sdd`, a dict of values, or one row.
Out: `Event`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strudel._names import find_name, names_of, places_of
from strudel.data.validation import check_evidence
from strudel.logic.column_events import ColumnTerm
from strudel.logic.event_grammar import Words, parse_event
from strudel.logic.events import FALSE_EVENT, TRUE_EVENT, Event, children_first, with_leaves
from strudel.logic.formula import AND, LITERAL, Cnf, Dnf, Nnf
from strudel.logic.sdd import Sdd
from strudel.tables.columns import is_missing
from strudel.tables.table_code import bit_column, code_of

FORMULAS = (Cnf, Dnf, Nnf, Sdd)


def is_formula(item: Any) -> bool:
    """Whether something is an event and not a row or rows of values."""
    return isinstance(item, (Event, str, bool, np.bool_, *FORMULAS))


def as_event(item: Any, n_vars: int, feature_names: Sequence[str] | None = None) -> Event:
    """An event over the variables of a model."""
    names = names_of(n_vars, feature_names)
    return without_points(said_event(item, n_vars, feature_names), names)


def without_points(event: Event, names: Sequence[str]) -> Event:
    """The event with bounds for points; a number that has only a density is impossible."""
    if all(part.kind != "point" for part, _ in children_first(event)):
        return event
    code = code_of(names)

    def bounded(leaf: Event) -> Event:
        if leaf.kind != "point":
            return leaf
        if code is None or leaf.var not in code.names:
            find_name(leaf.var, places_of(names), "The event")  # says which names there are
        assert code is not None
        region = ((leaf.bound, math.nextafter(leaf.bound, math.inf)),)
        return ColumnTerm(code.column(str(leaf.var)), names).within(region)

    return with_leaves(event, bounded)


def said_event(item: Any, n_vars: int, feature_names: Sequence[str] | None = None) -> Event:
    """The event as it was said, in which ``age = 35`` may be a point."""
    event = _said_event(item, n_vars, feature_names)
    code = code_of(names_of(n_vars, feature_names))
    if code is None or all(part.kind != "in" for part, _ in children_first(event)):
        return event
    names = names_of(n_vars, feature_names)

    def in_bits(leaf: Event) -> Event:
        if leaf.kind != "in":
            return leaf
        return ColumnTerm(code.column(str(leaf.var)), names).in_region(leaf.region)

    return with_leaves(event, in_bits)


def _said_event(item: Any, n_vars: int, feature_names: Sequence[str] | None = None) -> Event:
    if isinstance(item, str):
        return parse_event(item, _words(names_of(n_vars, feature_names)))
    if isinstance(item, FORMULAS) and item.n_vars > n_vars:
        raise ValueError(
            f"The event is over {item.n_vars} variables, but the model has only {n_vars}."
        )
    found = None if isinstance(item, Mapping) else event_of(item)
    if found is not None:
        return found
    if isinstance(item, Mapping):
        return _in_columns(item, names_of(n_vars, feature_names))
    rows = check_evidence(item, n_vars=n_vars, feature_names=feature_names, name="event")
    if len(rows) != 1:
        raise ValueError(
            f"An event must be one row, but has {len(rows)}. Join several with | or Dnf."
        )
    known = np.flatnonzero(~np.isnan(rows[0]))
    return _literals("and", 2 * known + rows[0, known].astype(np.int64))


def _words(names: tuple[str, ...]) -> Words:
    """The names that a text may use, of a model over 0/1 variables."""
    code, place = code_of(names), places_of(names)

    def term_of(name: str) -> ColumnTerm:
        is_column = code is not None and name in code.names
        column = code.column(name) if code and is_column else bit_column(name, place[name])
        return ColumnTerm(column, names)

    return Words(place, () if code is None else code.names, term_of)


def _in_columns(row: Mapping[Any, Any], names: tuple[str, ...]) -> Event:
    """The event that columns of a table, or 0/1 variables of theirs, have these values."""
    code, place = code_of(names), places_of(names)
    events = []
    for name, value in row.items():
        is_single = not isinstance(value, tuple | list | set | frozenset | range | np.ndarray)
        if is_single and is_missing(value):
            continue
        if code is not None and isinstance(name, str) and name in code.names:
            column = code.column(name)
        else:
            if code is not None and isinstance(name, str) and name not in place:
                code.column(name)  # says which columns there are
            var = find_name(name, place, "The event")
            column = bit_column(names[var], var)
        events.append(ColumnTerm(column, names).agrees(value))
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
