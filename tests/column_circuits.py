"""Random circuits over columns, and what they say by plain recursion."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
from hypothesis import strategies as st

from strategies import circuits, mixtures, random_mixture, seeds, vtrees
from strudel.circuits.circuit import Circuit
from strudel.circuits.predictor import PredictorCircuit, even_structure
from strudel.learning.bits.fold import folded, unfold
from strudel.queries.given import circuit_of
from strudel.tables.column import Column, bit_column
from strudel.tables.density import Density, Pieces
from strudel.tables.learn_code import code_of_columns
from strudel.tables.schema import Columns

NONE = -1


def number_column(name, rng, n_cells):
    """A column of any numbers, even between 0 and 10, with tails."""
    edges = sorted(rng.sample([1.0, 2.0, 3.5, 5.0, 7.5, 9.0], n_cells - 1))
    pieces = Pieces(np.array([0.0, 10.0]), np.array([0.05, 0.9, 0.05]), (1.0, 1.0))
    density = Density(np.zeros(0), np.zeros(0), (pieces,), (-1.0, 11.0))
    ends = [-1.0, *edges, 11.0]
    ranges = tuple(itertools.pairwise(ends))
    values = tuple((low + high) / 2.0 for low, high in ranges)
    labels = tuple(map(str, range(n_cells)))
    counts = (5,) * n_cells
    return Column(
        name, "number", labels, values, tuple(edges), ranges, counts, "float", density=density
    )


def category_column(name, n_cells):
    """A column of n words."""
    labels = tuple("abcdef"[:n_cells])
    return Column(name, "category", labels, labels, counts=(5,) * n_cells, dtype="text")


@st.composite
def column_circuits(draw, max_columns=4, n_components=None):
    """Circuits over bits, categories and numbers, normalised, some parameters zero."""
    vtree = draw(vtrees(max_columns))
    rng = random.Random(draw(seeds))
    k = n_components or draw(st.sampled_from([1, 2, 5, 9]))
    kinds = draw(st.lists(st.sampled_from("bcn"), min_size=vtree.n_vars, max_size=vtree.n_vars))
    columns = []
    for place, kind in enumerate(kinds):
        name, n_cells = f"x{place}", rng.randint(2, 4)
        if kind == "b":
            columns.append(bit_column(name))
        elif kind == "c":
            columns.append(category_column(name, n_cells))
        else:
            columns.append(number_column(name, rng, n_cells))
    return random_circuit(Columns(tuple(columns), "pandas"), vtree, rng, k)


def random_circuit(columns, vtree, rng, k):
    """A circuit on a vtree with up to three nodes at each of its nodes."""

    def shares(n):
        weights = [[rng.choice([0.0, rng.random() + 0.1]) for _ in range(k)] for _ in range(n)]
        weights[rng.randrange(n)] = [rng.random() + 0.1 for _ in range(k)]
        weights = np.array(weights)
        with np.errstate(divide="ignore"):
            return np.log(weights / weights.sum(axis=0))

    nodes, leaf_column, leaf_log_p = {}, [], []
    for place in range(len(columns)):
        nodes[int(vtree.var_leaf[place])] = own = []
        for _ in range(1 if vtree.n_vars == 1 else rng.randint(1, 3)):
            own.append(len(leaf_column))
            leaf_column.append(place)
            leaf_log_p.append(shares(columns[place].n_cells))
    sum_vtree, sum_edges, left, right, log_theta = [], [0], [], [], []
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] != NONE:
            continue
        pairs = list(
            itertools.product(nodes[int(vtree.node_left[v])], nodes[int(vtree.node_right[v])])
        )
        nodes[v] = []
        for _ in range(1 if v == vtree.root else rng.randint(1, 3)):
            own = rng.sample(pairs, rng.randint(1, min(3, len(pairs))))
            nodes[v].append(len(leaf_column) + len(sum_vtree))
            sum_vtree.append(v)
            left += [pair[0] for pair in own]
            right += [pair[1] for pair in own]
            sum_edges.append(len(left))
            log_theta.append(shares(len(own)))
    weight = np.array([rng.random() + 0.1 for _ in range(k)])
    return Circuit(
        columns,
        vtree,
        np.array(leaf_column),
        np.concatenate(leaf_log_p),
        np.array(sum_vtree, dtype=np.int32),
        np.array(sum_edges),
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
        np.concatenate([np.zeros((0, k)), *log_theta]),
        np.log(weight / weight.sum()),
    )


def states_of(columns):
    """All combinations of cells."""
    return list(itertools.product(*(range(column.n_cells) for column in columns)))


def probability_of(circuit, cells):
    """The probability of some cells, None for each column that may have any."""
    return float(
        joint_of(circuit)[tuple(slice(None) if c is None else int(c) for c in cells)].sum()
    )


def mixture_of(circuit):
    """The components over the bits of a learner."""
    return unfold(circuit, None if circuit.columns.are_bits else code_of_columns(circuit.columns))


def as_bits(circuit):
    """A circuit of one component over the bits of a learner."""
    return mixture_of(circuit).component(0)


def bit_circuits(*args, **options):
    """Circuits over the bits of a learner."""
    return circuits(*args, **options).map(as_bits)


def bit_mixtures(*args, **options):
    """Mixtures over the bits of a learner."""
    return mixtures(*args, **options).map(mixture_of)


def components_of(mixture):
    """The components of a learner's mixture."""
    return [mixture.component(c) for c in range(mixture.n_components)]


def random_bit_mixture(structure, k, rng):
    """`k` components with random parameters on a learner's structure."""
    return mixture_of(random_mixture(folded(structure), k, rng))


def joint_of(circuit):
    """The probability of every combination of cells, one axis per column."""
    found = state_probabilities(circuit, np.array(states_of(circuit.columns)))
    return found.reshape([column.n_cells for column in circuit.columns])


def state_probabilities(circuit, cells):
    """The probability of some combinations of cells, node by node."""
    total = np.zeros(len(cells))
    for c in range(circuit.n_components):
        value = []
        for leaf, place in enumerate(circuit.leaf_column.tolist()):
            value.append(np.exp(circuit.leaf_log_p[circuit.leaf_first[leaf] + cells[:, place], c]))
        for s in range(len(circuit.sum_vtree)):
            edges = range(circuit.sum_edges[s], circuit.sum_edges[s + 1])
            terms = [
                math.exp(circuit.edge_log_theta[e, c])
                * value[circuit.edge_left[e]]
                * value[circuit.edge_right[e]]
                for e in edges
            ]
            value.append(sum(terms))
        total += math.exp(circuit.log_weight[c]) * value[-1]
    return total


def table_of(model):
    """What a model says of every combination of cells, one axis per column; it need not add up."""
    circuit = circuit_of(model)
    return joint_of(circuit) * math.exp(circuit.log_total)


@st.composite
def some_given(draw, columns):
    """Sets and intervals of some columns, and what they leave of the table of all states."""
    given, weights = {}, np.ones([column.n_cells for column in columns])
    for place, column in enumerate(columns):
        last = draw(st.integers(1, column.n_cells))
        first = draw(st.integers(0, last - 1))
        if draw(st.booleans()):
            continue
        ends = [None, *column.edges, None]
        is_number = column.is_numeric
        given[column.name] = (ends[first], ends[last]) if is_number else column.values[first:last]
        if not is_number:
            given[column.name] = list(given[column.name])
        cells = np.zeros(column.n_cells)
        cells[first:last] = 1.0
        weights *= cells.reshape([-1 if at == place else 1 for at in range(len(columns))])
    return given, weights


def lines_taken_by(circuit, cells):
    """The edges and cells of leaves that a row takes, by plain recursion; none if impossible."""

    def below(node):
        if node < circuit.n_leaves:
            at = circuit.leaf_first[node] + cells[circuit.leaf_column[node]]
            possible = circuit.leaf_log_p[at].max() > -np.inf
            return ([], [int(at)]) if possible else None
        for e in range(circuit.node_edges[node], circuit.node_edges[node + 1]):
            ways = below(circuit.edge_left[e]), below(circuit.edge_right[e])
            if None not in ways:
                return [e, *ways[0][0], *ways[1][0]], ways[0][1] + ways[1][1]
        return None

    return below(circuit.root) or ([], [])


def random_predictor(model, rng, n_outputs=1, kind="regression"):
    """A predictor with any weights on the structure of a model."""
    structure, rng = even_structure(circuit_of(model)), np.random.default_rng(rng)
    return PredictorCircuit(
        structure,
        rng.normal(size=(len(structure.leaf_log_p), n_outputs)),
        rng.normal(size=(structure.n_edges, n_outputs)),
        rng.normal(size=n_outputs),
        kind,
    )


def deterministic_circuit(columns, vtree, rng, k=1):
    """A circuit on a vtree in which no two nodes at one vtree node have a row in common."""

    def groups(items, v):
        """Some of the items, in up to three groups; at the root in one."""
        items = rng.sample(items, rng.randint(1, len(items)))
        n_ends = 0 if v == vtree.root else min(len(items) - 1, rng.randint(0, 2))
        ends = sorted(rng.sample(range(1, len(items)), n_ends))
        return [items[a:b] for a, b in itertools.pairwise([0, *ends, len(items)])]

    def shares(n):
        weights = np.array([[rng.random() + 0.1 for _ in range(k)] for _ in range(n)])
        return np.log(weights / weights.sum(axis=0))

    nodes, leaf_column, leaf_log_p = {}, [], []
    for place, column in enumerate(columns):
        v = int(vtree.var_leaf[place])
        own = groups(range(column.n_cells), v)
        nodes[v] = len(leaf_column) + np.arange(len(own))
        for cells in own:
            leaf_column.append(place)
            leaf_log_p.append(np.full((column.n_cells, k), -np.inf))
            leaf_log_p[-1][cells] = shares(len(cells))
    sum_vtree, sum_edges, edges, log_theta = [], [0], [], []
    for v in np.flatnonzero(vtree.node_var == NONE).tolist():
        pairs = itertools.product(nodes[int(vtree.node_left[v])], nodes[int(vtree.node_right[v])])
        own = groups(list(pairs), v)
        nodes[v] = len(leaf_column) + len(sum_vtree) + np.arange(len(own))
        for group in own:
            sum_vtree.append(v)
            edges += group
            sum_edges.append(len(edges))
            log_theta.append(shares(len(group)))
    weight = np.array([rng.random() + 0.1 for _ in range(k)])
    left, right = np.array(edges, dtype=np.int32).reshape(-1, 2).T
    return Circuit(
        columns,
        vtree,
        np.array(leaf_column),
        np.concatenate(leaf_log_p),
        np.array(sum_vtree, dtype=np.int32),
        np.array(sum_edges),
        left,
        right,
        np.concatenate([np.zeros((0, k)), *log_theta]),
        np.log(weight / weight.sum()),
    )
