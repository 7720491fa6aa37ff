"""Compression against enumeration: the same rows, one way for each, and the loss as stated."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import circuits, examples, seeds, split_circuit, vtrees, weights
from strudel import Circuit, CircuitPropertyError, Vtree, load_dataset, log_likelihood, read, write
from strudel.circuits import CircuitBuilder, compile_factorized, figure_1_circuit
from strudel.circuits.fingerprints import PRIME, fingerprints, plus, times
from strudel.circuits.properties import why_not_in_normal_form
from strudel.data import pack_columns
from strudel.learning import compress, fit_parameters, learn_structure
from strudel.learning.compression.compress import _simplify, _without_impossible_edges
from strudel.learning.compression.expected_counts import expected_counts
from strudel.learning.compression.merge_sums import merge_sums
from strudel.learning.compression.unite_edges import unite_edges
from strudel.trees import balanced_vtree

PRICES = st.sampled_from([0.0, 0.01, 0.3, 2.0, 50.0])


def rows_of(circuit, n, seed):
    """Rows drawn from the circuit's own distribution, by enumeration."""
    p = np.array(oracle.probabilities(circuit))
    rng = np.random.default_rng(seed)
    return np.array(oracle.all_rows(circuit.n_vars), np.uint8)[rng.choice(len(p), n, p=p / p.sum())]


def assert_sound(small, circuit):
    """Admits the same rows, every one in a single way, and gives them one in all."""
    assert why_not_in_normal_form(small) is None
    assert oracle.is_deterministic(small)
    before, after = np.array(oracle.probabilities(circuit)), np.array(oracle.probabilities(small))
    assert np.array_equal(before > 0, after > 0)
    assert after.sum() == pytest.approx(1.0, abs=1e-9)


def total_loss(circuit, small, total):
    """Nats that `total` rows of the circuit's distribution lose, by enumeration."""
    p, q = np.array(oracle.probabilities(circuit)), np.array(oracle.probabilities(small))
    some = p > 0
    return total * np.sum(p[some] * np.log(p[some] / q[some]))


@given(circuits(max_vars=5), seeds, st.sampled_from([0.0, 0.01, 0.3]), st.sampled_from([None, 1.0]))
@examples(40)
def test_the_same_rows_within_the_tolerance(circuit, seed, tolerance, pseudocount):
    train, valid = rows_of(circuit, 30, seed), rows_of(circuit, 15, seed + 1)
    small = compress(circuit, train, valid, tolerance=tolerance, pseudocount=pseudocount)
    assert_sound(small, circuit)
    assert small.n_edges <= circuit.n_edges

    def mean(circuit):
        return np.mean(oracle.log_likelihoods(circuit, valid))

    assert mean(small) >= mean(circuit) - tolerance - 1e-9


@given(circuits(max_vars=5), PRICES, PRICES)
def test_every_operation_is_sound_and_pays_at_most_its_price(circuit, price, few):
    circuit = _without_impossible_edges(circuit)
    united = unite_edges(circuit, 100.0, price)
    assert_sound(united, circuit)
    assert total_loss(circuit, united, 100.0) <= price * circuit.n_edges + 1e-6
    merged = merge_sums(circuit, 100.0, price, 0.0)
    assert_sound(merged, circuit)
    assert merged.n_edges <= circuit.n_edges
    saved = circuit.n_edges - merged.n_edges
    assert total_loss(circuit, merged, 100.0) <= price * saved + 1e-6
    assert_sound(merge_sums(circuit, 100.0, price, few), circuit)


@given(circuits(max_vars=5))
def test_for_nothing_the_distribution_stays_and_a_second_time_saves_nothing(circuit):
    circuit = _without_impossible_edges(circuit)
    small = _simplify(circuit, 100.0, 0.0)
    assert oracle.probabilities(small) == pytest.approx(oracle.probabilities(circuit), abs=1e-7)
    assert _simplify(small, 100.0, 0.0).n_edges == small.n_edges


@given(vtrees(max_vars=5, min_vars=2), seeds)
@examples(25)
def test_independent_fair_coins_lose_all_their_splits(vtree, seed):
    circuit = split_circuit(vtree, random.Random(seed), size=1)
    rows = oracle.all_rows(vtree.n_vars)
    circuit = fit_parameters(circuit, rows, pseudocount=0)
    small = compress(circuit, rows, tolerance=0)
    assert small.n_edges <= compile_factorized(vtree).n_edges
    assert oracle.probabilities(small) == pytest.approx([0.5**vtree.n_vars] * len(rows))


def chooser(p, q):
    """X0 chooses between two sums over X1 with these chances of a one."""
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    ends = [builder.add_leaf_sum(1, chance) for chance in (p, q)]
    literals = [builder.literal(0, value) for value in (0, 1)]
    return builder.build(
        builder.add_sum([(literals[0], ends[0], 0.25), (literals[1], ends[1], 0.75)])
    )


def test_merging_waits_for_the_price_of_its_real_loss():
    circuit, together = chooser(0.1, 0.3), chooser(0.25, 0.25)
    loss = total_loss(circuit, together, 200.0)
    price = loss / 2  # two edges less
    assert merge_sums(circuit, 200.0, price * 0.999, 0.0).n_edges == 6
    merged = merge_sums(circuit, 200.0, price * 1.001, 0.0)
    assert merged.n_edges == 4
    assert oracle.probabilities(merged) == pytest.approx(oracle.probabilities(together))


def two_choosers(p, q):
    """X0 chooses between sums over (X1, X2) that share their children, split by X1."""
    builder = CircuitBuilder(Vtree.from_nested((0, ((1, 2), 3))))
    left_vtree = [builder.add_leaf_sum(2, chance) for chance in (0.2, 0.6)]
    split = [
        builder.add_sum([(builder.literal(1, value), left_vtree[value], 1.0)]) for value in (0, 1)
    ]
    same = builder.add_leaf_sum(3, 0.3)
    tops = [
        builder.add_sum([(split[0], same, 1 - chance), (split[1], same, chance)])
        for chance in (p, q)
    ]
    zero, one = builder.literal(0, 0), builder.literal(0, 1)
    return builder.build(builder.add_sum([(zero, tops[0], 0.5), (one, tops[1], 0.5)]))


def test_uniting_waits_for_the_price_of_its_real_loss():
    circuit, together = two_choosers(0.1, 0.4), two_choosers(0.25, 0.25)
    loss = total_loss(circuit, together, 200.0)
    price = loss / 2  # one edge less in either sum
    assert unite_edges(circuit, 200.0, price * 0.999).n_edges == circuit.n_edges
    united = unite_edges(circuit, 200.0, price * 1.001)
    assert united.n_edges == circuit.n_edges - 2
    assert oracle.probabilities(united) == pytest.approx(oracle.probabilities(together))


def test_equal_sums_become_one():
    small = compress(chooser(0.3, 0.3), oracle.all_rows(2), tolerance=0, pseudocount=None)
    assert small.n_edges == 4
    assert oracle.probabilities(small) == pytest.approx(oracle.probabilities(chooser(0.3, 0.3)))


@pytest.mark.parametrize("theta", [0.0, 0.3, 1.0])
def test_one_variable(theta):
    builder = CircuitBuilder(Vtree.from_nested(0))
    circuit = builder.build(builder.add_leaf_sum(0, theta))
    small = compress(circuit, [[0], [1]], pseudocount=None)
    assert oracle.probabilities(small) == pytest.approx([1 - theta, theta])
    fixed = CircuitBuilder(Vtree.from_nested(0)).build(1)
    assert compress(fixed, [[1]]).n_edges == 0


def noisy_copies(n, rng):
    return rng.integers(0, 2, size=(n, 1)).repeat(8, axis=1) ^ (rng.random((n, 8)) < 0.2)


@pytest.mark.compiled
@pytest.mark.parametrize("tolerance", [0.0, 0.01, 0.1])
def test_a_learned_circuit_shrinks_and_keeps_what_it_says(rng, tolerance):
    train, valid = noisy_copies(1000, rng), noisy_copies(500, rng)
    circuit, history = learn_structure(train, valid)
    small = compress(circuit, train, valid, tolerance=tolerance, reference="given")
    before = log_likelihood(circuit, valid).mean()
    assert before == pytest.approx(history.valid[history.best])
    assert log_likelihood(small, valid).mean() >= before - tolerance - 1e-9
    assert small.n_edges <= 0.6 * circuit.n_edges
    assert small.is_deterministic
    best = compress(circuit, train, valid, tolerance=0.0)
    assert log_likelihood(best, valid).mean() >= before - 1e-9


@pytest.mark.compiled
def test_without_validation_rows_the_training_rows_judge(rng):
    train = noisy_copies(1000, rng)
    circuit, _ = learn_structure(train, noisy_copies(500, rng))
    small = compress(circuit, train, tolerance=0.02)
    assert small.n_edges < circuit.n_edges
    lost = log_likelihood(circuit, train).mean() - log_likelihood(small, train).mean()
    assert lost <= 0.02 + 1e-9


@given(circuits(max_vars=4), st.data())
@examples(20)
def test_a_weight_counts_like_so_many_rows(circuit, data):
    rows = rows_of(circuit, 8, 0)
    weight = np.ceil(data.draw(weights(8)) % 4)
    weight[0] = 2.0
    one = compress(circuit, pack_columns(rows, weight), tolerance=0.1)
    many = compress(circuit, np.repeat(rows, weight.astype(int), axis=0), tolerance=0.1)
    assert oracle.probabilities(one) == pytest.approx(oracle.probabilities(many))


def test_a_loaded_circuit(tmp_path):
    write(two_choosers(0.2, 0.2), tmp_path / "two.psdd")
    circuit = read(tmp_path / "two.psdd")
    assert isinstance(circuit, Circuit)
    small = compress(circuit, oracle.all_rows(4), tolerance=0, pseudocount=None)
    assert small.n_edges < circuit.n_edges
    assert_sound(small, circuit)


@pytest.mark.compiled
def test_half_the_edges_of_real_data(data_folder):
    rows = load_dataset("nltcs")
    circuit, history = learn_structure(rows.train, rows.valid)
    small = compress(circuit, rows.train, rows.valid)
    assert small.n_edges <= 0.5 * circuit.n_edges
    assert log_likelihood(small, rows.valid).mean() >= history.valid[history.best] - 0.01 - 1e-9
    assert small.is_deterministic


@pytest.mark.parametrize("name", ["psdd16Split3Complete", "psdd16Split3MD2"])
def test_splits_that_another_program_made_are_undone(data_folder, name):
    folder = data_folder / "circuits" / "psdd"
    if not folder.is_dir():
        pytest.skip("needs circuits/psdd in STRUDEL_DATA")
    before, split = read(folder / "psdd16Independent.psdd"), read(folder / f"{name}.psdd")
    rows = np.random.default_rng(0).integers(0, 2, (50, 16))
    small = compress(split, rows, tolerance=0, pseudocount=None)
    assert small.n_edges == before.n_edges < split.n_edges
    assert log_likelihood(small, rows) == pytest.approx(log_likelihood(before, rows), abs=1e-3)


def test_names_stay():
    names = ("a", "b", "c", "d")
    small = compress(figure_1_circuit().with_names(names), oracle.all_rows(4), tolerance=1.0)
    assert small.feature_names == names
    assert small.n_edges < figure_1_circuit().n_edges


def test_what_is_refused():
    circuit, rows = figure_1_circuit(), oracle.all_rows(4)
    with pytest.raises(ValueError, match="tolerance must be zero or more"):
        compress(circuit, rows, tolerance=-0.1)
    with pytest.raises(ValueError, match="pseudocount must be"):
        compress(circuit, rows, pseudocount=-1.0)
    with pytest.raises(ValueError, match="reference must be"):
        compress(circuit, rows, reference="worst")
    with pytest.raises(ValueError, match="3 columns, but the circuit has 4"):
        compress(circuit, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="3 columns, but the circuit has 4"):
        compress(circuit, np.zeros((2, 3)), rows)
    impossible = circuit.with_parameters(np.full(circuit.n_edges, -np.inf))
    with pytest.raises(ValueError, match="possible under the circuit"):
        compress(impossible, rows)
    builder = CircuitBuilder(balanced_vtree(2))
    both = [builder.add_leaf_sum(v, 0.5) for v in (0, 1)]
    twice = builder.build(
        builder.add_sum([(both[0], both[1], 0.5), (builder.literal(0, 1), both[1], 0.5)])
    )
    with pytest.raises(CircuitPropertyError, match="deterministic"):
        compress(twice, oracle.all_rows(2))


# The two tools


@given(circuits(max_vars=5))
def test_equal_fingerprints_mean_equal_rows(circuit):
    prints = fingerprints(circuit)
    holds = np.array([oracle.satisfied(circuit, row) for row in oracle.all_rows(circuit.n_vars)])
    for a, b in itertools.combinations(range(circuit.n_nodes), 2):
        if circuit.node_vtree[a] == circuit.node_vtree[b]:
            is_equal = np.array_equal(prints[a], prints[b])
            assert is_equal == np.array_equal(holds[:, a], holds[:, b])


@given(st.integers(0, 2**61 - 2), st.integers(0, 2**61 - 2))
def test_arithmetic_modulo_the_prime(a, b):
    assert int(plus(np.uint64(a), np.uint64(b))) == (a + b) % int(PRIME)
    assert int(times(np.uint64(a), np.uint64(b))) == a * b % int(PRIME)


@given(circuits(max_vars=5))
def test_expected_counts_are_those_of_all_rows(circuit):
    circuit = _without_impossible_edges(circuit)
    expected = np.zeros(circuit.n_edges)
    for row, p in zip(oracle.all_rows(circuit.n_vars), oracle.probabilities(circuit), strict=True):
        expected[oracle.active_edges(circuit, row)] += 50.0 * p
    assert expected_counts(circuit, 50.0) == pytest.approx(expected)


def test_what_is_not_a_circuit_is_refused():
    with pytest.raises(TypeError, match="got dict"):
        compress({}, [[0], [1]])
