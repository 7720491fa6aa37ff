"""Brute force by enumeration: slow, obvious, no code of the library, only the `Circuit` arrays."""

from __future__ import annotations

import itertools
import math


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
    start, stop = int(circuit.node_edges[node]), int(circuit.node_edges[node + 1])
    for edge in range(start, stop):
        children = [int(circuit.edge_left[edge]), int(circuit.edge_right[edge])]
        theta = math.exp(circuit.edge_log_theta[edge])
        yield edge, [child for child in children if child >= 0], theta


def root(circuit):
    return len(circuit.node_vtree) - 1


def n_vars(circuit):
    return sum(1 for var in circuit.vtree.node_var if var >= 0)


def is_literal(circuit, node):
    return node < 2 * n_vars(circuit)


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


def node_values(circuit, row):
    """The value of every node for a fully observed row, as numbers, not logs."""
    memo = {}

    def value(node):
        if node not in memo:
            if is_literal(circuit, node):
                memo[node] = 1.0 if int(row[node // 2]) == node % 2 else 0.0
            else:
                memo[node] = math.fsum(
                    theta * math.prod(value(child) for child in children)
                    for _, children, theta in edges(circuit, node)
                )
        return memo[node]

    return [value(node) for node in range(len(circuit.node_vtree))]


def probability(circuit, row):
    return node_values(circuit, row)[root(circuit)]


def probabilities(circuit):
    """The probability of every row, in the order of `all_rows`."""
    return [probability(circuit, row) for row in all_rows(n_vars(circuit))]


def log_likelihood(circuit, row):
    return log(probability(circuit, row))


def log_marginal(circuit, row):
    """The log-probability of a partly observed row, NaN where unknown."""
    return log(math.fsum(probability(circuit, full) for full in completions(row)))


def log(x):
    return math.log(x) if x > 0 else -math.inf


# Structure


def satisfied(circuit, row):
    """For every node, whether the row satisfies it when parameters are ignored."""
    memo = {}

    def holds(node):
        if node not in memo:
            if is_literal(circuit, node):
                memo[node] = int(row[node // 2]) == node % 2
            else:
                memo[node] = any(
                    all(holds(child) for child in children)
                    for _, children, _ in edges(circuit, node)
                )
        return memo[node]

    return [holds(node) for node in range(len(circuit.node_vtree))]


def satisfied_edges(circuit, node, row):
    """The edges of one node that the row satisfies."""
    holds = satisfied(circuit, row)
    return [edge for edge, children, _ in edges(circuit, node) if all(holds[c] for c in children)]


def active_edges(circuit, row):
    """The edges of the row's induced tree in a deterministic circuit; none if it has none."""
    holds = satisfied(circuit, row)
    active = []
    todo = [root(circuit)] if holds[root(circuit)] else []
    while todo:
        for edge, children, _ in edges(circuit, todo.pop()):
            if all(holds[child] for child in children):
                active.append(edge)
                todo += children
    return sorted(active)


def scopes(circuit):
    """The set of variables below every node."""
    memo = {}

    def scope(node):
        if node not in memo:
            if is_literal(circuit, node):
                memo[node] = {node // 2}
            else:
                memo[node] = set().union(
                    *(scope(child) for _, children, _ in edges(circuit, node) for child in children)
                )
        return memo[node]

    return [scope(node) for node in range(len(circuit.node_vtree))]


def products(circuit):
    """The scopes of the two children of every product with two children below the root."""
    scope = scopes(circuit)
    for node in reached(circuit):
        for _, children, _ in edges(circuit, node):
            if len(children) == 2:
                yield scope[children[0]], scope[children[1]]


def is_smooth(circuit):
    scope = scopes(circuit)
    for node in reached(circuit):
        for _, children, _ in edges(circuit, node):
            if set().union(*(scope[child] for child in children)) != scope[node]:
                return False
    return scope[root(circuit)] == set(range(n_vars(circuit)))


def is_decomposable(circuit):
    return all(not left & right for left, right in products(circuit))


def vtree_sides(vtree):
    """The variables on the left and on the right of every inner vtree node."""
    below = []
    for left, right, var in zip(vtree.node_left, vtree.node_right, vtree.node_var, strict=True):
        below.append({int(var)} if var >= 0 else below[left] | below[right])
        if var < 0:
            yield below[left], below[right]


def is_structured_decomposable(circuit, vtree=None):
    sides = list(vtree_sides(circuit.vtree if vtree is None else vtree))
    return all(
        any((a <= left and b <= right) or (a <= right and b <= left) for left, right in sides)
        for a, b in products(circuit)
    )


def is_deterministic(circuit):
    sums = [node for node in reached(circuit) if not is_literal(circuit, node)]
    for row in all_rows(n_vars(circuit)):
        holds = satisfied(circuit, row)
        for node in sums:
            if sum(all(holds[c] for c in children) for _, children, _ in edges(circuit, node)) > 1:
                return False
    return True
