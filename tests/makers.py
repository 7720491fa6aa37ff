"""Random rows, logic, and graphs of sums and products for tests."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from strudel.circuits.sum_product_graph import LITERAL, PRODUCT, SumProductGraph
from strudel.errors import InterruptedWarning
from strudel.learning.options import SEARCHES, SearchOptions
from strudel.logic.formula import AND, OR, Nnf
from strudel.logic.formula import LITERAL as NNF_LITERAL
from strudel.logic.sdd import FALSE, FIRST_LITERAL, TRUE, Sdd


def rows_of_kinds(seed=0, n_rows=300, n_vars=6, n_kinds=4):
    """Rows of several kinds."""
    rng = np.random.default_rng(seed)
    chance = np.random.default_rng(99).beta(0.3, 0.3, size=(n_kinds, n_vars))
    return (rng.random((n_rows, n_vars)) < chance[rng.integers(n_kinds, size=n_rows)]).astype(
        np.uint8
    )


def columns_in_a_chain(n_rows, seed=0):
    """Three columns of three values: the second nearly follows from the first, the third hardly."""
    rng = np.random.default_rng(seed)
    first = rng.integers(3, size=n_rows)
    second = np.where(rng.random(n_rows) < 0.95, first, rng.integers(3, size=n_rows))
    third = np.where(rng.random(n_rows) < 0.3, second, rng.integers(3, size=n_rows))
    return first, second, third


def random_function(n_vars, rng, density=0.5):
    """The set of rows that satisfy a random formula."""
    rows = itertools.product((0, 1), repeat=n_vars)
    return frozenset(row for row in rows if rng.random() < density)


def sdd_of(rows, vtree):
    """The SDD of a set of rows: group the left halves by what they leave for the right ones."""
    scope = [vtree.scope(v) for v in range(vtree.n_nodes)]
    first = FIRST_LITERAL + 2 * vtree.n_vars
    decisions, memo = [], {}

    def build(v, table):
        """`table`: the satisfying value tuples of the variables below `v`, in vtree order."""
        if not table:
            return FALSE
        if len(table) == 2 ** len(scope[v]):
            return TRUE
        if vtree.node_var[v] >= 0:
            ((value,),) = table
            return FIRST_LITERAL + 2 * int(vtree.node_var[v]) + value
        if (v, table) not in memo:
            left, right = int(vtree.node_left[v]), int(vtree.node_right[v])
            cut = len(scope[left])
            by_rest = {}
            for values in itertools.product((0, 1), repeat=cut):
                rest = frozenset(row[cut:] for row in table if row[:cut] == values)
                by_rest.setdefault(rest, set()).add(values)
            elements = [
                (build(left, frozenset(halves)), build(right, rest))
                for rest, halves in sorted(by_rest.items(), key=lambda item: sorted(item[1]))
            ]
            decisions.append((v, elements))
            memo[v, table] = first + len(decisions) - 1
        return memo[v, table]

    order = scope[vtree.n_nodes - 1]
    root = build(vtree.n_nodes - 1, frozenset(tuple(row[var] for var in order) for row in rows))
    return Sdd.from_decisions(vtree, decisions, root)


def nnf_of(rows, n_vars):
    """Decide one variable after another: deterministic and decomposable, with gaps."""
    nodes, decisions, memo = [], [], {}

    def add(node, decision=-1):
        nodes.append(node)
        decisions.append(decision)
        return len(nodes) - 1

    def build(var, table):
        if (var, table) not in memo:
            if not table or len(table) == 2 ** (n_vars - var):
                memo[var, table] = add((AND if table else OR, []))
            else:
                halves = [
                    frozenset(row[1:] for row in table if row[0] == value) for value in (0, 1)
                ]
                if halves[0] == halves[1]:
                    memo[var, table] = build(var + 1, halves[0])
                else:
                    terms = []
                    for value, half in enumerate(halves):
                        if half:
                            below = build(var + 1, half)
                            literal = add((NNF_LITERAL, 2 * var + value))
                            terms.append(add((AND, [literal, below])))
                    memo[var, table] = add((OR, terms), decision=var)
        return memo[var, table]

    root = build(0, frozenset(rows))
    if root != len(nodes) - 1:
        add((AND, [root]))
    return Nnf.from_nodes(nodes, n_vars, decisions)


def graph_value(graph, row):
    """What a graph gives to a row, by its definition."""
    value = []
    for node in range(graph.n_nodes):
        below = [value[child] for child in graph.node_children[node]]
        if graph.node_kind[node] == LITERAL:
            literal = graph.node_literal[node]
            value.append(1.0 if row[literal // 2] == literal % 2 else 0.0)
        elif graph.node_kind[node] == PRODUCT:
            value.append(math.prod(below))
        else:
            weights = graph.node_log_weights[node]
            value.append(math.fsum(math.exp(w) * b for w, b in zip(weights, below, strict=True)))
    return value[-1]


def random_graph(vtree, rng):
    """A smooth graph along a vtree: wide products, sums of sums, swapped factors, shared nodes."""
    graph = SumProductGraph()
    pool = []  # per vtree node: some nodes of the graph over its variables
    for v in range(vtree.n_nodes):
        var = int(vtree.node_var[v])
        if var >= 0:
            here = [graph.add_literal(2 * var), graph.add_literal(2 * var + 1)]
        else:
            here = []
            for _ in range(rng.randint(1, 3)):
                factors = [rng.choice(pool[w]) for w in _cut(vtree, v, rng)]
                rng.shuffle(factors)
                here.append(graph.add_product(factors))
        for _ in range(rng.randint(0, 2)):
            terms = rng.choices(here, k=rng.randint(1, 3))
            weights = [rng.random() + 0.01 for _ in terms]
            total = sum(weights)
            here.append(graph.add_sum(terms, [math.log(w / total) for w in weights]))
        pool.append(here)
    if graph.node_children[pool[-1][-1]] == ():
        pool[-1].append(graph.add_sum([pool[-1][-1]], [0.0]))
    else:
        graph.add_product([pool[-1][-1]])
    return graph


def _cut(vtree, v, rng):
    """Vtree nodes below `v` that hold its variables together, two or more."""
    parts = [int(vtree.node_left[v]), int(vtree.node_right[v])]
    while rng.random() < 0.4:
        inner = [w for w in parts if vtree.node_var[w] < 0]
        if not inner:
            break
        w = rng.choice(inner)
        parts.remove(w)
        parts += [int(vtree.node_left[w]), int(vtree.node_right[w])]
    return parts


def search_options(search="greedy", **options):
    """Options of a search; those that belong to its object go there."""
    kind = SEARCHES.get(search)
    if kind is None:
        return SearchOptions(search=search, **options)
    own = {field.name for field in dataclasses.fields(kind)}
    held = {name: value for name, value in options.items() if name in own}
    rest = {name: value for name, value in options.items() if name not in own}
    return SearchOptions(search=kind(**held), **rest)


def log_density_of_prior(prior, mixture):
    """What the prior adds to the log-likelihood of a mixture, up to a constant.

    The parameters get `strength` virtual rows per sum, the weights one in all.
    """
    is_used = prior.mean > 0.0
    by_column = prior.mean[is_used] @ mixture.edge_log_theta[is_used] if prior.strength else 0.0
    return float(prior.strength * np.sum(by_column) + mixture.log_weight.mean())


def check_interrupted(model, X, V, words, n_times=1):
    """Interrupt a fit when progress says some words for the n-th time: it keeps what it says."""
    seen = []

    def callback(progress):
        seen.append(words in progress.message)
        if sum(seen) == n_times:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning):
        model.fit(X, X_valid=V, callback=callback)
    assert model.history_.stopped_because == "interrupted"
    assert model.chosen_["valid"] == pytest.approx(model.score(V))
