from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from joint import NAN, REL, learned_circuit, models, special_circuits
from strategies import examples, sum_circuit
from strudel import condition, log_likelihood, log_marginal
from strudel.algebra import marginalize
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.trees.vtree import Vtree, linear_vtree


def table_of(circuit, kept):
    """The probability of every state of some variables, the last changing fastest."""
    total = dict.fromkeys(itertools.product((0, 1), repeat=len(kept)), 0.0)
    rows = oracle.all_rows(circuit.n_vars)
    for row, p in zip(rows, oracle.probabilities(circuit), strict=True):
        total[tuple(row[var] for var in kept)] += p
    return list(total.values())


@examples(200)
@given(models(7), st.data())
def test_a_marginal_is_that_of_the_table(circuit, data):
    order = data.draw(st.permutations(range(circuit.n_vars)))
    kept = list(order[: data.draw(st.integers(1, circuit.n_vars))])
    found = marginalize(circuit, kept)
    assert found.n_vars == len(kept)
    assert found.is_in_normal_form
    expected = table_of(circuit, kept)
    np.testing.assert_allclose(oracle.probabilities(found), expected, rtol=REL, atol=0.0)


def test_special_circuits():
    for circuit in special_circuits().values():
        for kept in ([0], list(range(circuit.n_vars))[::-2]):
            found = oracle.probabilities(marginalize(circuit, kept))
            np.testing.assert_allclose(found, table_of(circuit, kept), rtol=REL, atol=0.0)


def test_the_vtree_loses_leaves():
    circuit = compile_factorized(Vtree.from_nested(((0, (1, 2)), ((3, 4), 5))))
    assert marginalize(circuit, [1, 2, 5]).vtree == Vtree.from_nested(((0, 1), 2))
    assert marginalize(circuit, [5, 3, 0]).vtree == Vtree.from_nested((2, (1, 0)))
    assert marginalize(circuit, [4]).vtree == Vtree.from_nested(0)


def test_names_go_along():
    p = figure_1_circuit()
    assert marginalize(p, ["X4", "X1"]).feature_names == ("X4", "X1")
    assert marginalize(p, "X2").feature_names == ("X2",)
    with pytest.raises(ValueError, match="'X9'"):
        marginalize(p, ["X9"])


def test_nothing_summed_out_is_nothing_changed():
    p = figure_1_circuit()
    same = marginalize(p, range(4))
    assert (same.n_nodes, same.n_edges) == (p.n_nodes, p.n_edges)
    assert same.is_deterministic


def test_the_total_stays_unless_normalised():
    joint = condition(figure_1_circuit(), {"X3": 1}, normalize=False)
    kept = marginalize(joint, ["X1", "X2"])
    assert math.fsum(oracle.probabilities(kept)) == pytest.approx(0.6)
    kept = marginalize(joint, ["X1", "X2"], normalize=True)
    assert oracle.probabilities(kept) == pytest.approx([0.06, 0.54, 0.04, 0.36])
    none = condition(compile_factorized(joint.vtree, [0.0] * 4), {0: 1}, normalize=False)
    assert oracle.probabilities(marginalize(none, [0, 1])) == [0.0] * 4
    with pytest.raises(ValueError, match="zero everywhere"):
        marginalize(none, [0, 1], normalize=True)


def test_a_few_variables_of_a_large_circuit_are_a_table():
    circuit = learned_circuit(0, n_splits=15)
    found = marginalize(circuit, [1, 4, 6])
    assert found.n_edges <= 8 + 4
    assert found.is_deterministic
    np.testing.assert_allclose(oracle.probabilities(found), table_of(circuit, [1, 4, 6]), rtol=REL)


def test_a_table_keeps_a_total_that_is_no_number():
    circuit = learned_circuit(0, n_splits=15)
    is_top = circuit.edge_parent == circuit.root
    faint = circuit.with_parameters(circuit.edge_log_theta - 1000.0 * is_top)
    states = np.array(oracle.all_rows(3))
    expected = log_likelihood(marginalize(circuit, [1, 4, 6]), states) - 1000.0
    found = log_likelihood(marginalize(faint, [1, 4, 6]), states)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_one_variable_with_a_hidden_choice():
    vtree = Vtree.from_nested(0)
    for seed in range(20):
        twice = sum_circuit(vtree, random.Random(seed), size=1)
        found = oracle.probabilities(marginalize(twice, [0]))
        np.testing.assert_allclose(found, oracle.probabilities(twice), rtol=REL)


def test_too_many_edges_are_refused():
    circuit = special_circuits()["learned 0"]
    with pytest.raises(ValueError, match="more than max_edges = 3"):
        marginalize(circuit, [0, 3, 5], max_edges=3)


@pytest.mark.compiled
def test_a_thousand_variables(rng):
    theta = rng.uniform(0.2, 0.8, 1000)
    p = compile_factorized(linear_vtree(1000), theta)
    kept = rng.permutation(1000)[:300]
    row = rng.integers(0, 2, (1, 300))
    whole = np.full((1, 1000), NAN)
    whole[0, kept] = row[0]
    found = log_likelihood(marginalize(p, kept), row)
    np.testing.assert_allclose(found, log_marginal(p, whole), rtol=1e-12)
