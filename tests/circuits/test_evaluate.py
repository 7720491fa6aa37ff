from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import circuits, examples, partly_observed_rows, split_circuit
from strudel._numba import use_threads
from strudel.circuits import figure_1_circuit
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.compile import compile_factorized
from strudel.errors import CircuitPropertyError
from strudel.learning.bits import evaluate
from strudel.learning.bits.evaluate import evaluate_log
from strudel.trees.vtree import Vtree, balanced_vtree, random_vtree

NAN = math.nan


@examples(200)
@given(st.one_of(circuits(6), circuits(6, deterministic=False)), st.data())
def test_log_probability_is_the_sum_over_unknown_values(circuit, data):
    rows = data.draw(st.lists(partly_observed_rows(circuit.n_vars), min_size=1, max_size=4))
    for found, row in zip(evaluate_log(circuit, rows), rows, strict=True):
        assert found == pytest.approx(oracle.log_marginal(circuit, row), rel=1e-10, abs=1e-12)


def test_small_probabilities_do_not_underflow():
    circuit = compile_factorized(balanced_vtree(200), np.full(200, 1e-9))
    found = evaluate_log(circuit, np.ones((1, 200)))
    assert found[0] == pytest.approx(200 * math.log(1e-9), rel=1e-12)


def test_blocks_and_threads_do_not_change_the_result(monkeypatch, rng):
    circuit = split_circuit(random_vtree(8, 0), random.Random(0), size=6)
    rows = rng.integers(0, 2, (50, 8)).astype(float)
    rows[rng.random(rows.shape) < 0.5] = NAN
    expected = evaluate_log(circuit, rows)
    monkeypatch.setattr(evaluate, "BLOCK_VALUES", 1)
    monkeypatch.setattr(evaluate, "MIN_BLOCK_ROWS", 7)
    np.testing.assert_array_equal(evaluate_log(circuit, rows), expected)
    with use_threads(1):
        np.testing.assert_array_equal(evaluate_log(circuit, rows), expected)


def test_a_circuit_that_is_not_smooth_is_refused():
    circuit = CircuitBuilder(Vtree.from_nested((0, 1)))
    root = circuit._add(2, [(1, 3, 0.5), (0, -1, 0.5)])
    with pytest.raises(CircuitPropertyError, match="evaluate_log needs a smooth circuit, but edge"):
        evaluate_log(circuit.build(root), [[0, 0]])


def test_a_circuit_that_is_not_decomposable_is_refused():
    circuit = CircuitBuilder(Vtree.from_nested((0, 1)))
    twice = circuit._add(2, [(1, 3, 1.0)])
    root = circuit._add(2, [(1, twice, 1.0)])
    with pytest.raises(CircuitPropertyError, match="needs a decomposable circuit, but both"):
        evaluate_log(circuit.build(root), [[0, 0]])


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match="evidence has 3 features"):
        evaluate_log(figure_1_circuit(), [[0, 0, 0]])
