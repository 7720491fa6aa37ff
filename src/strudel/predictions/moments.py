"""Moments of a prediction given what is known of rows, exact.

In:  a circuit or mixture; a predictor as a form, or as a circuit on the vtree of the model; rows.
Out: log-probabilities of the rows, and `Moments` of the prediction given each.

Central moments keep their digits where the mean is large and the spread is small; raw moments, the
expectations of powers, are made from them at the end.

- **Enumeration**: all states of the unknown variables that a predictor looks at, if they are few.
- **Trees, forests and boosting**: every leaf is a conjunction of literals. Only the leaves that a
  row may still reach count, and of such a leaf only the unknown literals: a *question*. Leaves with
  the same question are asked about once, and the questions of a row share their passes. One tree
  has every moment, because its leaves exclude each other. The variance of a sum of trees takes
  questions about every two leaves.
- **Circuits**: the pairs of nodes that model and predictor meet (`algebra/pairs.py`) are passed
  once from below. A pair has a value, how probable it is that its node of the predictor holds; and,
  if it does, a mean and central moments of the weights below. A product adds those of its children,
  which are independent; a sum mixes those of its products. This is the recurrence of Khosravi et
  al. (2019), in a form that keeps the digits of a variance. Rows share the values of pairs below
  which they know the same: the 22,820 rows of delta-ailerons with 11 to 44 of 55 bits unknown meet
  8,000 edges of pairs each instead of 55,668.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from threading import local
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel, run_blocks
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.algebra.operands import columns_of, need_deterministic
from strudel.algebra.pairs import MAX_PAIRS, find_pairs
from strudel.circuits.circuit import starts
from strudel.circuits.evaluate import evaluate_edges
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.circuits.passes import UNKNOWN, Plan, decode, log_of
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.properties import check_properties
from strudel.predictions.predictor_forms import Form, LeafForm, LinearForm
from strudel.predictions.shared_passes import (
    Patterns,
    Values,
    answer_questions,
    component_theta,
    find_patterns,
    own_plan,
    pass_patterns,
    rows_per_block,
    values_of,
)
from strudel.queries.columns.value_probabilities import respects
from strudel.queries.conditional_parameters import parameters_in_logs
from strudel.queries.model import Model, structure_of
from strudel.queries.probabilities import log_mean, posterior

STATE_CELLS = 2**23  # codes of the states of all rows taken together


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


class States(NamedTuple):
    """What is unknown of each row and may matter to a predictor, and how many states it has."""

    parts: list[tuple[int, AnyArray]]  # first variable and codewords: columns, or single variables
    is_asked: AnyArray  # (n_rows, n_parts)
    n_states: FloatArray  # (n_rows,)


def states_of(model: Model, form: Form, codes: AnyArray, query: str) -> States:
    """The states to enumerate: values of columns where the model has them, else 0 and 1."""
    unknown = unknown_and_used(form, codes)
    code = model.table_code
    parts: list[tuple[int, AnyArray]] = []
    for column in code.columns if code is not None else ():
        own = slice(column.start, column.stop)
        if unknown[:, own].any() and not respects(model, column, query):
            parts = []
            break
        parts.append((column.start, column.cell_words))
    parts = parts or [(var, np.array([[0], [1]], dtype=np.uint8)) for var in range(model.n_vars)]
    starts = [start for start, _ in parts]
    is_asked = np.logical_or.reduceat(unknown, starts, axis=1)
    n_values = np.array([float(len(words)) for _, words in parts])
    return States(parts, is_asked, np.where(is_asked, n_values, 1.0).prod(axis=1))


def enumerated_moments(
    model: Model,
    form: Form,
    codes: AnyArray,
    states: States,
    order: int,
    made_of: Callable[[FloatArray], FloatArray],
    is_few: AnyArray,
    shift: FloatArray,
    query: str,
) -> Moments:
    """Moments of what is `made_of` the form's output given the rows in `is_few`, else NaN.

    All states of the unknown variables that the predictor uses are enumerated, and of a tree only
    those on paths that are still open; the others are summed out. `shift` `(n_rows, n_outputs)` is
    added to the output.
    """
    n_columns = made_of(np.zeros((1, form.n_outputs))).shape[1]
    mean = np.full((len(codes), n_columns), np.nan)
    central = np.full((len(codes), order - 1, n_columns), np.nan)
    patterns, which = np.unique(states.is_asked, axis=0, return_inverse=True)
    for p, is_asked in enumerate(patterns):
        same = np.flatnonzero(is_few & (which.ravel() == p))
        parts = [part for part, is_there in zip(states.parts, is_asked, strict=True) if is_there]
        n_states = int(np.prod([len(words) for _, words in parts], dtype=np.int64))
        block = max(1, STATE_CELLS // (n_states * codes.shape[1]))
        for start in range(0, len(same), block):
            rows = same[start : start + block]
            asked_row = np.repeat(np.arange(len(rows), dtype=np.int32), n_states)
            asked = codes[rows[asked_row]]
            known, number = asked.copy(), np.tile(np.arange(n_states), len(rows))
            for first, words in parts:
                asked[:, first : first + words.shape[1]] = words[number % len(words)]
                number = number // len(words)
            _, chance = answer_questions(model, codes[rows], asked_row, asked, query)
            is_against = np.any((known != UNKNOWN) & (known != asked), axis=1)
            chance = np.where(is_against, 0.0, chance)
            output = form.evaluate(np.where(asked == UNKNOWN, 0, asked)) + shift[rows[asked_row]]
            mean[rows], central[rows] = moments_of_points(
                chance.reshape(len(rows), -1),
                made_of(output).reshape(len(rows), n_states, -1),
                order,
            )
    return Moments(mean, central)


def unknown_and_used(form: Form, codes: AnyArray) -> AnyArray:
    """Which variables `(n_rows, n_vars)` are unknown and may still matter to the predictor."""
    is_unknown = np.asarray(codes == UNKNOWN)
    if isinstance(form, LinearForm):
        return is_unknown & np.any(form.weight != 0.0, axis=1)
    if isinstance(form, LeafForm):
        return is_unknown & _on_open_paths(form, codes)
    return is_unknown


def _on_open_paths(form: LeafForm, codes: AnyArray) -> AnyArray:
    """Which variables are on the way to a leaf that a row may still reach."""
    is_used = np.zeros(codes.shape, dtype=np.bool_)
    literal_leaf = np.repeat(np.arange(form.n_leaves), np.diff(form.leaf_start))
    var, value = form.leaf_literal // 2, form.leaf_literal % 2
    for row, used in zip(codes, is_used, strict=True):
        is_closed = np.zeros(form.n_leaves, dtype=np.bool_)
        is_closed[literal_leaf[(row[var] != UNKNOWN) & (row[var] != value)]] = True
        used[var[~is_closed[literal_leaf]]] = True
    return is_used


QUESTION_CELLS = 2**24  # codes of the questions of all rows taken together, at most
MAX_LEAF_PAIRS = 2**22  # of questions, for the variance of a sum of trees: some seconds


def leaf_moments(
    model: Model,
    form: LeafForm,
    codes: AnyArray,
    order: int,
    query: str,
    max_pairs: int = MAX_LEAF_PAIRS,
) -> tuple[FloatArray, Moments]:
    """Log-probability of every row of codes, and the moments given it.

    `order` is at most 2 unless there is one tree. Moments of impossible rows are NaN.
    """
    assert order <= 2 or form.n_trees == 1
    log_p = np.empty(len(codes))
    mean = np.empty((len(codes), form.n_outputs))
    central = np.zeros((len(codes), order - 1, form.n_outputs))
    n_left = max_pairs
    block = max(1, QUESTION_CELLS // (form.n_leaves * form.n_vars))
    for start in range(0, len(codes), block):
        part = slice(start, start + block)
        log_p[part], questions, chance = _leaf_chances(model, form, codes[part], query)
        # Not a matrix product, whose last digits depend on how many rows there are.
        mean[part] = np.einsum("rl,lo->ro", chance, form.leaf_value)
        if order > 1 and form.n_trees == 1:
            apart = form.leaf_value - mean[part, np.newaxis]
            for k in range(2, order + 1):
                central[part, k - 2] = np.einsum("rl,rlo->ro", chance, apart**k)
        elif order > 1:
            if not _has_unknown(codes[part], form).any():
                continue
            n_left -= _add_variances(
                model, form, codes[part], questions, chance, n_left, central[part, 0], query
            )
            if n_left < 0:
                raise ValueError(
                    f"{query} of {form.n_trees} trees needs more than max_pairs = {max_pairs} "
                    f"pairs of leaves by row {start + len(codes[part]) - 1}. Allow more with "
                    "max_pairs, ask for fewer rows or rows with fewer unknown values, or use "
                    "fewer or smaller trees."
                )
    return log_p, Moments(mean + form.bias, central)


def _has_unknown(codes: AnyArray, form: LeafForm) -> AnyArray:
    """Which rows do not know all that the trees ask about."""
    return np.any(codes[:, np.unique(form.leaf_literal // 2)] == UNKNOWN, axis=1)


def _leaf_chances(
    model: Model, form: LeafForm, codes: AnyArray, query: str
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Log-probability of each row, and `(n_rows, n_leaves)` its questions and their chances."""
    questions = np.empty((len(codes), form.n_leaves), dtype=np.int32)
    asked_leaf = np.empty(questions.size, dtype=np.int32)
    asked_row = np.empty(questions.size, dtype=np.int32)
    n_asked = _find_questions(
        codes, form.leaf_start, form.leaf_literal, questions, asked_row, asked_leaf
    )
    asked = codes[asked_row[:n_asked]]
    _add_literals(asked, asked_leaf, form.leaf_start, form.leaf_literal)
    log_p, asked_chance = answer_questions(model, codes, asked_row[:n_asked], asked, query)
    # A row's question about nothing has its own number, and no question has the last: NONE.
    sure = np.where(log_p > -np.inf, 1.0, np.nan)
    return log_p, questions, np.concatenate([sure, asked_chance, [0.0]])[questions]


@kernel
def _find_questions(
    codes: AnyArray,
    leaf_start: IntArray,
    leaf_literal: IntArray,
    questions: IntArray,
    asked_row: IntArray,
    asked_leaf: IntArray,
) -> int:
    """Fill the question of each row and leaf; returns how many there are besides the rows.

    NONE where the row cannot reach the leaf, the row's own number where it surely does, else
    `n_rows` plus the place among `asked_row` and `asked_leaf`.
    """
    n_rows, n_leaves = questions.shape
    n_slots = 8
    while n_slots < 2 * n_leaves:
        n_slots *= 2
    table = np.empty(n_slots, dtype=np.int32)
    n_asked = 0
    for s in range(n_rows):
        row = codes[s]
        table[:] = NONE
        for l in range(n_leaves):
            mixed = np.int64(0)
            n_unknown = 0
            is_possible = True
            for i in range(leaf_start[l], leaf_start[l + 1]):
                literal = np.int64(leaf_literal[i])
                code = row[literal // 2]
                if code == UNKNOWN:
                    n_unknown += 1
                    mixed += (literal + 1) * 2654435761 & 0x7FFFFFFF  # in any order
                elif code != literal % 2:
                    is_possible = False
                    break
            if not is_possible:
                questions[s, l] = NONE
                continue
            if n_unknown == 0:
                questions[s, l] = s
                continue
            slot = (mixed ^ (mixed >> 17)) & (n_slots - 1)
            while table[slot] != NONE and not _is_same(
                row, asked_leaf[table[slot]], l, n_unknown, leaf_start, leaf_literal
            ):
                slot = (slot + 1) & (n_slots - 1)
            if table[slot] == NONE:
                table[slot] = n_asked
                asked_row[n_asked], asked_leaf[n_asked] = s, l
                n_asked += 1
            questions[s, l] = n_rows + table[slot]
    return n_asked


@kernel
def _is_same(
    row: AnyArray, a: int, b: int, n_unknown: int, leaf_start: IntArray, leaf_literal: IntArray
) -> bool:
    """Whether two leaves ask the same of a row, the second about `n_unknown` literals."""
    n_found = 0
    for i in range(leaf_start[a], leaf_start[a + 1]):
        if row[leaf_literal[i] // 2] == UNKNOWN:
            is_there = False
            for j in range(leaf_start[b], leaf_start[b + 1]):
                is_there |= leaf_literal[i] == leaf_literal[j]
            if not is_there:
                return False
            n_found += 1
    return n_found == n_unknown


@kernel
def _add_literals(
    asked: AnyArray, asked_leaf: IntArray, leaf_start: IntArray, leaf_literal: IntArray
) -> None:
    """Put the literals of its leaf into every row of codes."""
    for s in range(len(asked)):
        l = asked_leaf[s]
        for i in range(leaf_start[l], leaf_start[l + 1]):
            asked[s, leaf_literal[i] // 2] = leaf_literal[i] % 2


def _add_variances(
    model: Model,
    form: LeafForm,
    codes: AnyArray,
    questions: IntArray,
    chance: FloatArray,
    most: int,
    variance: FloatArray,
    query: str,
) -> int:
    """Fill the variance of the trees' sum, row by row; returns how many pairs it took.

    Gives up, with `variance` half filled, as soon as these are more than `most`. Every tree has its
    mean taken out first, so that the terms are as small as the variance.
    """
    tree_start = np.searchsorted(form.leaf_tree, np.arange(form.n_trees))
    n_pairs = 0
    for row in np.flatnonzero(_has_unknown(codes, form)):
        tree_mean = np.add.reduceat(chance[row, :, np.newaxis] * form.leaf_value, tree_start)
        apart = form.leaf_value - tree_mean[form.leaf_tree]
        is_open = questions[row] != NONE
        asked, first, place = np.unique(
            questions[row, is_open], return_index=True, return_inverse=True
        )
        value = np.zeros((len(asked), form.n_outputs))
        np.add.at(value, place, apart[is_open])
        leaves = np.flatnonzero(is_open)[first].astype(np.int32)
        n_pairs += len(asked) * (len(asked) - 1) // 2
        if n_pairs > most:
            return n_pairs
        together = _pair_chances(model, form, codes[row], leaves, query)
        together[np.diag_indices(len(asked))] = chance[row, leaves]
        variance[row] = np.einsum("ao,ab,bo->o", value, together, value)
    return n_pairs


def _pair_chances(
    model: Model, form: LeafForm, row: AnyArray, leaves: IntArray, query: str
) -> FloatArray:
    """How probable it is that the row satisfies two of these leaves, for every two of them."""
    asked = np.repeat(row[np.newaxis], len(leaves), axis=0)
    _add_literals(asked, leaves, form.leaf_start, form.leaf_literal)
    is_mine = np.flatnonzero(np.any(asked != row, axis=0))  # variables that some leaf is about
    ones = (asked[:, is_mine] == 1).astype(np.float32)
    zeros = (asked[:, is_mine] == 0).astype(np.float32)
    against = ones @ zeros.T
    a, b = np.nonzero(np.triu((against + against.T) == 0.0, 1))
    both = np.where(asked[a] == UNKNOWN, asked[b], asked[a])
    _, both_chance = answer_questions(
        model, row[np.newaxis], np.zeros(len(both), dtype=np.int32), both, query
    )
    chance = np.zeros((len(leaves), len(leaves)))
    chance[a, b] = chance[b, a] = both_chance
    return chance


BLOCK_CELLS = 2**22  # moments per row and component, made at a time
NOTHING = 1e-12  # rounding: a predictor that holds with all but this probability always holds


class _Layout(NamedTuple):
    """The pairs, those of one vtree node side by side."""

    vtree_first: IntArray  # pairs of vtree node v are nodes[vtree_first[v]:vtree_first[v + 1]]
    nodes: IntArray
    node_edges: IntArray  # as in `Pairs`, from here on
    edge_left: IntArray
    edge_right: IntArray
    edge_p: IntArray
    edge_q: IntArray


class _Weights(NamedTuple):
    """What the pass over pairs needs of the predictor."""

    edge: FloatArray  # (n_edges + 1, n_outputs) the last is zero, for a bare literal
    literal: FloatArray  # (2 * n_vars, n_outputs)
    binomial: FloatArray  # (order + 1, order + 1)


class _Room(NamedTuple):
    """Values and moments per pair and pattern."""

    node_at: AnyArray  # (n_nodes,) where the patterns of a pair start
    value: FloatArray  # scaled as the model's
    mean: FloatArray  # (n_outputs, ...)
    central: FloatArray  # (n_outputs, order - 1, ...)


def circuit_moments(
    model: Model,
    predictor: PredictorCircuit,
    codes: AnyArray,
    order: int,
    query: str,
    max_pairs: int = MAX_PAIRS,
) -> tuple[FloatArray, Moments]:
    """Log-probability of every row of codes, and the moments given it.

    The moments of rows of probability zero are NaN.
    """
    layout = _lay_out(model, predictor, query, max_pairs)
    mixture = as_mixture(model)
    weights = _Weights(
        np.concatenate([predictor.edge_weight, np.zeros((1, predictor.n_outputs))]),
        np.ascontiguousarray(predictor.literal_weight),
        np.array([[comb(k, j) for j in range(order + 1)] for k in range(order + 1)], dtype=float),
    )
    log_p = np.empty(len(codes))
    mean = np.empty((len(codes), predictor.n_outputs))
    central = np.empty((len(codes), order - 1, predictor.n_outputs))
    block = max(1, BLOCK_CELLS // (mixture.n_components * predictor.n_outputs * order))
    for start in range(0, len(codes), block):
        part = slice(start, start + block)
        log_p[part], (mean[part], central[part]) = _block_moments(
            mixture, layout, weights, codes[part], order
        )
    return log_p, Moments(mean + predictor.bias, central)


def _lay_out(model: Model, predictor: PredictorCircuit, query: str, max_pairs: int) -> _Layout:
    structure = structure_of(model)
    check_properties(structure, query, "in_normal_form")
    check_properties(predictor.structure, query, "in_normal_form")
    if structure.vtree is not predictor.vtree and structure.vtree != predictor.vtree:
        raise ValueError(
            f"{query} needs a predictor circuit on the vtree of the model, but theirs differ. "
            "Learn one on the model's own circuit, or learn the model on the predictor's vtree."
        )
    need_deterministic(predictor.structure, f"{query} follows every row through the predictor")
    used = predictor.structure.with_parameters(np.zeros(predictor.structure.n_edges))
    pairs = find_pairs(columns_of(model).structure, used, query, max_pairs)
    place = structure.node_vtree[pairs.pair_p]
    first = starts(place, structure.vtree.n_nodes)
    nodes = 2 * structure.n_vars + np.argsort(place, kind="stable").astype(np.int32)
    return _Layout(first, nodes, *pairs.edges, pairs.edge_p, pairs.edge_q)


def _block_moments(
    mixture: Mixture, layout: _Layout, weights: _Weights, codes: AnyArray, order: int
) -> tuple[FloatArray, Moments]:
    """The same for as many rows as fit in memory with moments per component, without the bias."""
    circuit, k, n_outputs = mixture.structure, mixture.n_components, weights.edge.shape[1]
    log_p = np.empty((len(codes), k))
    cover = np.zeros((len(codes), k))
    mean = np.zeros((len(codes), k, n_outputs))
    central = np.zeros((len(codes), k, order - 1, n_outputs))
    is_lost = np.ones(log_p.shape, dtype=np.bool_)
    block = rows_per_block(len(layout.nodes) * order * n_outputs + circuit.n_nodes, len(codes))
    # Rows that begin with the same values, in the order of the vtree, share more.
    rank = np.lexsort(codes[:, circuit.vtree.order[::-1]].T)
    inverse = np.argsort(rank)
    ranked, p, theta = codes[rank], own_plan(circuit), component_theta(mixture)
    outputs: list[AnyArray] = [log_p, cover, mean, central, is_lost]

    buffers = local()

    def run(part: slice) -> None:
        patterns = find_patterns(ranked[part], p)
        node_at, n_cells = _lay_cells(patterns, layout)
        size = n_cells * (1 + n_outputs * order)
        # Memory is used again: allocating it for every block doubled the time.
        if not hasattr(buffers, "room") or buffers.room.size < size:
            buffers.room = np.empty(size)
        room = buffers.room[:size]
        parts = (array[part] for array in outputs)
        _one_block(patterns, p, theta, layout, weights, node_at, n_cells, room, *parts)

    run_blocks(run, len(codes), block)
    log_p, cover, mean, central = (array[inverse] for array in (log_p, cover, mean, central))
    is_lost = is_lost[inverse] | ~mixture.is_moderate
    for row, c in np.argwhere(is_lost):
        # Given the row every sum adds up to one, and the row is in the parameters.
        own = parameters_in_logs(circuit, mixture.edge_log_theta[:, c], codes[row])
        patterns = find_patterns(np.full((1, circuit.n_vars), UNKNOWN, dtype=np.uint8), p)
        node_at, n_cells = _lay_cells(patterns, layout)
        room = np.empty(n_cells * (1 + n_outputs * order))
        one = [np.zeros((1, 1, *array.shape[2:]), array.dtype) for array in outputs]
        _one_block(patterns, p, own[np.newaxis], layout, weights, node_at, n_cells, room, *one)
        cover[row, c], mean[row, c], central[row, c] = (array[0, 0] for array in one[1:4])
        own_log_theta, one_row = mixture.edge_log_theta[:, c], decode(codes[row : row + 1])
        log_p[row, c] = evaluate_edges(circuit.edges, own_log_theta, one_row)[0]
    cover = np.where(cover > 1.0 - NOTHING, 1.0, cover)
    weight = posterior(mixture, log_p)
    # Where the predictor does not hold, its weights add up to zero: one more part per component.
    return log_mean(mixture, log_p), mix_moments(
        np.concatenate([weight * cover, weight * (1.0 - cover)], axis=1),
        Moments(
            np.concatenate([mean, np.zeros_like(mean)], axis=1),
            np.concatenate([central, np.zeros_like(central)], axis=1),
        ),
    )


@kernel
def _lay_cells(patterns: Patterns, layout: _Layout) -> tuple[AnyArray, int]:
    """Where the patterns of every pair start, and how many there are in all."""
    node_at = np.zeros(len(layout.node_edges) - 1, dtype=np.int64)
    total = 0
    for v in range(len(layout.vtree_first) - 1):
        for k in range(layout.vtree_first[v], layout.vtree_first[v + 1]):
            node_at[layout.nodes[k]] = total
            total += patterns.first[v + 1] - patterns.first[v]
    return node_at, total


@kernel
def _one_block(
    patterns: Patterns,
    p: Plan,
    theta: FloatArray,
    layout: _Layout,
    weights: _Weights,
    node_at: AnyArray,
    n_cells: int,
    cells: FloatArray,
    log_p: FloatArray,
    cover: FloatArray,
    mean: FloatArray,
    central: FloatArray,
    is_lost: AnyArray,
) -> None:
    """One pass over the model and one over the pairs per component."""
    n_moments, n_outputs = central.shape[2:]
    values = values_of(patterns, p)
    first, second = n_cells, n_cells * (1 + n_outputs)
    room = _Room(
        node_at,
        cells[:first],
        cells[first:second].reshape(n_outputs, n_cells),
        cells[second:].reshape(n_outputs, n_moments, n_cells),
    )
    root, top = len(p.node_edges) - 2, len(layout.node_edges) - 2
    last = patterns.first[len(p.vtree_var) - 1]
    for c in range(len(theta)):
        pass_patterns(patterns, p, theta[c], values)
        _pass_pairs(patterns, p, theta[c], values, layout, weights, room)
        for s in range(len(log_p)):
            u = patterns.row[len(p.vtree_var) - 1, s]
            whole = values.value[values.node_at[root] + u]
            log_p[s, c] = log_of(whole, values.exponent[last + u])
            is_lost[s, c] = values.is_lost[last + u]
            if len(layout.nodes) and whole > 0.0:
                at = room.node_at[top] + u
                cover[s, c] = room.value[at] / whole
                for o in range(n_outputs):
                    mean[s, c, o] = room.mean[o, at]
                    for m in range(n_moments):
                        central[s, c, m, o] = room.central[o, m, at]


@kernel
def _pass_pairs(
    patterns: Patterns,
    p: Plan,
    edge_theta: FloatArray,
    values: Values,
    layout: _Layout,
    weights: _Weights,
    room: _Room,
) -> None:
    """Fill `room`, from the literals up.

    Arrays are taken out of their tuples once: the compiler counts references where they are handed
    on, which costs more than a pair with few patterns.
    """
    first, nodes, node_edges = layout.vtree_first, layout.nodes, layout.node_edges
    edge_left, edge_right = layout.edge_left, layout.edge_right
    edge_p, edge_q = layout.edge_p, layout.edge_q
    node_at, value, mean = room.node_at, room.value, room.mean
    model_at, model_value = values.node_at, values.value
    edge_weight, literal_weight = weights.edge, weights.literal
    n_outputs, n_moments, _ = room.central.shape
    part = np.empty(len(patterns.row[0]))
    for v in range(len(p.vtree_var)):
        start, width = patterns.first[v], patterns.first[v + 1] - patterns.first[v]
        left, right = patterns.left[start : start + width], patterns.right[start : start + width]
        scale = values.scale[start : start + width]
        for k in range(first[v], first[v + 1]):
            n = nodes[k]
            at = node_at[n]
            mine = value[at : at + width]
            for u in range(width):
                mine[u] = 0.0
                for o in range(n_outputs):
                    mean[o, at + u] = 0.0
            for e in range(node_edges[n], node_edges[n + 1]):
                l, r, f, g = edge_left[e], edge_right[e], edge_p[e], edge_q[e]
                theta = edge_theta[f] if f < len(edge_theta) else 1.0
                if theta == 0.0:
                    continue
                if r == NONE:
                    literal = model_value[model_at[l] :]
                    for u in range(width):
                        part[u] = theta * literal[u]
                        mine[u] += part[u]
                    for o in range(n_outputs):
                        weight = edge_weight[g, o] + literal_weight[l, o]
                        for u in range(width):
                            mean[o, at + u] += part[u] * weight
                    continue
                below, beside = value[node_at[l] :], value[node_at[r] :]
                for u in range(width):
                    part[u] = theta * below[left[u]] * beside[right[u]]
                for u in range(width):
                    mine[u] += part[u]
                for o in range(n_outputs):
                    weight, one = edge_weight[g, o], mean[o, at : at + width]
                    below, beside = mean[o, node_at[l] :], mean[o, node_at[r] :]
                    for u in range(width):
                        one[u] += part[u] * (weight + below[left[u]] + beside[right[u]])
            for o in range(n_outputs):
                one = mean[o, at : at + width]
                for u in range(width):
                    one[u] = one[u] / mine[u] if mine[u] > 0.0 else 0.0
            if n_moments:
                for o in range(n_outputs):
                    _central(
                        n,
                        left,
                        right,
                        edge_theta,
                        model_at,
                        model_value,
                        layout,
                        edge_weight[:, o],
                        literal_weight[:, o],
                        weights.binomial,
                        node_at,
                        value,
                        mean[o],
                        room.central[o],
                    )
            for u in range(width):
                mine[u] *= scale[u]


@kernel
def _central(
    n: int,
    left: AnyArray,
    right: AnyArray,
    edge_theta: FloatArray,
    model_at: AnyArray,
    model_value: FloatArray,
    layout: _Layout,
    edge_weight: FloatArray,
    literal_weight: FloatArray,
    binomial: FloatArray,
    node_at: AnyArray,
    value: FloatArray,
    mean: FloatArray,
    central: FloatArray,
) -> None:
    """Fill the central moments of a pair, whose value is not scaled yet."""
    width, n_moments, at = len(left), len(central), node_at[n]
    for m in range(n_moments):
        for u in range(width):
            central[m, at + u] = 0.0
    for e in range(layout.node_edges[n], layout.node_edges[n + 1]):
        l, r, f = layout.edge_left[e], layout.edge_right[e], layout.edge_p[e]
        theta = edge_theta[f] if f < len(edge_theta) else 1.0
        weight = edge_weight[layout.edge_q[e]]
        if theta == 0.0:
            continue
        for u in range(width):
            if value[at + u] == 0.0:
                continue
            a, b = np.int64(0), np.int64(0)
            if r == NONE:
                part = theta * model_value[model_at[l] + u]
                apart = weight + literal_weight[l] - mean[at + u]
            else:
                a, b = node_at[l] + left[u], node_at[r] + right[u]
                part = theta * value[a] * value[b]
                apart = weight + mean[a] + mean[b] - mean[at + u]
            part /= value[at + u]
            if n_moments == 1:  # the variance
                own = 0.0 if r == NONE else central[0, a] + central[0, b]
                central[0, at + u] += part * (own + apart * apart)
                continue
            for k in range(2, n_moments + 2):
                total = 0.0
                power = 1.0
                for j in range(k, -1, -1):  # the product's own j-th moment, apart**(k - j)
                    if j == 0:
                        total += power
                    elif j > 1 and r != NONE:
                        own = central[j - 2, a] + central[j - 2, b]
                        for i in range(2, j - 1):
                            own += binomial[j, i] * central[i - 2, a] * central[j - i - 2, b]
                        total += binomial[k, j] * own * power
                    power *= apart
                central[k - 2, at + u] += part * total
