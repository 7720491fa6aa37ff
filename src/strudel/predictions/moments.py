"""Moments of a prediction given what is known of rows, exact.

In:  a predictor as a form over the cells of a circuit; rows of codes.
Out: log-probabilities of the rows, and `Moments` of the prediction given each.

Central moments keep their digits where the mean is large and the spread is small; raw moments, the
expectations of powers, are made from them at the end.

- **Trees, forests and boosting**: every leaf is a conjunction of sets of cells. Only the leaves
  that a row may still reach count, and of such a leaf only what is unknown: a *question*. Leaves
  with the same question are asked about once, and the questions of a row share their passes. One
  tree has every moment, because its leaves exclude each other. The variance of a sum of trees takes
  questions about every two leaves.
- **Sums and circuits**: the circuit whose nodes are the pairs of nodes that model and predictor
  meet (`circuits/products.py`) is passed once from below; for a sum over columns that is the model.
  A node has a value and, where it holds, a mean and central moments of the weights below. A product
  adds those of its children, which are independent; a sum mixes those of its products. This is the
  recurrence of Khosravi et al. (2019), in a form that keeps the digits of a variance. Rows share
  the values of nodes below which they know the same.
- **Events** hold with a probability, and are 1 then.
- **Enumeration**: all states of the unknown columns that a predictor looks at, if they are few.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from threading import local
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel, run_blocks
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.passes import log_of
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.products import Pairs
from strudel.circuits.properties import why_not_deterministic
from strudel.circuits.walks import edge_shares, leaf_values_of, up
from strudel.errors import CircuitPropertyError
from strudel.predictions.asked import Asked
from strudel.predictions.cell_codes import CellCodes
from strudel.predictions.forms import (
    OUTSIDE,
    CircuitForm,
    EventForm,
    Form,
    LeafForm,
    LinearForm,
    questions_of_leaves,
)
from strudel.predictions.shared_walks import (
    Patterns,
    Structure,
    Values,
    find_patterns,
    pass_patterns,
    rows_per_block,
    values_of,
)
from strudel.queries.event_probability import log_joint
from strudel.queries.given import component_posterior, log_mean

MAX_LEAF_PAIRS = 2**22  # of questions, for the variance of a sum of trees: some seconds
STATE_CELLS = 2**23  # codes of the states of all rows taken together
QUESTION_CELLS = 2**24  # codes of the questions of all rows taken together, at most
BLOCK_CELLS = 2**22  # moments per row and component, made at a time
NOTHING = 1e-12  # rounding: a predictor that holds with all but this probability always holds


class Moments(NamedTuple):
    """Moments of a prediction given each row."""

    mean: FloatArray  # (n_rows, n_outputs)
    central: FloatArray  # (n_rows, order - 1, n_outputs), about the mean, from the second on

    @property
    def order(self) -> int:
        """The highest moment."""
        return self.central.shape[-2] + 1

    def raw(self, k: int) -> FloatArray:
        """The expectation of the k-th power."""
        total = self.mean**k
        for j in range(2, k + 1):
            total = total + comb(k, j) * self.central[..., j - 2, :] * self.mean ** (k - j)
        return total


def mix_moments(weight: FloatArray, parts: Moments) -> Moments:
    """The moments of a mixture, from those of its parts on the second axis.

    `weight` is `(n_rows, n_parts)` and adds up to one in every row; `parts` have the shapes
    `(n_rows, n_parts, n_outputs)` and `(n_rows, n_parts, order - 1, n_outputs)`.
    """
    share = weight[:, :, np.newaxis]
    mean = (share * parts.mean).sum(axis=1)
    apart = parts.mean - mean[:, np.newaxis]
    central = np.empty((len(mean), parts.order - 1, mean.shape[1]))
    for k in range(2, parts.order + 1):
        total = apart**k
        for j in range(2, k + 1):
            total = total + comb(k, j) * parts.central[:, :, j - 2] * apart ** (k - j)
        central[:, k - 2] = (share * total).sum(axis=1)
    return Moments(mean, central)


def moments_of_points(weight: FloatArray, value: FloatArray, order: int) -> Moments:
    """The moments of values `(n_rows, n_points, n_outputs)` with these probabilities."""
    nothing = np.zeros((*value.shape[:2], order - 1, value.shape[2]))
    return mix_moments(weight, Moments(value, nothing))


def moments_of(
    form: Form,
    known: CellCodes,
    codes: AnyArray,
    order: int,
    query: str,
    max_pairs: int = MAX_LEAF_PAIRS,
) -> tuple[FloatArray, Moments]:
    """Log-probability of every row of codes, and the moments of a form given it.

    Those of impossible rows are NaN. Sums of trees have at most the second.
    """
    if isinstance(form, LeafForm):
        return _leaf_moments(form, known, codes, order, query, max_pairs)
    if isinstance(form, EventForm):
        log_p = known.log_probabilities(codes)
        with np.errstate(invalid="ignore"):
            chance = np.exp(event_logs(form, known, codes) - log_p)
        coin = np.broadcast_to(np.array([[0.0], [1.0]]), (len(codes), 2, 1))
        return log_p, moments_of_points(np.column_stack([1.0 - chance, chance]), coin, order)
    sums = known.kept(form, lambda: _weighted(form, known, query))
    return _circuit_moments(sums, known, codes, order)


def expected_outputs(form: Form, known: CellCodes, codes: AnyArray, query: str) -> FloatArray:
    """The expectation of what a form adds up, given rows that are possible, without lines."""
    return moments_of(form, known, codes, 1, query)[1].mean


# Events


def event_logs(form: EventForm, known: CellCodes, codes: AnyArray) -> FloatArray:
    """The log-probability that an event holds and rows are as they are known."""
    return log_joint(known.circuit, form.event, known.evidence(codes))


# Enumeration


class States(NamedTuple):
    """What is unknown of each row and may matter to a predictor, and how many states it has."""

    parts: list[tuple[int, list[AnyArray]]]  # columns, with the cells of their states
    is_asked: AnyArray  # (n_rows, n_parts)
    n_states: FloatArray  # (n_rows,)


def states_of(form: Form, known: CellCodes, codes: AnyArray) -> States:
    """The states to enumerate: cells that a predictor tells apart."""
    is_unknown = ~known.is_settled(codes)
    if isinstance(form, LeafForm):
        is_unknown &= _on_open_paths(form, known, codes)
    parts = [(place, _states_of_column(form, place, known)) for place in form.places]
    is_asked = is_unknown[:, form.places]
    n_states = np.array([float(len(states)) for _, states in parts])
    return States(parts, is_asked, np.where(is_asked, n_states, 1.0).prod(axis=1))


def _states_of_column(form: Form, place: int, known: CellCodes) -> list[AnyArray]:
    """Sets of cells of a column that a predictor does not tell apart."""
    says: AnyArray = np.arange(int(known.n_cells[place]))[:, np.newaxis]
    if isinstance(form, LinearForm):
        says = form.weight[place]
    elif isinstance(form, LeafForm):
        sets = np.flatnonzero(form.set_place == place)
        says = np.array([form.set_cells[i] for i in sets.tolist()]).T
    _, which = np.unique(says, axis=0, return_inverse=True)
    return [which.ravel() == state for state in range(int(which.max()) + 1)]


def _on_open_paths(form: LeafForm, known: CellCodes, codes: AnyArray) -> AnyArray:
    """Which columns are on the way to a leaf that a row may still reach."""
    is_used = np.zeros(codes.shape, dtype=np.bool_)
    leaves = form.leaves(known)
    set_leaf = np.repeat(np.arange(form.n_leaves), np.diff(form.leaf_start))
    place, first = form.set_place[form.leaf_set], leaves.first[form.leaf_set]
    for row, used in zip(codes, is_used, strict=True):
        is_closed = np.zeros(form.n_leaves, dtype=np.bool_)
        is_closed[set_leaf[leaves.relation[first + row[place]] == OUTSIDE]] = True
        used[place[~is_closed[set_leaf]]] = True
    return is_used


def enumerated_moments(
    asked: Asked,
    states: States,
    order: int,
    made_of: Callable[[FloatArray], FloatArray],
    is_few: AnyArray,
) -> Moments:
    """Moments of what is `made_of` the form's output given the rows in `is_few`, else NaN.

    All states of the unknown columns that the predictor uses are enumerated, and of a tree only
    those on paths that are still open; the others are summed out.
    """
    form, known, codes, shift = asked.form, asked.known, asked.codes, asked.shifts
    n_columns = made_of(np.zeros((1, len(form.bias)))).shape[1]
    mean = np.full((len(codes), n_columns), np.nan)
    central = np.full((len(codes), order - 1, n_columns), np.nan)
    settled = known.cells_of(codes)
    patterns, which = np.unique(states.is_asked, axis=0, return_inverse=True)
    for p, is_asked in enumerate(patterns):
        same = np.flatnonzero(is_few & (which.ravel() == p))
        parts = [part for part, is_there in zip(states.parts, is_asked, strict=True) if is_there]
        n_states = int(np.prod([len(own) for _, own in parts], dtype=np.int64))
        block = max(1, STATE_CELLS // (n_states * codes.shape[1]))
        for start in range(0, len(same), block):
            rows = same[start : start + block]
            asked_row = np.repeat(np.arange(len(rows), dtype=np.int32), n_states)
            full = codes[rows[asked_row]]
            cells, is_possible = settled[rows[asked_row]], np.ones(len(full), dtype=bool)
            number = np.tile(np.arange(n_states), len(rows))
            for place, own in parts:
                state = number % len(own)
                number = number // len(own)
                cells[:, place] = np.array([in_state.argmax() for in_state in own])[state]
                for code in np.unique(codes[rows, place]).tolist():
                    inside = np.array([known.split(place, code, in_state)[0] for in_state in own])
                    at = full[:, place] == code
                    is_possible &= ~at | (inside != NONE)[state]
                    inside = np.where(inside == NONE, code, inside)
                    full[:, place] = np.where(at, inside[state], full[:, place])
            _, chance = known.answers(codes[rows], asked_row, full)
            chance = np.where(is_possible, chance, 0.0)
            output = form.evaluate(cells) + shift[rows[asked_row]]
            mean[rows], central[rows] = moments_of_points(
                chance.reshape(len(rows), -1),
                made_of(output).reshape(len(rows), n_states, -1),
                order,
            )
    return Moments(mean, central)


# Trees


def _leaf_moments(
    form: LeafForm, known: CellCodes, codes: AnyArray, order: int, query: str, max_pairs: int
) -> tuple[FloatArray, Moments]:
    """`order` is at most 2 unless there is one tree."""
    assert order <= 2 or form.n_trees == 1
    n_outputs = len(form.bias)
    log_p = np.empty(len(codes))
    mean = np.empty((len(codes), n_outputs))
    central = np.zeros((len(codes), order - 1, n_outputs))
    n_left = max_pairs
    block = max(1, QUESTION_CELLS // (form.n_leaves * codes.shape[1]))
    for start in range(0, len(codes), block):
        part = slice(start, start + block)
        log_p[part], found = _leaf_chances(form, known, codes[part])
        chance = found.chance
        # Not a matrix product, whose last digits depend on how many rows there are.
        mean[part] = np.einsum("rl,lo->ro", chance, form.leaf_value)
        if order > 1 and form.n_trees == 1:
            apart = form.leaf_value - mean[part, np.newaxis]
            for k in range(2, order + 1):
                central[part, k - 2] = np.einsum("rl,rlo->ro", chance, apart**k)
        elif order > 1:
            n_left -= _add_variances(form, known, codes[part], found, n_left, central[part, 0])
            if n_left < 0:
                raise ValueError(
                    f"{query} of {form.n_trees} trees needs more than max_pairs = {max_pairs} "
                    f"pairs of leaves by row {start + len(codes[part]) - 1}. Allow more with "
                    "max_pairs, ask for fewer rows or rows with fewer unknown values, or use "
                    "fewer or smaller trees."
                )
    return log_p, Moments(mean + form.bias, central)


class _Questions(NamedTuple):
    """What rows are asked at the leaves that they may reach; see `questions_of_leaves`."""

    number: IntArray  # (n_rows, n_leaves)
    codes: AnyArray
    chance: FloatArray  # (n_rows, n_leaves) how probable each leaf is


def _leaf_chances(
    form: LeafForm, known: CellCodes, codes: AnyArray
) -> tuple[FloatArray, _Questions]:
    """Log-probability of each row; the questions of its leaves."""
    number, asked_row, asked = questions_of_leaves(form, known, codes)
    log_p, asked_chance = known.answers(codes, asked_row, asked)
    # A row's question about nothing has its own number, and no question has the last: NONE.
    sure = np.where(log_p > -np.inf, 1.0, np.nan)
    chance = np.concatenate([sure, asked_chance, [0.0]])[number]
    return log_p, _Questions(number, asked, chance)


def _add_variances(
    form: LeafForm,
    known: CellCodes,
    codes: AnyArray,
    found: _Questions,
    most: int,
    variance: FloatArray,
) -> int:
    """Fill the variance of the trees' sum, row by row; returns how many pairs it took.

    Gives up, with `variance` half filled, as soon as these are more than `most`. Every tree has its
    mean taken out first, so that the terms are as small as the variance.
    """
    questions, asked, chance = found
    tree_start = np.searchsorted(form.leaf_tree, np.arange(form.n_trees))
    n_pairs = 0
    for row in np.flatnonzero((questions >= len(codes)).any(axis=1)).tolist():
        tree_mean = np.add.reduceat(chance[row, :, np.newaxis] * form.leaf_value, tree_start)
        apart = form.leaf_value - tree_mean[form.leaf_tree]
        is_open = questions[row] != NONE
        own, first, place = np.unique(
            questions[row, is_open], return_index=True, return_inverse=True
        )
        value = np.zeros((len(own), len(form.bias)))
        np.add.at(value, place, apart[is_open])
        n_pairs += len(own) * (len(own) - 1) // 2
        if n_pairs > most:
            return n_pairs
        of_leaves = np.concatenate([codes, asked])[own]
        together = _pair_chances(known, codes[row], of_leaves)
        together[np.diag_indices(len(own))] = chance[row, np.flatnonzero(is_open)[first]]
        variance[row] = np.einsum("ao,ab,bo->o", value, together, value)
    return n_pairs


def _pair_chances(known: CellCodes, row: AnyArray, asked: AnyArray) -> FloatArray:
    """How probable it is that a row satisfies two of these questions, for every two of them."""
    n_asked = len(asked)
    a, b = np.triu_indices(n_asked, 1)
    both, is_possible = asked[a], np.ones(len(a), dtype=bool)
    for place in np.flatnonzero((asked != row).any(axis=0)).tolist():
        own, which = np.unique(asked[:, place], return_inverse=True)
        cells = known.weights(place)[own] > 0.0
        meet = np.array(
            [
                [known.split(place, int(row[place]), one & other)[0] for other in cells]
                for one in cells
            ]
        )
        found = meet[which.ravel()[a], which.ravel()[b]]
        is_possible &= found != NONE
        both[:, place] = found
    a, b, both = a[is_possible], b[is_possible], both[is_possible]
    nothing = np.zeros(len(both), dtype=np.int32)
    _, both_chance = known.answers(row[np.newaxis], nothing, both)
    chance = np.zeros((n_asked, n_asked))
    chance[a, b] = chance[b, a] = both_chance
    return chance


# Sums and circuits


class _Weighted(NamedTuple):
    """A circuit, and what its cells and edges add to a prediction."""

    known: CellCodes  # of the circuit, which is not normalised
    cell_weight: FloatArray  # (n_leaf_cells, n_outputs)
    edge_weight: FloatArray  # (n_edges, n_outputs)
    form: LinearForm | CircuitForm


def _weighted(form: LinearForm | CircuitForm, known: CellCodes, query: str) -> _Weighted:
    """The rows of the model in which the edges of a predictor are taken, with its weights."""
    circuit = known.circuit
    if isinstance(form, LinearForm):
        weight = np.concatenate([form.weight[place] for place in circuit.leaf_column.tolist()])
        return _Weighted(known, weight, np.zeros((circuit.n_edges, len(form.bias))), form)
    predictor: PredictorCircuit = form.circuit
    structure = predictor.structure
    if circuit.vtree is not structure.vtree and circuit.vtree != structure.vtree:
        raise ValueError(
            f"{query} needs a predictor circuit on the vtree of the model, but theirs differ. "
            "Learn one on the model's own circuit, or learn the model on the predictor's vtree."
        )
    reason = why_not_deterministic(structure)
    if reason is not None:
        raise CircuitPropertyError(
            f"{query} follows every row through the predictor, which needs a deterministic "
            f"circuit, but {reason}."
        )
    pairs = Pairs(circuit, structure, query=query)
    is_cell = structure.leaf_log_p[pairs.cell_q] > -np.inf
    made = pairs.circuit(
        np.where(is_cell, circuit.leaf_log_p[pairs.cell_p], -np.inf),
        circuit.edge_log_theta[pairs.edge_p],
        circuit.log_weight,
        0.0,
    )
    cell_weight = np.zeros((len(made.leaf_log_p), len(form.bias)))
    edge_weight = np.zeros((made.n_edges, len(form.bias)))
    if len(pairs):
        cell_weight = predictor.cell_weight[pairs.cell_q[pairs.cell_order]]
        edge_weight = predictor.edge_weight[pairs.edge_q[pairs.edge_order]]
    return _Weighted(known.of_circuit(made), cell_weight, edge_weight, form)


def _circuit_moments(
    sums: _Weighted, known: CellCodes, codes: AnyArray, order: int
) -> tuple[FloatArray, Moments]:
    n_outputs, is_own = len(sums.form.bias), sums.known is known
    log_p = np.empty(len(codes))
    mean = np.empty((len(codes), n_outputs))
    central = np.empty((len(codes), order - 1, n_outputs))
    leaves = sums.known.table(("leaves", sums.form, order), lambda: _leaf_tables(sums, order))
    block = max(1, BLOCK_CELLS // (known.circuit.n_components * n_outputs * order))
    for start in range(0, len(codes), block):
        part = slice(start, start + block)
        logs, found = _block_moments(sums, leaves, codes[part])
        whole = logs if is_own else known.component_logs(codes[part])
        with np.errstate(invalid="ignore"):
            cover = np.where(whole > -np.inf, np.exp(logs - whole), 0.0)
        cover = np.where(cover > 1.0 - NOTHING, 1.0, cover)
        weight = component_posterior(known.circuit, whole)
        log_p[part] = log_mean(known.circuit, whole)
        # Where the predictor does not hold, its weights add up to zero: a part more per component.
        weight = np.concatenate([weight * cover, weight * (1.0 - cover)], axis=1)
        parts = np.concatenate([found, np.zeros_like(found)], axis=1)
        mean[part], central[part] = mix_moments(weight, Moments(parts[:, :, 0], parts[:, :, 1:]))
    return log_p, Moments(mean + sums.form.bias, central)


def _leaf_tables(sums: _Weighted, order: int) -> FloatArray:
    """The mean and the central moments of the weights of every leaf, given every code.

    Of shape `(k, n_rows, order, n_outputs)`, with rows as values of leaves have them.
    """
    known, circuit, n_outputs = sums.known, sums.known.circuit, len(sums.form.bias)
    rows = known.rows
    n_rows, k = rows.log_value.shape
    found = np.zeros((k, n_rows, order, n_outputs))
    for place in range(len(circuit.columns)):
        first, last = circuit.column_leaves[place : place + 2].tolist()
        n_cells = int(known.n_cells[place])
        weight = sums.cell_weight[circuit.leaf_first[first] : circuit.leaf_first[last]]
        weight = weight.reshape(last - first, n_cells, n_outputs)
        table = circuit.leaf_table(place)  # (n_leaves, n_cells, k)
        for code, weights in enumerate(known.weights(place)):
            at = rows.first[first:last] + code
            if code < n_cells:
                found[:, at, 0] = weight[:, code]
                continue
            log_total = rows.log_value[at]
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.exp(table + np.log(weights)[:, np.newaxis] - log_total[:, np.newaxis])
            share = np.nan_to_num(share)
            found[:, at, 0] = np.einsum("lck,lco->klo", share, weight)
            for j in range(2, order + 1):
                apart = weight - found[:, at, 0][:, :, np.newaxis]
                found[:, at, j - 1] = np.einsum("lck,klco->klo", share, apart**j)
    return found


def _block_moments(
    sums: _Weighted, leaves: FloatArray, codes: AnyArray
) -> tuple[FloatArray, FloatArray]:
    """Logs `(n_rows, k)`, and moments `(n_rows, k, order, n_outputs)`, under every component."""
    known, circuit, (k, _, order, n_outputs) = sums.known, sums.known.circuit, leaves.shape
    log_p, found = np.empty((len(codes), k)), np.zeros((len(codes), k, order, n_outputs))
    is_lost = np.ones(log_p.shape, dtype=np.bool_)
    # Rows that begin with the same values, in the order of the vtree, share more.
    rank = np.lexsort(codes[:, circuit.vtree.order[::-1]].T)
    ranked = np.ascontiguousarray(codes[rank])
    p, own = known.structure, known.parameters
    binomial = np.array([[comb(m, j) for j in range(order + 1)] for m in range(order + 1)], float)
    buffers = local()

    def fill(rows: AnyArray, table: FloatArray, theta: FloatArray, *outputs: AnyArray) -> None:
        patterns = find_patterns(rows, p)
        values = values_of(patterns, p)
        size = len(values.value) * n_outputs * order
        # Memory is used again: allocating it for every block doubled the time.
        if not hasattr(buffers, "room") or buffers.room.size < size:
            buffers.room = np.empty(size)
        room = buffers.room[:size].reshape(n_outputs, order, -1)
        given = table, theta, leaves, sums.edge_weight, binomial
        _one_block(patterns, p, *given, values, room, *outputs)

    def run(part: slice) -> None:
        fill(ranked[part], own.table, own.theta, log_p[part], found[part], is_lost[part])

    run_blocks(
        run, len(codes), rows_per_block(circuit.n_nodes * (1 + order * n_outputs), len(codes))
    )
    inverse = np.argsort(rank)
    log_p, found, is_lost = log_p[inverse], found[inverse], is_lost[inverse] | ~own.is_moderate
    certain: FloatArray = np.where(np.isneginf(known.rows.log_value.T), 0.0, 1.0)
    for row in np.flatnonzero(is_lost.any(axis=1)).tolist():
        # Given the row every sum adds up to one, and the row is in the parameters.
        one = codes[row : row + 1]
        at = up(circuit, leaf_values_of(circuit, known.rows, one))
        inner = np.flatnonzero(circuit.vtree.node_var == NONE).tolist()
        shares = [edge_shares(circuit, v, at)[:, 0] for v in inner]
        theta = np.concatenate([np.zeros((0, k)), *shares]).T.copy()
        fill(one, certain, theta, np.empty((1, k)), found[row : row + 1], is_lost[row : row + 1])
        log_p[row] = at[circuit.vtree.root][-1][0]
    return log_p, found


@kernel
def _one_block(
    patterns: Patterns,
    p: Structure,
    table: FloatArray,
    theta: FloatArray,
    leaves: FloatArray,
    edge_weight: FloatArray,
    binomial: FloatArray,
    values: Values,
    room: FloatArray,
    log_p: FloatArray,
    found: FloatArray,
    is_lost: AnyArray,
) -> None:
    """One pass for the values and one for the moments per component."""
    _, _, order, n_outputs = found.shape
    top = len(p.vtree_var) - 1
    last, root = patterns.first[top], values.node_at[len(values.node_at) - 1]
    for c in range(len(theta)):
        pass_patterns(patterns, p, table[c], theta[c], values)
        _pass_moments(patterns, p, theta[c], values, leaves[c], edge_weight, binomial, room)
        for s in range(len(log_p)):
            u = patterns.row[top, s]
            log_p[s, c] = log_of(values.value[root + u], values.exponent[last + u])
            is_lost[s, c] = values.is_lost[last + u]
            for m in range(order):
                for o in range(n_outputs):
                    found[s, c, m, o] = room[o, m, root + u]


@kernel
def _pass_moments(
    patterns: Patterns,
    p: Structure,
    edge_theta: FloatArray,
    values: Values,
    leaf: FloatArray,
    edge_weight: FloatArray,
    binomial: FloatArray,
    room: FloatArray,
) -> None:
    """Fill `room` (n_outputs, order, ...) with means and central moments, from the leaves up.

    Arrays are taken out of their tuples once: the compiler counts references where they are handed
    on, which costs more than a node with few patterns.
    """
    node_at, value = values.node_at, values.value
    edge_left, edge_right = p.edge_left, p.edge_right
    n_outputs, order, _ = room.shape
    n_leaves = len(p.leaf_row)
    part = np.empty(len(patterns.row[0]))
    for v in range(len(p.vtree_var)):
        start, width = patterns.first[v], patterns.first[v + 1] - patterns.first[v]
        left, right = patterns.left[start : start + width], patterns.right[start : start + width]
        scale = values.scale[start : start + width]
        var = p.vtree_var[v]
        if var != NONE:
            for l in range(p.column_leaves[var], p.column_leaves[var + 1]):
                at, row = node_at[l], p.leaf_row[l]
                for o in range(n_outputs):
                    for m in range(order):
                        for u in range(width):
                            room[o, m, at + u] = leaf[row + left[u], m, o]
            continue
        for i in range(p.vtree_sums[v], p.vtree_sums[v + 1]):
            at, first, last = node_at[n_leaves + i], p.sum_edges[i], p.sum_edges[i + 1]
            mine = value[at : at + width]
            for o in range(n_outputs):
                for m in range(order):
                    for u in range(width):
                        room[o, m, at + u] = 0.0
            for e in range(first, last):
                l, r, theta = edge_left[e], edge_right[e], edge_theta[e]
                if theta == 0.0:
                    continue
                below, beside = value[node_at[l] :], value[node_at[r] :]
                for u in range(width):
                    part[u] = theta * below[left[u]] * beside[right[u]]
                for o in range(n_outputs):
                    weight, own = edge_weight[e, o], room[o, 0, at : at + width]
                    below, beside = room[o, 0, node_at[l] :], room[o, 0, node_at[r] :]
                    for u in range(width):
                        own[u] += part[u] * (weight + below[left[u]] + beside[right[u]])
            for o in range(n_outputs):
                own = room[o, 0, at : at + width]
                for u in range(width):
                    own[u] = own[u] * scale[u] / mine[u] if mine[u] > 0.0 else 0.0
            for o in range(n_outputs if order > 1 else 0):
                own_room = room[o]
                for e in range(first, last):
                    l, r, theta = edge_left[e], edge_right[e], edge_theta[e]
                    weight = edge_weight[e, o]
                    if theta == 0.0:
                        continue
                    for u in range(width):
                        if mine[u] == 0.0:
                            continue
                        a, b = node_at[l] + left[u], node_at[r] + right[u]
                        share = theta * value[a] * value[b] * scale[u] / mine[u]
                        apart = weight + own_room[0, a] + own_room[0, b]
                        apart -= own_room[0, at + u]
                        for k in range(2, order + 1):
                            moment = _product_moment(own_room, a, b, k, apart, binomial)
                            own_room[k - 1, at + u] += share * moment


@kernel
def _product_moment(
    central: FloatArray, a: int, b: int, k: int, apart: float, binomial: FloatArray
) -> float:
    """The k-th moment of a product, whose mean is `apart` from where it is taken about."""
    if k == 2:
        return central[1, a] + central[1, b] + apart * apart
    total, power = 0.0, 1.0
    for j in range(k, -1, -1):  # the product's own j-th moment, apart**(k - j)
        if j == 0:
            total += power
        elif j > 1:
            own = central[j - 1, a] + central[j - 1, b]
            for i in range(2, j - 1):
                own += binomial[j, i] * central[i - 1, a] * central[j - i - 1, b]
            total += binomial[k, j] * own * power
        power *= apart
    return total
