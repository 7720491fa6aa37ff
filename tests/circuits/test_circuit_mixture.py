"""Mixtures of circuits with structures of their own: the union, its parts, and what is refused."""

import math
import pickle
import random

import numpy as np
import pytest
from hypothesis import given

import oracle
from joint import Joint, swapped_circuit
from strategies import circuit_mixtures, examples, split_circuit
from strudel import CircuitPropertyError
from strudel.circuits import CircuitMixture, compile_factorized, figure_1_circuit
from strudel.circuits.circuit_mixture import average_circuits
from strudel.trees import balanced_vtree, linear_vtree


def small():
    """Figure 1 and four fair coins on its vtree."""
    circuit = figure_1_circuit()
    coins = compile_factorized(circuit.vtree).with_names(circuit.feature_names)
    return CircuitMixture([circuit, coins], np.log([0.25, 0.75]))


@examples(60)
@given(circuit_mixtures(5))
def test_the_union_holds_every_component(mixture):
    parts = [oracle.probabilities(part) for part in mixture.circuits]
    for c, expected in enumerate(parts):
        column = mixture.structure.with_parameters(mixture.edge_log_theta[:, c])
        assert oracle.probabilities(column) == pytest.approx(expected, rel=1e-12)
    whole = mixture.weights @ np.array(parts)
    assert oracle.probabilities(mixture.to_circuit()) == pytest.approx(whole, rel=1e-12)
    assert mixture.structure.is_in_normal_form
    assert mixture.has_deterministic_components
    assert mixture.structure.n_edges == mixture.n_edges
    assert mixture.structure.n_nodes == mixture.n_nodes


def test_every_edge_belongs_to_one_component():
    mixture = small()
    assert np.all((mixture.edge_log_theta > -np.inf).sum(axis=1) == 1)
    assert not mixture.structure.is_deterministic


def test_sizes_add_up():
    mixture = small()
    circuit, coins = mixture.circuits
    assert mixture.n_edges == circuit.n_edges + coins.n_edges
    assert mixture.n_nodes == 8 + (circuit.n_nodes - 9) + (coins.n_nodes - 9) + 1
    assert mixture.n_parameters == circuit.n_parameters + coins.n_parameters + 2
    assert mixture.components() == [circuit, coins]
    assert mixture.component(1) is coins
    assert mixture.feature_names == ("X1", "X2", "X3", "X4")


def test_weights_are_alike_by_default():
    assert CircuitMixture(small().circuits).weights.tolist() == pytest.approx([0.5, 0.5])


def test_names_and_pickles():
    named = small().with_names(tuple("abcd"))
    assert named.feature_names == tuple("abcd")
    again = pickle.loads(pickle.dumps(named))
    assert isinstance(again, CircuitMixture)
    assert repr(again) == repr(named)
    assert np.array_equal(Joint(again).p, Joint(named).p)
    assert "<svg" in named._repr_html_()


def test_an_average_has_all_components():
    found = average_circuits([small(), small()])
    assert found.n_components == 4
    assert found.weights.tolist() == pytest.approx([0.125, 0.375] * 2)
    assert Joint(found).p.tolist() == pytest.approx(Joint(small()).p.tolist(), rel=1e-12)


def test_a_component_that_is_not_deterministic_is_noticed():
    vtree = balanced_vtree(4)
    parts = [split_circuit(vtree, random.Random(0)), small_sum(vtree)]
    assert not CircuitMixture(parts).has_deterministic_components


def small_sum(vtree):
    """Two sets of coins, either of which may give a row."""
    coins = compile_factorized(vtree)
    return CircuitMixture([coins, coins]).to_circuit()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CircuitMixture([]), "at least one"),
        (lambda: CircuitMixture(small().circuits, [0.0]), "2 circuits and 1 weights"),
        (lambda: CircuitMixture(small().circuits, np.log([0.5, 0.4])), "add up to 0.9"),
        (lambda: CircuitMixture(small().circuits, [math.nan, 0.0]), "must be numbers"),
        (lambda: CircuitMixture(small().circuits, [[0.0]]), "one weight per component"),
        (
            lambda: CircuitMixture(
                [compile_factorized(f(4)) for f in (balanced_vtree, linear_vtree)]
            ),
            "components 0 and 1 are not on one vtree",
        ),
        (
            lambda: CircuitMixture([small().circuits[0], small().circuits[1].with_names(None)]),
            "name their variables differently",
        ),
    ],
)
def test_what_is_not_a_mixture(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_components_must_be_in_normal_form():
    with pytest.raises(CircuitPropertyError, match="CircuitMixture needs a circuit in normal form"):
        CircuitMixture([swapped_circuit()])
