"""Entropy, and mutual information between sets of columns: exact, in nats, or refused.

One walk answers where the circuit's choices show in the columns asked about. Few columns are
answered from the table of their cells, and otherwise `HiddenChoices` looks at as few states as the
hidden choices allow. Which component made a row is hidden from every row, so several components are
answered from tables alone. Numbers and dates count by their cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from strudel._names import quote
from strudel._numba import in_threads, kernel
from strudel._types import AnyArray, FloatArray, IntArray
from strudel.algebra.marginalization import without_others
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.other_columns import with_groups
from strudel.circuits.properties import why_not_deterministic
from strudel.circuits.reweigh import given_row
from strudel.circuits.walks import LeafRows, leaf_rows
from strudel.data.bits import x_log_x_of
from strudel.errors import CircuitPropertyError, SizeLimitError
from strudel.queries.by_block import lazily
from strudel.queries.cells import cell_table, joint_table
from strudel.queries.given import (
    Asked,
    as_shown,
    ask,
    each_as_shown,
    find_columns,
    raise_if_impossible,
)
from strudel.queries.hidden_choices import HiddenChoices
from strudel.tables.evidence import Evidence

MAX_STATES = 2**20
FAINT = 1e-290  # of a probability: floats below have fewer digits
SMALL_TABLE = 2**16  # states that are tabulated rather than searched for hidden choices
STATES_PER_STEP = 64  # states that a table takes while `HiddenChoices` looks at one


@lazily("given")
def entropy(model: Any, given: Any = None, *, max_states: int = MAX_STATES) -> float | FloatArray:
    """Entropy of all columns, given what is known.

    Parameters
    ----------
    model : Circuit or fitted estimator
        A deterministic circuit takes one walk.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    max_states : int
        For several components, or a circuit that is not deterministic, the limit on the states that
        are looked at.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` has an axis of rows
        In nats. Numbers and dates count by their cells.

    Raises
    ------
    CircuitPropertyError
        If the model has several components, or is not deterministic, and too many states.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> round(entropy(figure_1_circuit()), 4)
    2.3381
    """
    asked = ask(model, given)
    if why_not_deterministic(asked.circuit) is None:
        log_p, found = np.empty((2, len(asked.evidence)))
        for rows, own in each_as_shown(asked):
            log_p[rows], found[rows] = _one_walk(own.circuit, own.evidence)
        raise_if_impossible(log_p)
        return float(found[0]) if asked.is_single else found
    everything = range(len(asked.circuit.columns))
    return _for_each_row(
        as_shown(asked), lambda row: row.entropy(everything, "entropy", max_states)
    )


def _one_walk(circuit: Circuit, evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Log-probability and entropy of a deterministic circuit given every row.

    Every choice on the way to a row shows in it: the entropy of a sum is that of its choice, and on
    average that of what is chosen.
    """
    rows = leaf_rows(circuit, evidence.weights)
    within = _leaf_entropies(circuit, evidence.weights, rows)
    log_p, found = np.empty((2, len(evidence)))
    in_threads(
        _entropies,
        len(evidence),
        evidence.codes,
        circuit.leaf_column,
        rows.first,
        rows.log_value[:, 0],
        within,
        Edges(circuit.node_edges, circuit.edge_left, circuit.edge_right),
        circuit.edge_log_theta[:, 0],
        log_p,
        found,
    )
    return log_p, found


@kernel
def _entropies(
    first_row: int,
    last_row: int,
    codes: IntArray,
    leaf_column: IntArray,
    first: IntArray,
    log_value: FloatArray,
    within: FloatArray,
    edges: Edges,
    log_theta: FloatArray,
    log_p: FloatArray,
    entropies: FloatArray,
) -> None:
    """Fill log-probabilities and entropies: one walk up in logs per row."""
    node_edges, edge_left, edge_right = edges
    n_nodes = len(node_edges) - 1
    value, entropy = np.empty(n_nodes), np.empty(n_nodes)
    term = np.empty(len(log_theta))
    for row in range(first_row, last_row):
        for l in range(len(leaf_column)):
            at = first[l] + codes[row, leaf_column[l]]
            value[l], entropy[l] = log_value[at], within[at]
        for n in range(len(leaf_column), n_nodes):
            top = -np.inf
            for e in range(node_edges[n], node_edges[n + 1]):
                term[e] = log_theta[e] + value[edge_left[e]] + value[edge_right[e]]
                top = max(top, term[e])
            value[n], entropy[n] = top, 0.0
            if top == -np.inf:
                continue
            total = mean = 0.0
            for e in range(node_edges[n], node_edges[n + 1]):
                if term[e] > -np.inf:
                    share = np.exp(term[e] - top)
                    total += share
                    below = entropy[edge_left[e]] + entropy[edge_right[e]]
                    mean += share * (below - (term[e] - top))
            value[n] += np.log(total)
            entropy[n] = mean / total + np.log(total)
        log_p[row], entropies[row] = value[-1], entropy[-1]


def _leaf_entropies(
    circuit: Circuit, weights: tuple[FloatArray, ...], rows: LeafRows
) -> FloatArray:
    """The entropy of every leaf given each code, in the order of `rows`."""
    found = np.zeros(len(rows.log_value))  # of single cells
    every = -np.add.reduceat(x_log_x_of(np.exp(circuit.leaf_log_p[:, 0])), circuit.leaf_first[:-1])
    unknown = rows.first + np.diff(circuit.leaf_first)
    found[unknown] = every
    for place, own in enumerate(weights):
        if len(own) > 1:
            p = np.exp(circuit.leaf_table(place)[:, np.newaxis, :, 0]) * own[1:]
            total = p.sum(axis=2, keepdims=True)
            p = np.divide(p, total, out=np.zeros_like(p), where=total > 0.0)
            leaves = slice(*circuit.column_leaves[place : place + 2])
            at = unknown[leaves, np.newaxis] + np.arange(1, len(own))
            found[at] = -x_log_x_of(p).sum(axis=2)
    return found


@lazily("given")
def mutual_information(
    model: Any,
    a: Any,
    b: Any,
    given: Any = None,
    *,
    beyond: Any = None,
    max_states: int = MAX_STATES,
) -> float | FloatArray:
    """How much two sets of columns tell about each other, given what is known.

    This is ``H(a) + H(b) - H(a, b)``; it is exact, even if other columns are summed out.

    Parameters
    ----------
    model : Circuit or fitted estimator
    a, b : names or numbers of columns
        Two disjoint sets. Numbers and dates count by their cells, within which they tell nothing
        about each other.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    beyond : name of a column, or a list of names, optional
        What `a` and `b` tell about each other beyond these columns, on average over their values;
        `given` is then at most one row.
    max_states : int
        Limit on the states of the two sets that are looked at. At worst that is all of them, when
        summing out the other columns hides the choices that the circuit makes, and always with
        several components.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` has an axis of rows
        In nats, zero or more.

    Raises
    ------
    CircuitPropertyError
        If more states would be needed. There is no approximation.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> round(mutual_information(figure_1_circuit(), "X3", "X4"), 4)
    0.1284
    >>> round(mutual_information(figure_1_circuit(), ["X1", "X2"], "X4", given={"X3": 1}), 4)
    0.0
    >>> round(mutual_information(figure_1_circuit(), "X1", "X4", beyond="X3"), 4)  # all of it
    0.0
    """
    first, second = find_columns(model, a, "a"), find_columns(model, b, "b")
    others = [] if beyond is None else find_columns(model, beyond, "beyond")
    asked = as_shown(ask(model, given, [*first, *second, *others]))
    query = "mutual_information"
    if beyond is not None:
        return _information_beyond(asked, first, second, others, max_states)
    if both := set(first).intersection(second):
        name = asked.circuit.columns.names[min(both)]
        kind = "variable" if asked.circuit.columns.are_bits else "column"
        raise ValueError(f"a and b must have no {kind} in common, but both have {name!r}.")
    return _for_each_row(
        asked, lambda row: row.mutual_information(first, second, query, max_states)
    )


def _information_beyond(
    asked: Asked, a: list[int], b: list[int], others: list[int], max_states: int
) -> float:
    """The mutual information of some columns given others, from the table of all their values."""
    [(_, asked)] = each_as_shown(asked.one_row())
    columns, places = asked.circuit.columns, [*a, *b, *others]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise ValueError(
            "a, b and beyond must have no column in common, but "
            f"{columns.names[twice]!r} is in two of them."
        )
    logs, log_given = joint_table(asked, places, "mutual_information", max_states)
    raise_if_impossible(np.array([log_given]))
    sizes = [math.prod(columns[place].n_cells for place in own) for own in (a, b)]
    tables = np.exp(logs - log_given).reshape(*sizes, -1).transpose(2, 0, 1)
    chance = tables.sum(axis=(1, 2))
    return float(
        sum(p * _table_information(table / p) for p, table in zip(chance, tables, strict=True) if p)
    )


def _for_each_row(asked: Asked, answer: Callable[[_Given], float]) -> float | FloatArray:
    """The answer for every row of evidence: a float for a single one, else an array."""
    evidence = asked.evidence
    _, first, place = np.unique(evidence.codes, axis=0, return_index=True, return_inverse=True)
    answers = np.empty(len(first))
    for which in np.argsort(first).tolist():
        row = int(first[which])
        circuit, log_p = given_row(asked.circuit, evidence, row)
        raise_if_impossible(np.array([log_p]), row)
        assert circuit is not None
        is_fine = circuit.columns.n_cells > circuit.columns.shown.n_cells
        if is_fine.any():
            circuit = with_groups(circuit, np.flatnonzero(is_fine).tolist())
        answers[which] = answer(_Given(circuit, evidence.is_single_cell()[row]))
    return float(answers[0]) if asked.is_single else answers[place.ravel()]


class _Given:
    """A circuit given one row of evidence, which is possible."""

    def __init__(self, circuit: Circuit, is_known: AnyArray) -> None:
        self.circuit, self.is_known = circuit, is_known

    def mutual_information(
        self, a: Sequence[int], b: Sequence[int], query: str, max_states: int
    ) -> float:
        a, b = self._unknown(a), self._unknown(b)
        if not a or not b:
            return 0.0
        sizes = [self._n_states(places) for places in (a, b)]
        limit = SMALL_TABLE if self.circuit.n_components == 1 else max_states
        if math.prod(sizes) <= min(limit, max_states):
            return _table_information(cell_table(self.circuit, [*a, *b]).reshape(sizes))
        parts = [self.entropy(places, query, max_states) for places in (a, b, [*a, *b])]
        return max(0.0, parts[0] + parts[1] - parts[2])  # rounding may leave -1e-16

    def entropy(self, places: Sequence[int], query: str, max_states: int) -> float:
        places = self._unknown(places)
        n_states = self._n_states(places)
        if n_states == 1:
            return 0.0
        is_few = n_states <= min(SMALL_TABLE, max_states)
        if self.circuit.n_components == 1 and not is_few:
            found = self._with_hidden_choices(places, min(n_states, max_states))
            if found is not None:
                return found
        if n_states > max_states:
            self._refuse(places, query, max_states)
        return float(-x_log_x_of(cell_table(self.circuit, places)).sum())

    def _with_hidden_choices(self, places: Sequence[int], max_states: int) -> float | None:
        """The entropy of some columns of one component; None if it takes more states."""
        kept = sorted({*places, *np.flatnonzero(self.is_known).tolist()})
        circuit = self.circuit
        if len(kept) < len(circuit.columns):
            try:
                circuit = without_others(circuit, kept, max(max_states, circuit.n_edges))
            except SizeLimitError:
                return None
        return HiddenChoices(circuit).entropy(max(1, max_states // STATES_PER_STEP))

    def _unknown(self, places: Sequence[int]) -> list[int]:
        """What is known has no entropy."""
        return [place for place in places if not self.is_known[place]]

    def _n_states(self, places: Sequence[int]) -> int:
        return math.prod(self.circuit.columns[place].n_cells for place in places)

    def _refuse(self, places: Sequence[int], query: str, max_states: int) -> NoReturn:
        """Say why the entropy of these columns is out of reach."""
        circuit = self.circuit
        things = "variables" if circuit.columns.are_bits else "columns"
        names = quote([circuit.columns.names[place] for place in places])
        if circuit.n_components > 1:
            raise CircuitPropertyError(
                f"{query} of a mixture needs all states of {len(places)} {things} ({names}), more "
                f"than max_states = {max_states}: the log of a sum over components cannot be "
                f"split. Ask about fewer {things} or one component, give more evidence, allow more "
                "states with max_states, or average -log_likelihood over samples for an estimate."
            )
        n_summed = int((~self.is_known).sum()) - len(places)
        reason = None if n_summed else why_not_deterministic(circuit)
        if reason is not None:
            raise CircuitPropertyError(
                f"{query} needs a deterministic circuit, but {reason}, and there are more than "
                f"max_states = {max_states} states to look at one by one. Allow more with "
                "max_states, or give more evidence."
            )
        raise CircuitPropertyError(
            f"{query} needs the entropy of {len(places)} {things} ({names}), but summing out the "
            f"other {n_summed} hides choices of the circuit, too many to follow one by one within "
            f"max_states = {max_states} states. Ask about fewer {things}, allow more with "
            "max_states, or give more evidence."
        )


def _table_information(joint: FloatArray) -> float:
    """Mutual information of the row and the column of a table of probabilities."""
    row, column = joint.sum(axis=1, keepdims=True), joint.sum(axis=0, keepdims=True)
    independent = row * column
    is_there = joint > 0.0
    p, q = joint[is_there], independent[is_there]
    # The log of p / q is exact near zero; where q is nearly the smallest float, it is 0 or rough.
    with np.errstate(divide="ignore", over="ignore"):
        apart = (np.log(row) + np.log(column))[is_there]
        log_ratio = np.where(q > FAINT, np.log(p / q), np.log(p) - apart)
    # p log(p / q) - p + q is never negative, and the sums of p and of q are equal.
    return max(0.0, float((p * log_ratio - p + q).sum() + independent[~is_there].sum()))
