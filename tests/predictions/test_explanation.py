"""Sufficient explanations against enumeration of all sets, by laws, and past their limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joint import NAN, REL, Joint, learned_circuit, mixture_models, models, special_circuits
from strategies import examples
from strudel.predictions.explanation import sufficient_explanation
from worlds import PREDICTORS, World, forest

approx = pytest.approx
seeds = st.integers(0, 2**32 - 1)


def smallest(world, row, delta, criterion, without=()):
    """The size of the smallest sufficient sets and the largest probability among them; or None."""
    row = np.array(row, dtype=float)
    decision = world.decide(row)
    known = [var for var in np.flatnonzero(~np.isnan(row)) if var not in without]
    for size in range(len(known) + 1):
        found = []
        for chosen in itertools.combinations(known, size):
            part = np.full(len(row), NAN)
            part[list(chosen)] = row[list(chosen)]
            p = world.decided_like(part, decision)
            is_enough = p >= delta - 1e-11
            if criterion == "expectation":
                is_enough = world.decide(part) == decision
            if is_enough:
                found.append(p)
        if found:
            return size, max(found)
    return None


@given(
    st.one_of(models(6), mixture_models(5)),
    seeds,
    st.sampled_from([*sorted(PREDICTORS), "variable"]),
    st.sampled_from([0.6, 0.9, 1.0]),
    st.sampled_from(["probability", "expectation"]),
)
@examples(50)
def test_against_all_sets(model, seed, kind, delta, criterion):
    rng = np.random.default_rng(seed)
    joint = Joint(model)
    row = joint.states[rng.choice(len(joint.p), p=joint.p / joint.p.sum())].astype(float)
    row[rng.random(len(row)) < 0.2] = NAN
    if kind == "variable":
        predictor = int(rng.integers(model.vtree.n_vars))
        world, without = World(joint, joint.states[:, predictor]), [predictor]
    else:
        predictor = PREDICTORS[kind](model.vtree.n_vars, rng)
        world, without = World(joint, predictor), []
    found = sufficient_explanation(model, predictor, row, delta, criterion=criterion)
    wanted = smallest(world, row, delta, criterion, without)
    assert found.is_sufficient == (wanted is not None)
    part = np.full(len(row), NAN)
    for name, value in found.features.items():
        part[int(name[1:])] = value
    assert not np.any((part != row) & ~np.isnan(part))
    decision = world.decide(row)
    assert found.decision == decision
    assert found.probability == approx(world.decided_like(part, decision), rel=REL, abs=1e-13)
    assert found.expected == approx(world.expected(part)[-1], rel=REL, abs=1e-13)
    assert found.expected_with_all == approx(world.expected(row)[-1], rel=REL, abs=1e-13)
    if wanted is not None:
        assert found.is_smallest
        assert len(found.features) == wanted[0]
        if criterion == "probability":
            assert found.probability == approx(wanted[1], rel=1e-9)


@pytest.mark.parametrize("n_classes", [3, 4])
def test_with_more_classes(n_classes):
    circuit = special_circuits()["learned 0"]
    joint = Joint(circuit)
    rng = np.random.default_rng(n_classes)
    predictor = forest(8, rng, n_classes)
    row = joint.states[int(np.argmax(joint.p))]
    found = sufficient_explanation(circuit, predictor, row, 0.8)
    size, probability = smallest(World(joint, predictor), row, 0.8, "probability")
    assert found.decision == predictor.predict([row])[0]
    assert len(found.features) == size
    assert found.probability == approx(probability, rel=1e-9)
    assert found.expected_with_all == approx(predictor.predict_proba([row]).max())


@pytest.mark.compiled
@pytest.mark.parametrize("criterion", ["probability", "expectation"])
def test_past_the_limit_a_beam_finds_a_set_from_which_nothing_can_be_taken(criterion):
    circuit = special_circuits()["learned 1"]
    joint = Joint(circuit)
    rng = np.random.default_rng(0)
    n_large = 0
    for seed in range(6):
        predictor = forest(8, np.random.default_rng(seed))
        world = World(joint, predictor)
        row = joint.states[rng.choice(len(joint.p), p=joint.p / joint.p.sum())].astype(float)
        decision = world.decide(row)
        found = sufficient_explanation(
            circuit, predictor, row, 0.95, criterion=criterion, max_sets=1, beam_width=2
        )
        exact = sufficient_explanation(circuit, predictor, row, 0.95, criterion=criterion)
        assert found.is_sufficient
        assert len(found.features) >= len(exact.features)
        assert found.is_smallest == (len(found.features) == 0)
        for name in found.features:
            part = np.full(len(row), NAN)
            for other in found.features:
                if other != name:
                    part[int(other[1:])] = row[int(other[1:])]
            if criterion == "probability":
                assert world.decided_like(part, decision) < 0.95
            else:
                assert world.decide(part) != decision
        n_large += len(found.features) > 0
    assert n_large > 1


def test_a_search_that_is_cut_short_says_so():
    circuit = learned_circuit(0, n_vars=10)
    predictor = forest(10, np.random.default_rng(0), n_trees=15)
    row = np.array([1, 0, 1, 1, 0, 1, 0, 0, 1, 0])
    found = sufficient_explanation(circuit, predictor, row, 0.99, max_nodes=1)
    exact = sufficient_explanation(circuit, predictor, row, 0.99)
    assert found.is_sufficient
    assert not found.is_smallest or len(found.features) == len(exact.features)
    assert exact.is_smallest
    assert found.lower_bound <= found.probability <= found.upper_bound


def test_how_it_is_written():
    circuit = special_circuits()["figure 1"]
    text = repr(sufficient_explanation(circuit, "X1 & X3", [0, 1, 1, 0]))
    assert "because X1 = 0" in text
    assert "proven to be smallest" in text
    nothing = repr(sufficient_explanation(circuit, "X1", {"X2": 1}, 0.99))
    assert "not sufficient, although it is all that is known" in nothing
    always = repr(sufficient_explanation(circuit, True, {"X2": 1}))
    assert "of no feature in particular" in always


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delta": 0.0}, "delta must be above 0"),
        ({"delta": 1.1}, "delta must be above 0"),
        ({"criterion": "size"}, "criterion must be"),
        ({"beam_width": 0}, "beam_width must be a whole number of at least 1"),
        ({"given": [[1, 0, 1, 0], [0, 0, 0, 0]]}, "Explain one at a time"),
    ],
)
def test_wrong_arguments(options, words):
    options = {"given": [1, 0, 1, 0]} | options
    with pytest.raises(ValueError, match=words):
        sufficient_explanation(special_circuits()["figure 1"], "X1", **options)
