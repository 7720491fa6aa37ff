import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from makers import search_options
from strategies import binary_tables
from strudel import Strudel, log_likelihood
from strudel._numba import use_threads
from strudel.circuits import why_not_deterministic
from strudel.data.bits import pack_columns
from strudel.learning.options import SearchOptions
from strudel.learning.search.learn_structure import learn_structure


def clusters(seed, n_rows=400, n_vars=12):
    rng = np.random.default_rng(seed)
    centre = rng.random((4, n_vars))
    return (rng.random((n_rows, n_vars)) < centre[rng.integers(4, size=n_rows)]).astype(np.uint8)


@given(binary_tables(max_rows=30, max_vars=6), st.integers(0, 2**31))
def test_any_table_gives_a_normalised_circuit_with_all_properties(X, seed):
    circuit, _ = learn_structure(X, X, search=SearchOptions(max_splits=15), rng=seed)
    assert why_not_deterministic(circuit) is None
    every = (np.arange(2 ** X.shape[1])[:, None] >> np.arange(X.shape[1])) & 1
    assert np.exp(log_likelihood(circuit, every)).sum() == pytest.approx(1.0)


def test_the_best_circuit_is_returned_with_its_reported_likelihoods():
    X, V = clusters(0), clusters(1)
    circuit, history = learn_structure(X, V)
    assert history.best == np.argmax(history.valid)
    assert len(history) - 1 - history.best == 100
    assert history.stopped_because == "patience"
    assert log_likelihood(circuit, X).mean() == pytest.approx(
        history.train[history.best], rel=1e-12
    )
    assert log_likelihood(circuit, V).mean() == pytest.approx(
        history.valid[history.best], rel=1e-12
    )
    assert circuit.size == history.n_edges[history.best]


def test_without_pseudocount_a_split_never_lowers_training_likelihood():
    options = SearchOptions(max_splits=60, pseudocount=0.0)
    _, history = learn_structure(clusters(0), search=options)
    assert np.all(np.diff(history.train) >= -1e-12)


def test_validation_rows_that_training_never_saw_are_impossible_without_pseudocount():
    X = np.array([[0, 0], [1, 1]] * 5)
    options = SearchOptions(max_splits=3, pseudocount=0.0, alpha=0.0)
    _, history = learn_structure(X, [[0, 1]], search=options)
    assert np.all(history.valid == -np.inf)


@pytest.mark.parametrize("limit", [{"max_splits": 7}, {"max_edges": 150}, {"max_seconds": 0.0}])
def test_bounds_stop_the_search_and_say_so(limit):
    _, history = learn_structure(clusters(0), clusters(1), search=search_options(**limit))
    assert history.stopped_because == next(iter(limit))
    if "max_splits" in limit:
        assert len(history) == 8


def test_a_table_decided_everywhere_leaves_nothing_to_split():
    circuit, history = learn_structure([[0], [1], [1]], [[1]])
    assert history.stopped_because == "nothing left to split"
    assert np.exp(log_likelihood(circuit, [[1]]))[0] == pytest.approx((2 + 0.5) / 4)


def test_weights_count_like_repeated_rows():
    X, V = clusters(0, 150), clusters(1, 100)
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    options = SearchOptions(max_splits=40)
    weighted, _ = learn_structure(pack_columns(X, weight), V, search=options)
    repeated, _ = learn_structure(X.repeat(weight, axis=0), V, search=options)
    assert np.array_equal(weighted.edge_left, repeated.edge_left)
    assert np.array_equal(weighted.edge_log_theta, repeated.edge_log_theta)


def test_equal_rows_may_be_merged_without_changing_anything():
    few = clusters(0, 40, 5)
    X = np.concatenate([few] * 5)  # merged by learn_structure
    merged, _ = learn_structure(X, few, search=SearchOptions(max_splits=20))
    apart, _ = learn_structure(
        pack_columns(few, np.full(len(few), 5.0)), few, search=SearchOptions(max_splits=20)
    )
    assert np.array_equal(merged.edge_log_theta, apart.edge_log_theta)


@pytest.mark.compiled
def test_threads_do_not_change_the_result():
    X, V = clusters(3, 3000, 40), clusters(4, 500, 40)
    results = []
    for n_jobs in (1, 2):
        with use_threads(n_jobs):
            results.append(learn_structure(X, V, search=SearchOptions(max_splits=100)))
    (a, one), (b, two) = results
    assert np.array_equal(a.edge_log_theta, b.edge_log_theta)
    assert np.array_equal(a.edge_left, b.edge_left)
    assert np.array_equal(one.valid, two.valid)


def test_the_same_seed_gives_the_same_random_search():
    options = search_options(edge_score="random", variable_score="random", max_splits=30)
    a, b, c = (
        learn_structure(clusters(0), clusters(1), search=options, rng=seed)[1] for seed in (7, 7, 8)
    )
    assert np.array_equal(a.n_edges, b.n_edges)
    assert np.array_equal(a.valid, b.valid)
    assert not np.array_equal(a.n_edges, c.n_edges)


def test_an_interrupt_keeps_the_best_circuit():
    def interrupt(history):
        if len(history) == 11:
            raise KeyboardInterrupt

    circuit, history = learn_structure(clusters(0), clusters(1), on_split=interrupt)
    assert history.stopped_because == "interrupted"
    assert len(history) == 11
    assert circuit.size == history.n_edges[history.best]


def test_every_prefix_of_the_search_can_be_rebuilt():
    from strudel.learning.growing.growing_circuit import GrowingCircuit
    from strudel.learning.search.greedy import VariablePicker, pick_edge
    from strudel.learning.search.learn_structure import first_circuit

    X = pack_columns(clusters(0))
    rng = np.random.default_rng(0)
    growing = GrowingCircuit(first_circuit(X, SearchOptions()), X, X)
    picker = VariablePicker(growing, "mutual_information")
    seen = [growing.snapshot()]
    for _ in range(25):
        edge = pick_edge(growing, "flow", rng)
        growing.split(edge, picker.pick(edge, rng))
        seen.append(growing.snapshot())
    for k, circuit in enumerate(seen):
        again = growing.snapshot(k)
        assert np.array_equal(again.edge_left, circuit.edge_left)
        assert np.array_equal(again.edge_right, circuit.edge_right)
        assert np.array_equal(again.node_vtree, circuit.node_vtree)


@pytest.mark.parametrize(
    ("X", "V", "words"),
    [
        (np.zeros((0, 3)), None, "row"),
        (np.zeros((5, 3)), np.zeros((2, 4)), "columns"),
        (np.zeros((5, 3)), None, "never stop"),
    ],
)
def test_bad_input_is_refused_with_a_reason(X, V, words):
    with pytest.raises(ValueError, match=words):
        learn_structure(X, V)


@pytest.mark.compiled
def test_learned_twin_columns_are_always_equal():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (500, 3)).repeat(2, axis=1)
    model = Strudel(n_components=1, random_state=0, pseudocount=0.0).fit(X, X_valid=X)
    assert np.all(
        model.sample(1000, random_state=0)[:, ::2] == model.sample(1000, random_state=0)[:, 1::2]
    )
