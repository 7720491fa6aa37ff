"""Evidence in any form: dicts of values, sets and intervals, texts and events.

In:  a model, and what is given.
Out: the model given those facts that are no rows of 0/1 variables, what else is known, and how
     probable the facts are; or a query that takes all of this as its arguments.

Facts about single columns are rows of variables, and parts of cells are weights of them
(`soft_evidence`). Given any other event, the model becomes that of its rows. Every query then asks
that model; nothing else in queries knows about events.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from strudel._names import find_name, names_of, places_of, quote
from strudel._types import AnyArray, FloatArray
from strudel.algebra.finer_cells import with_finer_cells
from strudel.algebra.given_event import given_event
from strudel.algebra.inner_bounds import bounds_of, conjunction_of
from strudel.algebra.pairs import MAX_PAIRS
from strudel.data.validation import read_named_rows
from strudel.errors import NoValueError
from strudel.logic.column_events import event_of_values
from strudel.logic.event_forms import as_event, is_formula, said_event, without_points
from strudel.logic.events import Event, children_first
from strudel.queries.columns.known_columns import is_any_missing_for_a_reason, with_values
from strudel.queries.model import Model, log_weights_of, model_of
from strudel.queries.soft_evidence import bit_logs, given_parts
from strudel.tables.coded_column import CodedColumn, evidence_shares, literals_of
from strudel.tables.column import check_possible, region_text, said_region
from strudel.tables.density import EVERYWHERE, Region
from strudel.tables.table_code import bit_column

F = TypeVar("F", bound=Callable[..., Any])
SEVERAL = (tuple, list, set, frozenset, range, np.ndarray)
VARIABLES = frozenset(
    {"a", "b", "beyond", "query", "variables"}
)  # arguments of queries that name variables
IMPOSSIBLE = "has probability zero under the model, so it cannot be conditioned on."


class Absorbed(NamedTuple):
    """A model given some facts, what else is known, and the log-probability of the facts."""

    model: Model
    rest: dict[Any, Any]
    log_probability: float
    kept: AnyArray  # (n_components,) which components of the original model are left


def absorb(model: Model, given: Any, max_pairs: int = MAX_PAIRS) -> Absorbed:
    """The model given an event, or those values of a dict that are no values of variables."""
    if isinstance(given, Mapping):
        return _absorb_values(model, given, max_pairs)
    names = names_of(model.n_vars, model.feature_names)
    event = said_event(given, *_variables(model))
    said = conjunction_of(event, names)
    if said is None:
        event = without_points(event, names)
        said = conjunction_of(event, names)
    if said is None:
        return _absorb_event(model, event, "The given event", max_pairs)
    if not said.is_possible:
        raise NoValueError(f"The given event {IMPOSSIBLE}", "Give another one.", column="")
    values, regions = dict[Any, Any](said.bits), {}
    for name, region in said.regions.items():
        low, high = region[0]
        if len(region) == 1 and high == math.nextafter(low, math.inf):
            values[name] = low  # a number, which stands for its cell
        else:
            regions[name] = region
    return _absorb_values(model, values, max_pairs, regions)


def _absorb_values(
    model: Model,
    row: Mapping[Any, Any],
    max_pairs: int,
    regions: Mapping[str, Region] = MappingProxyType({}),
) -> Absorbed:
    """The model given those values of a dict, and regions, that are no values of variables."""
    code = model.table_code
    if code is None:
        return Absorbed(model, _values_of_bits(model, row), 0.0, _all_components(model))
    rest, names = dict(row), names_of(*_variables(model))
    parts: dict[Any, tuple[CodedColumn, FloatArray, Region]] = {}
    events: dict[Any, Event] = {}
    for name, value in (*row.items(), *regions.items()):
        if name not in code.names or not isinstance(value, SEVERAL):
            continue
        column, region = code.column(name), regions.get(name, EVERYWHERE)
        if name in regions:
            shares = column.cells.shares(region)
        else:
            shares = evidence_shares(column, value)
            is_whole = bool(np.isin(shares, (0.0, 1.0)).all())
            if is_whole and column.literals((shares == 1.0)[column.value_cell]) is not None:
                continue
            region = said_region(column, value) if column.has_parts else EVERYWHERE
            check_possible(column, value, shares)
        if not shares.any():
            said = region_text(column, region)
            raise NoValueError(f"What is given, {said}, {IMPOSSIBLE}", column=name)
        rest.pop(name, None)
        if column.has_parts:
            # In a gap between cells any weight will do, as the event below excludes it.
            filled: FloatArray = np.where(shares > 0.0, shares, _between(shares))
            own = next((s for s in (shares, filled) if bit_logs(column, s) is not None), None)
            if own is not None:
                parts[name] = column, own, region
        if name not in parts or not np.array_equal(parts[name][1], shares):
            events[name] = event_of_values(column, names, (shares > 0.0)[column.value_cell])
    found = Absorbed(model, rest, 0.0, _all_components(model))
    if parts:
        inside, log_p, kept = given_parts(model, list(parts.values()))
        if inside is None:
            raise NoValueError(
                f"What is given of {quote(list(parts))} {IMPOSSIBLE}",
                "Give something that is possible.",
                column=next(iter(parts)),
            )
        found = Absorbed(inside, rest, log_p, kept)
    if events:
        event = Event("and", tuple(events.values()))
        what = f"What is given of {quote(list(events))}"
        last = _absorb_event(found.model, event, what, max_pairs)
        kept = found.kept.copy()
        kept[found.kept] = last.kept
        found = Absorbed(last.model, rest, found.log_probability + last.log_probability, kept)
    return found


def _between(shares: FloatArray) -> FloatArray:
    """1 from the first to the last cell that has a share, 0 elsewhere."""
    support = np.flatnonzero(shares)
    places = np.arange(len(shares))
    return ((places >= support[0]) & (places <= support[-1])).astype(np.float64)


def _all_components(model: Model) -> AnyArray:
    return np.ones(len(log_weights_of(model)), dtype=bool)


def _values_of_bits(model: Model, row: Mapping[Any, Any]) -> dict[Any, Any]:
    """A dict of values of 0/1 variables, sets and intervals of which say 0, 1 or nothing."""
    names = names_of(*_variables(model))
    place, values = places_of(names), dict(row)
    for name, value in row.items():
        if isinstance(value, SEVERAL):
            var = find_name(name, place, "given")
            del values[name]
            values |= dict(literals_of(bit_column(names[var], var), value))
    return values


def _absorb_event(model: Model, event: Event, what: str, max_pairs: int) -> Absorbed:
    """The model given an event that is no row; `what` is what errors call it."""
    found = given_event(model, event, "condition", max_pairs)
    if found is None:
        raise NoValueError(f"{what} {IMPOSSIBLE}", "Give another one.", column="")
    return Absorbed(found.model, {}, found.log_probability, found.kept)


def columns_in(model: Model, given: Any) -> set[str]:
    """The columns that evidence says something about, or that are named."""
    code = model.table_code
    named = [given] if isinstance(given, str) else given if isinstance(given, list | tuple) else []
    if code is not None and named and all(one in code.names for one in named):
        return set(named)
    if not is_formula(given) and not isinstance(given, Mapping):
        return set()
    names = names_of(model.n_vars, model.feature_names)
    found: set[str] = set()
    for part, _ in children_first(said_event(given, *_variables(model))):
        if part.kind in ("bound", "point"):
            found.add(str(part.var))
        elif part.kind == "variable":
            var = part.var if isinstance(part.var, int) else names.index(part.var)
            own = names[var] if code is None else next(c.name for c in code.columns if var < c.stop)
            found.add(own)
    return found


def with_cells_of(model: Model, given: Iterable[Any], query: str) -> Model:
    """The model whose cells also meet at the bounds of several events or dicts."""
    bounds: dict[str, set[float]] = {}
    for one in given:
        if is_formula(one) or isinstance(one, Mapping):
            for name, own in bounds_of(as_event(one, *_variables(model))).items():
                bounds.setdefault(name, set()).update(own)
    return with_finer_cells(model, bounds, query)


def absorbed_rows(model: Model, given: Any) -> list[Absorbed | None] | None:
    """What is absorbed of an event, or of every dict of a list; None for an impossible one.

    None for rows that need nothing of the kind.
    """
    said = said_facts(model, given)
    if said is None:
        return None
    found: list[Absorbed | None] = []
    for one in said:
        try:
            found.append(absorb(model, one))
        except NoValueError:
            found.append(None)
    return found


def takes_evidence(
    *names: str,
    about: tuple[str, ...] = (),
    with_facts: Callable[[Any, Absorbed], Any] | None = None,
    has_own_events: bool = False,
) -> Callable[[F], F]:
    """Let a query of a model, its first argument, be given anything in these arguments.

    A list of dicts is asked one by one if some dict has sets or intervals, and the answers are
    joined. The arguments `about` name what is asked for: the answer is about rows in which those
    columns, and the given ones, have values. `with_facts` changes an answer that depends on what
    was absorbed. A query that `has_own_events` gets events that are no row of values as they are.
    """

    def decorate(query: F) -> F:
        signature = inspect.signature(query)

        @functools.wraps(query)
        def ask(*args: Any, **options: Any) -> Any:
            bound = signature.bind(*args, **options).arguments
            first = next(iter(bound))
            if about and is_any_missing_for_a_reason(bound[first]):
                model = model_of(bound[first])
                named = [columns_in(model, bound.get(name)) for name in (*about, *names)]
                bound = dict(bound) | {first: with_values(model, set().union(*named))}
            for name in names:
                given = bound.get(name)
                said = None if first == "self" else said_facts(bound[first], given)
                if said is None or (has_own_events and _is_own_event(bound[first], given)):
                    continue
                is_single = not isinstance(given, list | tuple)
                model, answers = model_of(bound[first]), []
                for one in said:
                    found = absorb(model, one)
                    asked = dict(bound) | {first: found.model}
                    asked[name] = found.rest if is_single else [found.rest]
                    if found.model.n_vars != model.n_vars:  # cells are finer: numbers have changed
                        if has_own_events:
                            asked |= {first: model, name: said_event(one, *_variables(model))}
                        for other in VARIABLES.intersection(asked):
                            asked[other] = _by_name(model, asked[other])
                    answer = query(**asked)
                    answers.append(answer if with_facts is None else with_facts(answer, found))
                return answers[0] if is_single else _joined(answers)
            return query(**bound) if about else query(*args, **options)

        return ask  # type: ignore[return-value]

    return decorate


def _variables(model: Model) -> tuple[int, tuple[str, ...] | None]:
    return model.n_vars, model.feature_names


def _by_name(model: Model, asked: Any) -> Any:
    """Variables of a model by their names; a name or a column stays as it is."""
    names = names_of(*_variables(model))
    if isinstance(asked, int | np.integer):
        return names[asked]
    is_list = isinstance(asked, list | tuple | np.ndarray | range)
    return [_by_name(model, one) for one in asked] if is_list else asked


def _is_own_event(model: Any, given: Any) -> bool:
    """Whether an event is more than a row of values."""
    if not is_formula(given):
        return False
    found = model_of(model)
    event = said_event(given, *_variables(found))
    return conjunction_of(event, names_of(*_variables(found))) is None


def said_facts(model: Any, given: Any) -> list[Any] | None:
    """The event, or the dicts of a table of which one has a set or interval; None for all else."""
    if is_formula(given):
        return [given]
    rows = read_named_rows(given) if isinstance(given, Mapping | list | tuple) else None
    if rows is None or not all(isinstance(row, Mapping) for row in rows):
        return None
    several = any(isinstance(value, SEVERAL) for row in rows for value in row.values())
    return rows if several else None


def _joined(answers: list[Any]) -> Any:
    """Answers to single rows as one answer to all of them."""
    first = answers[0]
    if len(answers) == 1:
        return first
    if isinstance(first, tuple) and not hasattr(first, "_fields"):
        return tuple(_joined(list(parts)) for parts in zip(*answers, strict=True))
    if isinstance(first, np.ndarray):
        return np.concatenate(answers)
    if hasattr(first, "joined"):  # `ColumnMarginals`
        return first.joined(answers)
    import narwhals as nw

    frame = nw.concat([nw.from_native(answer, eager_only=True) for answer in answers]).to_native()
    return frame.reset_index(drop=True) if hasattr(frame, "reset_index") else frame
