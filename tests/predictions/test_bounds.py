"""Bounds on outputs and on conditional expectations contain what they bound."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_circuits import random_predictor
from formulas import event_of_truth, random_truth
from joint import Joint, models, special_circuits
from oracle import completions
from strategies import examples
from strudel.circuits import compile_factorized, why_not_deterministic
from strudel.logic.terms import variables
from strudel.predictions.asked import ask_about
from strudel.predictions.decision import decision_of
from strudel.predictions.forms import next_splits
from strudel.predictions.posterior_bounds import PosteriorBounds
from strudel.trees.vtree import balanced_vtree
from worlds import PREDICTORS, World

seeds = st.integers(0, 2**32 - 1)
SLACK = 1e-12
UNKNOWN = 2


def random_codes(rng, n_rows, n_vars):
    return rng.integers(0, 3, (n_rows, n_vars)).astype(np.int32)


def completed(row):
    return np.array(completions([float("nan") if x == UNKNOWN else float(x) for x in row]))


def check(predictor, n_vars, rng, model=None):
    """Bounds contain the outputs of all completions, and are equal to them for complete rows.

    A split that is asked for leaves something on both sides.
    """
    model = compile_factorized(balanced_vtree(n_vars)) if model is None else model
    [asked] = ask_about(model, [predictor], None)
    codes = random_codes(rng, 8, n_vars)
    low, high = asked.form.bounds(asked.known, codes)
    places, cells = next_splits(asked.form, asked.known, codes)
    for i, row in enumerate(codes):
        outputs = asked.form.evaluate(completed(row).astype(int))
        scale = 1.0 + np.abs(outputs).max()
        assert np.all(low[i] <= outputs.min(axis=0) + SLACK * scale)
        assert np.all(high[i] >= outputs.max(axis=0) - SLACK * scale)
        if not np.any(row == UNKNOWN):
            assert low[i] == pytest.approx(outputs[0], abs=SLACK * scale)
            assert high[i] == pytest.approx(outputs[0], abs=SLACK * scale)
        if places[i] >= 0:
            assert row[places[i]] == UNKNOWN
            assert sorted(cells[i].tolist()) == [False, True]
        else:
            assert np.ptp(outputs, axis=0).max() <= SLACK * scale


@given(seeds, st.integers(1, 6), st.sampled_from(sorted(PREDICTORS)))
def test_ranges_of_predictors(seed, n_vars, kind):
    rng = np.random.default_rng(seed)
    check(PREDICTORS[kind](n_vars, rng), n_vars, rng)


@given(seeds, st.integers(1, 6))
def test_ranges_of_events(seed, n_vars):
    names = [f"x{i}" for i in range(n_vars)]
    truth = random_truth(n_vars, random.Random(seed), 4)
    event = event_of_truth(truth, variables(names))
    check(event, n_vars, np.random.default_rng(seed))


@given(models(6), seeds)
def test_ranges_of_predictor_circuits(circuit, seed):
    if why_not_deterministic(circuit) is not None or circuit.n_edges == 0:
        return
    rng = np.random.default_rng(seed)
    check(random_predictor(circuit, rng, 2), circuit.vtree.n_vars, rng, circuit)


def check_posteriors(model, joint, seed):
    rng = np.random.default_rng(seed)
    n_vars = model.vtree.n_vars
    open_vars = np.flatnonzero(rng.random(n_vars) < 0.6)
    state = joint.states[rng.choice(len(joint.p), p=joint.p / joint.p.sum())]
    row = np.where(rng.random(n_vars) < 0.3, state, np.nan).astype(float)
    [asked] = ask_about(model, [True], [row])
    bounds = PosteriorBounds(asked.known, open_vars.tolist())
    weight = rng.normal(size=n_vars) * (rng.random(n_vars) < 0.7)
    of_cells = [np.array([0.0, w]) for w in weight]
    conjunction = np.array([2 * var + rng.integers(2) for var in rng.permutation(n_vars)[:2]])
    cells = {int(literal) // 2: np.arange(2) == literal % 2 for literal in conjunction}
    worlds = [
        (bounds.of_sum, of_cells, World(joint, joint.states @ weight)),
        (
            bounds.of_conjunction,
            cells,
            World(joint, (joint.states[:, conjunction // 2] == conjunction % 2).all(axis=1)),
        ),
    ]
    for bound, what, world in worlds:
        low, high = bound(what, asked.codes)
        expected = [world.expected(full)[0] for full, _ in world.completions(row, open_vars)]
        assert low[0] <= min(expected) + SLACK
        assert high[0] >= max(expected) - SLACK
        if len(expected) == 1 and np.all(asked.codes[0, open_vars] != UNKNOWN):
            assert low[0] == pytest.approx(expected[0], abs=1e-10)
            assert high[0] == pytest.approx(expected[0], abs=1e-10)


@given(models(7), seeds)
@examples(100)
def test_posteriors_of_random_circuits(circuit, seed):
    check_posteriors(circuit, Joint(circuit), seed)


def test_a_decision_knows_its_ties():
    circuit = special_circuits()["learned 0"]
    predictors = ["x0 | x1", PREDICTORS["tree"](8, np.random.default_rng(0))]
    event, tree = (
        decision_of(asked, 0.5)
        for asked in ask_about(circuit, predictors, None, are_decisions=True)
    )
    half = np.array([[0.5]])
    assert event.labels(half, half)[0] == 1
    assert tree.labels(half, half)[0] == 0
    assert tree.labels(half, half + 0.1)[0] == -1
