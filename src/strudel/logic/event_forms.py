"""Anything that can be an event without a model, as an `Event`.

In:  an event, a string, a `Cnf`, `Dnf`, `Nnf` or `Sdd`, or a dict of values.
Out: `Event`. What only the columns of a model can read is in `terms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from strudel.logic.event_grammar import parse_event
from strudel.logic.events import FALSE_EVENT, TRUE_EVENT, Event
from strudel.logic.formula import AND, LITERAL, Cnf, Dnf, Nnf
from strudel.logic.sdd import Sdd

FORMULAS = (Cnf, Dnf, Nnf, Sdd)


def is_formula(item: Any) -> bool:
    """Whether something is an event and not a row or rows of values."""
    return isinstance(item, (Event, str, bool, np.bool_, *FORMULAS))


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
