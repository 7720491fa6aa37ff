from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from joint import NAN, REL, Joint, learned_circuit, mixture_models, models, special_circuits
from strategies import examples, sum_circuit
from strudel import Mixture, condition, log_likelihood, log_marginal
from strudel.algebra import marginalize
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.trees.vtree import Vtree, linear_vtree


def table_of(model, kept):
    """The probability of every state of some variables, the last changing fastest."""
    joint = Joint(model)
    states = oracle.all_rows(len(kept))
    return [math.fsum(joint.p[np.all(joint.states[:, kept] == x, axis=1)]) for x in states]


@examples(200)
@given(st.one_of(models(7), mixture_models(6)), st.data())
def test_a_marginal_is_that_of_the_table(model, data):
    order = data.draw(st.permutations(range(model.n_vars)))
    kept = list(order[: data.draw(st.integers(1, model.n_vars))])
    found = marginalize(model, kept)
    assert found.n_vars == len(kept)
    assert (found.structure if isinstance(found, Mixture) else found).is_in_normal_form
    np.testing.assert_allclose(Joint(found).p, table_of(model, kept), rtol=REL, atol=1e-300)


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
