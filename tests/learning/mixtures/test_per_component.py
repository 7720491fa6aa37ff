"""Learning mixtures whose components own their structure."""

import numpy as np
import pytest

from makers import search_options
from strudel import log_likelihood, responsibilities
from strudel._numba import use_threads
from strudel.circuits import CircuitMixture
from strudel.circuits.compile import compile_factorized
from strudel.circuits.flows import compute_flows
from strudel.data.bits import pack_columns
from strudel.learning import MixtureOptions, SearchOptions
from strudel.learning.mixtures import per_component as own_structures
from strudel.learning.mixtures import per_component_steps as own_steps
from strudel.learning.mixtures.per_component import fit_circuit_mixture
from strudel.learning.mixtures.per_component_parts import Structure, log_parameters
from strudel.learning.search.learn_structure import learn_structure
from strudel.trees.vtree import balanced_vtree

FEW = SearchOptions(max_splits=3)
PLAIN = MixtureOptions(smoothing="uniform", pseudocount=1.0)


def rows_of_two_kinds(seed, n_rows=300, n_vars=8):
    """Neighbours are alike in rows of one kind, and unlike in those of the other."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n_rows, n_vars))
    flip = rng.integers(0, 2, n_rows)
    X[:, 1::2] = X[:, ::2] ^ flip[:, np.newaxis]
    return (X ^ (rng.random(X.shape) < 0.05)).astype(np.uint8)


def is_same(a, b):
    return len(a.circuits) == len(b.circuits) and all(
        np.array_equal(p.edge_left, q.edge_left)
        and np.array_equal(p.edge_log_theta, q.edge_log_theta)
        for p, q in zip(a.circuits, b.circuits, strict=True)
    )


@pytest.fixture(scope="module")
def tables():
    return rows_of_two_kinds(0), rows_of_two_kinds(1, 150), rows_of_two_kinds(2, 150)


@pytest.mark.compiled
def test_components_are_circuits_on_one_vtree_that_beat_a_single_one(tables):
    train, valid, test = tables
    mixture = fit_circuit_mixture(train, 2, X_valid=valid, options=PLAIN, rng=0)
    assert isinstance(mixture, CircuitMixture)
    for part in mixture.circuits:
        assert part.is_deterministic
        assert part.is_structured_decomposable
        assert part.vtree is mixture.vtree
    structures = {part.edge_left.tobytes() for part in mixture.circuits}
    assert len(structures) == 2
    single, _ = learn_structure(train, valid)
    assert log_likelihood(mixture, test).mean() > log_likelihood(single, test).mean()


@pytest.mark.parametrize("init", ["chow_liu", "independent"])
def test_one_component_is_the_greedy_circuit(init, tables):
    train, valid, _ = (table[:80, :5] for table in tables)
    search = SearchOptions(init=init, patience=10)
    expected, history = learn_structure(train, valid, search=search)
    assert history.best > 0
    mixture = fit_circuit_mixture(train, 1, X_valid=valid, search=search, options=PLAIN, rng=0)
    (found,) = mixture.circuits
    for name in ("node_vtree", "node_edges", "edge_left", "edge_right"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-12)


@pytest.mark.compiled
def test_the_seed_alone_decides_not_the_number_of_threads(tables):
    train, valid, _ = tables

    def fit(seed, n_threads):
        with use_threads(n_threads):
            return fit_circuit_mixture(
                train,
                3,
                X_valid=valid,
                search=SearchOptions(max_splits=10),
                options=MixtureOptions(init_params="random", pseudocount="auto"),
                rng=seed,
            )

    assert is_same(fit(0, 1), fit(0, 2))
    assert not is_same(fit(0, 1), fit(1, 1))


@pytest.mark.parametrize("start", ["kmeans", "k-means++", "random"])
@pytest.mark.parametrize("smoothing", ["uniform", "single"])
def test_starts_and_smoothing(start, smoothing, tables):
    options = MixtureOptions(init_params=start, smoothing=smoothing, pseudocount="auto", max_iter=3)
    mixture = fit_circuit_mixture(
        tables[0][:60, :4], 2, X_valid=tables[1][:40, :4], search=FEW, options=options, rng=0
    )
    states = np.array(list(np.ndindex(2, 2, 2, 2)))
    assert np.exp(log_likelihood(mixture, states)).sum() == pytest.approx(1.0)


def test_bags_and_runs_are_averaged(tables):
    train, valid, _ = (table[:60, :4] for table in tables)
    quick = MixtureOptions(max_iter=2, init_params="random", n_runs=2, n_init=2)
    runs = fit_circuit_mixture(train, 3, X_valid=valid, search=FEW, options=quick, rng=0)
    bags = fit_circuit_mixture(train, 2, X_valid=valid, search=FEW, options=quick, n_bags=3, rng=0)
    assert runs.weights.reshape(2, 3).sum(axis=1).tolist() == pytest.approx([0.5, 0.5])
    assert bags.weights.reshape(3, 2).sum(axis=1).tolist() == pytest.approx([1 / 3] * 3)


def test_weights_equal_repetition(tables):
    X, valid, _ = (table[:50, :4] for table in tables)
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    options = MixtureOptions(init_params="random", max_iter=5)
    found = [
        fit_circuit_mixture(*rows, 2, X_valid=valid, search=FEW, options=options, rng=0, **more)
        for rows, more in (((X,), {"sample_weight": weight}), ((X.repeat(weight, axis=0),), {}))
    ]
    assert is_same(*found)


def test_one_variable_and_constant_columns():
    X = np.array([[0], [1], [1], [1]])
    mixture = fit_circuit_mixture(X, 2, X_valid=X, rng=0)
    p = np.exp(log_likelihood(mixture, [[0], [1]]))
    assert p.sum() == pytest.approx(1.0)
    assert p[1] > p[0]
    zeros = np.zeros((5, 3), dtype=np.uint8)
    assert (
        np.exp(log_likelihood(fit_circuit_mixture(zeros, 2, X_valid=zeros, rng=0), zeros[:1])) > 0.5
    )


def test_limits_say_why_they_stop(tables):
    train, valid, _ = (table[:60, :5] for table in tables)
    for search, options, reason in (
        (SearchOptions(max_splits=1), PLAIN, "max_splits"),
        (SearchOptions(max_edges=1), PLAIN, "max_edges"),
        (SearchOptions(patience=2), PLAIN, "patience"),
        (search_options(patience=10**6), PLAIN, "nothing left to split"),
        (SearchOptions(), MixtureOptions(max_seconds=0.0), "max_seconds"),
    ):
        found = []
        mixture = fit_circuit_mixture(
            train,
            2,
            X_valid=valid,
            search=search,
            options=options,
            rng=0,
            on_iteration=found.append,
        )
        assert found[-1].stopped_because == reason
        assert mixture.n_components == 2


def test_what_is_kept_is_the_best_step(tables):
    train, valid, _ = (table[:, :6] for table in tables)
    found = []
    mixture = fit_circuit_mixture(
        train, 2, X_valid=valid, search=FEW, options=PLAIN, rng=0, on_iteration=found.append
    )
    history = found[-1]
    assert log_likelihood(mixture, valid).mean() == pytest.approx(history.valid.max(), rel=1e-12)
    assert history.valid[history.best] == history.valid.max()


@pytest.mark.parametrize("call", [1, 3, 12, 40])
def test_an_interrupt_keeps_the_best_so_far(monkeypatch, call, tables):
    train, valid, _ = (table[:, :6] for table in tables)
    n_calls, found = 0, []
    take = own_steps.OwnSteps.take

    def interrupted(steps):
        nonlocal n_calls
        n_calls += 1
        score = take(steps)
        if n_calls == call:
            raise KeyboardInterrupt
        return score

    monkeypatch.setattr(own_steps.OwnSteps, "take", interrupted)
    mixture = fit_circuit_mixture(
        train, 2, X_valid=valid, options=PLAIN, rng=0, on_iteration=found.append
    )
    history = found[-1]
    assert len(history) == call
    assert history.stopped_because == "interrupted"
    assert log_likelihood(mixture, valid).mean() == pytest.approx(history.valid.max(), rel=1e-12)


def test_an_interrupt_of_a_later_run_keeps_the_others(monkeypatch, tables):
    train, valid, _ = (table[:60, :5] for table in tables)
    grow, n_calls = own_structures.GrowingComponents.__init__, 0

    def interrupted(*args):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 3:
            raise KeyboardInterrupt
        grow(*args)

    monkeypatch.setattr(own_structures.GrowingComponents, "__init__", interrupted)
    options = MixtureOptions(n_runs=4, max_iter=2)
    mixture = fit_circuit_mixture(train, 2, X_valid=valid, search=FEW, options=options, rng=0)
    assert mixture.n_components == 4
    n_calls = 2
    with pytest.raises(KeyboardInterrupt):
        fit_circuit_mixture(train, 2, X_valid=valid, search=FEW, options=options, rng=0)


def test_without_validation_rows_a_limit_is_needed(tables):
    train = tables[0][:60, :5]
    with pytest.raises(ValueError, match="would never stop"):
        fit_circuit_mixture(train, 2)
    with pytest.raises(ValueError, match="chosen on validation rows"):
        fit_circuit_mixture(train, 2, search=FEW, options=MixtureOptions(pseudocount="auto"))
    assert fit_circuit_mixture(train, 2, search=FEW, rng=0).n_components == 2


@pytest.mark.parametrize(
    ("X", "X_valid", "words"),
    [
        (np.zeros((0, 3)), np.zeros((1, 3)), "at least one row"),
        (np.zeros((2, 3)), np.zeros((1, 2)), "2 columns"),
    ],
)
def test_rows_that_do_not_do(X, X_valid, words):
    with pytest.raises(ValueError, match=words):
        fit_circuit_mixture(X.astype(np.uint8), 2, X_valid=X_valid.astype(np.uint8))


def test_a_first_circuit_is_where_all_begin(tables):
    train, valid, _ = (table[:60, :5] for table in tables)
    first = compile_factorized(balanced_vtree(5))
    mixture = fit_circuit_mixture(
        train, 2, X_valid=valid, start=first, search=SearchOptions(max_splits=0), rng=0
    )
    for part in mixture.circuits:
        np.testing.assert_array_equal(part.edge_left, first.edge_left)


def test_a_step_is_em_on_the_responsibilities_of_the_mixture(tables):
    """The counts after a step are those of the posterior that another part of the library gives."""
    train = tables[0][:60, :5]
    circuits = fit_circuit_mixture(train, 2, search=FEW, rng=0).circuits
    bits = pack_columns(train)
    history = own_structures.MixtureHistory()
    steps = own_steps.OwnSteps(bits.weights, np.empty(0), PLAIN, history)
    structures = [Structure.of_circuit(part, bits, bits) for part in circuits]
    share = np.random.default_rng(0).dirichlet([1.0, 1.0], len(train))
    steps.begin(structures, share)
    log_theta = [
        log_parameters(count, one.edge_parent, one.edge_even, 1.0)
        for count, one in zip(steps.counts, structures, strict=True)
    ]
    steps.take()
    assert steps.best is not None
    mixture = CircuitMixture(
        [part.with_parameters(logs) for part, logs in zip(circuits, log_theta, strict=True)],
        steps.best.log_weight,
    )
    assert history.train[-1] == pytest.approx(log_likelihood(mixture, train).mean(), rel=1e-12)
    for c, column in enumerate(responsibilities(mixture, train).T):
        weighted = compute_flows(circuits[c], pack_columns(train, column)).edge_count
        np.testing.assert_allclose(steps.counts[c], weighted, atol=1e-9)
