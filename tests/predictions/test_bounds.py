"""Bounds on outputs and on conditional expectations contain what they bound."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulas import event_of_truth, random_truth
from joint import Joint, models, special_circuits
from oracle import completions
from strategies import examples
from strudel.circuits.passes import UNKNOWN
from strudel.circuits.predictor import PredictorCircuit
from strudel.logic.terms import variables
from strudel.predictions.decision import PosteriorBounds, decision_of
from strudel.predictions.predictor_arguments import form_of_predictor
from strudel.predictions.predictor_forms import CircuitForm, EventForm, Ranges
from worlds import PREDICTORS, World

seeds = st.integers(0, 2**32 - 1)
SLACK = 1e-12


def random_codes(rng, n_rows, n_vars):
    return rng.integers(0, 3, (n_rows, n_vars)).astype(np.uint8)


def completed(row):
    return np.array(completions([float("nan") if x == UNKNOWN else float(x) for x in row]))


def check(form, codes):
    """Bounds contain the outputs of all completions, and are equal to them for complete rows."""
    ranges = Ranges(form)
    low, high = ranges.bounds(codes)
    asked = ranges.next_variables(codes)
    for i, row in enumerate(codes):
        outputs = form.evaluate(completed(row))
        scale = 1.0 + np.abs(outputs).max()
        assert np.all(low[i] <= outputs.min(axis=0) + SLACK * scale)
        assert np.all(high[i] >= outputs.max(axis=0) - SLACK * scale)
        if not np.any(row == UNKNOWN):
            assert low[i] == pytest.approx(outputs[0], abs=SLACK * scale)
            assert high[i] == pytest.approx(outputs[0], abs=SLACK * scale)
        if asked[i] >= 0:
            assert row[asked[i]] == UNKNOWN
        else:
            assert np.ptp(outputs, axis=0).max() <= SLACK * scale


@given(seeds, st.integers(1, 6), st.sampled_from(sorted(PREDICTORS)))
def test_ranges_of_predictors(seed, n_vars, kind):
    rng = np.random.default_rng(seed)
    predictor = PREDICTORS[kind](n_vars, rng)
    check(form_of_predictor(predictor, n_vars), random_codes(rng, 8, n_vars))


@given(seeds, st.integers(1, 6))
def test_ranges_of_events(seed, n_vars):
    names = [f"x{i}" for i in range(n_vars)]
    truth = random_truth(n_vars, random.Random(seed), 4)
    form = EventForm(event_of_truth(truth, variables(names)), n_vars)
    check(form, random_codes(np.random.default_rng(seed), 8, n_vars))


@given(models(6), seeds)
def test_ranges_of_predictor_circuits(circuit, seed):
    if not circuit.is_deterministic or circuit.n_edges == 0:
        return
    rng = np.random.default_rng(seed)
    made = PredictorCircuit(
        circuit,
        rng.normal(size=(2 * circuit.n_vars, 2)),
        rng.normal(size=(circuit.n_edges, 2)),
        rng.normal(size=2),
        "regression",
    )
    check(CircuitForm(made), random_codes(rng, 8, circuit.n_vars))


def check_posteriors(model, joint, seed):
    rng = np.random.default_rng(seed)
    n_vars = model.n_vars
    open_vars = np.flatnonzero(rng.random(n_vars) < 0.6)
    bounds = PosteriorBounds(model, open_vars)
    weight = rng.normal(size=n_vars) * (rng.random(n_vars) < 0.7)
    conjunction = np.array([2 * var + rng.integers(2) for var in rng.permutation(n_vars)[:2]])
    worlds = [
        (bounds.of_sum, weight, World(joint, joint.states @ weight)),
        (
            bounds.of_conjunction,
            conjunction,
            World(joint, (joint.states[:, conjunction // 2] == conjunction % 2).all(axis=1)),
        ),
    ]
    state = joint.states[rng.choice(len(joint.p), p=joint.p / joint.p.sum())]
    row = np.where(rng.random(n_vars) < 0.3, state, np.nan).astype(float)
    codes = np.where(np.isnan(row), UNKNOWN, row).astype(np.uint8)[np.newaxis]
    for bound, what, world in worlds:
        low, high = bound(what, codes)
        expected = [world.expected(full)[0] for full, _ in world.completions(row, open_vars)]
        assert low[0] <= min(expected) + SLACK
        assert high[0] >= max(expected) - SLACK
        if len(expected) == 1 and np.all(codes[0, open_vars] != UNKNOWN):
            assert low[0] == pytest.approx(expected[0], abs=1e-10)
            assert high[0] == pytest.approx(expected[0], abs=1e-10)


@given(models(7), seeds)
@examples(100)
def test_posteriors_of_random_circuits(circuit, seed):
    if circuit.root >= 2 * circuit.n_vars:
        check_posteriors(circuit, Joint(circuit), seed)


def test_a_decision_knows_its_ties():
    circuit = special_circuits()["learned 0"]
    event = decision_of(circuit, "x0 | x1")
    half = np.array([[0.5]])
    assert event.labels(half, half)[0] == 1
    tree = decision_of(circuit, PREDICTORS["tree"](8, np.random.default_rng(0)))
    assert tree.labels(half, half)[0] == 0
    assert tree.labels(half, half + 0.1)[0] == -1
