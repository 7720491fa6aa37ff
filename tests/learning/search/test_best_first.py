"""Gains against what splits and clones really change; best-first search and shrunk copies."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_circuits import as_bits
from makers import search_options
from oracle import all_rows
from strategies import binary_tables, examples
from strudel import Strudel, log_likelihood
from strudel.circuits import why_not_deterministic
from strudel.data.bits import pack_columns
from strudel.learning import SearchOptions, learn_structure
from strudel.learning import options as searches
from strudel.learning.bits.compile import independent_bits
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.fold import folded
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation, apply
from strudel.learning.growing.growth import ALIVE, N_EDGES, places_in, rows_through, undecided
from strudel.learning.search.best_first import LONG, BestFirstSearch, Gains, split_gains
from strudel.learning.search.learn_structure import entrants, first_circuit, grow
from strudel.trees import random_vtree


def clusters(seed, n_rows=200, n_vars=7):
    """Rows around six centres, which no tree describes."""
    rng = np.random.default_rng(seed)
    centre = rng.random((6, n_vars)) < 0.5
    flips = rng.random((n_rows, n_vars)) < 0.1
    return (centre[rng.integers(6, size=n_rows)] ^ flips).astype(np.uint8)


def gains_by_place(gains, edge):
    """For every undecided place below an edge its gain in nats, and the parameters that it adds.

    The gain includes that of the copies beside the way that the split makes possible.
    """
    g = gains.growing.growth
    gains._have_room()
    room, mask = gains._split_room, undecided(g, edge, True)
    v = int(g.node[g.edge[edge]["parent"]]["vtree"])
    rows = room.rows[0][: rows_through(g.train_active[v], edge, room.rows[0])]
    first, last = int(g.vtree[v]["first"]), int(g.vtree[v]["last"])
    gain, cost = np.full(last - first, -np.inf), np.ones(last - first)
    local = room.local[0], room.local_node[0]
    split_gains(g, v, rows, mask, False, gains.table, gains.least_gain, *local, gain, cost)
    places = places_in(mask)
    return places, gain[places - first], cost[places - first]


def growing_circuit(rows, start=None, **options):
    bits = pack_columns(rows)
    start = start or first_circuit(bits, SearchOptions())
    return GrowingCircuit(start, bits, bits, **options)


def train_total(growing):
    return growing.train_log_likelihood * growing.train_total


def best_first(growing, min_rows):
    return BestFirstSearch(growing, min_rows=min_rows)


def grown(seed, n_operations, n_vars=7, start=None, **options):
    """A circuit after some operations of best-first search."""
    growing = growing_circuit(clusters(seed, n_vars=n_vars), start, **options)
    search = best_first(growing, min_rows=2)
    operations = []
    while len(operations) < n_operations and (operation := search.next()) is not None:
        apply(growing, operation)
        operations.append(operation)
    return growing, operations


def real_gain(growing, operation):
    changed = copy.deepcopy(growing)
    apply(changed, operation)
    return train_total(changed) - train_total(growing)


@pytest.mark.compiled
@pytest.mark.parametrize("n_operations", [0, 12])
@pytest.mark.parametrize("is_random", [False, True])
def test_gain_of_every_split_is_the_change_of_the_likelihood(n_operations, is_random):
    start = independent_bits(random_vtree(7, rng=3)) if is_random else None
    growing, _ = grown(0, n_operations, start=start, pseudocount=0.0)
    gains = Gains(growing, least_gain=np.inf)  # no copies beside the way
    n_seen = 0
    for edge in growing.candidates():
        for place, gain, cost in zip(*gains_by_place(gains, int(edge)), strict=True):
            assert cost >= 1.0
            if gain > -np.inf:  # both values occur
                real = real_gain(growing, Operation(int(edge), int(place)))
                assert gain == pytest.approx(real, abs=1e-8)
                n_seen += 1
    assert n_seen >= 20


@pytest.mark.compiled
@pytest.mark.parametrize("weighted", [False, True])
def test_gain_of_every_clone_is_the_change_of_the_likelihood(weighted):
    rows = clusters(1)
    bits = pack_columns(rows)
    if weighted:
        bits = pack_columns(rows, np.random.default_rng(0).random(len(rows)))
    growing = GrowingCircuit(first_circuit(bits, SearchOptions()), bits, bits, pseudocount=0.0)
    search = best_first(growing, min_rows=2)
    for _ in range(10):
        apply(growing, search.next())
    search._score_new()
    g = growing.growth
    n_seen = 0
    for n in np.flatnonzero(search.node_score > -np.inf):
        if g.node["uses"][n] == 0:
            continue
        search._score_clones(np.array([n]))
        if search.node_score[n] == -np.inf:
            continue
        real = real_gain(growing, Operation(int(search.node_edges[n]), target=int(n)))
        ratio = real / search.node_score[n] if search.node_score[n] > 1e-9 else 1.0
        # A score is the gain by the number of parameters: a whole number, at most all of the copy.
        assert ratio == pytest.approx(round(ratio), abs=1e-6)
        assert 1 <= round(ratio) < g.node["width"][n] or g.node["width"][n] == 2
        n_seen += 1
    assert n_seen > 3


@examples(25)
@given(binary_tables(min_vars=1, max_vars=6, max_rows=25), st.integers(0, 1000), st.booleans())
def test_flows_counts_and_likelihoods_stay_right(rows, seed, is_random):
    rng = np.random.default_rng(seed)
    start = independent_bits(random_vtree(rows.shape[1], rng=seed)) if is_random else None
    growing = growing_circuit(rows, start, strength=3.0)
    search = best_first(growing, min_rows=1)
    for _ in range(int(rng.integers(8))):
        operation = search.next()
        if operation is None:
            break
        apply(growing, operation)
    g = growing.growth
    circuit = folded(growing.shrunk())
    everything = all_rows(circuit.vtree.n_vars)
    assert np.exp(log_likelihood(circuit, everything)).sum() == pytest.approx(1.0)
    assert why_not_deterministic(circuit) is None
    assert circuit.size == growing.n_edges
    assert log_likelihood(circuit, rows).mean() == pytest.approx(growing.train_log_likelihood)
    assert log_likelihood(circuit, rows).mean() == pytest.approx(growing.valid_log_likelihood)
    alive = g.edge["death"][: g.size[N_EDGES]] == ALIVE
    counted = np.sort(g.edge["train"][: g.size[N_EDGES]][alive])
    flows = compute_flows(as_bits(circuit), pack_columns(rows))
    np.testing.assert_array_equal(np.sort(flows.edge_count), counted)


@pytest.mark.parametrize("pseudocount", [1.0, 1e12])
def test_a_copy_drawn_with_all_might_changes_nothing(pseudocount):
    rows = clusters(2, n_rows=60, n_vars=5)
    everything = all_rows(5)
    growing = growing_circuit(rows, strength=1e12, pseudocount=pseudocount)
    before = log_likelihood(folded(growing.shrunk()), everything)
    search = best_first(growing, min_rows=1)
    while (operation := search.next()) is not None and operation.target >= 0:
        apply(growing, operation)
        np.testing.assert_allclose(
            log_likelihood(folded(growing.shrunk()), everything), before, atol=1e-8
        )
    assert growing.n_splits > 0
    if pseudocount > 1.0:  # else the sum above a split, which is no copy, goes on learning
        for _ in range(6):
            candidates = growing.candidates()
            edge = int(candidates[0])
            growing.split(edge, Gains(growing).best_place(edge))
            after = log_likelihood(folded(growing.shrunk()), everything)
            np.testing.assert_allclose(after, before, atol=1e-8)


@pytest.mark.compiled
def test_next_is_the_best_of_all_scores():
    growing, _ = grown(4, 15)
    search = best_first(growing, min_rows=2)  # everything scored again
    operation = search.next()
    nodes = search.node_score.max()
    edges = search.edge_score.max()
    if operation.target >= 0:
        assert nodes >= edges
        assert search.node_score[operation.target] == nodes
    else:
        assert edges > nodes
        assert search.edge_score[operation.edge] == edges


@pytest.mark.compiled
def test_long_edges_are_compared_on_a_part_first_and_exactly_at_the_end():
    rows = clusters(5, n_rows=5000, n_vars=20)
    growing = growing_circuit(rows)
    gains = Gains(growing)
    candidates = growing.candidates()
    edge = int(candidates[np.argmax(growing.growth.edge["train"][candidates])])
    assert growing.growth.edge["train"][edge] > LONG
    places, value, cost = gains_by_place(gains, edge)
    best = gains.best_place(edge)
    rank = np.argsort(np.argsort(-value / cost))[list(places).index(best)]
    assert rank < 3  # the price of edges may reorder the first ones


@pytest.mark.compiled
def test_clones_need_fewer_edges_than_splits_alone():
    rows = clusters(6, n_rows=2000, n_vars=12)
    options = search_options(search="best_first", patience=30)
    with_clones, history = learn_structure(rows[:1500], rows[1500:], search=options)
    greedy, other = learn_structure(rows[:1500], rows[1500:])
    assert history.valid.max() > other.valid.max()
    assert with_clones.n_edges < greedy.n_edges


@pytest.mark.compiled
@pytest.mark.parametrize("search", ["greedy", "best_first"])
def test_history_holds_what_the_returned_circuit_reaches(search):
    rows = clusters(7, n_rows=400)
    options = search_options(search=search, smoothing="hierarchical", patience=10)
    circuit, history = learn_structure(rows[:300], rows[300:], search=options)
    assert history.valid[history.best] == history.valid.max()
    assert log_likelihood(circuit, rows[300:]).mean() == pytest.approx(history.valid.max())
    assert log_likelihood(circuit, rows[:300]).mean() == pytest.approx(history.train[history.best])
    assert circuit.size == history.n_edges[history.best]
    assert np.all(np.diff(history.seconds) >= 0)


@pytest.mark.parametrize("copy_depth", [2, 4])
def test_deeper_copies_are_drawn_to_their_originals_also(copy_depth):
    rows = clusters(8, n_rows=100, n_vars=6)
    options = search_options(copy_depth=copy_depth, smoothing="hierarchical", max_splits=8)
    circuit, _ = learn_structure(rows, rows, search=options)
    assert np.exp(log_likelihood(circuit, all_rows(circuit.vtree.n_vars))).sum() == pytest.approx(1)


@pytest.mark.compiled
def test_threads_do_not_matter():
    rows = clusters(9, n_rows=500, n_vars=12)
    circuits = []
    for n_jobs in (1, 2):
        model = Strudel(
            n_components=1,
            search="best_first",
            smoothing="hierarchical",
            n_jobs=n_jobs,
            random_state=0,
        )
        circuits.append(model.fit(rows).circuit_)
    np.testing.assert_array_equal(circuits[0].edge_log_theta, circuits[1].edge_log_theta)
    np.testing.assert_array_equal(circuits[0].edge_left, circuits[1].edge_left)


def test_greedy_search_by_gain_splits_on_undecided_variables():
    rows = clusters(10, n_rows=80, n_vars=5)
    options = search_options(variable_score="gain", max_splits=12)
    circuit, history = learn_structure(rows, search=options)
    assert len(history) > 5
    assert why_not_deterministic(circuit) is None
    flows = compute_flows(as_bits(circuit), pack_columns(rows))
    assert np.all(flows.active_edge[circuit.vtree.root] >= 0)


def test_one_variable_and_constant_columns():
    for rows in (np.array([[0], [1], [1]]), np.ones((20, 4), dtype=int)):
        options = search_options(search="best_first", smoothing="hierarchical", max_splits=3)
        circuit, _ = learn_structure(rows, rows, search=options)
        assert np.exp(
            log_likelihood(circuit, all_rows(circuit.vtree.n_vars))
        ).sum() == pytest.approx(1)


def test_without_validation_rows_the_last_circuit_is_returned():
    rows = clusters(12, n_rows=100, n_vars=5)
    options = search_options(search="best_first", smoothing="hierarchical", max_splits=4)
    grew = grow(rows, None, search=options)
    circuit, history = grew.best()
    assert history.best == len(grew.operations)
    assert circuit.n_edges == grew.growing.n_edges


@pytest.mark.compiled
def test_a_race_goes_on_with_the_best_start():
    rows = clusters(13, n_rows=500, n_vars=10)
    options = search_options(search="best_first", vtree="auto", patience=20)
    grew = grow(rows[:400], rows[400:], search=options)
    assert grew.search.vtree != "auto"
    assert grew.search.search == searches.BestFirst()
    best = max(
        grow(rows[:400], rows[400:], search=entrant).history.valid.max()
        for entrant in entrants(options, 10)
    )
    assert grew.history.valid.max() == pytest.approx(best)  # every run ends within the first round


@pytest.mark.compiled
def test_a_race_compares_searches_too():
    rows = clusters(14, n_rows=400, n_vars=8)
    circuit, history = learn_structure(
        rows[:300], rows[300:], search=search_options(search="race", smoothing="hierarchical")
    )
    assert log_likelihood(circuit, rows[300:]).mean() == pytest.approx(history.valid.max())
    kinds = {type(entrant.search) for entrant in entrants(search_options(search="race"), 8)}
    assert kinds == {searches.BestFirst, searches.LearnPSDD}
    assert len(entrants(search_options(search="race"), 1000)) == 2


@pytest.mark.compiled
@pytest.mark.parametrize("call", [1, 8, 40])
def test_an_interrupt_ends_the_whole_race(call):
    rows = clusters(15, n_rows=300, n_vars=8)
    n_calls = 0

    def stop(history):
        nonlocal n_calls
        n_calls += 1
        if n_calls == call:
            raise KeyboardInterrupt

    options = search_options(search="race", smoothing="hierarchical")
    circuit, history = learn_structure(rows[:200], rows[200:], search=options, on_split=stop)
    assert history.stopped_because == "interrupted"
    assert n_calls == call
    assert why_not_deterministic(circuit) is None


def test_auto_needs_validation_rows():
    with pytest.raises(ValueError, match="validation rows"):
        learn_structure(clusters(0), search=SearchOptions(vtree="auto", max_splits=2))


@pytest.mark.compiled
def test_the_order_of_rows_and_copies_of_them_change_nothing():
    rows = clusters(8, n_rows=4000, n_vars=20)
    shuffled = rows[np.random.default_rng(0).permutation(len(rows))]
    merged, count = np.unique(rows, axis=0, return_counts=True)
    assert len(merged) > LONG
    search = search_options(search="best_first", max_splits=15)
    histories = [
        learn_structure(bits, rows[:100], search=search)[1]
        for bits in (rows, shuffled, pack_columns(merged, count.astype(float)))
    ]
    for other in histories[1:]:
        np.testing.assert_array_equal(histories[0].train, other.train)
        np.testing.assert_array_equal(histories[0].n_edges, other.n_edges)
