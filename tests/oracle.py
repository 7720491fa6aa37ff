"""Brute force by enumeration: slow, obvious, no code of the library but arrays of a circuit."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np


def all_rows(n_vars):
    """All 0/1 rows, the last variable changing fastest."""
    return list(itertools.product((0, 1), repeat=n_vars))


def completions(row):
    """All fully observed rows that agree with a partly observed one."""
    return list(itertools.product(*[(0, 1) if is_unknown(x) else (int(x),) for x in row]))


def is_unknown(x):
    return isinstance(x, float) and math.isnan(x)


def edges(circuit, node):
    """The edges of a node as (edge, children, theta)."""
    return edges_by_node(circuit)[node]


@functools.lru_cache(maxsize=16)
def edges_by_node(circuit):
    """The same for all nodes."""
    starts = [int(start) for start in circuit.node_edges]
    children = zip(circuit.edge_left.tolist(), circuit.edge_right.tolist(), strict=True)
    children = [[child for child in pair if child >= 0] for pair in children]
    log_theta = circuit.edge_log_theta
    theta = np.exp(log_theta if log_theta.ndim == 1 else log_theta[:, 0]).tolist()
    return [
        [(edge, children[edge], theta[edge]) for edge in range(start, stop)]
        for start, stop in itertools.pairwise(starts)
    ]


def root(circuit):
    return len(circuit.node_vtree) - 1


@functools.lru_cache(maxsize=16)
def n_vars(circuit):
    return sum(1 for var in circuit.vtree.node_var if var >= 0)


def is_leaf(circuit, node):
    """A leaf, or a literal of the learner's circuits over bits."""
    is_over_columns = hasattr(circuit, "leaf_column")
    return node < (circuit.n_leaves if is_over_columns else 2 * n_vars(circuit))


def leaf_values(circuit, node, rows):
    """What a leaf says of rows."""
    if not hasattr(circuit, "leaf_column"):
        return np.where(rows[:, node // 2] == node % 2, 1.0, 0.0)
    cells = circuit.leaf_first[node] + rows[:, circuit.leaf_column[node]]
    return np.exp(circuit.leaf_log_p[cells, 0])


def reached(circuit):
    """The nodes below the root, itself included, children first."""
    found = set()

    def visit(node):
        if node not in found:
            found.add(node)
            for _, children, _ in edges(circuit, node):
                for child in children:
                    visit(child)

    visit(root(circuit))
    return sorted(found)


# Values


def node_values(circuit, rows):
    """The value of every node for fully observed rows, as numbers, not logs: (n_nodes, n_rows)."""
    rows = np.asarray(rows).astype(int).reshape(-1, n_vars(circuit))
    memo = {}

    def value(node):
        if node not in memo:
            if is_leaf(circuit, node):
                memo[node] = leaf_values(circuit, node, rows)
            else:
                terms = [
                    theta
                    * math.prod((value(child) for child in children), start=np.ones(len(rows)))
                    for _, children, theta in edges(circuit, node)
                ]
                memo[node] = total(terms, len(rows))
        return memo[node]

    return [value(node) for node in range(len(circuit.node_vtree))]


def total(terms, n_rows):
    """The exact sum of arrays, rounded once."""
    if len(terms) < 3:  # plain sums are also rounded once
        return sum(terms, np.zeros(n_rows))
    return np.array([math.fsum(column) for column in np.array(terms).T.tolist()])


def probability(circuit, row):
    if hasattr(circuit, "leaf_column"):
        return probabilities(circuit, [row])[0]
    return float(node_values(circuit, [row])[root(circuit)][0])


def probabilities(circuit, rows=None):
    """The probability of every row, by default of all, in the order of `all_rows`."""
    rows = all_rows(n_vars(circuit)) if rows is None else rows
    if hasattr(circuit, "leaf_column"):
        from column_circuits import state_probabilities

        found = state_probabilities(circuit, np.array(rows))
        return (found * math.exp(circuit.log_total)).tolist()
    return node_values(circuit, rows)[root(circuit)].tolist()


def evaluate_log(circuit, rows):
    """The log-probability of partly observed rows of 0/1 columns, node by node in logs."""
    value = []
    for leaf, place in enumerate(circuit.leaf_column.tolist()):
        zero, one = circuit.leaf_log_p[circuit.leaf_first[leaf] :][:2, 0]
        own = np.array([zero, one, np.logaddexp(zero, one)])
        value.append(own[np.where(np.isnan(rows[:, place]), 2, rows[:, place]).astype(int)])
    for node in range(len(value), len(circuit.node_vtree)):
        terms = [math.log(p) + value[l] + value[r] for _, (l, r), p in edges(circuit, node) if p]
        value.append(functools.reduce(np.logaddexp, terms))
    return value[-1] + circuit.log_total


def log_likelihood(circuit, row):
    return log(probability(circuit, row))


def log_likelihoods(circuit, rows):
    return [log(p) for p in probabilities(circuit, rows)]


def log_marginal(circuit, row):
    """The log-probability of a partly observed row, NaN where unknown."""
    return log(math.fsum(probabilities(circuit, completions(row))))


def log(x):
    return math.log(x) if x > 0 else -math.inf


# Structure


def satisfied(circuit, row):
    """For every node, whether the row satisfies it when parameters are ignored."""
    return [bool(holds[0]) for holds in satisfied_by_rows(circuit, [row])]


def satisfied_by_rows(circuit, rows):
    """The same for several rows: (n_nodes, n_rows)."""
    rows = np.asarray(rows).astype(int).reshape(-1, n_vars(circuit))
    memo = {}

    def holds(node):
        if node not in memo:
            if is_leaf(circuit, node):
                memo[node] = leaf_values(circuit, node, rows) > 0.0
            else:
                held = [held for _, held in held_edges(circuit, node, holds)]
                memo[node] = np.any([np.zeros(len(rows), dtype=bool), *held], axis=0)
        return memo[node]

    return [holds(node) for node in range(len(circuit.node_vtree))]


def held_edges(circuit, node, holds):
    """The edges of a node, each with the rows that satisfy all its children."""
    return [
        (edge, np.all([holds(child) for child in children], axis=0))
        for edge, children, _ in edges(circuit, node)
    ]


def satisfied_edges(circuit, node, row):
    """The edges of one node that the row satisfies."""
    holds = satisfied(circuit, row)
    return [edge for edge, children, _ in edges(circuit, node) if all(holds[c] for c in children)]


def active_edges(circuit, row):
    """The edges of the row's induced tree in a deterministic circuit; none if it has none."""
    return sorted(induced(circuit, row)[0])


def active_cells(circuit, row):
    """The cells of leaves in the row's induced tree."""
    return [
        int(circuit.leaf_first[leaf] + row[circuit.leaf_column[leaf]])
        for leaf in induced(circuit, row)[1]
    ]


def induced(circuit, row):
    """The edges and the leaves of the row's induced tree."""
    holds = satisfied(circuit, row)
    active, leaves = [], []
    todo = [root(circuit)] if holds[root(circuit)] else []
    while todo:
        node = todo.pop()
        leaves += [node] if is_leaf(circuit, node) else []
        for edge, children, _ in edges(circuit, node):
            if all(holds[child] for child in children):
                active.append(edge)
                todo += children
    return active, leaves


def is_deterministic(circuit):
    sums = [node for node in reached(circuit) if not is_leaf(circuit, node)]
    holds = satisfied_by_rows(circuit, all_rows(n_vars(circuit)))
    return all(
        np.sum([held for _, held in held_edges(circuit, node, holds.__getitem__)], axis=0).max() < 2
        for node in sums
    )
