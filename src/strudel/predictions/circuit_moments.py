"""Moments of a predictor circuit on the model's own vtree.

In:  a circuit or mixture in normal form, a deterministic predictor circuit on its vtree, rows.
Out: log-probabilities of the rows, and `Moments` of the prediction given each.

The pairs of nodes that both circuits meet (`algebra/pairs.py`) are passed once from below. A pair
has a value, how probable it is that its node of the predictor holds; and, if it does, a
mean and central moments of the weights below. A product adds those of its children, which are
independent; a sum mixes those of its products. This is the recurrence of Khosravi et al. (2019), in
a form that keeps the digits of a variance.

Rows share the values of pairs below which they know the same (`shared_passes.py`): the 22,820 rows
of delta-ailerons with 11 to 44 of 55 bits unknown meet 8,000 edges of pairs each instead of 55,668.
"""

from __future__ import annotations

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
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.properties import check_properties
from strudel.predictions.moments import Moments, mix_moments
from strudel.predictions.shared_passes import (
    Patterns,
    Values,
    component_theta,
    find_patterns,
    own_plan,
    pass_patterns,
    rows_per_block,
    values_of,
)
from strudel.queries.conditional_parameters import parameters_in_logs
from strudel.queries.model import Model, structure_of
from strudel.queries.passes import UNKNOWN, Plan, decode, log_of
from strudel.queries.probabilities import log_mean, posterior

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
