"""Bounds on all states that a partial assignment of cells allows, relative to that on all.

In:  `RowValues`, and rows of choices: which cells of the columns in question are allowed.
Out: by one walk up, a bound on all these states; by one down, on those with each cell; and what
     complete states reach, with all that differ from them in one column.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Edges, starts
from strudel.queries.state_values import RowValues

WIDTH = 64  # components that go side by side, at most
MOST_CHUNKS = 4  # of the components, each with its own sums, so that threads share the work
SMALLEST = 1e-100  # of values and parameters that are not zero: three multiply to 1e-300
LOG_SMALLEST = math.log(SMALLEST)
NEGLIGIBLE = 1e-15  # of what is enough: all that the components left out may add together
ONE = 0  # the node that is always 1
ALL, SOME = -1, -2  # cells of a column that are allowed


class Relaxation(NamedTuple):
    """What bounds partial assignments: parameters relative to the bounds of all states.

    Taken like this every node is 1 without any assignment, and only falls: linear numbers need no
    scale. What falls below SMALLEST is kept there, as a bound may be too large, never too small.
    Nodes that are always 1 are ONE, which comes first; then leaves by column, then sums.
    """

    choice_first: IntArray  # (n_open + 1,) choices of the columns in question
    column_leaves: IntArray  # (n_open + 1,) their leaves
    leaf_first: IntArray  # (n_leaves + 2,) by node, rows of the table
    is_cell: ByteArray  # (n_rows,) whether a component has it
    root: int
    node_edges: IntArray
    edge_node: IntArray
    edge_left: IntArray
    edge_right: IntArray
    node_is_max: AnyArray
    theta: FloatArray  # (n_blocks, n_edges, width)
    table: FloatArray  # (n_blocks, n_rows, width) every cell of a leaf relative to the best
    weight: FloatArray  # (n_blocks, width) of the components
    rest: float  # what the components left out can add at most
    log_unit: float  # log-probability that 1 stands for
    all_max: bool  # so that the walk down gives every cell the bound that fixing it would


def relax(row: RowValues, value: FloatArray, log_best: FloatArray, log_enough: float) -> Relaxation:
    """What bounds states, without components that add nothing to what is above `log_enough`."""
    circuit, n_leaves = row.circuit, row.circuit.n_leaves
    log_unit = float(log_best.max())
    order = np.argsort(-log_best, kind="stable")
    n_kept = int((log_best > -np.inf).sum())
    if log_enough > -np.inf:
        tail = np.cumsum(np.exp(np.minimum(log_best[order] - log_enough, 0.0))[::-1])[::-1]
        n_kept = max(1, int((tail > NEGLIGIBLE).sum()))
    kept, left_out = np.sort(order[:n_kept]), order[n_kept:]

    open_of = np.full(len(circuit.columns), NONE, dtype=np.int32)
    open_of[row.places] = np.arange(len(row.places))
    node_number = np.full(len(value), NONE, dtype=np.int32)
    leaf = np.empty(n_leaves, dtype=np.int32)
    leaf_first = np.zeros(n_leaves + 2, dtype=np.int32)
    node_edges = np.zeros(len(value) + 2, dtype=np.int32)
    edge_of, edge_node, parent, left, right = np.empty((5, circuit.n_edges), dtype=np.int32)
    edges = row.edges
    is_live, is_reached = row.is_possible.copy(), np.empty(len(value), dtype=np.bool_)
    _find_live(value, n_leaves, edges, is_live, is_reached)
    n_open = _number_leaves(
        open_of[circuit.leaf_column], row.first, is_reached, node_number, leaf, leaf_first
    )
    made = (node_number, node_edges, edge_of, edge_node, parent, left, right)
    n_nodes, n_edges = _number_sums(1 + n_open, n_leaves, edges, is_live, is_reached, *made)
    edge_of, edge_node, parent, left, right = (
        own[:n_edges] for own in (edge_of, edge_node, parent, left, right)
    )
    leaf, leaf_first, node_edges = (
        leaf[:n_open],
        leaf_first[: n_open + 2],
        node_edges[: n_nodes + 1],
    )
    n_blocks = -(-n_kept // WIDTH)
    width = -(-n_kept // n_blocks)
    theta = np.full((n_blocks, n_edges, width), -np.inf)
    table = np.full((n_blocks, int(leaf_first[-1]), width), -np.inf)
    is_cell = np.zeros(table.shape[1], dtype=np.uint8)
    _fill_edges(kept, edge_of, parent, edges, circuit.edge_log_theta, value, theta)
    column = open_of[circuit.leaf_column[leaf]]
    leaf_rows = (leaf, circuit.leaf_first, column, row.first, row.choice_cell)
    _fill_table(kept, *leaf_rows, row.log_cells, value, leaf_first, table, is_cell)
    weight = np.zeros((n_blocks, width))
    weight.ravel()[:n_kept] = np.exp(log_best[kept] - log_unit)
    node_is_max = np.ones(n_nodes, dtype=bool)
    node_is_max[edge_node] = row.node_is_max[parent]
    return Relaxation(
        row.first,
        1 + starts(column, len(row.places)),
        leaf_first,
        is_cell,
        int(node_number[-1]),
        node_edges,
        edge_node,
        left,
        right,
        node_is_max,
        np.exp(theta, out=theta),
        np.exp(table, out=table),
        weight,
        float(np.exp(log_best[left_out] - log_unit).sum()),
        log_unit,
        bool(node_is_max.all()),
    )


@kernel
def _find_live(
    value: FloatArray,
    n_leaves: int,
    edges: Edges,
    is_live: AnyArray,
    is_reached: AnyArray,
) -> None:
    """Clear `is_live` of edges below which something cannot hold, and of what no root reaches."""
    node_edges, edge_left, edge_right = edges
    n_nodes = len(is_reached)
    for n in range(n_leaves):
        is_reached[n] = False
        for c in range(value.shape[1]):
            if value[n, c] > -np.inf:
                is_reached[n] = True
                break
    for n in range(n_leaves, n_nodes):
        holds = False
        for e in range(node_edges[n], node_edges[n + 1]):
            is_live[e] &= is_reached[edge_left[e]] and is_reached[edge_right[e]]
            holds |= is_live[e]
        is_reached[n] = holds
    for n in range(n_nodes - 1):
        is_reached[n] = False
    for n in range(n_nodes - 1, n_leaves - 1, -1):
        for e in range(node_edges[n], node_edges[n + 1]):
            is_live[e] &= is_reached[n]
            if is_live[e]:
                is_reached[edge_left[e]] = True
                is_reached[edge_right[e]] = True


@kernel
def _number_leaves(
    leaf_open: IntArray,
    choice_first: IntArray,
    is_reached: AnyArray,
    node_number: IntArray,
    leaf: IntArray,
    leaf_first: IntArray,
) -> int:
    """Number the leaves of the columns in question, from 1; all others are ONE."""
    n = 0
    for l in range(len(leaf_open)):
        i = leaf_open[l]
        node_number[l] = ONE
        if i != NONE and is_reached[l]:
            leaf[n] = l
            n += 1
            node_number[l] = n
            leaf_first[n + 1] = leaf_first[n] + choice_first[i + 1] - choice_first[i]
    return n


@kernel
def _number_sums(
    n_nodes: int,
    n_leaves: int,
    edges: Edges,
    is_live: AnyArray,
    is_reached: AnyArray,
    node_number: IntArray,
    new_node_edges: IntArray,
    edge_of: IntArray,
    edge_node: IntArray,
    parent: IntArray,
    new_left: IntArray,
    new_right: IntArray,
) -> tuple[int, int]:
    """Number the sums that are left, after `n_nodes` others, and their edges; how many there are.

    A sum of what is always 1 is ONE. A sum with one edge is 1 times its children, and so it is one
    of the children if the other is ONE.
    """
    node_edges, edge_left, edge_right = edges
    n_edges = 0
    for n in range(n_leaves, len(is_reached)):
        if not is_reached[n]:
            continue
        first = n_edges
        most = ONE  # of the children
        is_product = False
        for e in range(node_edges[n], node_edges[n + 1]):
            if is_live[e]:
                left, right = node_number[edge_left[e]], node_number[edge_right[e]]
                most = max(most, left, right)
                is_product |= left != ONE and right != ONE
                edge_of[n_edges], edge_node[n_edges], parent[n_edges] = e, n_nodes, n
                new_left[n_edges], new_right[n_edges] = left, right
                n_edges += 1
        if most == ONE or (n_edges == first + 1 and not is_product):
            node_number[n] = most
            n_edges = first
            continue
        node_number[n] = n_nodes
        n_nodes += 1
        new_node_edges[n_nodes] = n_edges
    return n_nodes, n_edges


@kernel
def _fill_edges(
    kept: AnyArray,
    edge_of: IntArray,
    parent: IntArray,
    edges: Edges,
    log_theta: FloatArray,
    value: FloatArray,
    terms: FloatArray,
) -> None:
    """Each edge's part of what its sum reaches, as logs."""
    _, edge_left, edge_right = edges
    width = terms.shape[2]
    for block in range(len(terms)):
        for j in range(len(edge_of)):
            e = edge_of[j]
            own, whole, mine = log_theta[e], value[parent[j]], terms[block, j]
            left, right = value[edge_left[e]], value[edge_right[e]]
            for b in range(min(width, len(kept) - block * width)):
                c = kept[block * width + b]
                term = own[c] + left[c] + right[c]
                if term > -np.inf:
                    mine[b] = max(term - whole[c], LOG_SMALLEST)


@kernel
def _fill_table(
    kept: AnyArray,
    leaf: IntArray,
    old_first: IntArray,
    leaf_open: IntArray,
    choice_first: IntArray,
    choice_cell: AnyArray,
    log_cells: FloatArray,
    value: FloatArray,
    leaf_first: IntArray,
    terms: FloatArray,
    is_cell: ByteArray,
) -> None:
    """Each cell relative to what its leaf reaches, as logs."""
    width = terms.shape[2]
    for block in range(len(terms)):
        for i in range(len(leaf)):
            whole, start = value[leaf[i]], choice_first[leaf_open[i]]
            for row in range(leaf_first[i + 1], leaf_first[i + 2]):
                own = log_cells[old_first[leaf[i]] + choice_cell[start + row - leaf_first[i + 1]]]
                mine = terms[block, row]
                for b in range(min(width, len(kept) - block * width)):
                    c = kept[block * width + b]
                    if own[c] > -np.inf:
                        mine[b] = max(own[c] - whole[c], LOG_SMALLEST)
                        is_cell[row] = 1


def passes(
    r: Relaxation, allowed: ByteArray, is_exact: bool, is_down: bool
) -> tuple[FloatArray, FloatArray]:
    """What assignments reach `(n_rows,)`, and with each cell `(n_rows, n_choices)`.

    As bounds, with each of the cells that are allowed; or `is_exact` of complete states, with any
    other cell of one column.
    """
    n_chunks = 1 if len(allowed) >= MOST_CHUNKS else min(len(r.weight), MOST_CHUNKS)
    total = np.zeros((len(allowed), n_chunks))
    choices = np.zeros((len(allowed), n_chunks, allowed.shape[1] if is_down else 0))
    in_threads(_passes, total.size, allowed, r, is_exact, is_down, total, choices)
    return total.sum(axis=1), choices.sum(axis=1)


@kernel
def _passes(
    first: int,
    last: int,
    allowed: ByteArray,
    r: Relaxation,
    is_exact: bool,
    is_down: bool,
    total: FloatArray,
    choices: FloatArray,
) -> None:
    """A pass per row and block of components; chunks of blocks add up."""
    n_chunks = total.shape[1]
    n_nodes, first_sum = len(r.node_edges) - 1, len(r.leaf_first) - 1
    width = r.weight.shape[1]
    value = np.empty((n_nodes, width))
    flow = np.empty((n_nodes, width))
    is_reached = np.empty(n_nodes, dtype=np.bool_)
    live = np.empty(len(r.edge_left), dtype=np.int32)
    leaf_row = np.empty(first_sum, dtype=np.int32)
    every = np.ones(allowed.shape[1], dtype=np.uint8)
    for task in range(first, last):
        row, chunk = task // n_chunks, task % n_chunks
        mine = allowed[row]
        n_live = _find_live_edges(every if is_exact and is_down else mine, r, is_reached, live)
        if not is_reached[r.root]:
            continue
        n_sums = 0
        for n in range(first_sum, n_nodes):
            n_sums += is_reached[n]
        is_one_way = is_exact and not is_down and n_sums == n_live
        _find_leaf_rows(mine, r, leaf_row)
        for block in range(chunk, len(r.weight), n_chunks):
            theta, table, weight = r.theta[block], r.table[block], r.weight[block]
            if is_one_way:
                _multiply(theta, table, is_reached, leaf_row, live[:n_live], value[ONE])
                total[row, chunk] += _sum_of_products(weight, value[ONE])
                continue
            _pass_up(mine, r, theta, table, is_exact, is_reached, leaf_row, live[:n_live], value)
            total[row, chunk] += _sum_of_products(weight, value[r.root])
            if is_down:
                _pass_down(r, theta, is_exact, is_reached, live[:n_live], value, flow)
                own = every if is_exact else mine
                _add_choices(own, r, table, weight, is_exact, is_reached, flow, choices[row, chunk])


@kernel
def _find_live_edges(
    allowed: ByteArray, r: Relaxation, is_reached: AnyArray, live: IntArray
) -> int:
    """The edges that allowed cells and the root reach, children first; returns how many."""
    n_nodes, first_sum = len(is_reached), len(r.leaf_first) - 1
    holds = np.zeros(n_nodes, dtype=np.bool_)
    holds[ONE] = True
    for i in range(len(r.column_leaves) - 1):
        start, stop = r.choice_first[i], r.choice_first[i + 1]
        for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
            shift = r.leaf_first[n] - start
            for j in range(start, stop):
                if allowed[j] and r.is_cell[j + shift]:
                    holds[n] = True
                    break
    for n in range(first_sum, n_nodes):
        for e in range(r.node_edges[n], r.node_edges[n + 1]):
            if holds[r.edge_left[e]] and holds[r.edge_right[e]]:
                holds[n] = True
                break
    for n in range(n_nodes):
        is_reached[n] = False
    is_reached[r.root] = holds[r.root]
    n_live = 0
    for n in range(n_nodes - 1, first_sum - 1, -1):
        if not is_reached[n]:
            continue
        for e in range(r.node_edges[n + 1] - 1, r.node_edges[n] - 1, -1):
            left, right = r.edge_left[e], r.edge_right[e]
            if holds[left] and holds[right]:
                is_reached[left] = True
                is_reached[right] = True
                live[n_live] = e
                n_live += 1
    for i in range(n_live // 2):
        live[i], live[n_live - 1 - i] = live[n_live - 1 - i], live[i]
    return n_live


@kernel
def _find_leaf_rows(allowed: ByteArray, r: Relaxation, leaf_row: IntArray) -> None:
    """The row of the table that a leaf has as its value: ALL of them, SOME, or one."""
    for i in range(len(r.column_leaves) - 1):
        start, stop = r.choice_first[i], r.choice_first[i + 1]
        n_allowed = 0
        only = start
        for j in range(start, stop):
            if allowed[j]:
                n_allowed += 1
                only = j
        for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
            leaf_row[n] = SOME if n_allowed > 1 else r.leaf_first[n] + only - start
            if n_allowed == stop - start:
                leaf_row[n] = ALL


@kernel
def _multiply(
    theta: FloatArray,
    table: FloatArray,
    is_reached: AnyArray,
    leaf_row: IntArray,
    live: IntArray,
    value: FloatArray,
) -> None:
    """The value of a complete state that takes one edge of every sum."""
    value[:] = 1.0
    for n in range(1, len(leaf_row)):
        if is_reached[n]:
            cell = table[leaf_row[n]]
            for b in range(len(value)):
                value[b] *= cell[b]
            _keep_digits(value, 0.0)
    for e in live:
        share = theta[e]
        for b in range(len(value)):
            value[b] *= share[b]
        _keep_digits(value, 0.0)


@kernel
def _pass_up(
    allowed: ByteArray,
    r: Relaxation,
    theta: FloatArray,
    table: FloatArray,
    is_exact: bool,
    is_reached: AnyArray,
    leaf_row: IntArray,
    live: IntArray,
    value: FloatArray,
) -> None:
    """Fill the values of the nodes that are reached."""
    least = 0.0 if is_exact else SMALLEST
    value[ONE] = 1.0
    for i in range(len(r.column_leaves) - 1):
        start, stop = r.choice_first[i], r.choice_first[i + 1]
        for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
            if not is_reached[n]:
                continue
            if leaf_row[n] >= 0:
                value[n] = table[leaf_row[n]]
                continue
            value[n] = 1.0 if leaf_row[n] == ALL else 0.0
            if leaf_row[n] == SOME:
                mine = value[n]
                for j in range(start, stop):
                    if allowed[j]:
                        cell = table[r.leaf_first[n] + j - start]
                        for b in range(len(mine)):
                            mine[b] = max(mine[b], cell[b])
    last = NONE
    for e in live:
        n = r.edge_node[e]
        mine = value[n]
        if n != last:
            if last != NONE:
                _keep_digits(value[last], least)
            mine[:] = 0.0
            last = n
        share, left, right = theta[e], value[r.edge_left[e]], value[r.edge_right[e]]
        if is_exact or not r.node_is_max[n]:
            for b in range(len(mine)):
                mine[b] += share[b] * left[b] * right[b]
        else:
            for b in range(len(mine)):
                mine[b] = max(mine[b], share[b] * left[b] * right[b])
    if last != NONE:
        _keep_digits(value[last], least)


@kernel
def _keep_digits(mine: FloatArray, least: float) -> None:
    """Make what is possible but below SMALLEST `least`: numbers near 1e-308 are slow, too."""
    for b in range(len(mine)):
        small = least if mine[b] > 0.0 else 0.0
        mine[b] = mine[b] if mine[b] >= SMALLEST else small


@kernel
def _pass_down(
    r: Relaxation,
    theta: FloatArray,
    is_exact: bool,
    is_reached: AnyArray,
    live: IntArray,
    value: FloatArray,
    flow: FloatArray,
) -> None:
    """Fill what comes from above to the nodes that are reached, the root's being 1."""
    least = 0.0 if is_exact else SMALLEST
    adds = is_exact or not r.all_max  # else the largest of what comes from above bounds a state
    for n in range(len(is_reached)):
        if is_reached[n]:
            flow[n] = 0.0
    flow[r.root] = 1.0
    last = NONE
    for i in range(len(live) - 1, -1, -1):
        e = live[i]
        n, l, right = r.edge_node[e], r.edge_left[e], r.edge_right[e]
        mine, share = flow[n], theta[e]
        if n != last:
            _keep_digits(mine, least)
            last = n
        if l != ONE:
            _hand_down(mine, share, value[right], adds, flow[l])
        if right != ONE:
            _hand_down(mine, share, value[l], adds, flow[right])
    for n in range(1, len(r.leaf_first) - 1):
        if is_reached[n]:
            _keep_digits(flow[n], least)


@kernel
def _hand_down(
    mine: FloatArray, share: FloatArray, beside: FloatArray, adds: bool, below: FloatArray
) -> None:
    if adds:
        for b in range(len(mine)):
            below[b] += mine[b] * share[b] * beside[b]
    else:
        for b in range(len(mine)):
            below[b] = max(below[b], mine[b] * share[b] * beside[b])


@kernel
def _sum_of_products(weight: FloatArray, value: FloatArray) -> float:
    total = 0.0
    for b in range(len(weight)):
        total += weight[b] * value[b]
    return total


@kernel
def _add_choices(
    allowed: ByteArray,
    r: Relaxation,
    table: FloatArray,
    weight: FloatArray,
    is_exact: bool,
    is_reached: AnyArray,
    flow: FloatArray,
    choices: FloatArray,
) -> None:
    """Add what each cell reaches, by the leaves that have it."""
    most = np.empty(len(weight))
    for i in range(len(r.column_leaves) - 1):
        start = r.choice_first[i]
        for j in range(start, r.choice_first[i + 1]):
            if not allowed[j]:
                continue
            most[:] = 0.0
            for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
                if is_reached[n]:
                    mine, cell = flow[n], table[r.leaf_first[n] + j - start]
                    if is_exact or not r.all_max:
                        for b in range(len(mine)):
                            most[b] += mine[b] * cell[b]
                    else:
                        for b in range(len(mine)):
                            most[b] = max(most[b], mine[b] * cell[b])
            choices[j] += _sum_of_products(weight, most)
