"""Mistakes that were made once: each of these gave a wrong answer, or crashed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from strategies import mixed, random_mixture
from strudel import Strudel, log_likelihood, log_marginal, probability, sample, variables
from strudel.algebra import cross_entropy, divide
from strudel.circuits import CircuitBuilder, compile_factorized, figure_1_circuit
from strudel.logic import at_least
from strudel.logic.event_grammar import parse_event
from strudel.logic.formula import AND, LITERAL, Nnf
from strudel.logic.terms import event_of
from strudel.trees import balanced_vtree


@pytest.mark.compiled  # plain NumPy warns of what the compiled pass computes and does not use
def test_samples_of_a_component_with_absurd_parameters():
    mixture = random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))
    cells = mixture.leaf_log_p.copy()
    cells[:, 0] = np.where(np.arange(len(cells)) % 2, 0.0, -800.0)
    rows = sample(replace(mixture, leaf_log_p=cells), 200, random_state=0)
    assert rows.shape == (200, 4)


def test_a_mixture_has_arrays_of_its_own():
    mixture = random_mixture(figure_1_circuit(), 2, np.random.default_rng(0))
    mine = mixture.edge_log_theta.copy()
    copy = replace(mixture, edge_log_theta=mine)
    before = log_marginal(copy, [[1, 0, 1, 0]])
    mine[:] = -5.0  # still writable, and no longer theirs
    assert log_likelihood(copy, [[1, 0, 1, 0]]) == pytest.approx(before, rel=1e-12)


def rows_00_and_11():
    """Half of either, as two components that each know one row."""
    return mixed([compile_factorized(balanced_vtree(2), [p, p]) for p in (0.0, 1.0)])


def equal_values():
    """Uniform on x0 == x1."""
    builder = CircuitBuilder(balanced_vtree(2))
    builder.add_sum([(0, 2, 0.5), (1, 3, 0.5)])
    return builder.build()


def test_a_row_that_no_component_makes_possible_needs_no_cover():
    mixture, even = rows_00_and_11(), equal_values()
    assert cross_entropy(mixture, even) == pytest.approx(np.log(2.0))
    ratio = divide(mixture, even)
    assert np.exp(log_likelihood(ratio, [[0, 0], [1, 1]])) == pytest.approx([1.0, 1.0])


@pytest.mark.compiled
def test_counts_that_are_very_improbable():
    coins = compile_factorized(balanced_vtree(400), np.full(400, 0.01))
    found = probability(coins, at_least(399, variables(coins)), log=True)
    exact = np.logaddexp(400 * np.log(0.01), np.log(400) + 399 * np.log(0.01) + np.log(0.99))
    assert found == pytest.approx(exact, rel=1e-10)


def test_text_of_an_event_keeps_its_parentheses():
    nnf = Nnf(
        2,
        np.array([LITERAL, LITERAL, AND, AND], dtype=np.int32),
        np.array([1, 3, -1, -1], dtype=np.int32),
        np.array([0, 0, 0, 2, 3], dtype=np.int32),
        np.array([0, 1, 2], dtype=np.int32),
        np.full(4, -1, dtype=np.int32),
    )
    event = ~event_of(nnf)
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    again = parse_event(str(event))
    assert again.holds(rows, ["x0", "x1"]).tolist() == event.holds(rows).tolist()


def test_not_available_is_unknown_in_an_event():
    circuit = figure_1_circuit()
    event = variables(circuit)["X1"] & {"X2": pd.NA, "X3": 1}
    assert probability(circuit, event) == pytest.approx(probability(circuit, "X1 & X3"))


@pytest.mark.compiled
def test_few_rows_get_few_components():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (120, 1)).repeat(4, axis=1) ^ (rng.random((120, 4)) < 0.1)
    model = Strudel(max_splits=0, random_state=0).fit(X)
    assert model.circuit_.n_components <= 3 * 16
