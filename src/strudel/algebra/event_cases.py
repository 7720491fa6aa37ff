"""Events as cases that exclude each other: ``a | b`` is a, or not a and b.

In:  a model, and an event of a few conditions on variables or columns.
Out: `EventCases`, each a conjunction; the log-probability of all of them with rows of evidence.

A conjunction is evidence, so every case is one row of a pass, and no compiler is needed. Cases are
found condition by condition: what no longer matters is not decided, and what the model excludes,
such as two values of one column, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from strudel._names import find_name, names_of, places_of
from strudel._types import AnyArray, FloatArray
from strudel.circuits.passes import UNKNOWN, decode
from strudel.logic.events import Bounds, Event, bounds_of_parts, children_first, with_leaves
from strudel.queries.model import Model
from strudel.queries.probabilities import log_probabilities
from strudel.queries.soft_evidence import given_parts
from strudel.tables.density import EVERYWHERE, Region, meet

MAX_ASKED = 2048  # rows that are asked of the model to find the cases
MAX_PARTS = 1000  # of an event: larger ones have more cases than that
BLOCK_CELLS = 2**22  # of rows that are asked at a time


class EventCases(NamedTuple):
    """Conjunctions, no two of which hold together."""

    codes: AnyArray  # (n_cases, n_vars + n_bounds) 0, 1, or UNKNOWN where it does not matter
    bounds: list[tuple[str, float]]  # the column and the number of column >= number


def event_cases(model: Model, event: Event) -> EventCases | None:
    """The cases of an event; None if there are too many, or it holds an SDD."""
    parts = [item for item, _ in children_first(event)]
    if len(parts) > MAX_PARTS or any(item.kind == "sdd" for item in parts):
        return None
    event, bounds = _by_number(model, event)
    operands = {id(item): below for item, below in children_first(event)}
    n_leaves = model.n_vars + len(bounds)
    place = {str(leaf): leaf for leaf in range(n_leaves)}
    codes = np.full((1, n_leaves), UNKNOWN, dtype=np.uint8)
    found: list[AnyArray] = []
    n_asked = 0
    while len(codes):
        n_asked += len(codes)
        if n_asked > MAX_ASKED:
            return None
        limits = bounds_of_parts(event, codes, place)
        must, may = limits[id(event)]
        found.append(codes[must])
        is_open = np.flatnonzero(may & ~must)
        leaf = [_open_leaf(event, operands, limits, int(case)) for case in is_open]
        codes = np.repeat(codes[is_open], 2, axis=0)
        codes[np.arange(len(codes)), np.repeat(leaf, 2).astype(np.int64)] = (
            np.arange(len(codes)) % 2
        )
        is_possible = log_probabilities(model, decode(codes[:, : model.n_vars]), "probability")
        codes = codes[(is_possible > -np.inf) & _are_together(codes[:, model.n_vars :], bounds)]
    return EventCases(np.concatenate(found), bounds)


def _are_together(holds: AnyArray, bounds: list[tuple[str, float]]) -> AnyArray:
    """Which cases have bounds of one column that can hold (1), and not hold (0), together."""
    found = np.ones(len(holds), dtype=bool)
    for name in {name for name, _ in bounds}:
        own = [place for place, (column, _) in enumerate(bounds) if column == name]
        bound = np.array([float(bounds[place][1]) for place in own])
        low = np.where(holds[:, own] == 1, bound, -np.inf).max(axis=1)
        found &= low < np.where(holds[:, own] == 0, bound, np.inf).min(axis=1)
    return found


def _by_number(model: Model, event: Event) -> tuple[Event, list[tuple[str, float]]]:
    """The event with numbers for names, and bounds as variables behind those of the model."""
    place = places_of(names_of(model.n_vars, model.feature_names))
    bounds: dict[tuple[str, float], int] = {}

    def numbered(leaf: Event) -> Event:
        if leaf.kind == "bound":
            key = str(leaf.var), leaf.bound
            return Event("variable", var=bounds.setdefault(key, model.n_vars + len(bounds)))
        if leaf.kind == "sdd":
            return leaf
        return Event("variable", var=find_name(leaf.var, place, "The event"))

    return with_leaves(event, numbered), list(bounds)


def _open_leaf(
    event: Event, operands: Mapping[int, list[Event]], limits: Mapping[int, Bounds], case: int
) -> int:
    """The first variable that is unknown in a case and may decide the event."""
    while event.kind != "variable":
        event = next(
            part
            for part in operands[id(event)]
            if limits[id(part)][0][case] != limits[id(part)][1][case]
        )
    assert isinstance(event.var, int)
    return event.var


def cases_log_probabilities(model: Model, cases: EventCases, rows: FloatArray) -> FloatArray:
    """Log-probability of the event together with every row of evidence."""
    log_p = np.full(len(rows), -np.inf)
    n_vars = model.n_vars
    own_bounds, which = np.unique(cases.codes[:, n_vars:], axis=0, return_inverse=True)
    for i, holds in enumerate(own_bounds):
        regions = _regions(cases.bounds, holds)
        inside, log_inside = within_regions(model, regions) if regions else (model, 0.0)
        if inside is None:
            continue
        known = decode(cases.codes[which.ravel() == i, np.newaxis, :n_vars])
        step = max(1, BLOCK_CELLS // known.size)
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            is_against = np.any(np.abs(known - block) == 1.0, axis=2)
            both = np.where(np.isnan(known), block, known)[~is_against]
            logs = np.full(is_against.shape, -np.inf)
            if len(both):
                logs[~is_against] = log_probabilities(inside, both, "probability")
            total = np.logaddexp.reduce(logs, axis=0) + log_inside
            log_p[start : start + step] = np.logaddexp(log_p[start : start + step], total)
    return log_p


def _regions(bounds: list[tuple[str, float]], holds: AnyArray) -> dict[str, Region]:
    """Where columns lie if these bounds hold (1) or not (0)."""
    regions: dict[str, Region] = {}
    for (name, bound), code in zip(bounds, holds.tolist(), strict=True):
        if code != UNKNOWN:
            own: Region = ((bound, np.inf),) if code == 1 else ((-np.inf, bound),)
            regions[name] = meet(regions.get(name, EVERYWHERE), own)
    return regions


def within_regions(model: Model, regions: Mapping[str, Region]) -> tuple[Model | None, float]:
    """The model given regions of columns, and the log of their probability."""
    code = model.table_code
    assert code is not None
    parts = []
    for name, region in regions.items():
        column = code.column(name)
        parts.append((column, column.cells.shares(region), region))
        if not parts[-1][1].any():
            return None, -np.inf
    return given_parts(model, parts)[:2]
