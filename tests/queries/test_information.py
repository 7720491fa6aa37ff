from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_circuits import column_circuits, deterministic_circuit, some_given, table_of
from joint import NAN, REL, Joint, special_circuits, special_joint, special_mixtures
from strategies import examples, seeds
from strudel import CircuitPropertyError, condition, entropy, mutual_information
from strudel.algebra import marginalization
from strudel.circuits import (
    compile_factorized,
    figure_1_circuit,
    why_not_deterministic,
)
from strudel.circuits.builder import CircuitBuilder
from strudel.queries import cells
from strudel.queries.hidden_choices import HiddenChoices
from strudel.trees.vtree import balanced_vtree, linear_vtree

TINY = 1e-13  # the entropies that are subtracted are of the size of 1, so rounding leaves this


def binary_entropy(p):
    return -sum(x * math.log(x) for x in (p, 1 - p) if x > 0)


def entropy_of(p):
    return -math.fsum(x * math.log(x) for x in np.ravel(p) if x > 0)


@examples(200)
@given(column_circuits(max_columns=5), seeds, st.booleans(), st.data())
def test_entropies_are_those_of_the_table(circuit, seed, is_deterministic, data):
    if is_deterministic:
        circuit = deterministic_circuit(circuit.columns, circuit.vtree, random.Random(seed))
    known, weights = data.draw(some_given(circuit.columns))
    p = table_of(circuit) * weights
    if not p.any():
        return
    p /= p.sum()
    assert entropy(circuit, known) == pytest.approx(entropy_of(p), rel=REL, abs=TINY)
    n_columns = len(circuit.columns)
    if n_columns == 1:
        return
    order = data.draw(st.permutations(range(n_columns)))
    first = data.draw(st.integers(1, n_columns - 1))
    last = data.draw(st.integers(first + 1, n_columns))
    a, b, rest = order[:first], order[first:last], order[last:]
    joint = p.transpose(order).reshape(math.prod(p.shape[place] for place in a), -1, 1)
    joint = joint.reshape(len(joint), math.prod(p.shape[place] for place in b), -1).sum(axis=2)
    expected = entropy_of(joint.sum(axis=0)) + entropy_of(joint.sum(axis=1)) - entropy_of(joint)
    found = mutual_information(circuit, a, b, known)
    assert found == pytest.approx(expected, rel=REL, abs=TINY)
    given_row = condition(circuit, known)
    if given_row.n_components == 1:
        kept = marginalization.without_others(given_row, sorted([*a, *b])) if rest else given_row
        hidden = HiddenChoices(kept).entropy(10**6)
        assert hidden == pytest.approx(entropy_of(joint), rel=REL, abs=TINY)


def test_figure_1():
    h = binary_entropy
    expected = h(0.4) + (0.4 * h(0.3) + 0.6 * h(0.8))
    expected += 0.6 * (h(0.4) + h(0.9)) + 0.4 * (h(0.7) + h(0.5))
    assert entropy(figure_1_circuit()) == pytest.approx(expected, rel=1e-14)
    tells = h(0.6) - (0.4 * h(0.3) + 0.6 * h(0.8))
    assert mutual_information(figure_1_circuit(), "X3", "X4") == pytest.approx(tells)
    assert mutual_information(figure_1_circuit(), 2, [3]) == pytest.approx(tells)


def test_what_is_known_tells_nothing():
    circuit = figure_1_circuit()
    assert mutual_information(circuit, "X3", "X4", {"X3": 1}) == 0.0
    assert mutual_information(circuit, ["X1", "X2"], ["X4"], {"X3": 1}) == pytest.approx(
        0, abs=TINY
    )
    assert entropy(circuit, [1, 0, 1, 0]) == 0.0


@pytest.mark.compiled
def test_half_of_a_chain_tells_the_other_half_what_the_middle_does(rng):
    n_vars = 200
    builder = CircuitBuilder(linear_vtree(n_vars))
    below = [builder.add_leaf_sum(n_vars - 1, 0.9), builder.add_leaf_sum(n_vars - 1, 0.2)]
    for var in range(n_vars - 2, -1, -1):
        on, off = builder.literal(var, 1), builder.literal(var, 0)
        p = (0.5, 0.5) if var == 0 else rng.uniform(0.1, 0.9, 2)
        below = [builder.add_sum([(on, below[0], x), (off, below[1], 1 - x)]) for x in p]
    circuit = builder.build(below[0])
    found = mutual_information(circuit, range(100), range(100, 200))
    assert found == pytest.approx(mutual_information(circuit, 99, 100), rel=1e-9)


@pytest.mark.parametrize("n_states", [1, 200, 2000])
def test_tables_may_be_made_in_parts(n_states, monkeypatch, rng):
    circuit = special_circuits()["learned 3"]
    expected = Joint(circuit).information([NAN] * 8, [3, 0, 6], [7, 2, 1, 5])
    monkeypatch.setattr(cells, "BLOCK_STATES", n_states)
    assert mutual_information(circuit, [3, 0, 6], [7, 2, 1, 5]) == pytest.approx(expected, rel=REL)


def overlapping_circuit(n_vars):
    """A mixture of two independent models."""
    builder = CircuitBuilder(balanced_vtree(n_vars))
    nodes = {}
    for kind, theta in enumerate((0.2, 0.7)):
        for v in range(builder.vtree.n_nodes - 1):
            var = int(builder.vtree.node_var[v])
            below = builder.vtree.node_left[v], builder.vtree.node_right[v]
            if var >= 0:
                nodes[kind, v] = builder.add_leaf_sum(var, theta)
            else:
                pair = tuple(nodes[kind, int(child)] for child in below)
                nodes[kind, v] = builder.add_sum([(*pair, 1.0)])
    left, right = builder.vtree.node_left[-1], builder.vtree.node_right[-1]
    edges = [(nodes[kind, int(left)], nodes[kind, int(right)], 0.5) for kind in (0, 1)]
    return builder.build(builder.add_sum(edges))


@pytest.mark.compiled
def test_too_many_states_are_refused_in_words():
    circuit = overlapping_circuit(40)
    with pytest.raises(
        CircuitPropertyError,
        match=r"entropy needs a deterministic circuit, but some row .* max_states = 1000 states",
    ):
        entropy(circuit, max_states=1000)
    with pytest.raises(
        CircuitPropertyError,
        match=r"mutual_information needs the entropy of 30 variables \('x0', .*\), but summing out "
        r"the other 10 hides choices .* within max_states = 1000 states. Ask about fewer",
    ):
        mutual_information(circuit, range(30), range(30, 35), max_states=1000)


def test_entropy_of_many_variables_of_a_mixture_is_refused():
    mixture = special_mixtures()["learned"]
    message = "cannot be split. Ask about fewer variables"
    with pytest.raises(CircuitPropertyError, match=message):
        entropy(mixture, max_states=100)
    with pytest.raises(CircuitPropertyError, match=message):
        mutual_information(mixture, range(4), range(4, 8), max_states=100)
    assert entropy(mixture, {0: 1, 1: 0}, max_states=64) > 0.0
    # With one component left nothing is hidden, and one pass is enough.
    expected = special_joint("one left").entropy([NAN] * 8, range(8))
    assert entropy(special_mixtures()["one left"], max_states=1) == pytest.approx(expected, rel=REL)


def test_a_small_circuit_that_is_not_deterministic_is_enumerated():
    circuit = overlapping_circuit(8)
    assert why_not_deterministic(circuit) is not None
    assert entropy(circuit) == pytest.approx(Joint(circuit).entropy([NAN] * 8, range(8)), rel=REL)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (["X1"], [], "b must name at least one column"),
        (["X1"], "Y", "b names 'Y', which is not a variable"),
        (["X1", "X2"], ["X3", 1], "a and b must have no variable in common, but both have 'X2'"),
        ([0, 0], ["X3"], "a must name each column once, but has 0 twice"),
    ],
)
def test_bad_sets_are_refused(a, b, message):
    with pytest.raises(ValueError, match=message):
        mutual_information(figure_1_circuit(), a, b)


@pytest.mark.compiled
def test_more_variables_than_a_number_has_states():
    coins = compile_factorized(balanced_vtree(1100))
    assert entropy(coins) == pytest.approx(1100 * math.log(2), rel=1e-12)
