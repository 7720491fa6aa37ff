"""Learning from rows with unknown values: completions, coins, known shares."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from column_circuits import as_bits, bit_mixtures, components_of, random_bit_mixture
from strudel import log_likelihood
from strudel._numba import use_threads
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.learning.bits.fold import folded
from strudel.learning.bits.mixture import BitMixture
from strudel.learning.incomplete import partial_rows
from strudel.learning.structural_em import complete_rows, with_coins, with_known_shares
from strudel.trees import balanced_vtree
from strudel.trees.vtree import Vtree


@settings(max_examples=15)
@given(bit_mixtures(max_vars=3), st.integers(0, 2**31), st.data())
def test_completions_have_the_frequencies_of_the_conditional(mixture, seed, data):
    code = data.draw(
        st.lists(st.sampled_from([0, 1, 2]), min_size=mixture.n_vars, max_size=mixture.n_vars)
    )
    row = [math.nan if value == 2 else value for value in code]
    joint = {
        full: sum(
            share * oracle.probability(part, full)
            for part, share in zip(components_of(mixture), mixture.weights, strict=True)
        )
        for full in oracle.completions([float(x) for x in row])
    }
    total = sum(joint.values())
    codes = np.array([code], dtype=np.uint8)
    rng = np.random.default_rng(seed)
    if total == 0.0:
        with pytest.raises(ValueError, match="probability zero"):
            complete_rows(mixture, codes, 3, rng)
        return
    drawn = complete_rows(mixture, codes, 800, rng)[0]
    for full, p in joint.items():
        share = np.mean(np.all(drawn == full, axis=1))
        assert share == pytest.approx(p / total, abs=0.1)
        assert p > 0.0 or share == 0.0


def test_threads_change_no_completion():
    codes = np.random.default_rng(0).integers(0, 3, (700, 4)).astype(np.uint8)
    found = []
    for n_threads in (1, 2):
        with use_threads(n_threads):
            found.append(
                complete_rows(as_bits(figure_1_circuit()), codes, 2, np.random.default_rng(1))
            )
    assert np.array_equal(*found)
    known = codes != 2
    assert np.array_equal(found[0][:, 0][known], codes[known])


@pytest.mark.parametrize("kind", ["circuit", "mixture"])
def test_coins_leave_the_rest_of_a_model_alone(kind):
    model = circuit = as_bits(figure_1_circuit())
    if kind == "mixture":
        model = random_bit_mixture(circuit, 3, np.random.default_rng(0))
    wide = with_coins(model, np.array([True, False, True, True, False, True]))
    rows = np.array(oracle.all_rows(6))
    expected = log_likelihood(folded(model), rows[:, [0, 2, 3, 5]]) + 2 * math.log(0.5)
    assert log_likelihood(folded(wide), rows) == pytest.approx(expected)


def test_known_columns_alone_need_no_coins():
    circuit = compile_factorized(Vtree.from_nested((0, 1)))
    assert with_coins(circuit, np.array([True, True])) is circuit


def two_components():
    """Rows begin with 1 in the first component, and with 0 in the second; the rest is even."""
    parts = [as_bits(compile_factorized(balanced_vtree(2), [p, 0.5])) for p in (1.0 - 1e-9, 1e-9)]
    log_theta = np.column_stack([part.edge_log_theta for part in parts])
    return BitMixture(parts[0], log_theta, np.log([0.5, 0.5]))


def gaps_of(rows):
    return SimpleNamespace(train_rows=partial_rows(np.array(rows, dtype=float)))


def test_shares_are_those_of_the_rows_of_each_component():
    rows = [[1, 0]] * 300 + [[1, np.nan]] * 100 + [[0, 1]] * 10 + [[0, np.nan]] * 190
    found = with_known_shares(two_components(), gaps_of(rows)).known
    np.testing.assert_array_equal(found[0], 1.0)
    share = 310 / 600  # of all rows, a thousandth of which counts as more of each component
    expected = [(300 + 0.6 * share) / 400.6, (10 + 0.6 * share) / 200.6]
    np.testing.assert_allclose(found[1], expected, rtol=1e-6)


@pytest.mark.parametrize("gaps", [None, SimpleNamespace(train_rows="in partitions")])
def test_without_rows_in_memory_nothing_is_known(gaps):
    mixture = two_components()
    assert with_known_shares(mixture, gaps) is mixture
