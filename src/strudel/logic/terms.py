"""Columns in events: ``x["age"] > 60`` as a statement about one column.

In:  `Columns`, and a comparison of one of them, a text, a dict, or any other form of an event.
Out: `Event`s whose leaves say in which region a column lies, or that a 0/1 variable is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from strudel._names import places_of, quote
from strudel._types import AnyArray
from strudel.data.validation import check_evidence
from strudel.logic.event_grammar import Words, parse_event
from strudel.logic.events import FALSE_EVENT, TRUE_EVENT, Event, quoted
from strudel.logic.events import at_least as at_least
from strudel.logic.formula import AND, LITERAL, Cnf, Dnf, Nnf
from strudel.logic.sdd import Sdd
from strudel.tables.column import (
    BIT,
    Column,
    bound_text,
    compare,
    compared_region,
    is_in,
    is_several,
    places_in,
    places_region,
    said_region,
    said_values,
)
from strudel.tables.columns import is_missing
from strudel.tables.density import Region
from strudel.tables.schema import Columns, bit_columns

FORMULAS = (Cnf, Dnf, Nnf, Sdd)


class Term:
    """A column of a table, which comparisons turn into events.

    Made by `variables` of a model that was learned from a table. Has ``==``, ``!=``, ``<``, ``<=``,
    ``>``, ``>=``, `isin` and `between`.
    """

    def __init__(self, column: Column) -> None:
        self.column = column

    def compare(self, operator: str, value: Any) -> Event:
        """The event that this comparison of the column with a value holds."""
        if operator == "!=":
            return ~self.compare("==", value)
        if self.column.is_numeric:
            return self._in(compared_region(self.column, operator, value))
        return self._has(compare(self.column, operator, value))

    def isin(self, values: Iterable[Any]) -> Event:
        """The event that the column has one of these values."""
        if self.column.is_numeric:
            return self._in(said_region(self.column, list(values)))
        return self._has(is_in(self.column, values))

    def between(self, low: Any, high: Any) -> Event:
        """The event ``low <= x < high``; None leaves an end open."""
        return self.agrees((low, high))

    def agrees(self, value: Any) -> Event:
        """The event that the column agrees with a piece of evidence, as in a dict."""
        if self.column.is_numeric:
            return self._in(said_region(self.column, value))
        return self._has(said_values(self.column, value))

    def __eq__(self, other: object) -> Event:  # type: ignore[override]
        return self.compare("==", other)

    def __ne__(self, other: object) -> Event:  # type: ignore[override]
        return self.compare("!=", other)

    def __lt__(self, other: Any) -> Event:
        return self.compare("<", other)

    def __le__(self, other: Any) -> Event:
        return self.compare("<=", other)

    def __gt__(self, other: Any) -> Event:
        return self.compare(">", other)

    def __ge__(self, other: Any) -> Event:
        return self.compare(">=", other)

    __hash__ = object.__hash__

    def _has(self, holds: AnyArray) -> Event:
        """The event that the column has one of those values that hold."""
        if holds.all() or not holds.any():
            return TRUE_EVENT if holds.all() else FALSE_EVENT
        if self.column.kind == BIT:
            event = Event("variable", var=self.column.name)
            return event if holds[1] else ~event
        return self._in(places_region(holds))

    def _in(self, region: Region) -> Event:
        if not region:
            return FALSE_EVENT
        return Event("in", var=self.column.name, region=region, said=_said(self.column, region))

    def __and__(self, other: Any) -> Event:
        raise TypeError(
            f"Column {self.column.name!r} is not an event until it is compared, as in "
            f"(x[{self.column.name!r}] == {self.column.values[-1]!r}) & ...: write the "
            "parentheses, since & binds more tightly than a comparison."
        )

    __or__ = __rand__ = __ror__ = __xor__ = __rxor__ = __rshift__ = __rrshift__ = __and__

    def __invert__(self) -> Event:
        return self & self

    def __bool__(self) -> bool:
        raise TypeError(f"Column {self.column.name!r} is neither true nor false: compare it.")

    def __repr__(self) -> str:
        column = self.column
        return f"Term({column.name!r}: {column.kind} with {quote(column.labels)})"


class Variables:
    """The columns of a model by name or number: of 0 and 1, or true and false, as events.

    All others are `Term`s, to be compared.

    Examples
    --------
    >>> x = variables(("smoker", "cough"))
    >>> x["smoker"] >> x["cough"]
    Event('smoker >> cough')
    >>> at_least(1, x)
    Event('at_least(1, smoker, cough)')
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def __getitem__(self, key: str | int) -> Any:
        column = self.columns[self.columns.place(key, "variables")]
        if column.kind == BIT:
            return Event("variable", var=column.name)
        term = Term(column)
        if column.kind != "boolean":
            return term
        return term.compare("==", True) if True in column.values else FALSE_EVENT

    def __iter__(self) -> Iterator[Any]:
        return (self[name] for name in self.columns.names)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        return f"Variables({quote(self.columns.names)})"


def _said(column: Column, region: Region) -> str:
    """A region as the grammar takes it."""
    name = quoted(column.name)
    if not column.is_numeric:
        labels = [quoted(column.labels[place]) for place in places_in(column, region)]
        return f"{name} = {labels[0]}" if len(labels) == 1 else f"{name} in {{{', '.join(labels)}}}"
    parts = []
    for low, high in region:
        (is_above, least), (is_upto, most) = _end(column, low), _end(column, high)
        if high == math.nextafter(low, math.inf):
            parts.append(f"{name} = {least}")
        elif high == math.inf:
            parts.append(f"{name} {'>' if is_above else '>='} {least}")
        elif low == -math.inf:
            parts.append(f"{name} {'<=' if is_upto else '<'} {most}")
        else:
            signs = "<" if is_above else "<=", "<=" if is_upto else "<"
            parts.append(f"({least} {signs[0]} {name} {signs[1]} {most})")
    return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"


def _end(column: Column, bound: float) -> tuple[bool, str]:
    """A bound as it is written, and whether it is what comes just after that."""
    if math.isinf(bound):
        return False, ""
    below = math.nextafter(bound, -math.inf)
    is_after = len(repr(below)) < len(repr(bound))
    return is_after, bound_text(column, below if is_after else bound)


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
        return Event(
            outer, tuple(Event(inner, tuple(map(_literal, group.tolist()))) for group in groups)
        )
    return _from_nnf(item) if isinstance(item, Nnf) else None


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


def said_event(item: Any, columns: Columns) -> Event:
    """Anything that can be an event, over the columns of a model."""
    if isinstance(item, str):
        return parse_event(item, _words(columns))
    if isinstance(item, FORMULAS) and item.n_vars > len(columns):
        raise ValueError(
            f"The event is over {item.n_vars} variables, but the model has only {len(columns)}."
        )
    if isinstance(item, Mapping):
        return _in_columns(item, columns)
    found = event_of(item)
    if found is not None:
        return found
    rows = check_evidence(item, n_vars=len(columns), feature_names=columns.names, name="event")
    if len(rows) != 1:
        raise ValueError(
            f"An event must be one row, but has {len(rows)}. Join several with | or Dnf."
        )
    known = np.flatnonzero(~np.isnan(rows[0]))
    bits = rows[0, known].astype(np.int64)
    return _in_columns(dict(zip(known.tolist(), bits.tolist(), strict=True)), columns)


def _words(columns: Columns) -> Words:
    """The names that a text may use."""
    events = [column.name for column in columns if column.kind in (BIT, "boolean")]
    others = [column.name for column in columns if column.kind != BIT]
    known = Variables(columns)
    return Words(events, others, lambda name: Term(columns[columns.place(name)]), known.__getitem__)


def _in_columns(row: Mapping[Any, Any], columns: Columns) -> Event:
    """The event that columns have these values."""
    events = []
    for name, value in row.items():
        if not is_several(value) and is_missing(value):
            continue
        events.append(Term(columns[columns.place(name, "The event")]).agrees(value))
    return Event("and", tuple(events))


def variables(model: Any) -> Variables:
    """The variables of a model, to write events with.

    Parameters
    ----------
    model : Circuit, fitted estimator, or sequence of names
        Without feature names, the variables are called x0, x1, ...

    Returns
    -------
    Variables
        ``x["name"]`` and ``x[number]`` are `Event`s; iterating gives all of them. For a model that
        was learned from a table, ``x["column"]`` is a `Term`, to be compared.

    Examples
    --------
    >>> from strudel import probability
    >>> from strudel.circuits import figure_1_circuit
    >>> x = variables(figure_1_circuit())
    >>> round(probability(figure_1_circuit(), x["X1"] & ~x["X2"]), 4)
    0.164
    """
    held: Any
    for held in (model, getattr(model, "circuit_", None)):
        if hasattr(held, "columns") and isinstance(held.columns, Columns):
            return Variables(held.columns)
    if hasattr(model, "fit"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit first.")
    if isinstance(model, str) or not isinstance(model, Iterable):
        raise TypeError(
            "variables takes a Circuit, a fitted estimator or a list of names, "
            f"but got {type(model).__name__}."
        )
    names = tuple(str(name) for name in model)
    places_of(names)  # says which of them is there twice
    return Variables(bit_columns(names))
