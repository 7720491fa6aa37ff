"""What a question is asked of: a circuit over columns, and evidence about them.

In:  a model of any kind, and what is given in any form.
Out: `Asked`: the circuit, the `Evidence`, and how probable those facts are that became part of the
     circuit.

Facts about single columns are evidence. Given any other event, the circuit becomes that of its
rows. A question about columns that are missing for a reason is about the rows that have values
(`where_known`): each component counts as much as it knows them, and each row of the column that
causes it as often as they are known there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strudel._estimator import not_fitted
from strudel._types import NONE, AnyArray, FloatArray
from strudel.algebra.event_circuit import given_event
from strudel.circuits.circuit import Circuit
from strudel.circuits.other_columns import with_groups
from strudel.circuits.products import MAX_PAIRS
from strudel.circuits.reweigh import given_row, normalized
from strudel.circuits.walks import IMPOSSIBLE as IMPOSSIBLE
from strudel.circuits.walks import raise_if_impossible as raise_if_impossible
from strudel.data.validation import read_named_rows
from strudel.errors import NoValueError
from strudel.logic.column_classes import column_leaves, conjunction_of
from strudel.logic.events import Event
from strudel.logic.terms import is_formula, said_event
from strudel.tables.evidence import Evidence, evidence_of, evidence_of_regions, nothing_known
from strudel.tables.missingness import Missingness

ROUNDING = 1e-9  # of shares that are the same
LEAST = 1e-6  # of the rows of a cell have a value, whatever was seen
N_RECENT = 4  # circuits given something that a circuit remembers


@dataclass(frozen=True, eq=False)
class Asked:
    """A circuit and what is known of its columns."""

    circuit: Circuit
    evidence: Evidence
    log_probability: float = 0.0  # of the facts that became part of the circuit
    event_places: frozenset[int] = frozenset()  # what these facts are about

    @property
    def named(self) -> set[int]:
        """The places of the columns that something is known about."""
        known = np.flatnonzero(self.evidence.is_known().any(axis=0))
        return {*known.tolist(), *self.event_places}

    @property
    def is_single(self) -> bool:
        """Whether it is one question, whose answer has no axis of rows."""
        return self.evidence.is_single

    def one_row(self) -> Asked:
        """Itself, if it is about one row."""
        if len(self.evidence) != 1:
            raise ValueError(
                f"given must be one row, but has {len(self.evidence)}. Ask for one row at a time."
            )
        return self

    def of_row(self, row: int) -> Asked:
        """One of its questions."""
        return replace(self, evidence=self.evidence.take(np.array([row])))


def as_shown(asked: Asked) -> Asked:
    """The same question of the cells that people see: groups of numbers and dates.

    Columns that something is known of in any row stay as they are.
    """
    circuit, evidence = asked.circuit, asked.evidence
    is_fine, _ = _fine_columns(asked)
    if not is_fine.any():
        return asked
    places = tuple(np.flatnonzero(is_fine & ~evidence.is_known().any(axis=0)).tolist())
    shown = remembered(circuit, ("shown", places), lambda: with_groups(circuit, places))
    return replace(asked, circuit=shown, evidence=evidence.over_groups(shown.columns))


def each_as_shown(asked: Asked) -> list[tuple[AnyArray, Asked]]:
    """The same for states, which have groups wherever a number or date is not known.

    Rows that know the same columns, and what they ask. A row that knows a part of fine cells asks
    alone: what it knows becomes part of the circuit.
    """
    is_fine, is_part = _fine_columns(asked)
    n_rows = len(asked.evidence)
    if not is_fine.any():
        return [(np.arange(n_rows), asked)]
    which = asked.evidence.is_known() & is_fine
    alone = np.where(is_part.any(axis=1), np.arange(n_rows), NONE)
    _, group = np.unique(np.column_stack([which, alone]), axis=0, return_inverse=True)
    made = []
    for own in (np.flatnonzero(group.ravel() == g) for g in range(group.max(initial=-1) + 1)):
        part = replace(asked, evidence=asked.evidence.take(own))
        made.append((own, _within_parts(part) if is_part[own[0]].any() else as_shown(part)))
    return made


def _within_parts(asked: Asked) -> Asked:
    """A question of one row that knows parts of fine cells: all that it knows is in the circuit."""
    circuit, evidence = asked.circuit, asked.evidence
    found, log_p = given_row(circuit, evidence)
    if found is None:  # which every question says in its own words
        return as_shown(asked)
    is_open = _fine_columns(asked)[0] & ~evidence.is_single_cell()[0]
    found = with_groups(found, np.flatnonzero(is_open).tolist())
    log_p += asked.log_probability + circuit.log_total
    known = replace(nothing_known(found.columns), is_single=asked.is_single)
    return Asked(found, known, log_p, frozenset(asked.named))


def shown_circuit(model: Any) -> Circuit:
    """The circuit of a model over the cells that people see."""
    circuit = circuit_of(model)
    return as_shown(Asked(circuit, nothing_known(circuit.columns))).circuit


def _fine_columns(asked: Asked) -> tuple[AnyArray, AnyArray]:
    """Which columns have cells that are not shown, and which rows know only a part of them."""
    columns, evidence = asked.circuit.columns, asked.evidence
    is_fine = columns.n_cells > columns.shown.n_cells
    return is_fine, is_fine & evidence.is_known() & ~evidence.is_single_cell()


def circuit_of(model: Any) -> Circuit:
    """The circuit over columns of anything that is a model; of a classifier, with its class."""
    for one in (model, getattr(model, "circuit_", None)):
        if isinstance(one, Circuit):
            return one
    if hasattr(model, "fit"):
        raise not_fitted(model)
    raise TypeError(f"A model is a Circuit or a fitted estimator, but got {type(model).__name__}.")


def ask(
    model: Any,
    given: Any = None,
    about: Iterable[Any] | None = None,
    *,
    may_be_impossible: bool = False,
    max_pairs: int = MAX_PAIRS,
) -> Asked:
    """The circuit and the evidence of a question.

    If it is `about` columns, it is asked of the rows in which they and the given ones have values.
    Raises `NoValueError` where an event has probability zero, or facts that no row of the circuit
    can have unless they `may_be_impossible`.
    """
    circuit, event, evidence = facts_of(
        circuit_of(model), given, about, may_be_impossible=may_be_impossible
    )
    if event is None:
        return Asked(circuit, evidence)
    found, log_p = remembered(circuit, event, lambda: given_event(circuit, event, max_pairs))
    if found is None:
        raise NoValueError(f"The given event {IMPOSSIBLE}", "Give another one.", column="")
    about_event = frozenset(column_leaves(event, circuit.columns))
    return Asked(found, nothing_known(found.columns), log_p, about_event)


def facts_of(
    circuit: Circuit,
    given: Any,
    about: Iterable[Any] | None = None,
    *,
    name: str = "given",
    may_be_impossible: bool = False,
) -> tuple[Circuit, Event | None, Evidence]:
    """The circuit that is asked, and what is given: an event that is no evidence, and evidence."""
    columns = circuit.columns
    event = said_event(given, columns) if is_formula(given) else None
    if about is not None and columns.missingness.caused:
        named = {columns.names[columns.place(one)] for one in about}
        circuit = where_known(circuit, named | _named(circuit, given, event))
    if event is None:
        evidence = evidence_of(circuit.columns, given, name, may_be_impossible=may_be_impossible)
        return circuit, None, evidence
    nothing = nothing_known(circuit.columns)
    facts = conjunction_of(event, columns)
    if facts is None:
        return circuit, event, nothing
    found = evidence_of_facts(circuit, facts)
    if found is None and not may_be_impossible:
        raise NoValueError(f"The given event {IMPOSSIBLE}", "Give another one.", column="")
    return circuit, None, nothing.within(facts) if found is None else found


def evidence_of_facts(circuit: Circuit, facts: Mapping[int, Any]) -> Evidence | None:
    """Regions of columns as evidence; a single number is one that is given. None if impossible."""
    row: dict[Any, Any] = {}
    regions = {}
    for place, region in facts.items():
        column = circuit.columns[place]
        if not region:
            return None
        low, high = region[0]
        is_point = column.is_numeric and len(region) == 1 and high == math.nextafter(low, math.inf)
        if is_point:
            row[place] = column.of_its_type(low)
        else:
            regions[place] = region
    try:
        evidence = evidence_of_regions(circuit.columns, [regions])
    except NoValueError:
        return None
    for place, value in row.items():
        evidence = evidence.with_number(0, place, float(value))
    return evidence


def remembered(circuit: Circuit, key: Any, make: Any) -> Any:
    """What is made of a circuit and a key; the last few are kept, as people ask about one group."""
    recent = circuit.__dict__.setdefault("_recent", {})
    if key not in recent:
        recent[key] = make()
    found = recent[key] = recent.pop(key)  # the last is the newest
    while len(recent) > N_RECENT:
        del recent[next(iter(recent))]
    return found


def find_columns(model: Any, asked: Any, who: str) -> list[int]:
    """The places of one column or several, by names or numbers, each once."""
    columns = circuit_of(model).columns
    items = [asked] if isinstance(asked, str | int | np.integer) else list(asked)
    found: list[int] = []
    for item in items:
        place = columns.place(item, who)
        if place in found:
            raise ValueError(f"{who} must name each column once, but has {item!r} twice.")
        found.append(place)
    if not found:
        raise ValueError(f"{who} must name at least one column, but is empty.")
    return found


def pandas_frame(content: Mapping[str, Any]) -> Any:
    """A frame of pandas with these columns."""
    import narwhals as nw

    return nw.from_dict(dict(content), backend="pandas").to_native()


# Columns that are missing for a reason


def _named(circuit: Circuit, given: Any, event: Event | None) -> set[str]:
    """The columns that evidence in the form of facts says something about."""
    columns = circuit.columns
    if event is not None:
        return {columns.names[place] for place in column_leaves(event, columns)}
    rows = read_named_rows(given) if isinstance(given, Mapping | list | tuple) else None
    keys = {key for row in rows or () if isinstance(row, Mapping) for key in row}
    return {columns.names[columns.place(key, "given")] for key in keys}


def where_known(circuit: Circuit, names: Iterable[str]) -> Circuit:
    """The model of the rows in which these columns have values."""
    columns = circuit.columns
    asked = tuple(sorted(columns.missingness.caused.intersection(names)))
    if not asked:
        return circuit
    found: Circuit = remembered(circuit, asked, lambda: _where_known(circuit, asked))
    return found


def _where_known(circuit: Circuit, asked: tuple[str, ...]) -> Circuit:
    columns, places = circuit.columns, [circuit.columns.place(name) for name in asked]
    left = replace(columns, missingness=columns.missingness.without(asked))
    logs = circuit.leaf_log_p.copy()
    if _leaves_tell(circuit, places):
        assert circuit.known is not None
        for place in places:
            first, last = circuit.leaf_first[circuit.column_leaves[place : place + 2]]
            logs[first:last] += np.log(np.maximum(circuit.known[first:last], LEAST))
        known, _ = normalized(replace(circuit, columns=left, leaf_log_p=logs))
        assert known is not None  # every cell has a weight
        return known
    for cause, chance in columns.missingness.chances_of_values(asked, columns.columns):
        place = columns.place(cause)
        first, last = circuit.leaf_first[circuit.column_leaves[place : place + 2]]
        own = np.log(np.maximum(chance, LEAST))
        logs[first:last] += np.tile(own, (last - first) // len(own))[:, np.newaxis]
    found, _ = normalized(replace(circuit, columns=left, leaf_log_p=logs))
    assert found is not None
    if circuit.known is None:
        return found
    # How often a component has a value is counted; only within it the causes say more.
    shares = np.stack([_ends_of_known(circuit, place)[0] for place in places])
    return found.with_weights(circuit.log_weight + np.log(np.maximum(shares, LEAST)).sum(axis=0))


def _leaves_tell(circuit: Circuit, places: Sequence[int]) -> bool:
    """Whether it depends on the leaf, and not on the component alone, if a value is known."""
    if circuit.known is None:
        return False
    ends = [_ends_of_known(circuit, place) for place in places]
    return any((high - low).max() > ROUNDING for low, high in ends)


def _ends_of_known(circuit: Circuit, place: int) -> tuple[FloatArray, FloatArray]:
    """The least and the largest share of a column's values that is known, `(k,)` each."""
    known, is_possible = circuit.leaf_table(place, "known"), circuit.leaf_table(place) > -np.inf
    low = np.where(is_possible, known, 1.0).min(axis=(0, 1))
    return low, np.where(is_possible, known, 0.0).max(axis=(0, 1))


def of_all_rows(model: Any) -> Circuit:
    """The model of a table as if no value were missing, whose answers are about all rows.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Learned from a table with missing values.

    Returns
    -------
    Circuit
        A question about a column that is missing for a reason, such as the income of those who did
        not say, is about rows that have a value. Of this model it is about all rows: what is
        missing is as in other rows that are alike.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from strudel import Strudel, probability
    >>> from strudel.queries import of_all_rows
    >>> rng = np.random.default_rng(0)
    >>> old = rng.integers(0, 2, 2000)
    >>> answer = np.where(rng.random(2000) < 0.2 + 0.6 * old, "yes", "no").astype(object)
    >>> answer[(old == 0) & (rng.random(2000) < 0.8)] = None  # the young did not say
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"old": np.where(old, "yes", "no"), "answer": answer})
    >>> with warnings.catch_warnings():  # that values are missing for a reason, which is the point
    ...     warnings.simplefilter("ignore")
    ...     model = Strudel(n_components=1, random_state=0, verbose=False).fit(rows)
    >>> round(probability(model, "answer = yes"), 1), round(
    ...     probability(of_all_rows(model), "answer = yes"), 1
    ... )
    (0.7, 0.5)
    """
    circuit = circuit_of(model)
    return circuit.with_columns(replace(circuit.columns, missingness=Missingness()))


# Answers that all questions share


def log_mean(circuit: Circuit, logs: FloatArray) -> FloatArray:
    """Log-probability of every row, from those under the components."""
    joint = logs + circuit.log_weight
    if joint.shape[1] == 1:
        return joint[:, 0]
    top = joint.max(axis=1)
    top[top == -np.inf] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(joint - top[:, np.newaxis]).sum(axis=1)) + top)


def component_posterior(circuit: Circuit, logs: FloatArray) -> FloatArray:
    """How probable every component is given a row; NaN where the row is impossible."""
    joint = logs + circuit.log_weight
    with np.errstate(invalid="ignore"):
        share = np.exp(joint - joint.max(axis=1, keepdims=True))
        return np.asarray(share / share.sum(axis=1, keepdims=True))
