"""Tilted components: a circuit in which values of columns count more or less, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from column_circuits import as_bits, components_of
from strudel import Strudel
from strudel.data.bits import pack_columns
from strudel.learning.bits.fold import folded
from strudel.learning.mixtures.em import MixtureData, best_prior, lacking_directions, train_runs
from strudel.learning.mixtures.em_steps import Prior
from strudel.learning.mixtures.tilted import TiltedEnsemble, tilt
from strudel.learning.options import MixtureOptions, SearchOptions
from strudel.learning.parameters import closed_form
from strudel.learning.search.learn_structure import first_circuit
from strudel.queries import log_likelihood
from strudel.tables.column_codes import ColumnCode, column_values

ORDERED = np.tri(4, 3, -1, dtype=np.uint8)  # variable j is 1 if the value is j + 1 or more
ONE_HOT = np.eye(3, dtype=np.uint8)
OTHER = np.array([[0, 0], [0, 1], [1, 1]], dtype=np.uint8)  # neither
COLUMNS = (ColumnCode(0, ORDERED), ColumnCode(3, ONE_HOT), ColumnCode(7, OTHER))  # and a bit
N_VARS = 9


def table(seed=0, n_rows=300):
    """Rows of three columns and a bit, which all depend on a hidden kind, and two on each other."""
    rng = np.random.default_rng(seed)
    kind = rng.random(n_rows)
    one = np.clip(np.round(3.0 * kind + rng.normal(0.0, 0.7, n_rows)), 0, 3).astype(int)
    two = (one + (rng.random(n_rows) < 0.3)) % 3
    three = np.clip(np.round(2.0 * kind + rng.normal(0.0, 0.5, n_rows)), 0, 2).astype(int)
    bit = rng.random(n_rows) < 0.2 + 0.6 * kind
    return np.hstack([ORDERED[one], ONE_HOT[two], bit[:, np.newaxis], OTHER[three]]).astype(
        np.uint8
    )


@pytest.fixture(scope="module")
def circuit():
    bits = pack_columns(table())
    return closed_form(first_circuit(bits, SearchOptions(columns=COLUMNS)), bits, pseudocount=1.0)


def shares_of_rows(n_rows, n_components, seed=1):
    share = np.random.default_rng(seed).random((n_rows, n_components)) ** 3
    return (share / share.sum(axis=1, keepdims=True)).astype(np.float32)


def ensemble_of(circuit, rows, share, strength=1.0, columns=COLUMNS):
    """An ensemble of one group whose components have these shares of the rows."""
    choices, (bags,) = tilt(circuit, columns, pack_columns(rows))
    ensemble = TiltedEnsemble(choices, Prior(strength, circuit.theta), 1, share.shape[1])
    first = 0
    for bag in bags:
        own = share[first : first + bag.n_rows]
        ensemble.add(bag, own, bag.weight[np.newaxis])
        first += bag.n_rows
    return ensemble, bags


@pytest.mark.parametrize("columns", [COLUMNS, None], ids=["columns", "bits"])
def test_values_are_as_frequent_as_among_the_rows_of_a_component(circuit, columns):
    rows = table()
    share = shares_of_rows(len(rows), 3)
    ensemble, _ = ensemble_of(circuit, rows, share, strength=1e-9, columns=columns)
    for _ in range(200):
        ensemble.maximise()
    (mixture,) = ensemble.mixtures()
    every = np.array(oracle.all_rows(N_VARS))
    for c, component in enumerate(components_of(mixture)):
        p = np.array(oracle.probabilities(component, every))
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        counted = share[:, c].astype(float) @ rows / share[:, c].astype(float).sum()
        np.testing.assert_allclose(p @ every, counted, atol=1e-4)
    assert mixture.weights == pytest.approx(share.mean(axis=0), abs=1e-2)


def test_components_differ_from_the_circuit_column_by_column(circuit):
    rows = table()
    ensemble, _ = ensemble_of(circuit, rows, shares_of_rows(len(rows), 2))
    ensemble.maximise()
    (mixture,) = ensemble.mixtures()
    possible = np.unique(table(n_rows=3000), axis=0)
    values = column_values(possible.astype(float), COLUMNS)
    names = [values[0], values[1], possible[:, 6], possible[:, 7], possible[:, 8]]
    design = np.hstack([np.eye(int(one.max()) + 1)[one] for one in names])
    of_circuit = np.log(oracle.probabilities(circuit, possible))
    for component in components_of(mixture):
        apart = np.log(oracle.probabilities(component, possible)) - of_circuit
        assert np.ptp(apart) > 0.1
        found, *_ = np.linalg.lstsq(design, apart, rcond=None)
        np.testing.assert_allclose(design @ found, apart, atol=1e-9)


def test_a_component_without_rows_is_the_circuit(circuit):
    rows = table()
    share = shares_of_rows(len(rows), 2)
    share[:, 1] = 0.0
    ensemble, _ = ensemble_of(circuit, rows, share)
    ensemble.maximise()
    alone = ensemble.mixtures()[0].component(1)
    np.testing.assert_allclose(alone.edge_log_theta, circuit.edge_log_theta, atol=1e-9)


def test_smoothing_draws_to_what_the_other_columns_say(circuit):
    """Not to the circuit: columns that depend on a tilted one move with it."""
    rows, strength = table(), 5.0
    share = shares_of_rows(len(rows), 2)
    ensemble, _ = ensemble_of(circuit, rows, share, strength)
    for _ in range(200):
        ensemble.maximise()
    (mixture,) = ensemble.mixtures()
    weight = np.exp(ensemble.counts().count[ensemble.choices.n_values : -1])
    every = np.array(oracle.all_rows(N_VARS))
    codes = [*COLUMNS[:2], *(ColumnCode(var, [[0], [1]]) for var in range(6, N_VARS))]
    first = 0
    for code in codes:
        own, seen = (
            (x[:, np.newaxis, code.start : code.stop] == code.codewords).all(axis=2)
            for x in (every, rows)
        )
        virtual = strength * (code.n_values - 1)
        for c, component in enumerate(components_of(mixture)):
            is_now = np.array(oracle.probabilities(component, every)) @ own
            without = is_now / weight[first : first + code.n_values, c]
            without /= without.sum()
            count = share[:, c].astype(float) @ seen
            wanted = (count + virtual * without) / (count.sum() + virtual)
            np.testing.assert_allclose(is_now, wanted, atol=1e-4)
        first += code.n_values


def test_an_m_step_goes_on_where_the_last_one_ended(circuit):
    ensemble, bags = ensemble_of(circuit, table(), shares_of_rows(300, 3))
    ensemble.maximise()
    n = ensemble.choices.n_values
    before = ensemble.counts().count[n:]
    ensemble.expect(bags, [bag.weight[np.newaxis] for bag in bags])
    np.testing.assert_array_equal(ensemble.counts().count[n:], before)
    assert np.abs(before[:-1]).max() > 0.1


def test_weights_beyond_all_digits_are_not_taken(circuit):
    ensemble, _ = ensemble_of(circuit, table(), shares_of_rows(300, 2))
    far = np.zeros((ensemble.choices.n_values, 2))
    far[1:4, 0] = -500.0  # the other component stays as it is
    log_z, _ = ensemble._frequencies(far)
    assert np.isnan(log_z[0])
    assert log_z[1] == pytest.approx(0.0, abs=1e-9)


def test_rows_are_as_likely_as_under_the_mixture(circuit):
    rows = table()
    ensemble, bags = ensemble_of(circuit, rows, shares_of_rows(len(rows), 4))
    ensemble.maximise()
    log_p = ensemble.log_likelihoods(bags)
    ensemble._n_steps = 0  # the mixture of these very weights
    (mixture,) = ensemble.mixtures()
    np.testing.assert_allclose(log_p[:, 0], log_likelihood(folded(mixture), rows), atol=1e-4)


@pytest.fixture(scope="module")
def fitted():
    options = MixtureOptions(
        4, n_runs=2, smoothing="single", pseudocount="auto", columns=COLUMNS, is_tilted=True
    )
    train, valid = pack_columns(table()), pack_columns(table(1))
    independent = first_circuit(train, SearchOptions(columns=COLUMNS, init="independent"))
    data = MixtureData.of(independent, train, valid, options)
    runs = train_runs(data, options, np.random.default_rng(0))
    return data, runs, runs.mixtures(best_prior(data, [runs], options))


def test_new_rows_are_more_likely_than_under_the_circuit(fitted):
    data, _, mixtures = fitted
    new = table(2, 3000)
    for mixture in mixtures:
        gain = log_likelihood(folded(mixture), new) - log_likelihood(folded(data.single), new)
        assert gain.mean() > 0.4


def test_validation_rows_say_how_much_to_smooth(fitted):
    data, runs, mixtures = fitted
    log_p = np.stack([log_likelihood(folded(one), table(1)) for one in mixtures])
    valid = np.logaddexp.reduce(log_p, axis=0).mean() - np.log(2.0)
    for strength in (0.03, 30.0):
        other = data.valid_score(
            runs.log_likelihoods(Prior(strength, data.single.theta), data.valid)
        )
        assert valid >= other - 1e-6


def test_an_impossible_value_stays_impossible(circuit):
    rows = table()
    never = rows[:, 6] == 0
    sure = closed_form(circuit, rows[never], pseudocount=0.0)
    ensemble, _ = ensemble_of(sure, rows[never], shares_of_rows(int(never.sum()), 2))
    ensemble.maximise()
    for component in components_of(ensemble.mixtures()[0]):
        assert np.isfinite(ensemble._base).all()
        assert max(oracle.probabilities(component, rows[~never])) == 0.0


# Where components begin


def test_clusters_begin_along_what_the_circuit_does_not_know():
    """Not along the dependence that it knows, which is stronger."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (4000, 6)).astype(np.uint8)
    X[:, 1] = np.where(rng.random(4000) < 0.95, X[:, 0], X[:, 1])
    model = Strudel(n_components=1, max_splits=0, validation_fraction=None).fit(X)
    circuit = as_bits(model.circuit_)
    kind = rng.random(4000) < 0.5
    X[:, 3:5] = np.where(rng.random((4000, 2)) < 0.7, kind[:, np.newaxis], X[:, 3:5])
    found = lacking_directions(circuit, pack_columns(X), None)
    together = X[:, 3].astype(float) + X[:, 4]
    assert abs(np.corrcoef(found[:, 0], together)[0, 1]) > 0.99
