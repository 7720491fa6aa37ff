"""Probabilities of rows, and of every cell of columns given them.

In:  a circuit over columns, and evidence.
Out: log-probabilities; how probable each component and each cell is; the joint table of columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from strudel._names import quote
from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.passes import LANES, distinct_rows
from strudel.circuits.reweigh import given_row
from strudel.circuits.walks import (
    LeafRows,
    component_logs,
    component_logs_of,
    edges_at,
    first_node,
    leaf_flows,
    leaf_rows,
    rows_at_a_time,
)
from strudel.data.validation import slices
from strudel.errors import CircuitPropertyError
from strudel.queries.given import Asked, component_posterior, log_mean
from strudel.tables.evidence import Evidence

BLOCK_LOGS = 2**22  # of rows and components, made at a time
FAINT = -200.0  # log of a leaf's value, below which what passes it says little of the rest
BLOCK_STATES = 2**25  # numbers in tables at most, as long as a column is left to set
PARALLEL_WORK = 2**20  # multiplications at one vtree node that are worth waking threads for


def log_probabilities(circuit: Circuit, evidence: Evidence) -> FloatArray:
    """Log-probability of every row of evidence, cells for numbers, unknown values summed out."""
    return log_mean(circuit, component_logs(circuit, evidence))


def posterior_of_components(circuit: Circuit, evidence: Evidence) -> FloatArray:
    """How probable every component is given each row; NaN where a row is impossible."""
    return component_posterior(circuit, component_logs(circuit, evidence))


def cell_probabilities(
    circuit: Circuit, evidence: Evidence, places: Sequence[int]
) -> tuple[FloatArray, list[FloatArray]]:
    """Log-probability of every row, and for each column the probability of its cells given it.

    NaN where a row is impossible.
    """
    codes, place_of = distinct_rows(evidence.codes)
    rows = leaf_rows(circuit, evidence.weights)
    log_p = np.empty(len(codes))
    found = [np.empty((len(codes), circuit.columns[place].n_cells)) for place in places]
    for part in slices(len(codes), rows_at_a_time(circuit)):
        logs, flows = leaf_flows(circuit, rows, codes[part])
        log_p[part] = log_mean(circuit, logs)
        shares = flows * component_posterior(circuit, logs)[:, :, np.newaxis]
        for own, place in zip(found, places, strict=True):
            own[part] = _cells_of(circuit, rows, codes[part], shares, place, evidence)
    return log_p[place_of], [own[place_of] for own in found]


def _cells_of(
    circuit: Circuit,
    rows: LeafRows,
    codes: AnyArray,
    shares: FloatArray,
    place: int,
    evidence: Evidence,
) -> FloatArray:
    """The probability of every cell of one column, from how probable it is to pass its leaves."""
    column, own = circuit.columns[place], codes[:, place]
    leaves = slice(*circuit.column_leaves[place : place + 2])
    chance = np.zeros((len(codes), column.n_cells))
    is_cell = own < column.n_cells
    chance[np.flatnonzero(is_cell), own[is_cell]] = 1.0
    log_p = circuit.leaf_table(place)  # (n_leaves, n_cells, k)
    for code in np.unique(own[~is_cell]).tolist():
        at = np.flatnonzero(own == code)
        log_total = rows.log_value[rows.first[leaves] + code]  # (n_leaves, k)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_weight = np.log(evidence.weights[place][code - column.n_cells])
            given = np.exp(log_p + log_weight[:, np.newaxis] - log_total[:, np.newaxis])
        given = np.where(np.isnan(given), 0.0, given).transpose(2, 0, 1)  # (k, n_leaves, n_cells)
        flat = given.reshape(-1, column.n_cells)
        chance[at] = shares[at][:, :, leaves].reshape(len(at), -1) @ flat
    is_lost = np.isnan(shares[:, :, 0]).any(axis=1)
    total = chance.sum(axis=1, keepdims=True)
    chance /= np.where(total > 0.0, total, 1.0)
    chance[is_lost] = np.nan
    return chance


def rest_probabilities(circuit: Circuit, evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Log-probability of every row `(n_rows,)`, and of what else it knows than each column.

    The latter is `(n_rows, n_columns)`. A row passes a leaf as often as the rest of it does, times
    the value of the leaf. Where that is zero or faint, it is one more question, since what a leaf
    of zero would have let pass is in no walk down.
    """
    rows, n_columns = leaf_rows(circuit, evidence.weights), len(circuit.columns)
    codes, place_of = distinct_rows(evidence.codes)
    log_p, rest = np.empty(len(codes)), np.empty((len(codes), n_columns))
    # What a leaf lets pass if nothing is known of its column, over what it does: for every code.
    n_codes = np.diff(np.append(rows.first, len(rows.log_value)))
    every = rows.log_value[rows.first + np.diff(circuit.leaf_first)]
    with np.errstate(over="ignore"):
        more = np.exp(np.repeat(every, n_codes, axis=0) - rows.log_value)
    for part in slices(len(codes), rows_at_a_time(circuit)):
        logs, flows = leaf_flows(circuit, rows, codes[part])
        log_p[part] = log_mean(circuit, logs)
        for place in range(n_columns):
            leaves = slice(*circuit.column_leaves[place : place + 2])
            at = rows.first[leaves] + codes[part, place, np.newaxis]
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = np.einsum("rkl,rlk->rk", flows[:, :, leaves], more[at])
                rest[part, place] = log_mean(circuit, logs + np.log(shares))
            rest[part, place][rows.log_value[at].min(axis=(1, 2)) < FAINT] = np.nan
    row, column = np.nonzero(np.isnan(rest))
    without = codes[row]
    without[np.arange(len(row)), column] = circuit.columns.n_cells[column]
    few, at = distinct_rows(without)
    rest[row, column] = log_mean(circuit, component_logs_of(circuit, rows, few))[at]
    return log_p[place_of], rest[place_of]


def joint_table(
    asked: Asked, places: Sequence[int], query: str, max_states: int
) -> tuple[FloatArray, float]:
    """The log-probability of all cells of the columns with what is given, and of that alone."""
    circuit = asked.circuit
    shape = tuple(circuit.columns[place].n_cells for place in places)
    if math.prod(shape) > max_states:
        names = [circuit.columns[place].name for place in places]
        raise CircuitPropertyError(
            f"{query} looks at all {math.prod(shape)} combinations of the values of "
            f"{quote(names)}, more than max_states = {max_states}. "
            "Ask about fewer columns, or allow more with max_states."
        )
    found, log_given = given_row(circuit, asked.one_row().evidence)
    if found is None:
        return np.full(shape, -np.inf), log_given
    with np.errstate(divide="ignore"):
        return np.log(cell_table(found, places)) + log_given, log_given


def cell_table(circuit: Circuit, places: Sequence[int]) -> FloatArray:
    """The probability of all cells of some columns together, the others summed out.

    The circuit adds up to one.
    """
    in_order = [place for place in circuit.vtree.order.tolist() if place in places]
    leaves = {
        place: np.exp(circuit.leaf_table(place)).transpose(0, 2, 1).copy() for place in in_order
    }
    tables = _tables(circuit, leaves)
    shape = [circuit.columns[place].n_cells for place in in_order]
    found = (np.exp(circuit.log_weight) @ tables).reshape(shape)
    return np.asarray(found.transpose([in_order.index(place) for place in places]))


def _tables(circuit: Circuit, leaves: dict[int, FloatArray]) -> FloatArray:
    """The tables of the components, one cell of a column after another if they take much memory."""

    def theta_at(v: int) -> FloatArray:
        return np.exp(circuit.edge_log_theta[edges_at(circuit, v)[0]])

    vtree, size = circuit.vtree, np.ones(circuit.vtree.n_nodes)
    for place, table in leaves.items():
        size[vtree.var_leaf[place]] = table.shape[2]
    for v in np.flatnonzero(vtree.node_var == NONE).tolist():
        size[v] = size[vtree.node_left[v]] * size[vtree.node_right[v]]
    most = np.max(size * np.bincount(circuit.node_vtree, minlength=len(size)))
    if most * circuit.n_components > BLOCK_STATES:
        several = [place for place, table in leaves.items() if table.shape[2] > 1]
        if several:
            place, table = several[0], leaves[several[0]]
            parts = [leaves | {place: table[:, :, [cell]]} for cell in range(table.shape[2])]
            return np.hstack([_tables(circuit, part) for part in parts])
    return distributions(circuit, theta_at, leaves, "states")


def distributions(
    circuit: Circuit,
    theta_at: Callable[[int], FloatArray],
    leaves: Mapping[int, FloatArray],
    of: Literal["counts", "states"],
) -> FloatArray:
    """Distributions up the vtree: of the states of some columns, or of how many are counted.

    The parameters of a vtree node's edges `(n_edges, n_sides)` add up to one in every sum, for each
    of several rows and components; so do the vectors of leaves `(n_leaves, n_sides, size)` of the
    columns asked about. Every node has a vector for what is below it, `(n_sides, size)` at the
    root: a product combines those of its children, where numbers add up and states stand side by
    side, and a sum averages the vectors of its edges. All is positive, so no digits are lost.
    """
    vtree = circuit.vtree
    made: dict[int, FloatArray] = {}  # of the vtree nodes that have columns asked about
    for v in range(vtree.n_nodes):
        place = int(vtree.node_var[v])
        if place != NONE:
            if place in leaves:
                made[v] = leaves[place]
            continue
        l, r = int(vtree.node_left[v]), int(vtree.node_right[v])
        if l not in made and r not in made:
            continue
        (edges, first), shares = edges_at(circuit, v), theta_at(v)
        nothing = np.ones((1, shares.shape[1], 1))  # where no column is asked about
        sides = [
            (made.pop(below), child[edges] - first_node(circuit, below))
            if below in made
            else (nothing, np.zeros(len(shares), dtype=np.int32))
            for below, child in ((l, circuit.edge_left), (r, circuit.edge_right))
        ]
        (left, edge_left), (right, edge_right) = sides
        n_left, n_right = left.shape[2], right.shape[2]
        size, stride = (n_left + n_right - 1, 1) if of == "counts" else (n_left * n_right, n_right)
        made[v] = np.zeros((len(first), shares.shape[1], size))
        n_tasks = len(first) * -(-shares.shape[1] // LANES)
        ends = np.append(first, len(shares))
        how = (left, right, edge_left, edge_right, ends, shares, stride, made[v])
        if len(shares) * n_left * right[0].size > PARALLEL_WORK:
            in_threads(_average, n_tasks, *how)
        else:
            _average(0, n_tasks, *how)
    root: FloatArray = made[vtree.root][-1]
    return root


@kernel
def _average(
    first: int,
    last: int,
    left: FloatArray,
    right: FloatArray,
    edge_left: IntArray,
    edge_right: IntArray,
    sum_edges: IntArray,
    shares: FloatArray,
    stride: int,
    out: FloatArray,
) -> None:
    """Fill `out` (n_sums, n_sides, size): entry ``i * stride + j`` is for entries i and j.

    A task is a sum and LANES sides, which lie side by side in memory.
    """
    n_sides = out.shape[1]
    n_blocks = -(-n_sides // LANES)
    for task in range(first, last):
        s, start = task // n_blocks, task % n_blocks * LANES
        for e in range(sum_edges[s], sum_edges[s + 1]):
            for b in range(start, min(start + LANES, n_sides)):
                own, other = left[edge_left[e], b], right[edge_right[e], b]
                if stride == 1 and len(own) > len(other):
                    own, other = other, own  # the longer one in the inner loop
                _add_product(own, other, stride, shares[e, b], out[s, b])


@kernel
def _add_product(
    left: FloatArray, right: FloatArray, stride: int, share: float, out: FloatArray
) -> None:
    """Add a share of the products of all entries."""
    for i in range(len(left)):
        factor = share * left[i]
        if factor != 0.0:
            for j in range(len(right)):
                out[i * stride + j] += factor * right[j]
