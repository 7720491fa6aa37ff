"""Hypothesis strategies: random 0/1 tables, vtrees, circuits, partly observed rows."""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace

import numba
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from strudel.circuits.builder import assemble, columns_of_values
from strudel.trees.vtree import Vtree

NONE = -1
seeds = st.integers(0, 2**32 - 1)

# Kernels that run as plain Python need few examples: what they compute is checked compiled. More of
# all, to look for mistakes: STRUDEL_EXAMPLES=10 pytest tests/queries
_SHARE = float(os.environ.get("STRUDEL_EXAMPLES", 0.15 if numba.config.DISABLE_JIT else 0.5))


def examples(n, parent=None):
    """Settings with `n` examples, or fewer where time is short."""
    return settings(parent, max_examples=max(5, round(n * _SHARE)))


def binary_tables(max_rows=20, max_vars=6, min_rows=1, min_vars=1):
    """0/1 tables as uint8 arrays."""
    shape = st.tuples(st.integers(min_rows, max_rows), st.integers(min_vars, max_vars))
    return shape.flatmap(lambda shape: npst.arrays(np.uint8, shape, elements=st.integers(0, 1)))


def weights(n_rows):
    """Row weights: zeros, whole numbers and fractions, not all zero."""
    one = st.one_of(st.just(0.0), st.integers(1, 5).map(float), st.floats(0.01, 100.0))
    return st.lists(one, min_size=n_rows, max_size=n_rows).filter(any).map(np.array)


def partly_observed_rows(n_vars):
    """Rows of 0.0, 1.0 and NaN."""
    return st.lists(st.sampled_from([0.0, 1.0, math.nan]), min_size=n_vars, max_size=n_vars)


@st.composite
def vtrees(draw, max_vars=6, min_vars=1):
    """Any shape over any order of the variables."""
    n_vars = draw(st.integers(min_vars, max_vars))
    trees = draw(st.permutations(range(n_vars)))
    while len(trees) > 1:
        i = draw(st.integers(0, len(trees) - 2))
        trees = [*trees[:i], (trees[i], trees[i + 1]), *trees[i + 2 :]]
    return Vtree.from_nested(trees[0])


@st.composite
def circuits(draw, max_vars=6, deterministic=True, min_vars=1):
    """Circuits over bits: with shared nodes, sums with one edge, and zero parameters."""
    vtree = draw(vtrees(max_vars, min_vars))
    make = (
        draw(st.sampled_from([split_circuit, partition_circuit])) if deterministic else sum_circuit
    )
    return make(vtree, random.Random(draw(seeds)), size=draw(st.integers(1, 4)))


@st.composite
def circuit_pairs(draw, max_vars=6, p_deterministic=True, q_deterministic=True):
    """Two circuits on one vtree; sometimes one, or one with other parameters."""
    vtree = draw(vtrees(max_vars))
    rng = random.Random(draw(seeds))

    def make(deterministic):
        kind = draw(st.sampled_from([split_circuit, partition_circuit]))
        return (kind if deterministic else sum_circuit)(vtree, rng, draw(st.integers(1, 4)))

    p = make(p_deterministic)
    kind = draw(st.sampled_from(["other", "other", "other", "same", "parameters"]))
    if kind == "other" or p_deterministic != q_deterministic:
        return p, make(q_deterministic)
    other = random_mixture(p, 1, np.random.default_rng(rng.randrange(2**32)))
    return p, p if kind == "same" else other


@st.composite
def mixtures(draw, max_vars=6, deterministic=True, min_vars=1):
    """One to five components on one circuit."""
    circuit = draw(circuits(max_vars, deterministic, min_vars))
    return random_mixture(circuit, draw(st.integers(1, 5)), np.random.default_rng(draw(seeds)))


def random_mixture(circuit, k, rng):
    """`k` components with random parameters (a tenth of them zero) and random weights."""

    def shares(logs, first):
        is_open = logs[:, 0] > -np.inf
        owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
        theta = (rng.gamma(1.0, size=(len(logs), k)) + 1e-3) * is_open[:, np.newaxis]
        is_first = np.zeros(len(logs), dtype=bool)  # of the open ones of each owner
        is_first[np.flatnonzero(is_open)[np.unique(owner[is_open], return_index=True)[1]]] = True
        theta[(rng.random(theta.shape) < 0.1) & ~is_first[:, np.newaxis]] = 0.0
        total = np.zeros((len(first) - 1, k))
        np.add.at(total, owner, theta)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(theta > 0.0, np.log(theta / total[owner]), -np.inf)

    return replace(
        circuit,
        leaf_log_p=shares(circuit.leaf_log_p, circuit.leaf_first),
        edge_log_theta=shares(circuit.edge_log_theta, circuit.sum_edges),
        log_weight=np.log(rng.dirichlet(np.ones(k))),
    )


def mixed(parts, weights=None):
    """Circuits of one structure as the components of one, with these weights or even ones."""
    weights = np.full(len(parts), 1.0 / len(parts)) if weights is None else np.asarray(weights)
    with np.errstate(divide="ignore"):
        return replace(
            parts[0],
            leaf_log_p=np.hstack([own.leaf_log_p for own in parts]),
            edge_log_theta=np.hstack([own.edge_log_theta for own in parts]),
            log_weight=np.log(weights / weights.sum()),
        )


# Makers. Each takes a vtree and a random.Random; also used without Hypothesis, for large circuits.


class Nodes:
    """Nodes and edges in the order they are made."""

    def __init__(self, vtree, rng):
        self.vtree, self.rng = vtree, rng
        self.node_vtree = [int(leaf) for leaf in vtree.var_leaf for _ in range(2)]
        self.node_edges = [[] for _ in self.node_vtree]  # pairs of children

    def add(self, v, edges):
        self.node_vtree.append(v)
        self.node_edges.append(list(edges))
        return len(self.node_vtree) - 1

    def build(self, root, zeros=0.1):
        edges = [
            (n, left, right) for n, pairs in enumerate(self.node_edges) for left, right in pairs
        ]
        parent, left, right = (
            np.array(column, dtype=np.int32) for column in zip(*edges, strict=True)
        )
        return assemble(
            columns_of_values([2] * self.vtree.n_vars),
            self.vtree,
            np.array(self.node_vtree, dtype=np.int32),
            edge_parent=parent,
            edge_left=left,
            edge_right=right,
            edge_log_theta=self._parameters(zeros)[:, np.newaxis],
            root=root,
        )

    def _parameters(self, zeros):
        log_theta = []
        for pairs in self.node_edges:
            theta = [self.rng.random() * (self.rng.random() >= zeros) for _ in pairs]
            if pairs and not any(theta):
                theta[0] = 1.0
            log_theta += [math.log(x / sum(theta)) if x else -math.inf for x in theta]
        return np.array(log_theta)


def sum_circuit(vtree, rng, size=3):
    """Random sums of random products: deterministic only by luck."""
    nodes = Nodes(vtree, rng)
    pool = []
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] != NONE:
            zero = 2 * int(vtree.node_var[v])
            literals = [(zero, NONE), (zero + 1, NONE)]
            pool.append([zero, zero + 1, nodes.add(v, literals)])
            pool[v].append(nodes.add(v, rng.choices(literals, k=rng.randint(1, 2))))
        else:
            left, right = pool[vtree.node_left[v]], pool[vtree.node_right[v]]
            pairs = [(a, b) for a in left for b in right]
            pool.append(
                [nodes.add(v, rng.choices(pairs, k=rng.randint(1, size))) for _ in range(size)]
            )
    choices = pool[-1] if vtree.n_nodes > 1 else pool[-1][2:]
    return nodes.build(rng.choice(choices))


def partition_circuit(vtree, rng, size=3):
    """Sums whose products exclude each other, often by no single variable (as in an SDD)."""
    nodes = Nodes(vtree, rng)
    partitions = []  # per vtree node, some lists of nodes that exclude each other
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] != NONE:
            zero = 2 * int(vtree.node_var[v])
            both = nodes.add(v, [(zero + 1, NONE), (zero, NONE)])
            alone = nodes.add(v, [(zero, NONE)])
            partitions.append([[zero, zero + 1], [both], [alone, zero + 1]])
            continue
        here = []
        for _ in range(size):
            products = []
            for prime in rng.choice(partitions[vtree.node_left[v]]):
                for sub in rng.choice(partitions[vtree.node_right[v]]):
                    products.append((prime, sub))
            rng.shuffle(products)
            n_parts = rng.randint(1, min(3, len(products)))
            parts = [products[i::n_parts] for i in range(n_parts)]
            if rng.random() < 0.3:
                parts[0] = parts[0][:1]
            here.append([nodes.add(v, part) for part in parts])
        partitions.append(here)
    last = [node for part in partitions[-1] for node in part if node >= 2 * vtree.n_vars]
    return nodes.build(rng.choice(last))


def split_circuit(vtree, rng, size=3):
    """Independent variables after `3 * size` splits of random edges on random variables."""
    nodes = Nodes(vtree, rng)
    pool = []
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] != NONE:
            zero = 2 * int(vtree.node_var[v])
            pool.append(nodes.add(v, [(zero + 1, NONE), (zero, NONE)]))
        else:
            pool.append(nodes.add(v, [(pool[vtree.node_left[v]], pool[vtree.node_right[v]])]))
    root = pool[-1]
    for _ in range(3 * size):
        node = root  # walk down to some sum at an inner vtree node
        while rng.random() < 0.5:
            child = rng.choice(rng.choice(nodes.node_edges[node]))
            if child == NONE or vtree.node_var[nodes.node_vtree[child]] != NONE:
                break
            node = child
        if vtree.node_var[nodes.node_vtree[node]] == NONE:
            scope = vtree.scope(nodes.node_vtree[node])
            split(nodes, node, rng.randrange(len(nodes.node_edges[node])), rng.choice(scope))
    return nodes.build(root)


def split(nodes, node, i, var):
    """Replace edge `i` of a sum by one edge per value of `var`, copying only what depends on it."""
    vtree = nodes.vtree
    path = {int(vtree.var_leaf[var])}
    while (up := int(vtree.node_parent[max(path)])) != NONE:
        path.add(up)
    pair = nodes.node_edges[node][i]
    copies = [_condition_pair(nodes, pair, var, value, path, {}) for value in (1, 0)]
    nodes.node_edges[node][i : i + 1] = [copy for copy in copies if copy is not None]


def _condition_pair(nodes, pair, var, value, path, memo):
    """The pair with `var` fixed on its side, or None if that is impossible."""
    fixed = []
    for child in pair:
        if child != NONE and nodes.node_vtree[child] in path:
            child = _condition(nodes, child, var, value, path, memo)
            if child is None:
                return None
        fixed.append(child)
    return tuple(fixed)


def _condition(nodes, node, var, value, path, memo):
    if node < 2 * nodes.vtree.n_vars:
        return node if node == 2 * var + value else None
    if node not in memo:
        old = nodes.node_edges[node]
        new = [_condition_pair(nodes, pair, var, value, path, memo) for pair in old]
        kept = [pair for pair in new if pair is not None]
        if len(kept) == 0:
            memo[node] = None
        elif kept == old:  # already decided
            memo[node] = node
        else:
            memo[node] = nodes.add(nodes.node_vtree[node], kept)
    return memo[node]
