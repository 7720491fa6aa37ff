"""Circuits from circuits: other weights of cells and edges, parameters that add up to one again.

In:  a `ColumnCircuit`, log-parameters that need not add up to one, a row of evidence.
Out: the circuit that is normalised, and the log of what it added up to; without what cannot be.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.column_circuit import ColumnCircuit
from strudel.circuits.walks import edge_values, edges_at, up
from strudel.tables.evidence import Evidence


def given_row(
    circuit: ColumnCircuit, evidence: Evidence, row: int = 0
) -> tuple[ColumnCircuit | None, float]:
    """The circuit given one question's evidence, and the log of its probability.

    Columns are within what is known of them; None if that is impossible.
    """
    logs = circuit.leaf_log_p.copy()
    changed = np.flatnonzero(evidence.is_known()[row])
    columns = list(circuit.columns)
    with np.errstate(divide="ignore"):
        for place in changed.tolist():
            code, n_cells = int(evidence.codes[row, place]), columns[place].n_cells
            if code < n_cells:
                weights = np.log(np.arange(n_cells) == code)
            else:
                weights = np.log(evidence.weights[place][code - n_cells])
            columns[place] = evidence.column(place, row)
            first, last = circuit.leaf_first[circuit.column_leaves[place : place + 2]]
            logs[first:last] += np.tile(weights, (last - first) // n_cells)[:, np.newaxis]
    own = replace(circuit.columns, columns=tuple(columns))
    return normalized(replace(circuit, columns=own, leaf_log_p=logs))


def normalized(circuit: ColumnCircuit) -> tuple[ColumnCircuit | None, float]:
    """The circuit whose leaves, sums and weights add up to one; and the log of what it did.

    That is also told by `log_total`, which is 0 in the result.

    Components that add up to nothing are left out, and so are edges that no component takes; None
    if nothing is left.
    """
    first = circuit.leaf_first
    totals = log_sums(circuit.leaf_log_p, first[:-1])
    values = up(circuit, _by_column(circuit, totals))
    log_theta = np.empty_like(circuit.edge_log_theta)
    for v in np.flatnonzero(circuit.vtree.node_var == NONE).tolist():
        terms = edge_values(circuit, v, values)
        edges, _ = edges_at(circuit, v)
        own = values[v][circuit.edge_sum[edges] - circuit.vtree_sums[v]]
        log_theta[edges] = _difference(terms, own)[:, 0]
    log_weight = circuit.log_weight + values[circuit.vtree.root][-1, 0]
    log_p = float(np.logaddexp.reduce(log_weight))
    if log_p == -np.inf:
        return None, log_p
    leaf_log_p = _difference(circuit.leaf_log_p, np.repeat(totals, np.diff(first), axis=0))
    made = replace(circuit, leaf_log_p=leaf_log_p, edge_log_theta=log_theta, log_total=0.0)
    return pruned(made.with_weights(log_weight)), log_p + circuit.log_total


def log_sums(logs: FloatArray, first: AnyArray) -> FloatArray:
    """The logs of the sums over runs of rows that begin at `first`."""
    top = np.maximum.reduceat(logs, first, axis=0)
    top = np.where(top == -np.inf, 0.0, top)
    widths = np.diff(np.append(first, len(logs)))
    with np.errstate(divide="ignore"):
        sums = np.add.reduceat(np.exp(logs - np.repeat(top, widths, axis=0)), first, axis=0)
        return np.asarray(np.log(sums) + top)


def _by_column(circuit: ColumnCircuit, leaf_logs: FloatArray) -> list[FloatArray]:
    """Values of leaves, per column, as of one question."""
    ends = circuit.column_leaves.tolist()
    return [leaf_logs[a:b, np.newaxis] for a, b in pairwise(ends)]


def _difference(logs: FloatArray, totals: FloatArray) -> FloatArray:
    """Logs less their totals; what adds up to nothing stays nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(totals == -np.inf, -np.inf, logs - totals)


def pruned(circuit: ColumnCircuit) -> ColumnCircuit:
    """The circuit without edges of no weight in any component, and without what none reaches."""
    is_edge: AnyArray = np.any(circuit.edge_log_theta > -np.inf, axis=1)
    is_kept = np.zeros(circuit.n_nodes, dtype=bool)
    is_kept[circuit.root] = True
    for v in range(circuit.vtree.n_nodes - 1, -1, -1):
        edges, _ = edges_at(circuit, v)
        parent = circuit.n_leaves + circuit.edge_sum[edges]
        is_edge[edges] &= is_kept[parent]
        taken = np.flatnonzero(is_edge[edges]) + edges.start
        is_kept[circuit.edge_left[taken]] = True
        is_kept[circuit.edge_right[taken]] = True
    if is_kept.all() and is_edge.all():
        return circuit
    number = np.cumsum(is_kept, dtype=np.int32) - 1
    n_leaves = circuit.n_leaves
    is_leaf, is_sum = is_kept[:n_leaves], is_kept[n_leaves:]
    width = np.add.reduceat(is_edge, circuit.sum_edges[:-1])[is_sum] if len(is_sum) else is_sum
    return replace(
        circuit,
        leaf_column=circuit.leaf_column[is_leaf],
        leaf_log_p=circuit.leaf_log_p[np.repeat(is_leaf, np.diff(circuit.leaf_first))],
        sum_vtree=circuit.sum_vtree[is_sum],
        sum_edges=np.concatenate([[0], np.cumsum(width)]),
        edge_left=number[circuit.edge_left[is_edge]],
        edge_right=number[circuit.edge_right[is_edge]],
        edge_log_theta=circuit.edge_log_theta[is_edge],
    )


def side_by_side(circuit: ColumnCircuit) -> ColumnCircuit:
    """The same distribution as one component: its root chooses among copies of the others."""
    k = circuit.n_components
    if k == 1:
        return circuit
    if circuit.n_edges == 0:  # one column
        mixed = np.logaddexp.reduce(circuit.leaf_log_p + circuit.log_weight, axis=1)
        return replace(
            circuit,
            leaf_log_p=mixed[:, np.newaxis],
            edge_log_theta=np.zeros((0, 1)),
            log_weight=np.zeros(1),
            known=None,
        )
    tables = [
        circuit.leaf_table(place).swapaxes(1, 2).ravel() for place in range(len(circuit.columns))
    ]
    owner = np.repeat(circuit.edge_sum * k, k) + np.tile(np.arange(k), circuit.n_edges)
    order = np.argsort(owner, kind="stable")  # by sum, component and edge
    edge, component = np.repeat(np.arange(circuit.n_edges), k)[order], owner[order] % k
    log_theta = circuit.edge_log_theta[edge, component]
    is_top = circuit.edge_sum[edge] == len(circuit.sum_vtree) - 1
    log_theta[is_top] += circuit.log_weight[component[is_top]]
    n_sums = (len(circuit.sum_vtree) - 1) * k + 1
    owner = np.minimum(owner[order], n_sums - 1)
    return replace(
        circuit,
        leaf_column=np.repeat(circuit.leaf_column, k),
        leaf_log_p=np.concatenate(tables)[:, np.newaxis],
        sum_vtree=np.repeat(circuit.sum_vtree, k)[:n_sums],
        sum_edges=np.searchsorted(owner, np.arange(n_sums + 1)).astype(np.int32),
        edge_left=circuit.edge_left[edge] * k + component,
        edge_right=circuit.edge_right[edge] * k + component,
        edge_log_theta=log_theta[:, np.newaxis],
        log_weight=np.zeros(1),
        known=None,
    )
