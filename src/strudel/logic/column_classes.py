"""Events over columns: what they can tell apart, and when they are a few facts.

In:  an `Event` over `Columns`.
Out: for each column it is about, the classes of its values that the event can tell apart; the
     event as a conjunction of regions (`conjunction_of`), as one with a count of other regions
     (`count_of`), or as a few conjunctions that exclude each other (`cases_of`).

A conjunction is evidence, and so is each case, and a count is one walk: none needs a compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from strudel._types import AnyArray
from strudel.logic.events import (
    FALSE_EVENT,
    TRUE_EVENT,
    Bounds,
    Event,
    bounds_from_leaves,
    children_first,
    conjuncts,
    with_leaves,
)
from strudel.logic.simple_events import simple_event
from strudel.tables.density import EVERYWHERE, Region, meet
from strudel.tables.schema import Columns

MAX_CASES = 2048  # cases that are looked at
MAX_PARTS = 1000  # of an event: larger ones have more cases than that
ONE: Region = ((1.0, 2.0),)  # where a 0/1 variable is 1, as the place of its value
ZERO: Region = ((0.0, 1.0),)


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of values of every column that an event is about, one column after another."""

    places: tuple[int, ...]  # of the columns
    regions: tuple[tuple[Region, ...], ...]  # per column and class
    holds: Mapping[int, tuple[int, AnyArray]]  # by id of a leaf: which of the columns, and classes

    @cached_property
    def first(self) -> AnyArray:
        """The first class of each column among all, and how many there are."""
        return np.concatenate([[0], np.cumsum([len(own) for own in self.regions])])

    def slice_of(self, which: int) -> slice:
        """The classes of one of the columns."""
        return slice(int(self.first[which]), int(self.first[which + 1]))

    def bounds_of(self, leaf: Event, allowed: AnyArray) -> Bounds:
        """Whether a leaf must, and may, hold where these classes are allowed, `(n, n_classes)`."""
        which, holds = self.holds[id(leaf)]
        own = allowed[:, self.slice_of(which)]
        return ~np.any(own & ~holds, axis=1), np.any(own & holds, axis=1)

    def region(self, which: int, allowed: AnyArray) -> Region:
        """The region of some classes of one of the columns."""
        parts = [part for j in np.flatnonzero(allowed) for part in self.regions[which][j]]
        joined: list[tuple[float, float]] = []
        for low, high in sorted(parts):
            if joined and joined[-1][1] == low:
                joined[-1] = joined[-1][0], high
            else:
                joined.append((low, high))
        return tuple(joined)


def region_of(leaf: Event) -> Region:
    """Where a leaf says that its column lies; a 0/1 variable is 1."""
    return leaf.region if leaf.kind == "in" else ONE


def column_leaves(event: Event, columns: Columns) -> dict[int, list[Event]]:
    """The leaves of an event by the places of their columns."""
    found: dict[int, list[Event]] = {}
    for part, _ in children_first(event):
        if part.kind in ("in", "variable"):
            found.setdefault(columns.place(part.var, "The event"), []).append(part)
    return dict(sorted(found.items()))


def classes_of(event: Event, columns: Columns) -> Classes:
    """What an event can tell apart in each column that it is about."""
    regions: list[tuple[Region, ...]] = []
    holds: dict[int, tuple[int, AnyArray]] = {}
    by_column = column_leaves(event, columns)
    for which, (place, leaves) in enumerate(by_column.items()):
        column = columns[place]
        if column.is_numeric:
            ends = {end for leaf in leaves for ends in region_of(leaf) for end in ends}
            starts = np.array([-np.inf, *sorted(ends - {-np.inf, np.inf})])
        else:
            starts = np.arange(column.n_cells, dtype=np.float64)
        stops = np.append(starts[1:], np.inf if column.is_numeric else float(column.n_cells))
        inside = np.array(
            [
                [any(low <= start < high for low, high in region_of(leaf)) for start in starts]
                for leaf in leaves
            ]
        )
        _, first, own = np.unique(inside, axis=1, return_index=True, return_inverse=True)
        first = np.sort(first)  # classes in the order of their values
        classes = []
        for one in first:
            at = np.flatnonzero(own.ravel() == own.ravel()[one])
            classes.append(tuple(zip(starts[at].tolist(), stops[at].tolist(), strict=True)))
        regions.append(tuple(classes))
        for leaf, row in zip(leaves, inside, strict=True):
            holds[id(leaf)] = which, row[first]
    return Classes(tuple(by_column), tuple(regions), holds)


def conjunction_of(event: Event, columns: Columns) -> dict[int, Region] | None:
    """An event as regions of columns that all hold, by place; None if it is none.

    A region without any number is what cannot be. Nothing is told of columns that may lie anywhere.
    """
    found: dict[int, Region] = {}
    for item, _, is_true in conjuncts(event):
        if item.kind == "constant":
            return {0: ()}
        own = _only_column(item, columns, is_true)
        if own is None:
            return None
        place, region = own
        found[place] = meet(found.get(place, EVERYWHERE), region)
    return found


def _only_column(event: Event, columns: Columns, is_true: bool) -> tuple[int, Region] | None:
    """Where an event about a single column holds, or does not; None for other events."""
    if event.kind == "variable" or (event.kind == "in" and is_true):
        return columns.place(event.var, "The event"), region_of(event) if is_true else ZERO
    if any(part.kind == "sdd" for part, _ in children_first(event)):
        return None
    classes = classes_of(event, columns)
    if len(classes.places) != 1:
        return None
    allowed = np.eye(int(classes.first[-1]), dtype=bool)
    bounds = bounds_from_leaves(event, lambda leaf: classes.bounds_of(leaf, allowed), len(allowed))
    return classes.places[0], classes.region(0, bounds[id(event)][0] == is_true)


class Count(NamedTuple):
    """Facts about columns, and of other columns between `low` and `high` that are inside."""

    facts: dict[int, Region]
    inside: dict[int, Region]  # of each counted column
    outside: dict[int, Region]  # where else it may be
    low: int
    high: int


def count_of(event: Event, columns: Columns) -> Count | None:
    """An event as facts and a count; None if it is not of this form."""
    if any(item.kind == "sdd" for item, _ in children_first(event)):
        return None
    classes = classes_of(event, columns)
    if any(len(own) > 2 for own in classes.regions):
        return None

    def in_bits(leaf: Event) -> Event:
        which, holds = classes.holds[id(leaf)]
        if holds.all() or not holds.any():
            return TRUE_EVENT if holds.all() else FALSE_EVENT
        bit = Event("variable", var=which)
        return bit if holds[1] else ~bit

    place = {str(which): which for which in range(len(classes.places))}
    simple = simple_event(with_leaves(event, in_bits), place)
    if simple is None:
        return None

    def regions(literals: Iterable[int]) -> dict[int, Region]:
        return {classes.places[own // 2]: classes.regions[own // 2][own % 2] for own in literals}

    outside = [literal ^ 1 for literal in simple.counted]
    sides = regions(simple.counted), regions(outside)
    return Count(regions(simple.literals), *sides, simple.low, simple.high)


def cases_of(event: Event, columns: Columns) -> list[dict[int, Region]] | None:
    """An event as conjunctions, no two of which hold together; None if there are too many.

    Cases are found leaf by leaf: what no longer matters is not decided.
    """
    parts = [item for item, _ in children_first(event)]
    if len(parts) > MAX_PARTS or any(item.kind == "sdd" for item in parts):
        return None
    classes = classes_of(event, columns)
    operands = {id(item): below for item, below in children_first(event)}
    allowed = np.ones((1, int(classes.first[-1])), dtype=bool)
    found: list[AnyArray] = []
    n_asked = 0
    while len(allowed):
        n_asked += len(allowed)
        if n_asked > MAX_CASES:
            return None
        limits = bounds_from_leaves(
            event, partial(classes.bounds_of, allowed=allowed), len(allowed)
        )
        must, may = limits[id(event)]
        found.append(allowed[must])
        is_open = np.flatnonzero(may & ~must)
        split = []
        for case in is_open.tolist():
            leaf = _open_leaf(event, operands, limits, case)
            which, holds = classes.holds[id(leaf)]
            for own in (holds, ~holds):
                part = allowed[case].copy()
                part[classes.slice_of(which)] &= own
                split.append(part)
        allowed = np.array(split, dtype=bool).reshape(len(split), allowed.shape[1])
    return [_regions(classes, case) for case in np.concatenate(found)]


def _open_leaf(
    event: Event, operands: Mapping[int, list[Event]], limits: Mapping[int, Bounds], case: int
) -> Event:
    """The first leaf that is open in a case and may decide the event."""
    while operands[id(event)]:
        event = next(
            part
            for part in operands[id(event)]
            if limits[id(part)][0][case] != limits[id(part)][1][case]
        )
    return event


def _regions(classes: Classes, allowed: AnyArray) -> dict[int, Region]:
    """The regions of a case; nothing of columns of which everything is allowed."""
    found = {}
    for which, place in enumerate(classes.places):
        own = allowed[classes.slice_of(which)]
        if not own.all():
            found[place] = classes.region(which, own)
    return found
