"""Probabilities of events, and models given events, against enumeration."""

import math
import random
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulas import all_rows, event_of_truth, holds, need_pysdd, random_truth, seeds
from joint import NAN, REL, Joint, mixture_models, models
from makers import sdd_of
from strategies import examples, partly_observed_rows
from strudel.algebra.conditioning import condition
from strudel.circuits.compile import figure_1_circuit
from strudel.logic.event_compiler import circuit_of_sdd, compile_event
from strudel.logic.events import at_least, at_most, exactly
from strudel.logic.formula import Cnf, Dnf
from strudel.logic.terms import variables
from strudel.queries.event_probability import log_marginal, probability
from strudel.queries.likelihood import log_likelihood


@st.composite
def questions(draw):
    """A model, its table, rows that are possible, and a formula with an event for it."""
    found = draw(st.one_of(models(7), mixture_models(6)))
    rows = draw(st.lists(partly_observed_rows(found.vtree.n_vars), max_size=3))
    joint = Joint(found)
    truth = random_truth(found.vtree.n_vars, random.Random(draw(seeds)), draw(st.integers(0, 3)))
    event = event_of_truth(truth, variables(found))
    is_true = np.array([holds(truth, row) for row in all_rows(found.vtree.n_vars)])
    return found, joint, [*joint.possible(rows), [NAN] * found.vtree.n_vars], event, is_true


@pytest.mark.parametrize("max_asked", [2048, 0], ids=["cases", "compiled"])
@examples(60)
@given(question=questions())
def test_probability_is_the_sum_over_the_rows_of_the_event(question, max_asked):
    with pytest.MonkeyPatch.context() as patch:
        if max_asked == 0:
            need_pysdd()
            patch.setattr("strudel.logic.column_classes.MAX_CASES", 0)
        else:
            patch.setitem(sys.modules, "pysdd", None)
        _check_probability(*question)


def _check_probability(model, joint, rows, event, is_true):
    expected = [math.fsum(joint.given(row)[is_true]) for row in rows]
    found = probability(model, event, rows)
    np.testing.assert_allclose(found, expected, rtol=REL, atol=0)
    alone = probability(model, event)
    assert isinstance(alone, float)
    assert alone == pytest.approx(expected[-1], rel=REL, abs=0)
    if alone > 0:
        assert probability(model, event, log=True) == pytest.approx(math.log(alone), abs=REL)
    else:
        assert probability(model, event, log=True) == -math.inf


@given(st.one_of(models(6), mixture_models(6)), st.data())
def test_counts_and_conjunctions_need_no_pysdd(model, data):
    n_vars = model.vtree.n_vars
    joint, x = Joint(model), variables(model)
    signs = data.draw(st.lists(st.booleans(), min_size=n_vars, max_size=n_vars))
    literals = [x[var] if sign else ~x[var] for var, sign in enumerate(signs)]
    cut, k = data.draw(st.integers(0, n_vars)), data.draw(st.integers(0, n_vars))
    is_literal = joint.states == signs
    event, is_true = x[0] | ~x[0], np.ones(len(joint.states), dtype=bool)
    if cut < n_vars:
        kind = data.draw(st.sampled_from([at_least, at_most, exactly]))
        event = kind(k, literals[cut:])
        n_true = is_literal[:, cut:].sum(axis=1)
        is_true = {at_least: n_true >= k, at_most: n_true <= k, exactly: n_true == k}[kind]
    for var in range(cut):
        event, is_true = event & literals[var], is_true & is_literal[:, var]
    row = data.draw(partly_observed_rows(n_vars))
    rows = [*joint.possible([row]), [NAN] * n_vars]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pysdd", None)
        found = probability(model, event, rows)
        expected = [math.fsum(joint.given(row)[is_true]) for row in rows]
        np.testing.assert_allclose(found, expected, rtol=REL, atol=0)
        if expected[-1] > 0:
            p = np.exp(log_likelihood(condition(model, event), joint.states))
            np.testing.assert_allclose(
                p, np.where(is_true, joint.p / math.fsum(joint.p[is_true]), 0.0), rtol=REL, atol=0
            )


def test_formulas_of_all_kinds_give_the_same():
    need_pysdd()
    circuit = figure_1_circuit()
    joint = Joint(circuit)
    cnf = Cnf.from_literals([[1, -2], [2, 3], [-3, 4, -1]])
    is_true = cnf.holds(joint.states)
    expected = pytest.approx(math.fsum(joint.p[is_true]), rel=REL)
    rows = [tuple(row) for row in joint.states[is_true].tolist()]
    terms = [[(v + 1) if x else -(v + 1) for v, x in enumerate(row)] for row in rows]
    sdd = sdd_of(set(rows), circuit.vtree)
    text = "(X1 | ~X2) & (X2 | X3) & (~X3 | X4 | ~X1)"
    for event in (cnf, Dnf.from_literals(terms), sdd, text, circuit_of_sdd(sdd)):
        assert probability(circuit, event) == expected
        assert np.exp(log_marginal(condition(circuit, event, normalize=False), {})) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pysdd", None)
        assert probability(circuit, sdd) == expected


def test_impossible_and_certain_events():
    circuit = figure_1_circuit()
    assert probability(circuit, "X1 & ~X1") == 0.0
    assert probability(circuit, "X1 | ~X1") == 1.0
    assert probability(circuit, "X1", given={"X1": 0}) == 0.0
    assert probability(circuit, "X1", given=[[1, NAN, NAN, NAN], [0, 1, NAN, 0]]).tolist() == [1, 0]
    with pytest.raises(ValueError, match="Row 0 of the evidence has probability zero"):
        probability(condition(circuit, {"X1": 1}), "X2", given={"X1": 0})


def test_what_cannot_be_answered_is_refused():
    circuit = figure_1_circuit()
    with pytest.raises(ValueError, match="only the parameters 0 and 1"):
        probability(circuit, circuit)
    with pytest.raises(ValueError, match="not a variable"):
        probability(circuit, "X9")
    with pytest.raises(ValueError, match="max_pairs"):
        probability(circuit, circuit_of_sdd(compile_event({0: 1}, circuit.vtree)), max_pairs=2)


def test_a_formula_given_many_rows_is_compiled(monkeypatch):
    need_pysdd()
    circuit = figure_1_circuit()
    rows = [[NAN, NAN, NAN, 1], [NAN, 1, NAN, NAN], [1, NAN, 0, NAN], [NAN] * 4]
    event = "(X1 | X2) & (X3 | ~X4)"
    expected = probability(circuit, event, rows)
    monkeypatch.setattr("strudel.queries.event_probability.MAX_CASE_ROWS", 2)
    with monkeypatch.context() as patch:
        patch.delattr("strudel.tables.evidence.Evidence.within_each")
        found = probability(circuit, event, rows)
    np.testing.assert_allclose(found, expected, rtol=REL, atol=0)
    # Where that is too large, its cases still answer.
    assert probability(circuit, event, rows, max_pairs=1) == pytest.approx(expected)
