"""Same-decision probabilities against enumeration, by laws, and at limits."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulas import event_of_truth, holds, random_truth
from joint import (
    NAN,
    REL,
    Joint,
    learned_circuit,
    mixture_models,
    models,
    models_with_rows,
    some_rows,
    special_circuits,
    special_joint,
    special_mixtures,
)
from strategies import examples, random_mixture
from strudel import marginal_probabilities
from strudel.circuits.compile import compile_factorized
from strudel.errors import SearchLimitWarning
from strudel.learning.options import SearchOptions
from strudel.learning.search.learn_structure import learn_structure
from strudel.logic.terms import variables
from strudel.models.strudel import Strudel
from strudel.predictions.same_decision import (
    expected_same_decision_probability,
    same_decision_probability,
)
from strudel.queries.event_probability import log_conditional
from strudel.trees.vtree import balanced_vtree
from worlds import PREDICTORS, World

seeds = st.integers(0, 2**32 - 1)
approx = pytest.approx


def some_variables(rng, n_vars, without=()):
    rest = [var for var in range(n_vars) if var not in without]
    return sorted(rng.permutation(rest)[: rng.integers(0, len(rest) + 1)].tolist())


@given(
    st.one_of(models_with_rows(7, 3, models), models_with_rows(6, 3, mixture_models)),
    seeds,
    st.sampled_from([0.1, 0.3, 0.5, 0.77]),
)
def test_of_a_variable_against_enumeration(case, seed, threshold):
    model, joint, rows = case
    rng = np.random.default_rng(seed)
    decided = int(rng.integers(model.vtree.n_vars))
    hidden = some_variables(rng, model.vtree.n_vars, [decided])
    world = World(joint, joint.states[:, decided], threshold)
    found = same_decision_probability(
        model, decided, np.array(rows), hidden=hidden, threshold=threshold, details=True
    )
    assert found.is_exact.all()
    for row, p, label in zip(rows, found.probability, found.decision, strict=True):
        assert label == world.decide(row)
        assert p == approx(world.same_decision(row, hidden), rel=REL, abs=1e-14)


@pytest.mark.compiled
@examples(25)
@given(models_with_rows(7, 2, models), seeds, st.sampled_from(sorted(PREDICTORS)))
def test_of_a_predictor_against_enumeration(case, seed, kind):
    model, joint, rows = case
    rng = np.random.default_rng(seed)
    predictor = PREDICTORS[kind](model.vtree.n_vars, rng)
    world = World(joint, predictor)
    for hidden in (None, some_variables(rng, model.vtree.n_vars)):
        listed = range(model.vtree.n_vars) if hidden is None else hidden
        found = same_decision_probability(model, predictor, np.array(rows), hidden=hidden)
        for row, p in zip(rows, found, strict=True):
            assert p == approx(world.same_decision(row, listed), rel=REL, abs=1e-14)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", sorted(PREDICTORS))
@pytest.mark.parametrize("name", ["learned", "not deterministic", "figure 1", "one variable"])
def test_of_a_predictor_under_mixtures(name, kind):
    mixture = special_mixtures()[name]
    rng = np.random.default_rng(3)
    joint = special_joint(name)
    predictor = PREDICTORS[kind](mixture.vtree.n_vars, rng)
    world = World(joint, predictor)
    rows = some_rows(joint, rng, 2, 0.3)
    hidden = list(range(0, mixture.vtree.n_vars, 2))
    found = same_decision_probability(mixture, predictor, rows, hidden=hidden)
    wanted = [world.same_decision(row, hidden) for row in rows]
    assert found == approx(wanted, rel=REL)


@given(models_with_rows(6, 2, models), seeds)
@examples(25)
def test_of_a_formula_against_enumeration(case, seed):
    pytest.importorskip("pysdd", reason="needs PySDD: pip install 'strudel-pc[logic]'")
    model, joint, rows = case
    rng = random.Random(seed)
    truth = random_truth(model.vtree.n_vars, rng, 3)
    event = event_of_truth(truth, variables(model))
    is_true = np.array([holds(truth, state) for state in joint.states])
    world = World(joint, is_true)
    # A variable or its opposite is what is decided about, and never hidden.
    is_like = np.all(joint.states == is_true[:, np.newaxis], axis=0)
    is_like |= np.all(joint.states != is_true[:, np.newaxis], axis=0)
    decided = int(np.argmax(is_like)) if is_like.any() else None
    for hidden in ([], [0] if decided != 0 else [], None):
        listed = [var for var in range(model.vtree.n_vars) if var != decided]
        listed = listed if hidden is None else hidden
        found = same_decision_probability(model, event, np.array(rows), hidden=hidden)
        wanted = [world.same_decision(row, listed) for row in rows]
        assert found == approx(wanted, rel=REL, abs=1e-14)


@given(
    st.one_of(models_with_rows(6, 1, models), models_with_rows(5, 1, mixture_models)),
    seeds,
    st.sampled_from(["variable", "tree", "linear", "forest"]),
)
@examples(30)
def test_expected_against_enumeration(case, seed, kind):
    model, joint, rows = case
    rng = np.random.default_rng(seed)
    if kind == "variable":
        decision = int(rng.integers(model.vtree.n_vars))
        world, without = World(joint, joint.states[:, decision]), [decision]
    else:
        decision = PREDICTORS[kind](model.vtree.n_vars, rng)
        world, without = World(joint, decision), []
    observe = some_variables(rng, model.vtree.n_vars, without)
    if not observe:
        return
    hidden = some_variables(rng, model.vtree.n_vars, without)
    found = expected_same_decision_probability(
        model, decision, np.array(rows), observe=observe, hidden=hidden
    )
    wanted = [world.expected_same_decision(row, observe, hidden) for row in rows]
    assert found == approx(wanted, rel=REL, abs=1e-14)


def test_after_everything_hidden_is_observed_nothing_changes():
    circuit = learned_circuit(1)
    hidden = [1, 3, 5]
    found = expected_same_decision_probability(circuit, 0, observe=hidden, hidden=hidden)
    assert found == approx(1.0, rel=1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", sorted(PREDICTORS))
def test_intervals_contain_the_truth_at_every_limit(kind):
    circuit = special_circuits()["learned 2"]
    rng = np.random.default_rng(5)
    joint = Joint(circuit)
    predictor = PREDICTORS[kind](circuit.vtree.n_vars, rng)
    world = World(joint, predictor)
    rows = np.full((1, circuit.vtree.n_vars), NAN)
    stopped = 0
    for hidden in (None, [0, 1, 2, 3, 4]):
        listed = range(circuit.vtree.n_vars) if hidden is None else hidden
        truth = world.same_decision(rows[0], listed)
        before = 1.0
        for max_nodes in (0, 1, 2, 3, 5, 8, 13, 40):
            found = limited(circuit, predictor, rows, hidden=hidden, max_nodes=max_nodes)
            low, high = found.lower_bound[0], found.upper_bound[0]
            assert low - 1e-13 <= truth <= high + 1e-13  # rounding, where they are equal
            assert low <= found.probability[0] <= high
            assert high - low <= before + 1e-9  # more work never makes it worse
            assert found.is_exact[0] == (found.n_nodes[0] < max_nodes or high == low)
            before = high - low
            stopped += not found.is_exact[0]
    assert stopped > 2


def limited(*args, **options):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = same_decision_probability(*args, details=True, **options)
    is_said = any(isinstance(one.message, SearchLimitWarning) for one in seen)
    assert is_said == (not found.is_exact.all())
    return found


def test_a_limit_of_seconds():
    rng = np.random.default_rng(0)
    circuit = learned_circuit(0, n_vars=12)
    predictor = PREDICTORS["forest"](12, rng)
    with pytest.warns(SearchLimitWarning, match="lies between") as seen:
        found = same_decision_probability(circuit, predictor, max_seconds=0)
    assert 0.0 < found < 1.0
    assert seen[0].message.upper_bound[0] > found


@pytest.mark.compiled
@pytest.mark.parametrize("n_components", [1, 3])
def test_many_variables_against_all_states_of_the_hidden_ones(n_components):
    rng = np.random.default_rng(2)
    n_vars = 140
    kind = rng.integers(0, 3, 300)
    X = (rng.random((300, n_vars)) < rng.random((3, n_vars))[kind]).astype(np.uint8)
    model, _ = learn_structure(X, search=SearchOptions(max_splits=150))
    if n_components > 1:
        model = random_mixture(model, n_components, rng)
    n_split = 0
    for case in range(8):
        decided, *hidden = rng.permutation(n_vars)[:8].tolist()
        row = np.where(rng.random(n_vars) < 0.05, X[case], NAN)
        row[[decided, *hidden]] = NAN
        states = np.repeat(row[np.newaxis], 2**7, axis=0)
        states[:, hidden] = np.indices([2] * 7).reshape(7, -1).T
        p = np.exp(log_conditional(model, states, row))
        posterior = marginal_probabilities(model, states[p > 0.0])[:, decided]
        now = marginal_probabilities(model, row)[decided]
        threshold = float(np.quantile(posterior, 0.4)) + 1e-6
        same = (posterior >= threshold) == (now >= threshold)
        found = same_decision_probability(
            model, decided, row, hidden=hidden, threshold=threshold, details=True
        )
        assert found.is_exact
        assert found.probability == approx(p[p > 0.0][same].sum(), rel=REL)
        n_split += found.n_nodes
    assert n_split > 0


def test_independent_variables_never_change_a_decision():
    circuit = compile_factorized(balanced_vtree(40), np.linspace(0.05, 0.95, 40))
    found = same_decision_probability(circuit, 3, details=True)
    assert found.probability == 1.0
    assert found.n_nodes == 0


def test_a_tie_reaches_the_threshold_and_is_the_first_class_of_a_classifier():
    from sklearn.ensemble import RandomForestClassifier

    circuit = compile_factorized(balanced_vtree(3), [0.5, 0.5, 0.5])
    assert same_decision_probability(circuit, 0, hidden=[1], details=True).decision == 1
    X = np.array([[0, 0, 0], [1, 1, 1]] * 5)
    y = np.array(["no", "yes"] * 5)
    forest = RandomForestClassifier(4, random_state=0, max_features=1).fit(X, y)
    joint = Joint(circuit)
    said = forest.predict(joint.states)
    probability = forest.predict_proba(joint.states)[:, 1]
    assert np.any(np.abs(probability - 0.5) < 1e-12)
    found = same_decision_probability(circuit, forest, details=True)
    assert found.probability == approx(np.mean(said == found.decision), rel=REL)


def test_of_an_estimator_with_names():
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (60, 5)), columns=list("abcde"))
    model = Strudel(n_components=1, max_splits=5, random_state=0).fit(X)
    found = model.same_decision_probability("a", {"b": 1}, hidden=["c", "d"])
    circuit = model.circuit_
    world = World(Joint(circuit), Joint(circuit).states[:, 0])
    assert found == approx(world.same_decision([NAN, 1, NAN, NAN, NAN], [2, 3]), rel=REL)
    frame = pd.DataFrame({"e": [0, 1], "b": [1, None], "a": None, "c": None, "d": None})
    assert model.same_decision_probability("a", frame, hidden=["c"]).shape == (2,)
    gain = model.expected_same_decision_probability("a", {"b": 1}, observe="c", hidden=["c", "d"])
    assert gain == approx(world.expected_same_decision([NAN, 1, NAN, NAN, NAN], [2], [2, 3]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden": "X1"}, "hidden must not name the variable"),
        ({"hidden": "X9"}, "not a variable"),
        ({"threshold": 1.5}, "from 0 to 1"),
        ({"threshold": NAN}, "must be a number"),
        ({"max_nodes": -1}, "max_nodes must be zero or more"),
        ({"given": [[1, 2, 0, 0]]}, "2"),
    ],
)
def test_wrong_arguments(options, words):
    with pytest.raises(ValueError, match=words):
        same_decision_probability(special_circuits()["figure 1"], "X1", **options)


def test_what_cannot_be():
    zeros = special_circuits()["zeros"]
    with pytest.raises(ValueError, match="probability zero"):
        same_decision_probability(zeros, 2, {"x0": 1})
    with pytest.raises(ValueError, match="observe must not name"):
        expected_same_decision_probability(zeros, 2, observe=[1, 2])
    with pytest.raises(TypeError, match="predictor"):
        same_decision_probability(zeros, 2.5)
    three = PREDICTORS["tree"](5, np.random.default_rng(0), 3)
    with pytest.raises(ValueError, match="the most probable one is chosen"):
        same_decision_probability(zeros, three, threshold=0.2)
