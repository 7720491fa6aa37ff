"""Events: logical statements about the variables, written with operators.

In:  a model, or the names of its variables; then ``& | ~ ^ >> ==`` and counts.
Out: `Event`, an immutable expression. It knows names, not a model, until it is compiled.

Walks over an expression never recurse: expressions may be deeper than Python's stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from strudel._names import find_name, names_of, places_of
from strudel._types import NONE, AnyArray
from strudel.data.validation import check_binary
from strudel.logic.sdd import Sdd
from strudel.tables.density import Region

BARE_NAME = re.compile(r"[^\W\d][\w.]*")
WORDS = frozenset({"true", "false", "True", "False", "and", "or", "not", "xor"})  # not bare names
SHOWN_LENGTH = 1000  # of an event in a notebook; one that uses parts of itself again may be endless
LEAVES = ("variable", "in", "sdd")  # kinds that join no other events
SYMBOL = {"and": " & ", "or": " | ", "xor": " ^ ", "iff": " == ", "implies": " >> "}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Event:
    """A logical statement about 0/1 variables, made by `variables` and operators.

    ``&`` is and, ``|`` or, ``~`` not, ``^`` xor, ``>>`` implies, ``==`` if and only if, ``!=`` the
    same as ``^``. Their precedence is Python's: ``>>`` binds more tightly than ``&``, and ``==``
    less tightly than ``|``, so use parentheses. Either side may also be a string, a dict of values,
    or what `read` returns for a formula file.

    Examples
    --------
    >>> from strudel import variables
    >>> x = variables(["a", "b", "c"])
    >>> event = x["a"] & ~x["b"] | x["c"]
    >>> event
    Event('(a & ~b) | c')
    >>> event.holds([[1, 0, 0], [1, 1, 0]], feature_names=["a", "b", "c"])
    array([ True, False])
    """

    kind: str  # constant, variable, not, and, or, xor, iff, implies, count, sdd or in
    children: tuple[Event, ...] = ()
    var: str | int = NONE  # of a variable: its name or number; else a column's name
    low: int = 0  # of a count: the fewest children that hold; of a constant: 0 or 1
    high: int = 0  # of a count: the most
    sdd: Sdd | None = None
    region: Region = ()  # of a column: where its numbers or the places of its values lie
    said: str = ""  # of a column: how that is written

    __array_ufunc__ = None  # so that NumPy leaves `row & event` to us

    def __and__(self, other: Any) -> Event:
        return _join("and", self, other)

    def __rand__(self, other: Any) -> Event:
        return _join("and", other, self)

    def __or__(self, other: Any) -> Event:
        return _join("or", self, other)

    def __ror__(self, other: Any) -> Event:
        return _join("or", other, self)

    def __xor__(self, other: Any) -> Event:
        return _join("xor", self, other)

    def __rxor__(self, other: Any) -> Event:
        return _join("xor", other, self)

    def __rshift__(self, other: Any) -> Event:
        return _join("implies", self, other)

    def __rrshift__(self, other: Any) -> Event:
        return _join("implies", other, self)

    def __eq__(self, other: object) -> Event:  # type: ignore[override]
        return _compare("iff", self, other)

    def __ne__(self, other: object) -> Event:  # type: ignore[override]
        return _compare("xor", self, other)

    def __invert__(self) -> Event:
        if self.kind == "not":
            return self.children[0]
        if self is TRUE_EVENT or self is FALSE_EVENT:
            return FALSE_EVENT if self is TRUE_EVENT else TRUE_EVENT
        return Event("not", (self,))

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError(
            "An event is neither true nor false until a row is known. Write & for and, | for or, "
            "~ for not, and (a == b) & (b == c) for a == b == c."
        )

    def holds(self, X: ArrayLike, feature_names: Sequence[str] | None = None) -> NDArray[np.bool_]:
        """Whether every row of a table satisfies the event.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_vars)
            0 and 1 only.
        feature_names : sequence of str, optional
            The names of the columns, if `X` does not have them; by default x0, x1, ...
        """
        need_bits(self)
        table, found = check_binary(X)
        names = names_of(table.shape[1], found if feature_names is None else feature_names)
        return bounds_of_parts(self, table, places_of(names))[id(self)][0]  # nothing is unknown

    def __copy__(self) -> Event:
        return self  # it never changes

    def __deepcopy__(self, memo: Any) -> Event:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a flat list, however deep the expression is."""
        parts: list[tuple[Any, ...]] = []
        number: dict[int, int] = {}
        for part, _ in children_first(self, flat=False):
            below = tuple(number[id(child)] for child in part.children)
            number[id(part)] = len(parts)
            rest = part.var, part.low, part.high, part.sdd, part.region, part.said
            parts.append((part.kind, below, *rest))
        return _from_parts, (parts,)

    def __str__(self) -> str:
        return _write(self, None)

    def __repr__(self) -> str:
        return f"Event({_write(self, SHOWN_LENGTH)!r})"


def _from_parts(parts: list[tuple[Any, ...]]) -> Event:
    events: list[Event] = []
    for kind, below, *rest in parts:
        events.append(Event(kind, tuple(events[child] for child in below), *rest))
    return events[-1]


def _write(event: Event, longest: int | None) -> str:
    """The event as text; parts longer than `longest` are left out."""
    text: dict[int, str] = {}
    for part, _ in children_first(event, flat=False):
        written = _text(part, [text[id(child)] for child in part.children])
        text[id(part)] = written if longest is None or len(written) <= longest else "..."
    return text[id(event)]


Bounds: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # it must hold; it may hold


def bounds_of_parts(event: Event, codes: AnyArray, place: Mapping[str, int]) -> dict[int, Bounds]:
    """Whether an event, and each of its parts, must and may hold, by their ids.

    Rows of codes hold 0, 1, or anything else where the value is unknown. The bounds are sound, and
    exact for complete rows.
    """

    def of_leaf(leaf: Event) -> Bounds:
        if leaf.sdd is not None:
            return leaf.sdd.bounds(codes)
        code = codes[:, find_name(leaf.var, place, "The event")]
        return code == 1, code != 0

    return bounds_from_leaves(event, of_leaf, len(codes))


def bounds_from_leaves(
    event: Event, of_leaf: Callable[[Event], Bounds], n_rows: int
) -> dict[int, Bounds]:
    """Whether an event, and each of its parts, must and may hold in some rows, by their ids."""
    bounds: dict[int, Bounds] = {}
    for part, operands in children_first(event):
        if part.kind in LEAVES:
            bounds[id(part)] = of_leaf(part)
        else:
            below = [bounds[id(child)] for child in operands]
            bounds[id(part)] = _joined(part, below, n_rows)
    return bounds


def _joined(part: Event, below: list[Bounds], n_rows: int) -> Bounds:
    """Whether an event must and may hold, from the same of what it joins."""
    if part.kind == "constant":
        same = np.full(n_rows, part.low == 1)
        return same, same
    if part.kind == "not":
        low, high = below[0]
        return ~high, ~low
    if part.kind == "implies":
        (a_low, a_high), (b_low, b_high) = below
        return ~a_high | b_low, ~a_low | b_high
    if part.kind in ("xor", "iff"):
        (a_low, a_high), (b_low, b_high) = below
        is_known = (a_low == a_high) & (b_low == b_high)
        holds = (a_low != b_low) if part.kind == "xor" else (a_low == b_low)
        return holds & is_known, holds | ~is_known
    lows: AnyArray = np.array([low for low, _ in below]).reshape(len(below), n_rows)
    highs: AnyArray = np.array([high for _, high in below]).reshape(len(below), n_rows)
    if part.kind == "and":
        return np.all(lows, axis=0), np.all(highs, axis=0)
    if part.kind == "or":
        return np.any(lows, axis=0), np.any(highs, axis=0)
    assert part.kind == "count"
    fewest, most = lows.sum(axis=0), highs.sum(axis=0)
    must = (fewest >= part.low) & (most <= part.high)
    return must, (most >= part.low) & (fewest <= part.high)


def _text(event: Event, below: list[str]) -> str:
    """An event as `parse_event` reads it, from the text of what it joins."""
    if event.kind == "variable":
        return quoted(event.var) if isinstance(event.var, str) else f"x{event.var}"
    if event.kind == "constant" or (event.kind in ("and", "or") and not below):
        return "true" if event.low == 1 or event.kind == "and" else "false"
    if event.kind == "sdd":
        return repr(event.sdd)
    if event.kind == "in":
        return event.said
    if event.kind == "count":
        if event.high == len(below):
            call = f"at_least({event.low}"
        else:
            call = f"exactly({event.low}" if event.low == event.high else f"at_most({event.high}"
        return ", ".join([call, *below]) + ")"
    parts: list[str] = []
    for part, child in zip(below, event.children, strict=True):
        is_clear = child.kind in ("count", "not") or not child.children
        is_chain = child.kind == event.kind and event.kind in ("and", "or") and not parts
        parts.append(part if is_clear or is_chain else f"({part})")
    return "~" + parts[0] if event.kind == "not" else SYMBOL[event.kind].join(parts)


def need_bits(event: Event) -> None:
    """Refuse an event about columns of other values than 0 and 1."""
    for item, _ in children_first(event):
        if item.kind == "in":
            raise ValueError(
                f"0/1 variables do not say whether {item.said}: ask a model of the table instead, "
                "as probability does."
            )


def quoted(name: str) -> str:
    """A name as the grammar takes it: in quotes unless it is a plain word."""
    if BARE_NAME.fullmatch(name) and name not in WORDS:
        return name
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _join(kind: str, left: Any, right: Any) -> Event:
    both = _operand(left), _operand(right)
    if both[0] is None or both[1] is None:
        return NotImplemented
    return Event(kind, (both[0], both[1]))


def _compare(kind: str, event: Event, other: Any) -> Event:
    """Whether two events hold alike; 0 and 1 stand for false and true, as values of a variable."""
    if isinstance(other, int | np.integer | np.bool_) and other in (0, 1):
        return event if (kind == "iff") == (other == 1) else ~event
    joined = _join(kind, event, other)
    if joined is NotImplemented:  # Python would answer False, and the event be lost
        raise TypeError(f"An event can be compared with an event, 0 or 1, but not with {other!r}.")
    return joined


def _operand(item: Any) -> Event | None:
    """One side of an operator as an event; None if it is nothing of the kind."""
    if isinstance(item, Event):
        return item
    from strudel.logic.terms import event_of  # late: it is written in terms of `Event`

    return event_of(item)


TRUE_EVENT = Event("constant", low=1)
FALSE_EVENT = Event("constant", low=0)


def children_first(event: Event, flat: bool = True) -> Iterator[tuple[Event, list[Event]]]:
    """Every event below another, each once, with what it joins; that one comes last.

    If `flat`, an and within an and, or an or within an or, is taken as part of it.
    """
    done: set[int] = set()
    todo: list[tuple[Event, list[Event] | None]] = [(event, None)]
    while todo:
        item, operands = todo.pop()
        if id(item) in done:
            continue
        if operands is not None:
            done.add(id(item))
            yield item, operands
            continue
        operands = _flat_operands(item) if flat else list(item.children)
        todo.append((item, operands))
        todo += [(child, None) for child in reversed(operands) if id(child) not in done]


def conjuncts(event: Event) -> Iterator[tuple[Event, list[Event], bool]]:
    """Parts that together say what an event does: what each joins, and whether it is to hold.

    None of them is a conjunction; a constant among them does not hold as it is to.
    """
    operands_of = {id(item): operands for item, operands in children_first(event)}
    seen: set[tuple[int, bool]] = set()
    todo = [(event, True)]
    while todo:
        item, holds = todo.pop()
        if (id(item), holds) in seen:
            continue
        seen.add((id(item), holds))
        operands = operands_of[id(item)]
        if item.kind == "not":
            todo.append((operands[0], not holds))
        elif item.kind == ("and" if holds else "or"):
            todo += [(child, holds) for child in operands]
        elif item.kind == "implies" and not holds:
            todo += [(operands[0], True), (operands[1], False)]
        elif item.kind != "constant" or (item.low == 1) != holds:
            yield item, operands, holds


def with_leaves(event: Event, leaf_of: Callable[[Event], Event]) -> Event:
    """The event with another event for each of its variables, bounds, points and SDDs."""
    made: dict[int, Event] = {}
    for item, _ in children_first(event, flat=False):
        if item.kind in LEAVES:
            made[id(item)] = leaf_of(item)
        elif item.children:
            children = tuple(made[id(child)] for child in item.children)
            made[id(item)] = replace(item, children=children)
        else:
            made[id(item)] = item
    return made[id(event)]


def _flat_operands(event: Event) -> list[Event]:
    if event.kind not in ("and", "or"):
        return list(event.children)
    found: dict[int, Event] = {}  # each once, since twice says nothing more
    seen: set[int] = set()
    todo = list(event.children[::-1])
    while todo:
        child = todo.pop()
        if id(child) in seen:
            continue
        seen.add(id(child))
        if child.kind == event.kind:
            todo += child.children[::-1]
        else:
            found[id(child)] = child
    return list(found.values())


def at_least(k: int, events: Iterable[Any]) -> Event:
    """The event that `k` or more of some events hold.

    Examples
    --------
    >>> from strudel import variables
    >>> at_least(2, variables(["x0", "x1", "x2"])).holds([[1, 0, 1], [0, 0, 1]])
    array([ True, False])
    """
    items = _items(events, "at_least")
    return Event("count", items, low=_count(k, "at_least"), high=len(items))


def at_most(k: int, events: Iterable[Any]) -> Event:
    """The event that `k` or fewer of some events hold.

    Examples
    --------
    >>> from strudel import variables
    >>> at_most(1, variables(["x0", "x1", "x2"])).holds([[1, 0, 1], [0, 0, 1]])
    array([False,  True])
    """
    items = _items(events, "at_most")
    return Event("count", items, high=_count(k, "at_most"))


def exactly(k: int, events: Iterable[Any]) -> Event:
    """The event that exactly `k` of some events hold.

    Examples
    --------
    >>> from strudel import variables
    >>> exactly(1, variables(["x0", "x1", "x2"])).holds([[1, 0, 1], [0, 0, 1]])
    array([False,  True])
    """
    items = _items(events, "exactly")
    return Event("count", items, low=_count(k, "exactly"), high=k)


def less_than(a: Any, b: Any) -> Event:
    """The event that one binary number is less than another.

    Parameters
    ----------
    a, b : list of events, or whole number
        The digits of a number, the most significant first, as numbers are written; or the number
        itself. The shorter list is padded with leading zeros.

    Examples
    --------
    >>> from strudel import variables
    >>> x = variables(["x0", "x1", "x2", "x3"])
    >>> less_than([x[0], x[1]], [x[2], x[3]]).holds([[0, 1, 1, 0], [1, 0, 1, 0]])
    array([ True, False])
    >>> less_than([x[0], x[1]], 3).holds([[1, 0, 0, 0], [1, 1, 0, 0]])
    array([ True, False])
    """
    digits = [_digits(number, "less_than") for number in (a, b)]
    width = max(map(len, digits))
    left, right = ([FALSE_EVENT] * (width - len(number)) + number for number in digits)
    result = FALSE_EVENT
    for mine, theirs in zip(reversed(left), reversed(right), strict=True):  # the last digit first
        result = ~mine & theirs | (mine == theirs) & result
    return result


def _digits(number: Any, call: str) -> list[Event]:
    if isinstance(number, int | np.integer) and not isinstance(number, bool):
        binary = bin(_count(number, call))[2:]
        return [TRUE_EVENT if digit == "1" else FALSE_EVENT for digit in binary]
    return list(_items(number, call))


def _items(events: Any, call: str) -> tuple[Event, ...]:
    if isinstance(events, str | Event | Mapping) or not isinstance(events, Iterable):
        raise TypeError(f"{call} takes a list of events, but got {type(events).__name__}.")
    items = []
    for item in events:
        event = _operand(item)
        if event is None:
            raise TypeError(f"{call} takes a list of events, but it holds {item!r}.")
        items.append(event)
    if not items:
        raise ValueError(f"{call} takes at least one event, but the list is empty.")
    return tuple(items)


def _count(k: Any, call: str) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
        raise ValueError(f"{call} takes a whole number of zero or more, but got {k!r}.")
    return int(k)
