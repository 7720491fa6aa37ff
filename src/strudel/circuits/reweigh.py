"""Circuits from circuits: other weights of cells and edges, parameters that add up to one again.

In:  a `Circuit`, log-parameters that need not add up to one, a row of evidence.
Out: the circuit that is normalised, and the log of what it added up to; without what cannot be.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.properties import as_deterministic_as
from strudel.circuits.walks import log_sums
from strudel.tables.evidence import Evidence
from strudel.tables.schema import Columns

ROUNDING = 1e-9  # of what sums add up to


def given_row(circuit: Circuit, evidence: Evidence, row: int = 0) -> tuple[Circuit | None, float]:
    """The circuit given one question's evidence, and the log of its probability.

    Columns are within what is known of them; None if that is impossible.
    """
    logs = circuit.leaf_log_p.copy()
    changed = np.flatnonzero(evidence.is_known()[row])
    if not len(changed) and np.all(circuit.log_weight > -np.inf):
        return replace(circuit, log_total=0.0) if circuit.log_total else circuit, circuit.log_total
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
    return _normalized(circuit, own, logs)


def normalized(circuit: Circuit) -> tuple[Circuit | None, float]:
    """The circuit whose leaves, sums and weights add up to one; and the log of what it did.

    That is also told by `log_total`, which is 0 in the result.

    Components that add up to nothing are left out, and so are edges that no component takes; None
    if nothing is left.
    """
    return _normalized(circuit, circuit.columns, circuit.leaf_log_p)


def adding_up(circuit: Circuit) -> Circuit:
    """Itself if leaves and sums add up to one, else normalised; `log_total` keeps the total."""
    if adds_up(circuit):
        return circuit
    found, log_total = normalized(circuit)
    return circuit.nothing() if found is None else replace(found, log_total=log_total)


def adds_up(circuit: Circuit) -> bool:
    """Whether leaves and sums add up to one, but for the rounding of floats."""
    runs = (circuit.leaf_log_p, circuit.leaf_first), (circuit.edge_log_theta, circuit.sum_edges)
    with np.errstate(over="ignore"):
        return all(
            bool(np.all(np.abs(np.add.reduceat(np.exp(own), first[:-1], axis=0) - 1.0) <= ROUNDING))
            for own, first in runs
            if len(own)
        )


def _normalized(
    circuit: Circuit, columns: Columns, cell_logs: FloatArray
) -> tuple[Circuit | None, float]:
    first, n_leaves = circuit.leaf_first, circuit.n_leaves
    totals = np.empty((circuit.n_nodes, circuit.n_components))
    totals[:n_leaves] = log_sums(cell_logs, first[:-1])
    log_theta = circuit.edge_log_theta.copy()
    edges = Edges(circuit.node_edges, circuit.edge_left, circuit.edge_right)
    normalize_edges(edges, n_leaves, log_theta, totals)
    log_weight = circuit.log_weight + totals[-1]
    log_p = float(np.logaddexp.reduce(log_weight))
    if log_p == -np.inf:
        return None, log_p
    leaf_log_p = log_shares(cell_logs, np.repeat(totals[:n_leaves], np.diff(first), axis=0))
    is_left = log_weight > -np.inf
    if not is_left.all():
        leaf_log_p, log_theta = leaf_log_p[:, is_left], log_theta[:, is_left]
    made = replace(
        circuit,
        columns=columns,
        leaf_log_p=leaf_log_p,
        edge_log_theta=log_theta,
        log_weight=log_weight[is_left] - log_p,
        known=None if circuit.known is None else circuit.known[:, is_left],
        log_total=0.0,
    )
    return as_deterministic_as(pruned(made), circuit), log_p + circuit.log_total


@kernel
def normalize_edges(
    edges: Edges, n_leaves: int, log_theta: FloatArray, log_total: FloatArray
) -> None:
    """Turn `log_theta` into parameters, children first, and fill `log_total` of the sums."""
    node_edges, edge_left, edge_right = edges
    k = log_theta.shape[1]
    largest, total = np.empty(k), np.empty(k)
    for n in range(n_leaves, len(log_total)):
        largest[:] = -np.inf
        for e in range(node_edges[n], node_edges[n + 1]):
            for c in range(k):
                value = log_theta[e, c] + log_total[edge_left[e], c]
                if edge_right[e] != NONE:
                    value += log_total[edge_right[e], c]
                log_theta[e, c] = value
                largest[c] = max(largest[c], value)
        total[:] = 0.0
        for e in range(node_edges[n], node_edges[n + 1]):
            for c in range(k):
                if log_theta[e, c] > -np.inf:
                    total[c] += np.exp(log_theta[e, c] - largest[c])
        for c in range(k):
            total[c] = np.log(total[c]) if largest[c] > -np.inf else 0.0
            log_total[n, c] = largest[c] + total[c]
        # Not less log_total, which has few digits after the point where it is far from zero.
        for e in range(node_edges[n], node_edges[n + 1]):
            for c in range(k):
                if log_theta[e, c] > -np.inf:
                    log_theta[e, c] = log_theta[e, c] - largest[c] - total[c]


def normalized_columns(
    edges: Edges,
    edge_log_weight: FloatArray,
    n_vars: int,
    literal_log_weight: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Log-parameters `(n_edges, k)` that add up to one, and the logs of the totals `(k,)`.

    With weights of the literals, `(2 * n_vars, k)`, a row counts as much as the product of those
    that it satisfies.
    """
    log_total = np.zeros((len(edges.node_edges) - 1, edge_log_weight.shape[1]))
    if literal_log_weight is not None:
        log_total[: 2 * n_vars] = literal_log_weight
    log_theta = np.array(edge_log_weight, order="C")
    normalize_edges(edges, 2 * n_vars, log_theta, log_total)
    return log_theta, log_total[-1].copy()


def log_shares(logs: FloatArray, totals: FloatArray) -> FloatArray:
    """Logs less their totals; what adds up to nothing stays nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(totals == -np.inf, -np.inf, logs - totals)


def pruned(circuit: Circuit) -> Circuit:
    """The circuit without edges of no weight in any component, and without what none reaches."""
    is_edge: AnyArray = np.any(circuit.edge_log_theta > -np.inf, axis=1)
    if is_edge.all():
        return circuit
    is_kept = np.zeros(circuit.n_nodes, dtype=bool)
    keep_reached(circuit.node_edges, circuit.edge_left, circuit.edge_right, is_edge, is_kept)
    number = np.cumsum(is_kept, dtype=np.int32) - 1
    n_leaves = circuit.n_leaves
    is_leaf, is_sum = is_kept[:n_leaves], is_kept[n_leaves:]
    width = np.add.reduceat(is_edge, circuit.sum_edges[:-1])[is_sum] if len(is_sum) else is_sum
    is_cell = np.repeat(is_leaf, np.diff(circuit.leaf_first))
    return replace(
        circuit,
        leaf_column=circuit.leaf_column[is_leaf],
        leaf_log_p=circuit.leaf_log_p[is_cell],
        known=None if circuit.known is None else circuit.known[is_cell],
        sum_vtree=circuit.sum_vtree[is_sum],
        sum_edges=np.concatenate([[0], np.cumsum(width)]),
        edge_left=number[circuit.edge_left[is_edge]],
        edge_right=number[circuit.edge_right[is_edge]],
        edge_log_theta=circuit.edge_log_theta[is_edge],
    )


@kernel
def keep_reached(
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    is_edge: AnyArray,
    is_kept: AnyArray,
) -> None:
    """Mark the nodes below the last one, and no edges of others."""
    is_kept[-1] = True
    for n in range(len(is_kept) - 1, -1, -1):
        for e in range(node_edges[n], node_edges[n + 1]):
            is_edge[e] &= is_kept[n]
            if is_edge[e]:
                is_kept[edge_left[e]] = is_kept[edge_right[e]] = True


def side_by_side(circuit: Circuit) -> Circuit:
    """The same distribution as one component: its root chooses among copies of the others."""
    k = circuit.n_components
    if circuit.n_edges == 0:  # one column: its last leaf
        logs = circuit.leaf_log_p[circuit.leaf_first[-2] :] + circuit.log_weight
        return replace(
            circuit,
            leaf_column=circuit.leaf_column[-1:],
            leaf_log_p=np.logaddexp.reduce(logs, axis=1)[:, np.newaxis],
            edge_log_theta=np.zeros((0, 1)),
            log_weight=np.zeros(1),
            known=None,
        )
    if k == 1:
        return circuit
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
