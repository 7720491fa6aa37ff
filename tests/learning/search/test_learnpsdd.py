"""LearnPSDD: what a score says is what the operation does, and the best one is carried out."""

import copy
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from makers import search_options
from strategies import binary_tables
from strudel import Strudel, load_dataset, log_likelihood
from strudel.circuits import why_not_deterministic
from strudel.data.bits import pack_columns
from strudel.learning.bits.compile import bits_of_tree, independent_bits
from strudel.learning.bits.fold import folded
from strudel.learning.bits.likelihood import rows_log_likelihood
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation, apply
from strudel.learning.growing.growth import ALIVE, N_EDGES, N_NODES
from strudel.learning.options import SearchOptions
from strudel.learning.parameters import closed_form
from strudel.learning.search.learn_structure import learn_structure
from strudel.learning.search.learnpsdd import LearnPsddSearch, split_gains
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.vtree import random_vtree, vtree_from_chow_liu

COPIES = ["minimal", "depth", "complete"]
DEPTHS = [("minimal", 0), ("depth", 1), ("depth", 2), ("complete", 0)]


def clusters(seed, n_rows=120, n_vars=6, n_centres=4):
    rng = np.random.default_rng(seed)
    centre = rng.random((n_centres, n_vars))
    chosen = centre[rng.integers(n_centres, size=n_rows)]
    return (rng.random((n_rows, n_vars)) < chosen).astype(np.uint8)


def options(copies="depth", levels=1, **others):
    return search_options(search="learnpsdd", copies=copies, copy_levels=levels, **others)


def growing_circuit(X, seed, weight=None, init="independent"):
    """The first circuit on a random vtree, or the Chow-Liu tree; no virtual rows."""
    vtree = random_vtree(X.shape[1], np.random.default_rng(seed))
    circuit = independent_bits(vtree)
    if init == "chow_liu":
        tree = learn_chow_liu_tree(X)
        circuit = bits_of_tree(tree, vtree_from_chow_liu(tree))
    return GrowingCircuit(circuit, pack_columns(X, weight), pack_columns(X[:9]), pseudocount=0.0)


def search_of(growing, search):
    return LearnPsddSearch(growing, search.search)


def clone_of(steps, n):
    return steps._clone(n, steps.node_edges[n])


def living_edges(growing):
    g = growing.growth
    return [e for e in range(int(g.size[N_EDGES])) if g.edge["death"][e] == ALIVE]


def parents_of(growing, n):
    """The living edges that lead to a node."""
    g = growing.growth
    return [e for e in living_edges(growing) if n in (g.edge["left"][e], g.edge["right"][e])]


def total_log_likelihood(growing, X, weight):
    """Of the circuit as it stands, with parameters fitted from scratch."""
    circuit = closed_form(growing.snapshot(), X, sample_weight=weight, pseudocount=0.0)
    return float((rows_log_likelihood(circuit, X) * weight).sum()), circuit.n_edges


def change(growing, operation, X, weight):
    """What an operation does to likelihood and size, seen on a copy of the circuit."""
    other = copy.deepcopy(growing)
    before = total_log_likelihood(other, X, weight)
    apply(other, operation)
    after = total_log_likelihood(other, X, weight)
    assert other.n_edges == after[1]
    assert other.train_log_likelihood * weight.sum() == pytest.approx(after[0], abs=1e-7)
    return after[0] - before[0], after[1] - before[1]


def take_random_steps(growing, search, n_steps, rng):
    """Some operations, good or bad."""
    for _ in range(n_steps):
        steps = search_of(growing, search)
        edges = np.flatnonzero(steps.edge_score > -np.inf)
        nodes = np.flatnonzero(steps.node_score > -np.inf)
        if len(nodes) and (rng.random() < 0.5 or not len(edges)):
            apply(growing, clone_of(steps, int(rng.choice(nodes))))
        elif len(edges):
            edge = int(rng.choice(edges))
            places, _, _ = scores_of_splits(steps, edge)
            apply(growing, split_of(steps, edge, rng.choice(places)))


def split_of(steps, edge, place):
    return Operation(edge, place=int(place), n_levels=steps.n_levels)


def scores_of_splits(steps, edge):
    g, s = steps.growing.growth, steps
    return split_gains(g, edge, s.both_sides, s.n_levels, s.table, s.local, s.rows)


@pytest.mark.compiled
@pytest.mark.parametrize("weights", ["whole", "real"])
@pytest.mark.parametrize("split_sides", ["left", "both"])
@pytest.mark.parametrize(("copies", "levels"), DEPTHS)
@pytest.mark.parametrize("init", ["independent", "chow_liu"])
def test_the_score_of_a_split_is_what_the_split_does(init, copies, levels, split_sides, weights):
    rng = np.random.default_rng(levels)
    X = clusters(3)
    weight = {
        "whole": rng.integers(1, 4, len(X)).astype(float),
        "real": rng.integers(1, 2**20, len(X)) / 2**16,
    }[weights]
    growing = growing_circuit(X, 1, weight, init)
    search = options(copies, levels, split_sides=split_sides)
    n_compared = 0
    for _ in range(4):
        steps = search_of(growing, search)
        for edge in living_edges(growing):
            if not growing.growth.edge["is_candidate"][edge]:
                continue
            places, gains, costs = scores_of_splits(steps, edge)
            for i in rng.permutation(len(places))[:2]:
                gain, cost = change(growing, split_of(steps, edge, places[i]), X, weight)
                assert gains[i] == pytest.approx(gain, abs=1e-7)
                assert costs[i] == cost
                n_compared += 1
        take_random_steps(growing, search, 3, rng)
    assert n_compared > 20


@pytest.mark.compiled
@pytest.mark.parametrize("weights", ["none", "real"])
@pytest.mark.parametrize(("copies", "levels"), DEPTHS)
def test_the_best_clone_of_a_sum_is_the_best_of_all(copies, levels, weights):
    rng = np.random.default_rng(levels)
    X = clusters(4)
    weight = np.ones(len(X)) if weights == "none" else rng.integers(1, 2**20, len(X)) / 2**16
    growing = growing_circuit(X, 2, weight)
    search = options(copies, levels, split_sides="both")
    n_compared = 0
    for _ in range(4):  # what copies little leaves much to share, and to clone
        take_random_steps(growing, options("minimal", split_sides="both"), 2, rng)
        steps = search_of(growing, search)
        for n in np.flatnonzero(steps.node_score > -np.inf).tolist():
            found = best_clone(steps, n, X, weight)
            assert steps.node_score[n] == pytest.approx(found, abs=1e-7)
            n_compared += 1
    assert n_compared > 5


def best_clone(steps, n, X, weight):
    """The best score of a clone of sum n, by trying all."""
    growing = steps.growing
    train = growing.growth.edge["train"]
    parents = [e for e in parents_of(growing, n) if train[e] > 0.0]
    best = -np.inf
    for size in range(1, min(3, len(parents) - 1) + 1):
        for some in combinations(parents, size):
            clone = Operation(some[0], target=n, n_levels=steps.n_levels, others=some[1:])
            gain, cost = change(growing, clone, X, weight)
            best = max(best, gain / cost if steps.per_edge else gain)
    return best


@pytest.mark.compiled
@pytest.mark.parametrize("operation_score", ["per_edge", "gain"])
@pytest.mark.parametrize(("copies", "levels"), DEPTHS)
def test_a_step_is_the_best_of_all_operations(copies, levels, operation_score):
    X = clusters(5, n_vars=5, n_rows=60)
    weight = np.ones(len(X))
    search = options(copies, levels, operation_score=operation_score)
    growing = growing_circuit(X, 4)
    if copies == "minimal":  # alone it gains nothing at first
        take_random_steps(growing, search, 2, np.random.default_rng(0))
    for _ in range(4):
        best = 0.0
        g = growing.growth
        steps = search_of(growing, search)
        for n in range(2 * X.shape[1], int(g.size[N_NODES])):
            best = max(best, best_clone(steps, n, X, weight))
        for edge in living_edges(growing):
            left = g.edge["left"][edge]
            if g.edge["right"][edge] == -1 or not g.node["is_open"][left]:
                continue
            for place in range(X.shape[1]):
                if not (g.node_one[left, 0] & g.node_zero[left, 0]) >> np.uint64(place) & 1:
                    continue
                gain, cost = change(growing, split_of(steps, edge, place), X, weight)
                best = max(best, gain / max(1, cost) if operation_score == "per_edge" else gain)
        before = total_log_likelihood(growing, X, weight)
        operation = steps.next()
        if operation is None:
            assert best < 1e-6
            break
        apply(growing, operation)
        after = total_log_likelihood(growing, X, weight)
        gain = after[0] - before[0]
        score = gain / max(1, after[1] - before[1]) if operation_score == "per_edge" else gain
        assert score == pytest.approx(best, abs=1e-7)


def sums_with_rows(growing, edge, X):
    """The sums below an edge that training rows through it reach, by levels below it."""
    g = growing.growth
    v = g.node["vtree"][g.edge["parent"][edge]]
    rows = np.flatnonzero(g.train_active[v] == edge)
    depth = g.vtree["depth"]
    reached = {}
    below = [v]
    while below:
        u = below.pop()
        if g.vtree["left"][u] != -1:
            below += [g.vtree["left"][u], g.vtree["right"][u]]
        if u == v:
            continue
        for e in g.train_active[u, rows]:
            if e != -1:
                reached[int(g.edge["parent"][e])] = int(depth[u] - depth[v])
    return reached


@pytest.mark.parametrize(("copies", "levels"), [("minimal", 0), ("depth", 2), ("complete", 9)])
def test_new_edges_of_a_split_share_only_what_lies_deeper(copies, levels):
    X = clusters(6, n_vars=8)
    growing = growing_circuit(X, 0)
    search = options(copies, levels, split_sides="both")
    take_random_steps(growing, search, 3, np.random.default_rng(1))
    steps = search_of(growing, search)
    edge = max(living_edges(growing), key=lambda e: len(scores_of_splits(steps, e)[0]))
    apply(growing, split_of(steps, edge, scores_of_splits(steps, edge)[0][0]))
    ones = first_of_last_split(growing)
    mine, others = (sums_with_rows(growing, e, X) for e in (ones, ones + 1))
    shared = set(mine) & set(others)
    assert all(mine[n] > levels for n in shared)
    assert bool(shared) == (copies != "complete")


def first_of_last_split(growing):
    g = growing.growth
    newest = [e for e in living_edges(growing) if g.edge["birth"][e] == growing.n_splits]
    top = min(newest, key=lambda e: g.vtree["depth"][g.node["vtree"][g.edge["parent"][e]]])
    return int(top)


@given(
    binary_tables(max_rows=30, max_vars=6),
    st.sampled_from(COPIES),
    st.sampled_from(["per_edge", "gain"]),
    st.sampled_from(["left", "both"]),
    st.sampled_from(["chow_liu", "independent"]),
)
def test_any_table_gives_a_normalised_circuit_with_all_properties(X, copies, score, sides, init):
    search = options(copies, 2, operation_score=score, split_sides=sides, init=init, max_splits=12)
    circuit, _ = learn_structure(X, X, search=search)
    assert why_not_deterministic(circuit) is None
    every = oracle.all_rows(X.shape[1])
    assert np.exp(log_likelihood(circuit, every)).sum() == pytest.approx(1.0)


def test_without_virtual_rows_no_operation_lowers_training_likelihood():
    _, history = learn_structure(
        clusters(0, 300, 9), search=options(levels=2, max_splits=60, pseudocount=0.0)
    )
    assert len(history) == 61
    assert np.all(np.diff(history.train) > -1e-12)


def test_copies_that_are_drawn_strongly_change_no_probability():
    X, V = clusters(12, 200, 8), clusters(13, 50, 8)
    circuit = independent_bits(random_vtree(8, np.random.default_rng(0)))
    growing = GrowingCircuit(circuit, pack_columns(X), pack_columns(V), strength=1e12)
    search = options("minimal", split_sides="both")
    take_random_steps(growing, search, 6, np.random.default_rng(1))
    steps = search_of(growing, search)

    def after(operation):
        other = copy.deepcopy(growing)
        apply(other, operation)
        valid = log_likelihood(folded(other.shrunk()), V).mean()
        assert other.valid_log_likelihood == pytest.approx(valid)
        return pytest.approx((other.train_log_likelihood, valid), abs=1e-6)

    n_compared = 0
    for edge in np.flatnonzero(steps.edge_score > -np.inf).tolist():
        split = split_of(steps, edge, steps.edge_place[edge])
        deep = after(split._replace(n_levels=3))
        other = copy.deepcopy(growing)
        apply(other, split)
        assert (other.train_log_likelihood, other.valid_log_likelihood) == deep
        n_compared += 1
    for n in np.flatnonzero(steps.node_score > -np.inf).tolist():
        deep = after(clone_of(steps, n)._replace(n_levels=3))
        assert (growing.train_log_likelihood, growing.valid_log_likelihood) == deep
        n_compared += 1
    assert n_compared > 8


def test_independent_columns_leave_nothing_to_gain():
    X = oracle.all_rows(5)
    _, history = learn_structure(X, X, search=options("complete"))
    assert history.stopped_because == "nothing left to split"
    assert len(history) == 1


def test_doubled_rows_and_doubled_weights_give_the_same_circuit():
    X = clusters(2, 200, 8)
    search = options(max_splits=25)
    twice, _ = learn_structure(np.vstack([X, X]), search=search)
    weighted, _ = learn_structure(pack_columns(X, np.full(len(X), 2.0)), search=search)
    np.testing.assert_array_equal(twice.edge_left, weighted.edge_left)
    np.testing.assert_allclose(twice.edge_log_theta, weighted.edge_log_theta)


def test_more_variables_than_bits_in_a_word():
    X = clusters(1, 150, 70)
    search = options(levels=2, max_splits=10)
    circuit, history = learn_structure(X[:100], X[100:], search=search)
    assert len(history) == 11
    assert why_not_deterministic(circuit) is None


def test_it_starts_with_independent_variables_and_continues_from_any_circuit():
    X = clusters(1)
    assert options().init == "independent"
    assert options().vtree == "bottom_up"
    assert (SearchOptions().init, SearchOptions().vtree) == ("chow_liu", "chow_liu")
    _, history = learn_structure(X, X, search=options(max_splits=0))
    assert history.n_edges[0] == 2 * 6 + 5  # both literals of each variable, five products
    start, _ = learn_structure(X, X, search=SearchOptions(max_splits=5))
    _, history = learn_structure(X, X, search=options(max_splits=5), start=start)
    assert history.n_edges[0] == start.size


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "paper"), [("nltcs", -6.03), ("dna", -83.02)])
def test_it_reaches_what_the_paper_reports_of_learnpsdd(name, paper, data_folder):
    rows = load_dataset(name)
    model = Strudel(n_components=1, search="learnpsdd").fit(rows.train, X_valid=rows.valid)
    assert model.score(rows.test) > 1.005 * paper


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"search": "best"}, "search must be one of greedy"),
        ({"copies": "all"}, "copies must be one of minimal, depth, complete"),
        ({"copy_levels": -1}, "copy_levels must be a whole number"),
        ({"operation_score": "flow"}, "operation_score must be one of"),
        ({"split_sides": "right"}, "split_sides must be one of left, both"),
    ],
)
def test_wrong_options_say_what_is_expected(wrong, message):
    with pytest.raises(ValueError, match=message):
        search_options(**({"search": "learnpsdd"} | wrong))
