"""Walks up and down a circuit over columns: the only ones that queries take.

In:  a `Circuit` and `Evidence`.
Out: the log-probability of every question under every component (`component_logs`), and how
     probable it is to pass each leaf (`leaf_flows`); the values of all nodes (`up`), with sums that
     add or that take the largest.

A leaf answers a code by a look-up: its table has a row for every cell, and one for each of the
weights of its column (`leaf_rows`). `up` and `down` work in logs, one vtree node at a time, on
arrays `(nodes, rows, components)`. Many questions take the kernels of `circuits.passes` instead,
eight lanes side by side, in linear space; a lane that loses digits there is walked again in logs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.dense import Dense
from strudel.circuits.passes import (
    LANES,
    Plan,
    are_moderate,
    distinct_rows,
    log_of,
    pass_down,
    pass_up,
    working_memory,
)
from strudel.data.validation import slices
from strudel.errors import NoValueError
from strudel.tables.evidence import Evidence

FEW_VALUES = 2**15  # of edges, rows and components together: not worth a kernel
BLOCK_VALUES = 2**21  # of nodes or leaves, rows and components, in memory at a time
IMPOSSIBLE = "has probability zero under the model, so it cannot be conditioned on."


class LeafRows(NamedTuple):
    """The tables of all leaves, with a row for each of the weights of their columns."""

    first: IntArray  # (n_leaves,) the first row of each leaf
    log_value: FloatArray  # (n_rows, k)
    is_plain: AnyArray | None = None  # (n_rows,) of cells, and of nothing known; None if not told


def leaf_rows(circuit: Circuit, weights: tuple[FloatArray, ...]) -> LeafRows:
    """Lay out the leaves for evidence with these weights of cells."""
    plain = made_once(circuit, "_plain_rows", _plain_rows)
    n_more = np.array([len(own) - 1 for own in weights])
    if not n_more.any():
        return plain
    width = np.diff(circuit.leaf_first) + 1
    ends = np.cumsum(width + n_more[circuit.leaf_column])
    first = np.concatenate([[0], ends[:-1]]).astype(np.int32)
    log_value = np.empty((ends[-1], circuit.n_components))
    is_plain = np.ones(len(log_value), dtype=bool)
    for place in np.flatnonzero(n_more).tolist():
        leaves = slice(*circuit.column_leaves[place : place + 2])
        at = (first + width)[leaves, np.newaxis] + np.arange(n_more[place])
        is_plain[at] = False
        log_value[at] = _weighed(circuit.leaf_table(place), weights[place][1:])
    log_value[is_plain] = plain.log_value
    return LeafRows(first, log_value, is_plain)


def _plain_rows(circuit: Circuit) -> LeafRows:
    """The same where nothing is weighed: cells, and their sum."""
    first = circuit.leaf_first[:-1]
    last = circuit.leaf_first[1:] + np.arange(circuit.n_leaves)
    log_value = np.empty((len(circuit.leaf_log_p) + circuit.n_leaves, circuit.n_components))
    is_plain = np.ones(len(log_value), dtype=bool)
    is_plain[last] = False
    log_value[is_plain] = circuit.leaf_log_p
    log_value[last] = log_sums(circuit.leaf_log_p, first)
    is_plain[last] = True
    return LeafRows((first + np.arange(circuit.n_leaves)).astype(np.int32), log_value, is_plain)


def log_sums(logs: FloatArray, first: AnyArray) -> FloatArray:
    """The logs of the sums over runs of rows that begin at `first`."""
    top = np.maximum.reduceat(logs, first, axis=0)
    top[top == -np.inf] = 0.0
    own = np.exp(logs - np.repeat(top, np.diff(np.append(first, len(logs))), axis=0))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.add.reduceat(own, first, axis=0)) + top)


def made_once(circuit: Circuit, name: str, make: Callable[[Circuit], Any]) -> Any:
    """What is made of a circuit once."""
    if name not in circuit.__dict__:
        circuit.__dict__[name] = make(circuit)
    return circuit.__dict__[name]


def _weighed(log_p: FloatArray, weights: FloatArray) -> FloatArray:
    """The logs of sums over cells `(n_leaves, n_weights, k)`."""
    top = log_p.max(axis=1, keepdims=True)
    top[top == -np.inf] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.einsum("wc,lck->lwk", weights, np.exp(log_p - top))) + top)


# In logs, one vtree node at a time


def up(
    circuit: Circuit,
    leaf_values: list[FloatArray],
    add: np.ufunc = np.logaddexp,
    log_theta: FloatArray | None = None,
) -> list[FloatArray]:
    """The log-values of all nodes, per vtree node `(n_nodes, n_rows, k)`.

    Leaf values are one array per column, in its order; `add` joins the edges of a sum:
    `logaddexp` for probabilities, `maximum` for most probable states. Rows that each ask one
    component have `log_theta` of their own, `(n_edges, n_rows, 1)`.
    """
    values: list[FloatArray] = []
    vtree = circuit.vtree
    for v in range(vtree.n_nodes):
        place = int(vtree.node_var[v])
        if place != NONE:
            values.append(leaf_values[place])
            continue
        terms = edge_values(circuit, v, values, log_theta)
        values.append(add.reduceat(terms, edges_at(circuit, v)[1], axis=0))
    return values


def edge_values(
    circuit: Circuit, v: int, values: list[FloatArray], log_theta: FloatArray | None = None
) -> FloatArray:
    """The log-values of the edges of all sums at a vtree node."""
    edges, _ = edges_at(circuit, v)
    left, right = children_at(circuit, v)
    l, r = int(circuit.vtree.node_left[v]), int(circuit.vtree.node_right[v])
    terms = values[l][left] + values[r][right]
    own = circuit.edge_log_theta[edges][:, np.newaxis] if log_theta is None else log_theta[edges]
    terms += own
    return terms


def edges_at(circuit: Circuit, v: int) -> tuple[slice, IntArray]:
    """The edges of the sums at a vtree node, and where among them each sum's begin."""
    found: tuple[slice, IntArray] = made_once(circuit, "_edges_at", _edges_at)[v]
    return found


def _edges_at(circuit: Circuit) -> list[tuple[slice, IntArray]]:
    found = []
    for first, last in pairwise(circuit.vtree_sums.tolist()):
        start, stop = circuit.sum_edges[[first, last]].tolist()
        found.append((slice(start, stop), circuit.sum_edges[first:last] - start))
    return found


def children_at(circuit: Circuit, v: int) -> tuple[IntArray, IntArray]:
    """The children of the edges at a vtree node, numbered from the first at theirs."""
    found: tuple[IntArray, IntArray] = made_once(circuit, "_children_at", _children_at)[v]
    return found


def _children_at(circuit: Circuit) -> list[tuple[IntArray, IntArray]]:
    first = [first_node(circuit, v) for v in range(circuit.vtree.n_nodes)]
    sides = circuit.vtree.node_left.tolist(), circuit.vtree.node_right.tolist()
    found = []
    for v, (l, r) in enumerate(zip(*sides, strict=True)):
        edges, _ = edges_at(circuit, v)
        found.append((circuit.edge_left[edges] - first[l], circuit.edge_right[edges] - first[r]))
    return found


def first_node(circuit: Circuit, v: int) -> int:
    """The number of the first node at a vtree node."""
    place = int(circuit.vtree.node_var[v])
    if place != NONE:
        return int(circuit.column_leaves[place])
    return circuit.n_leaves + int(circuit.vtree_sums[v])


def leaf_values_of(circuit: Circuit, rows: LeafRows, codes: AnyArray) -> list[FloatArray]:
    """The log-values of the leaves of every column, `(n_leaves, n_rows, k)`."""
    found = []
    for place in range(len(circuit.columns)):
        own = rows.first[slice(*circuit.column_leaves[place : place + 2])]
        found.append(rows.log_value[own[:, np.newaxis] + codes[:, place]])
    return found


def down(circuit: Circuit, values: list[FloatArray]) -> list[FloatArray]:
    """How probable it is to pass each node given each row, per vtree node, after `up`."""
    vtree = circuit.vtree
    flows = [np.zeros_like(own) for own in values]
    flows[vtree.root][-1] = values[vtree.root][-1] > -np.inf
    for v in range(vtree.n_nodes - 1, -1, -1):
        if vtree.node_var[v] != NONE:
            continue
        edges, _ = edges_at(circuit, v)
        owner = circuit.edge_sum[edges] - circuit.vtree_sums[v]
        through = edge_shares(circuit, v, values) * flows[v][owner]
        sides = vtree.node_left, vtree.node_right
        for child, side in zip(children_at(circuit, v), sides, strict=True):
            np.add.at(flows[int(side[v])], child, through)
    return flows


def edge_shares(
    circuit: Circuit, v: int, values: list[FloatArray], log_theta: FloatArray | None = None
) -> FloatArray:
    """How probable each edge of the sums at a vtree node is given its sum, after `up`."""
    terms = edge_values(circuit, v, values, log_theta)
    edges, _ = edges_at(circuit, v)
    own = values[v][circuit.edge_sum[edges] - circuit.vtree_sums[v]]
    with np.errstate(invalid="ignore"):
        return np.where(own > -np.inf, np.exp(terms - own), 0.0)


# Questions


def component_logs(circuit: Circuit, evidence: Evidence) -> FloatArray:
    """The log-probability of every question under every component, `(n_rows, k)`."""
    codes, place = distinct_rows(evidence.codes)
    return component_logs_of(circuit, leaf_rows(circuit, evidence.weights), codes)[place]


def component_logs_of(circuit: Circuit, rows: LeafRows, codes: AnyArray) -> FloatArray:
    """The same for rows of codes, from the tables of the leaves."""
    found = np.empty((len(codes), circuit.n_components))
    if dense := dense_of(circuit):
        is_lost = np.ones(len(codes), dtype=bool)
        tables = _tables(circuit, rows)
        for part in slices(len(codes), max(1, BLOCK_VALUES // (3 * circuit.n_nodes))):
            found[part, 0], is_lost[part] = dense.logs(tables, codes[part])
        todo = np.flatnonzero(is_lost)
    elif _is_much(circuit, len(codes)):
        is_lost = _batch(_logs_in_lanes, circuit, rows, codes, found)
        todo = np.flatnonzero(is_lost.any(axis=1))
    else:
        todo = np.arange(len(codes))
    for part in _row_slices(circuit, len(todo)):
        own = todo[part]
        values = up(circuit, leaf_values_of(circuit, rows, codes[own]))
        found[own] = values[circuit.vtree.root][-1]
    return found


def leaf_flows(circuit: Circuit, rows: LeafRows, codes: AnyArray) -> tuple[FloatArray, FloatArray]:
    """Log-probabilities `(n_rows, k)`, and how probable it is to pass the leaves.

    That is `(n_rows, k, n_leaves)`. Callers take as many rows at a time as fit in memory
    (`rows_at_a_time`).
    """
    logs = np.empty((len(codes), circuit.n_components))
    flows = np.empty((*logs.shape, circuit.n_leaves))
    if dense := dense_of(circuit):
        logs[:, 0], passed, is_lost = dense.leaf_flows(_tables(circuit, rows), codes)
        flows[:, 0] = passed.T
        todo = np.flatnonzero(is_lost)
    elif _is_much(circuit, len(codes)):
        is_lost = _batch(_flows_in_lanes, circuit, rows, codes, logs, flows)
        todo = np.flatnonzero(is_lost.any(axis=1))
    else:
        todo = np.arange(len(codes))
    leaves = circuit.vtree.var_leaf
    for part in _row_slices(circuit, len(todo)):
        own = todo[part]
        values = up(circuit, leaf_values_of(circuit, rows, codes[own]))
        logs[own] = values[circuit.vtree.root][-1]
        at = down(circuit, values)
        flows[own] = np.concatenate([at[leaf] for leaf in leaves]).transpose(1, 2, 0)
    return logs, flows


def dense_of(circuit: Circuit) -> Dense | None:
    """What takes matrices for the sums of a circuit, where that is quicker."""
    dense: Dense | None = made_once(circuit, "_dense", Dense.of)
    return dense


def _tables(circuit: Circuit, rows: LeafRows) -> list[FloatArray]:
    """What every leaf of a column says of every code, `(n_leaves, n_codes)`."""
    ends = np.append(rows.first, len(rows.log_value))[circuit.column_leaves]
    with np.errstate(over="ignore"):
        value = np.exp(rows.log_value[:, 0])
    n_leaves = np.diff(circuit.column_leaves)
    return [
        value[low:high].reshape(n, -1)
        for n, (low, high) in zip(n_leaves.tolist(), pairwise(ends.tolist()), strict=True)
    ]


def rows_at_a_time(circuit: Circuit) -> int:
    """How many questions to take together where each needs a number per leaf and component."""
    return max(1, BLOCK_VALUES // (circuit.n_leaves * circuit.n_components))


def _row_slices(circuit: Circuit, n_rows: int) -> list[slice]:
    size = (circuit.n_edges + circuit.n_nodes) * circuit.n_components
    return list(slices(n_rows, max(1, BLOCK_VALUES // size)))


def _is_much(circuit: Circuit, n_rows: int) -> bool:
    """Whether questions are worth a kernel; sizes alone say so, and digits never depend on time."""
    return n_rows * circuit.n_edges * circuit.n_components > FEW_VALUES


# Many questions: kernels


def _plan(circuit: Circuit) -> Plan:
    n_leaves, n_sums = circuit.n_leaves, len(circuit.sum_vtree)
    return Plan(
        circuit.vtree.node_left,
        circuit.vtree.node_right,
        circuit.vtree.node_var,
        circuit.vtree_sums,
        np.arange(n_leaves, n_leaves + n_sums, dtype=np.int32),
        circuit.sum_vtree,
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
    )


def _in_lanes(logs: FloatArray) -> FloatArray:
    """Parameters `(n_blocks, n, LANES)`; few components come several times, for several rows."""
    n, k = logs.shape
    columns = np.tile(logs, max(1, LANES // k)) if k < LANES else logs
    n_blocks = -(-columns.shape[1] // LANES)
    lanes = np.zeros((n_blocks, n, LANES))
    with np.errstate(over="ignore"):
        for block in range(n_blocks):
            own = columns[:, block * LANES : (block + 1) * LANES]
            np.exp(own, out=lanes[block, :, : own.shape[1]])
    return lanes


def _batch(
    walk: Callable[..., None],
    circuit: Circuit,
    rows: LeafRows,
    codes: AnyArray,
    *found: FloatArray,
) -> AnyArray:
    """Fill what is asked for by kernels; returns where digits are lost."""
    n_rows, k = len(codes), circuit.n_components
    is_lost = np.ones((n_rows, k), dtype=np.bool_)
    n_passes = -(-n_rows // max(1, LANES // k))
    theta, is_fine = made_once(circuit, "_theta_lanes", _theta_lanes)
    table, is_table_fine = _table_lanes(circuit, rows)
    n_tasks = len(table) * n_passes
    plan = made_once(circuit, "_plan", _plan)
    how = (n_passes, codes, plan, circuit.leaf_column, rows.first, table, theta)
    with np.errstate(over="ignore", invalid="ignore"):
        in_threads(walk, n_tasks, *how, *found, is_lost)
    return is_lost | ~(is_fine & is_table_fine)


def _theta_lanes(circuit: Circuit) -> tuple[FloatArray, AnyArray]:
    """Parameters of edges in lanes, and which components lose no digits by that."""
    theta = _in_lanes(circuit.edge_log_theta)
    theta = theta[:, :, 0].copy() if circuit.n_components == 1 else theta
    return theta, are_moderate(circuit.edge_log_theta)


def _table_lanes(circuit: Circuit, rows: LeafRows) -> tuple[FloatArray, AnyArray]:
    """The same of the tables of leaves."""
    if rows.is_plain is None:
        return _in_lanes(rows.log_value), are_moderate(rows.log_value)
    plain, is_fine = made_once(circuit, "_plain_lanes", _plain_lanes)
    if rows.is_plain.all():
        return plain, is_fine
    more = rows.log_value[~rows.is_plain]
    table = np.empty((len(plain), len(rows.log_value), LANES))
    table[:, rows.is_plain] = plain
    table[:, ~rows.is_plain] = _in_lanes(more)
    return table, is_fine & are_moderate(more)


def _plain_lanes(circuit: Circuit) -> tuple[FloatArray, AnyArray]:
    log_value = made_once(circuit, "_plain_rows", _plain_rows).log_value
    return _in_lanes(log_value), are_moderate(log_value)


@kernel
def _set_lanes(
    i: int,
    n_rows: int,
    k: int,
    codes: AnyArray,
    leaf_column: IntArray,
    first: IntArray,
    table: FloatArray,
    lane_row: AnyArray,
    value: FloatArray,
) -> int:
    """The row of every lane of pass i and the values of its leaves; returns how many lanes."""
    n_side, n_each = max(1, LANES // k), min(k, LANES)
    width = min(n_side, n_rows - i * n_side) * n_each
    for b in range(LANES):
        lane_row[b] = i * n_side + b // n_each if b < width else i * n_side
    for l in range(len(leaf_column)):
        for b in range(LANES):
            value[l, b] = table[first[l] + codes[lane_row[b], leaf_column[l]], b]
    return width


@kernel
def _logs_in_lanes(
    first_task: int,
    last_task: int,
    n_passes: int,
    codes: AnyArray,
    p: Plan,
    leaf_column: IntArray,
    first: IntArray,
    table: FloatArray,
    theta: FloatArray,
    log_p: FloatArray,
    is_lost: AnyArray,
) -> None:
    """One pass up per block of components and row, or few rows if the components are few."""
    n_rows, k = log_p.shape
    value, scale, exponent = working_memory(p)
    lane_row = np.empty(LANES, dtype=np.int64)
    root = len(value) - 1
    for task in range(first_task, last_task):
        block, i = task // n_passes, task % n_passes
        width = _set_lanes(i, n_rows, k, codes, leaf_column, first, table[block], lane_row, value)
        lost = pass_up(p, theta[block], value, scale, exponent)
        for b in range(width):
            c = block * LANES + b % min(k, LANES)
            if c < k:
                log_p[lane_row[b], c] = log_of(value[root, b], exponent[-1, b])
                is_lost[lane_row[b], c] = lost >> b & 1


@kernel
def _flows_in_lanes(
    first_task: int,
    last_task: int,
    n_passes: int,
    codes: AnyArray,
    p: Plan,
    leaf_column: IntArray,
    first: IntArray,
    table: FloatArray,
    theta: FloatArray,
    log_p: FloatArray,
    flows: FloatArray,
    is_lost: AnyArray,
) -> None:
    """One pass up and one down."""
    n_rows, k, n_leaves = flows.shape
    value, scale, exponent = working_memory(p)
    flow = np.zeros_like(value)
    lane_row = np.empty(LANES, dtype=np.int64)
    root = len(value) - 1
    for task in range(first_task, last_task):
        block, i = task // n_passes, task % n_passes
        width = _set_lanes(i, n_rows, k, codes, leaf_column, first, table[block], lane_row, value)
        lost = pass_up(p, theta[block], value, scale, exponent)
        pass_down(p, root, theta[block], value, scale, flow)
        for b in range(width):
            row, c = lane_row[b], block * LANES + b % min(k, LANES)
            if c < k:
                log_p[row, c] = log_of(value[root, b], exponent[-1, b])
                is_lost[row, c] = lost >> b & 1
                for l in range(n_leaves):
                    flows[row, c, l] = flow[l, b]


def raise_if_impossible(log_given: AnyArray, first_row: int = 0) -> None:
    """Refuse to condition on evidence of probability zero; rows count from `first_row`."""
    impossible = np.flatnonzero(log_given == -np.inf)
    if len(impossible):
        raise NoValueError(
            f"Row {first_row + impossible[0]} of the evidence {IMPOSSIBLE}",
            "Set some of its values to NaN.",
            column="",
        )
