"""Models given evidence and events against tables of all states."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_circuits import column_circuits, deterministic_circuit, some_given, table_of
from joint import NAN
from strategies import examples, random_mixture, seeds
from strudel import CircuitPropertyError, condition
from strudel.algebra import power
from strudel.circuits import CircuitBuilder, compile_factorized, figure_1_circuit
from strudel.circuits.properties import why_not_deterministic
from strudel.queries.given import circuit_of
from strudel.trees.vtree import Vtree

REL = 1e-9


@examples(200)
@given(column_circuits(max_columns=5), seeds, st.data())
def test_bayes_rule(circuit, seed, data):
    if circuit.n_components == 1 and data.draw(st.booleans()):
        circuit = deterministic_circuit(circuit.columns, circuit.vtree, random.Random(seed))
    known, weights = data.draw(some_given(circuit.columns))
    expected = table_of(circuit) * weights
    unnormalised = condition(circuit, known, normalize=False)
    np.testing.assert_allclose(table_of(unnormalised), expected, rtol=REL)
    if not expected.any():
        with pytest.raises(ValueError, match="probability zero"):
            condition(circuit, known)
        return
    found = condition(circuit, known)
    np.testing.assert_allclose(table_of(found), expected / expected.sum(), rtol=REL)
    assert found.n_edges <= circuit.n_edges
    if why_not_deterministic(circuit) is None:
        assert why_not_deterministic(replace(found)) is None  # found again


def test_impossible_evidence():
    p = compile_factorized(figure_1_circuit().vtree, [0.0, 0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="probability zero"):
        condition(p, {0: 1})
    assert not table_of(condition(p, {0: 1}, normalize=False)).any()


def test_one_row_at_a_time():
    with pytest.raises(ValueError, match="takes one row of evidence, but got 2"):
        condition(figure_1_circuit(), [[1, NAN, NAN, NAN], [0, NAN, NAN, NAN]])


def test_an_event_keeps_the_components():
    mixture = random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))
    p = table_of(mixture)
    states = np.indices(p.shape)
    joint = condition(mixture, "exactly(1, X1, X4)", normalize=False)
    np.testing.assert_allclose(table_of(joint), p * (states[0] + states[3] == 1), rtol=REL)
    assert joint.n_components == 3
    assert not table_of(condition(condition(mixture, {"X1": 1}), "~X1", normalize=False)).any()
    np.testing.assert_allclose(
        table_of(condition(mixture, power(condition(figure_1_circuit(), {"X3": 1}), 0))),
        table_of(condition(mixture, {"X3": 1})),
        rtol=REL,
    )


# Events that are circuits


def exactly_one_of_two(names=None):
    """The event X0 + X1 = 1, with weights 1."""
    builder = CircuitBuilder(Vtree.from_nested((0, 1)), names)
    literal = builder.literal
    edges = [(literal(0, 1), literal(1, 0), 1.0), (literal(0, 0), literal(1, 1), 1.0)]
    return builder.build(builder.add_sum(edges))


def test_an_event_is_a_circuit_of_zeros_and_ones():
    event = exactly_one_of_two()
    p = compile_factorized(event.vtree, [0.3, 0.6])
    expected = np.array([[0.0, 0.7 * 0.6], [0.3 * 0.4, 0.0]])
    np.testing.assert_allclose(table_of(condition(p, event)), expected / 0.54)
    joint = condition(p, event, normalize=False)
    assert joint.log_total == pytest.approx(np.log(0.54))
    with pytest.raises(ValueError, match="no row is possible under both"):
        condition(condition(p, {0: 1, 1: 1}), event)


def test_events_are_checked():
    event = exactly_one_of_two()
    p = compile_factorized(event.vtree, [0.3, 0.6])
    with pytest.raises(ValueError, match="1 on some rows and 0 on all others"):
        condition(event, p)
    builder = CircuitBuilder(event.vtree)
    one = builder.literal(0, 1)
    twice = builder.build(builder.add_sum([(one, builder.literal(1, 1), 1.0)] * 2))
    with pytest.raises(CircuitPropertyError, match=r"event.*deterministic"):
        condition(p, twice)
    assert circuit_of(event).log_total == pytest.approx(np.log(2.0))
