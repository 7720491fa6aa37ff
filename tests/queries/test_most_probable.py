from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from column_circuits import category_column, column_circuits, deterministic_circuit, joint_of
from joint import REL, Joint, models_with_rows
from strategies import circuits, examples, seeds
from strudel import log_likelihood, most_probable_state
from strudel.circuits import compile_chow_liu, compile_factorized, figure_1_circuit
from strudel.circuits.properties import why_not_deterministic
from strudel.queries.best_states import best_states, k_best_states
from strudel.queries.state_bounds import Question
from strudel.queries.state_search import StateSearch
from strudel.tables.evidence import nothing_known
from strudel.tables.schema import Columns
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu
from strudel.trees.vtree import balanced_vtree, linear_vtree, random_vtree


@examples(200)
@given(models_with_rows(7, model=circuits))
def test_the_best_completion_is_that_of_the_table(case):
    circuit, joint, rows = case
    states, log_p = most_probable_state(circuit, rows)
    for row, state, found in zip(rows, states, log_p, strict=True):
        expected_state, expected = joint.best(row, 1)
        assert found == pytest.approx(expected[0], rel=REL, abs=1e-12)
        assert state.tolist() == expected_state[0].tolist()


@examples(200)
@given(models_with_rows(6, max_rows=3, model=circuits), st.integers(2, 20))
def test_the_k_best_completions_are_those_of_the_table(case, k):
    circuit, joint, rows = case
    states, log_p = most_probable_state(circuit, rows, k=k)
    assert states.shape == (len(rows), k, circuit.vtree.n_vars)
    for row, state, found in zip(rows, states, log_p, strict=True):
        expected_state, expected = joint.best(row, k)
        n_found = len(expected)
        assert found[:n_found] == pytest.approx(expected, rel=REL, abs=1e-12)
        assert state[:n_found].tolist() == expected_state.tolist()
        assert np.all(found[n_found:] == -math.inf)


@pytest.mark.parametrize("make", [balanced_vtree, linear_vtree, lambda n: random_vtree(n, 3)])
def test_ties_are_in_the_order_of_states(make):
    circuit = compile_factorized(make(5))
    states, log_p = most_probable_state(circuit, k=32)
    assert states.tolist() == [list(state) for state in oracle.all_rows(5)]
    assert log_p == pytest.approx(np.full(32, -5 * math.log(2)))
    assert most_probable_state(circuit)[0].tolist() == [0, 0, 0, 0, 0]
    state, _ = most_probable_state(circuit, {1: 1, 3: 1})
    assert state.tolist() == [0, 1, 0, 1, 0]


def test_ties_of_many_variables_are_in_the_order_of_states():
    # More than one word of 64 variables, and variables in another order than the leaves.
    circuit = compile_factorized(random_vtree(130, 0))
    states, _ = most_probable_state(circuit, k=5)
    expected = np.zeros((5, 130), dtype=np.uint8)
    expected[:, -3:] = oracle.all_rows(3)[:5]
    np.testing.assert_array_equal(states, expected)


def test_more_than_there_are():
    circuit = compile_factorized(balanced_vtree(3), [0.5, 1.0, 0.25])
    states, log_p = most_probable_state(circuit, {0: 1}, k=6)
    assert states[:2].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert np.exp(log_p).tolist() == pytest.approx([0.375, 0.125, 0, 0, 0, 0])
    assert np.all(np.isneginf(log_p[2:]))


def test_figure_1():
    state, log_p = most_probable_state(figure_1_circuit())
    assert math.exp(log_p) == pytest.approx(0.6 * 0.8 * 0.6 * 0.9)
    assert state.tolist() == [0, 1, 1, 0]


@pytest.mark.compiled
def test_a_wide_tree_is_maximal_under_flips(rng):
    data = (rng.random((300, 1000)) < rng.random(1000)) ^ (rng.random((300, 1)) < 0.5)
    tree = learn_chow_liu_tree(data.astype(np.uint8), alpha=1.0)
    circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    states, log_p = most_probable_state(circuit, k=4)
    np.testing.assert_allclose(log_likelihood(circuit, states), log_p, rtol=1e-12)
    flips = np.repeat(states[:1], 1000, axis=0)
    flips[np.arange(1000), np.arange(1000)] ^= 1
    assert log_likelihood(circuit, flips).max() <= log_p[0] + 1e-9


@pytest.mark.parametrize("k", [0, -1, 1.5, "2"])
def test_a_bad_k_is_refused(k):
    with pytest.raises(ValueError, match="k must be a whole number"):
        most_probable_state(figure_1_circuit(), k=k)


def test_too_much_memory_is_refused():
    with pytest.raises(ValueError, match=r"need .* GiB of working memory .* Ask for a smaller k"):
        most_probable_state(compile_factorized(balanced_vtree(40)), k=10**9)


@given(circuits(5, deterministic=False), st.integers(1, 4))
def test_a_circuit_that_is_not_deterministic_is_searched(circuit, k):
    states, log_p = most_probable_state(circuit, k=k)
    _, expected = Joint(circuit).best([math.nan] * circuit.vtree.n_vars, k)
    assert np.atleast_1d(log_p)[: len(expected)] == pytest.approx(expected, rel=REL, abs=1e-11)
    assert states.shape[-1] == circuit.vtree.n_vars


@examples(60)
@given(column_circuits(), st.integers(1, 5), seeds)
def test_columns_with_several_cells(circuit, k, seed):
    check_columns(circuit, k, np.random.default_rng(seed))


@examples(60)
@given(st.integers(1, 5), seeds)
def test_deterministic_circuits_of_columns(k, seed):
    rng = random.Random(seed)
    columns = Columns(tuple(category_column(f"x{i}", rng.randint(2, 5)) for i in range(4)))
    circuit = deterministic_circuit(columns, random_vtree(4, rng.randrange(100)), rng)
    check_columns(circuit, k, np.random.default_rng(seed))


def check_columns(circuit, k, rng):
    """The k best rows agree with the table of all, given cells and sets of cells."""
    joint = joint_of(circuit)
    evidence = nothing_known(circuit.columns)
    for place, column in enumerate(circuit.columns):
        weights = rng.integers(0, 2, column.n_cells) * rng.random(column.n_cells)
        if weights.any() and rng.random() < 0.5:
            evidence = replace(
                evidence,
                codes=np.where(
                    np.arange(len(circuit.columns)) == place, column.n_cells + 1, evidence.codes
                ).astype(np.int32),
                weights=tuple(
                    np.array([np.ones(column.n_cells), weights]) if at == place else own
                    for at, own in enumerate(evidence.weights)
                ),
            )
            joint = joint * weights.reshape([-1 if at == place else 1 for at in range(joint.ndim)])
    if not joint.any():
        return
    cells, log_p = best_cells(circuit, evidence, k)
    expected = np.sort(joint.ravel())[::-1][:k]
    expected = expected[expected > 0.0]
    assert log_p[: len(expected)] == pytest.approx(np.log(expected), rel=REL, abs=1e-11)
    assert np.all(log_p[len(expected) :] == -math.inf)
    own = [joint[tuple(state)] for state in cells[: len(expected)]]
    assert own == pytest.approx(expected, rel=1e-9)
    assert len({tuple(state) for state in cells[: len(expected)].tolist()}) == len(expected)


def best_cells(circuit, evidence, k):
    """Cells of the k best states, of one component by itself or by a search."""
    if why_not_deterministic(circuit) is None:
        cells, log_p = (
            best_states(circuit, evidence) if k == 1 else k_best_states(circuit, evidence, k)
        )
        return cells[0], log_p[0]
    search = StateSearch(Question(circuit, evidence, range(len(circuit.columns)), k), 0)
    search.run(math.inf, math.inf)
    cells, log_p = search.states()
    return cells, np.append(log_p, np.full(k - len(log_p), -math.inf))
