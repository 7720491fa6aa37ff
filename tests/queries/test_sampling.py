from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from joint import (
    NAN,
    Joint,
    models_with_rows,
    special_circuits,
    steep_circuit,
    steep_row,
    swapped_circuit,
)
from strategies import partition_circuit, seeds, split_circuit, sum_circuit
from strudel import CircuitPropertyError, sample
from strudel._numba import use_threads
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.circuits.builder import CircuitBuilder
from strudel.queries import sampling
from strudel.trees.vtree import Vtree, balanced_vtree, random_vtree


def chi_square(rows, p):
    """The chance of rows as unlikely as these, if `p` were right; rare states are put together."""
    n_vars = rows.shape[1]
    number = rows @ (1 << np.arange(n_vars)[::-1])
    found, expected = np.bincount(number, minlength=len(p)), p * len(rows)
    assert np.all(found[p == 0.0] == 0)
    is_rare = expected < 5
    found = np.append(found[~is_rare], found[is_rare].sum())
    expected = np.append(expected[~is_rare], expected[is_rare].sum())
    if expected[-1] < 5:
        found, expected = found[:-1], expected[:-1]
    if len(expected) < 2:
        return 1.0
    return stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue


def examples():
    makers = [split_circuit, partition_circuit, sum_circuit, sum_circuit]
    made = [
        make(random_vtree(5, seed), random.Random(seed), size=4) for seed, make in enumerate(makers)
    ]
    return [*made, figure_1_circuit(), special_circuits()["learned 0"], special_circuits()["zeros"]]


@pytest.mark.parametrize("i", range(7))
def test_free_samples_have_the_right_distribution(i):
    circuit = examples()[i]
    rows = sample(circuit, 4000, random_state=i)
    assert chi_square(rows, Joint(circuit).p) > 1e-3


@pytest.mark.parametrize("i", range(7))
def test_conditional_samples_have_the_right_distribution(i, rng):
    circuit = examples()[i]
    joint = Joint(circuit)
    states = joint.states[joint.p > 0]
    known = np.where(rng.random(circuit.n_vars) < 0.4, states[rng.integers(len(states))], NAN)
    rows = sample(circuit, 4000, known, random_state=i)
    assert chi_square(rows, joint.given(known)) > 1e-3


def test_the_chi_square_test_finds_a_wrong_distribution():
    rows = sample(figure_1_circuit(), 4000, random_state=0)
    p = np.roll(Joint(figure_1_circuit()).p, 1)
    assert chi_square(rows, p) < 1e-6


@pytest.mark.compiled
def test_a_thousand_variables_have_their_means(rng):
    p = rng.random(1000)
    rows = sample(compile_factorized(balanced_vtree(1000), p), 4000, random_state=0)
    z = (rows.mean(axis=0) - p) / np.sqrt(p * (1 - p) / 4000)
    assert stats.kstest(z, "norm").pvalue > 1e-3


@given(models_with_rows(6), seeds)
def test_completions_agree_with_the_evidence_and_are_possible(case, seed):
    circuit, joint, rows = case
    found = sample(circuit, 3, rows, random_state=seed)
    assert found.shape == (len(rows), 3, circuit.n_vars)
    assert found.dtype == np.uint8
    for row, completions in zip(rows, found, strict=True):
        for state in completions:
            assert joint.given(row)[int("".join(map(str, state)), 2)] > 0.0


@given(st.integers(0, 40), seeds)
def test_the_same_seed_gives_the_same_rows(n, seed):
    circuit = figure_1_circuit()
    np.testing.assert_array_equal(
        sample(circuit, n, random_state=seed), sample(circuit, n, random_state=seed)
    )
    rng = np.random.default_rng(seed)
    np.testing.assert_array_equal(
        sample(circuit, n, random_state=rng), sample(circuit, n, random_state=seed)
    )
    assert sample(circuit, n, random_state=seed).shape == (n, 4)


def test_a_generator_moves_on():
    rng = np.random.default_rng(0)
    first, second = (
        sample(figure_1_circuit(), 50, random_state=rng),
        sample(figure_1_circuit(), 50, random_state=rng),
    )
    assert not np.array_equal(first, second)


@pytest.mark.compiled
def test_threads_and_blocks_do_not_change_the_result(monkeypatch, rng):
    circuit = special_circuits()["learned 0"]
    rows = np.where(rng.random((40, 8)) < 0.7, NAN, rng.integers(0, 2, (40, 8)))
    free, given_rows = (
        sample(circuit, 3000, random_state=1),
        sample(circuit, 77, rows, random_state=1),
    )
    with use_threads(1):
        np.testing.assert_array_equal(sample(circuit, 3000, random_state=1), free)
        np.testing.assert_array_equal(sample(circuit, 77, rows, random_state=1), given_rows)
    monkeypatch.setattr(sampling, "PIECE", 10)
    monkeypatch.setattr(sampling, "BLOCK_NUMBERS", 1)
    np.testing.assert_array_equal(sample(circuit, 3000, random_state=1), free)
    np.testing.assert_array_equal(sample(circuit, 77, rows, random_state=1), given_rows)


@pytest.mark.compiled
@pytest.mark.parametrize(("n_steep", "theta"), [(60, 1e-3), (150, 1e-3), (9, 1e-200)])
def test_nodes_far_apart_lose_nothing(n_steep, theta):
    circuit, row = steep_circuit(n_steep, theta), steep_row(n_steep)
    rows = sample(circuit, 1000, [row, row], random_state=0)
    assert rows.shape == (2, 1000, n_steep + 4)
    rows = rows.reshape(2000, -1)
    assert np.all(rows[:, :n_steep] == 1)
    mild = rows[:, [n_steep, n_steep + 1, n_steep + 3]]
    p = np.einsum("i,j,k->ijk", [0.7, 0.3], [0.1, 0.9], [0.8, 0.2]).ravel()
    assert chi_square(mild, p) > 1e-3


def test_lost_rows_may_be_cut_into_pieces(monkeypatch):
    circuit, row = steep_circuit(60), steep_row(60)
    expected = sample(circuit, 50, [row, np.full(64, NAN)], random_state=0)
    monkeypatch.setattr(sampling, "PIECE", 7)
    monkeypatch.setattr(sampling, "BLOCK_NUMBERS", 1)
    found = sample(circuit, 50, [row, np.full(64, NAN)], random_state=0)
    np.testing.assert_array_equal(found, expected)


def test_impossible_evidence_is_refused():
    rows = [[NAN] * 5, [1, NAN, NAN, NAN, NAN]]
    with pytest.raises(ValueError, match="Row 1 of the evidence has probability zero"):
        sample(special_circuits()["zeros"], 3, given=rows)


@pytest.mark.parametrize("n", [-1, 2.5, "3"])
def test_a_bad_number_of_rows_is_refused(n):
    with pytest.raises(ValueError, match="n_samples must be a whole number of rows, zero or more"):
        sample(figure_1_circuit(), n)


def test_circuits_without_the_property_are_refused():
    with pytest.raises(CircuitPropertyError, match="sample needs a circuit in normal form"):
        sample(swapped_circuit(), 2)
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    circuit = builder.build(builder._add(2, [(1, 3, 0.5), (0, -1, 0.5)]))
    with pytest.raises(CircuitPropertyError, match="sample needs a smooth circuit"):
        sample(circuit, 2, given=[NAN, 1])


@pytest.mark.parametrize("known", [None, {"X3": 1}, [[NAN, 1, NAN, NAN], [NAN] * 4]])
def test_a_seed_may_be_a_number_a_generator_or_a_random_state(known):
    circuit = figure_1_circuit()
    first = sample(circuit, 20, known, random_state=7)
    np.testing.assert_array_equal(sample(circuit, 20, known, np.random.default_rng(7)), first)
    state = np.random.RandomState(7)
    of_state = [sample(circuit, 20, known, state) for _ in range(2)]
    again = sample(circuit, 20, known, np.random.RandomState(7))
    np.testing.assert_array_equal(of_state[0], again)
    assert not np.array_equal(*of_state)  # its numbers go on
    assert sample(circuit, 20, known).shape == first.shape
