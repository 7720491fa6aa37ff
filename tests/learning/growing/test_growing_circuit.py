"""The incremental learner equals, split for split, the plain one that recomputes every flow."""

import random
from dataclasses import replace

import numpy as np
import pytest

import plain_learner as plain
from makers import random_function, sdd_of
from strudel.circuits import why_not_deterministic
from strudel.data.bits import merge_equal_rows, pack_columns
from strudel.learning.bits.compile import bits_of_tree, independent_bits
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.fold import folded, unfold
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import N_EDGES, undecided_places
from strudel.learning.search.greedy import VariablePicker, pick_edge
from strudel.logic.satisfying_rows import uniform_circuit
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.vtree import random_vtree, vtree_from_chow_liu

N_SPLITS = 12


def compiled(value):
    """A value that is tried with the compiler only."""
    return pytest.param(value, marks=pytest.mark.compiled)


def table(rng, n_rows, n_vars):
    """Rows with clusters, a constant column and two equal ones."""
    centre = rng.random((3, n_vars))
    X = (rng.random((n_rows, n_vars)) < centre[rng.integers(3, size=n_rows)]).astype(np.uint8)
    X[:, 1] = X[:, 0]
    X[:, 2] = 0
    return X


def first_circuit(init, X, weight, rng):
    tree = learn_chow_liu_tree(X, sample_weight=weight)
    if init == "independent":
        return independent_bits(random_vtree(X.shape[1], rng))
    return bits_of_tree(tree, vtree_from_chow_liu(tree))


@pytest.mark.parametrize("tie_rule", ["root_first", "depth_first"])
@pytest.mark.parametrize("weights", [*map(compiled, ["none", "whole", "merged"]), "real"])
@pytest.mark.parametrize("init", ["chow_liu", "independent"])
@pytest.mark.parametrize("copy_depth", [1, 3, compiled(4)])
@pytest.mark.parametrize("scores", ["informed", "random"])
def test_every_split_equals_the_plain_learner(scores, copy_depth, init, weights, tie_rule):
    rng = np.random.default_rng(5)
    X, V = table(rng, 60, 7), table(rng, 25, 7)
    weight = np.ones(len(X))
    if weights == "whole":
        weight = rng.integers(0, 4, len(X)).astype(float)
    elif weights == "real":
        weight = rng.random(len(X))
    train, valid = pack_columns(X, None if weights == "none" else weight), pack_columns(V)
    if weights == "merged":
        train, _ = merge_equal_rows(train)
    X, weight = train.unpack(), train.weights  # weights rounded so that every sum is exact
    circuit = first_circuit(init, X, weight, rng)
    follow(circuit, train, valid, scores, copy_depth, tie_rule, N_SPLITS)


def test_a_learned_circuit_is_known_to_be_deterministic(learned_circuits_are_trusted):
    rows = pack_columns(np.random.default_rng(0).integers(0, 2, (100, 6)))
    tree = learn_chow_liu_tree(rows)
    first = bits_of_tree(tree, vtree_from_chow_liu(tree))
    growing = GrowingCircuit(first, rows, rows)
    edge = int(growing.candidates()[0])
    growing.split(edge, int(undecided_places(growing.growth, edge)[0]))
    assert growing.snapshot().is_known_deterministic
    unknown = GrowingCircuit(replace(first), rows, rows)
    assert not unknown.snapshot().is_known_deterministic


@pytest.mark.parametrize("copy_depth", [1, 3])
@pytest.mark.parametrize("scores", ["informed", "random"])
@pytest.mark.parametrize("seed", [0, *map(compiled, range(1, 4))])
def test_from_the_circuit_of_a_constraint(seed, scores, copy_depth):
    rng = np.random.default_rng(seed)
    X, V = table(rng, 40, 6), table(rng, 15, 6)
    others = random_function(6, random.Random(seed), [0.0, 0.1, 0.4, 0.9][seed])
    allowed = others | {tuple(row) for row in np.vstack([X, V]).tolist()}
    circuit = unfold(uniform_circuit(sdd_of(allowed, random_vtree(6, rng))), None).component(0)
    follow(circuit, pack_columns(X), pack_columns(V), scores, copy_depth, "root_first", 20)


@pytest.mark.parametrize("copy_depth", [1, 3])
@pytest.mark.parametrize("init", ["chow_liu", "independent"])
def test_more_variables_than_bits_in_a_word(init, copy_depth):
    rng = np.random.default_rng(1)
    X, V = table(rng, 40, 70), table(rng, 10, 70)
    circuit = first_circuit(init, X, None, rng)
    follow(circuit, pack_columns(X), pack_columns(V), "informed", copy_depth, "root_first", 4)


@pytest.mark.compiled
@pytest.mark.parametrize("tie_rule", ["root_first", "depth_first"])
@pytest.mark.parametrize("seed", range(4))
def test_to_the_end_when_edges_without_rows_are_split(seed, tie_rule):
    rng = np.random.default_rng(seed)
    X = table(rng, 4, 5)
    circuit = first_circuit("chow_liu", X, None, rng)
    end = follow(circuit, pack_columns(X), pack_columns(X), "informed", 1, tie_rule, 10**6)
    assert not end.growth.edge["train"][end.candidates()].any()


def follow(circuit, train, valid, scores, copy_depth, tie_rule, n_splits):
    """Split both learners side by side, comparing everything after every split."""
    X, weight, V = train.unpack(), train.weights, valid.unpack()
    rng = np.random.default_rng(0)
    depth = circuit.vtree.node_depth

    growing = GrowingCircuit(circuit, train, valid, pseudocount=1.0, copy_depth=copy_depth, room=1)
    picker = VariablePicker(growing, "mutual_information" if scores == "informed" else "random")
    root = plain.from_circuit(circuit)[-1]
    for _ in range(n_splits):
        found = plain.candidates(root, X, weight)
        edge = pick_edge(growing, "flow" if scores == "informed" else "random", rng, tie_rule)
        if edge is None:
            assert not found
            break
        place = picker.pick(edge, rng)
        var = int(growing.vtree.order[place])
        node, position, count, rows, variables = matching(growing, edge, found, root)
        assert var in variables
        if scores == "informed":
            most = max(f[2] for f in found)
            assert count == most
            tied = [f for f in found if f[2] == most]
            if tie_rule == "depth_first":
                assert tied[0][0] is node
                assert tied[0][1] == position
            else:
                assert depth[node.vtree] == min(depth[f[0].vtree] for f in tied)
            sums = plain.information_sums(X[rows], weight[rows], variables)
            assert var == variables[np.flatnonzero(sums >= sums.max() - 1e-10)[0]]

        growing.split(edge, place)
        plain.split(node, position, var, copy_depth // 2)

        assert growing.rows_moved == rows.sum()
        copy = plain.from_circuit(growing.snapshot())[-1]
        assert plain.canonical(copy, X, weight) == plain.canonical(root, X, weight)
        assert growing.n_edges == plain.size(root)[2]
        expected = plain.log_likelihood(root, X, weight, V, np.ones(len(V)), 1.0)
        assert growing.train_log_likelihood == pytest.approx(expected[0], rel=1e-12)
        assert growing.valid_log_likelihood == pytest.approx(expected[1], rel=1e-12)
        assert_flows_and_properties(growing, train, valid)
    return growing


def edges_of_snapshot(growing):
    """The growing circuit's edges in the order of its snapshot: by sum, newest first."""
    g = growing.growth
    edges = np.flatnonzero(g.edge["death"][: g.size[N_EDGES]] > growing.n_splits)
    parent = g.edge["parent"][edges]
    return edges[np.lexsort((edges, -g.edge["birth"][edges], parent, g.node["vtree"][parent]))]


def matching(growing, edge, found, root):
    """The plain candidate that is the same edge: equal circuits have it in the same place."""
    circuit = growing.snapshot()
    place = int(np.flatnonzero(edges_of_snapshot(growing) == edge)[0])
    n = circuit.edge_parent[place]
    nodes = plain.from_circuit(circuit)
    order = next(i for i, node in enumerate(plain.post_order(nodes[-1])) if node is nodes[n])
    node, position = plain.post_order(root)[order], place - circuit.node_edges[n]
    return next(f for f in found if f[0] is node and f[1] == position)


def assert_flows_and_properties(growing, train, valid):
    g, circuit = growing.growth, growing.snapshot()
    edges = edges_of_snapshot(growing)
    assert np.array_equal(g.edge["train"][edges], compute_flows(circuit, train).edge_count)
    assert np.array_equal(g.edge["valid"][edges], compute_flows(circuit, valid).edge_count)
    assert why_not_deterministic(folded(circuit)) is None
