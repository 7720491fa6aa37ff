"""How often classifiers agree, against enumeration, by laws, and at limits."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_circuits import random_predictor
from formulas import event_of_truth, holds, need_pysdd, random_truth
from joint import (
    NAN,
    REL,
    Joint,
    learned_circuit,
    mixture_models,
    models,
    models_with_rows,
    special_circuits,
)
from strategies import examples
from strudel.errors import SearchLimitWarning
from strudel.logic import pysdd_compiler
from strudel.logic.event_compiler import circuit_of_sdd, compile_event
from strudel.logic.events import at_least
from strudel.logic.terms import variables
from strudel.predictions import same_decision as module
from strudel.predictions.same_decision import Agreement, classifier_agreement
from worlds import PREDICTORS, World, forest, label, tree

approx = pytest.approx
seeds = st.integers(0, 2**32 - 1)


def labels(classifier, joint):
    """What a classifier decides about every state, as a list of names."""
    if hasattr(classifier, "classes_"):
        return classifier.predict(joint.states)
    world = World(joint, classifier)
    return np.array([label(output, classifier) for output in world.output])


def agreement(joint, row, first, second):
    return float(joint.given(row) @ (np.asarray(first) == np.asarray(second)))


@given(
    st.one_of(models_with_rows(7, 2, models), models_with_rows(6, 2, mixture_models)),
    seeds,
    st.sampled_from(sorted(PREDICTORS)),
    st.sampled_from(sorted(PREDICTORS)),
)
@examples(40)
def test_of_predictors_against_enumeration(case, seed, kind_f, kind_g):
    model, joint, rows = case
    rng = np.random.default_rng(seed)
    f, g = PREDICTORS[kind_f](model.vtree.n_vars, rng), PREDICTORS[kind_g](model.vtree.n_vars, rng)
    found = classifier_agreement(model, f, g, np.array(rows))
    for row, p in zip(rows, found, strict=True):
        assert p == approx(
            agreement(joint, row, labels(f, joint), labels(g, joint)), rel=REL, abs=1e-14
        )


@pytest.mark.parametrize("with_compiler", [True, False])
@given(st.one_of(models_with_rows(6, 1, models), models_with_rows(5, 1, mixture_models)), seeds)
@examples(25)
def test_of_formulas_against_enumeration(with_compiler, case, seed):
    model, joint, rows = case
    rng = random.Random(seed)
    truths = [random_truth(model.vtree.n_vars, rng, 3) for _ in range(2)]
    f, g = (event_of_truth(truth, variables(model)) for truth in truths)
    said = [np.array([holds(truth, state) for state in joint.states]) for truth in truths]
    with pytest.MonkeyPatch.context() as patch:
        if with_compiler:
            need_pysdd()
        else:
            patch.setattr(module, "event_logs", missing)
        found = classifier_agreement(model, f, g, np.array(rows))
    wanted = [agreement(joint, row, *said) for row in rows]
    assert found == approx(wanted, rel=REL, abs=1e-14)


def missing(*args, **options):
    raise pysdd_compiler.MissingDependencyError("no compiler")


@given(models_with_rows(6, 1, models), seeds)
@examples(25)
def test_of_a_formula_and_a_tree(case, seed):
    model, joint, rows = case
    truth = random_truth(model.vtree.n_vars, random.Random(seed), 3)
    event = event_of_truth(truth, variables(model))
    g = tree(model.vtree.n_vars, np.random.default_rng(seed))
    said = np.array([holds(truth, state) for state in joint.states])
    found = classifier_agreement(model, event, g, np.array(rows))
    wanted = [agreement(joint, row, said, labels(g, joint)) for row in rows]
    assert found == approx(wanted, rel=REL, abs=1e-14)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_of_classifiers_with_more_classes(n_classes):
    circuit = special_circuits()["learned 3"]
    joint = Joint(circuit)
    rng = np.random.default_rng(n_classes)
    f, g = tree(8, rng, n_classes), forest(8, rng, n_classes, n_trees=6)
    wanted = agreement(joint, [NAN] * 8, f.predict(joint.states), g.predict(joint.states))
    assert classifier_agreement(circuit, f, g) == approx(wanted, rel=REL)
    h = PREDICTORS["logistic"](8, rng, n_classes)
    wanted = agreement(joint, [NAN] * 8, h.predict(joint.states), g.predict(joint.states))
    assert classifier_agreement(circuit, h, g) == approx(wanted, rel=REL)


def test_classes_are_compared_by_name():
    circuit = special_circuits()["learned 0"]
    joint = Joint(circuit)
    rng = np.random.default_rng(0)
    f = tree(8, rng)
    X = rng.integers(0, 2, (50, 8))
    words = type(f)(max_depth=2, random_state=0).fit(X, np.where(X[:, 0], "yes", "no"))
    more = type(f)(max_depth=2, random_state=0).fit(X, np.where(X[:, 1], "yes", "perhaps"))
    wanted = agreement(joint, [NAN] * 8, words.predict(joint.states), more.predict(joint.states))
    assert classifier_agreement(circuit, words, more) == approx(wanted, rel=REL)
    assert classifier_agreement(circuit, words, "x0") == approx(1.0)
    with pytest.raises(ValueError, match="never agree: one decides between"):
        classifier_agreement(circuit, f, words)
    with pytest.raises(ValueError, match="between 3 classes"):
        classifier_agreement(circuit, tree(8, rng, 3), "x0")


def test_of_a_predictor_circuit_that_does_not_cover_all_rows():
    need_pysdd()

    circuit = special_circuits()["learned 1"]
    joint = Joint(circuit)
    rng = np.random.default_rng(4)
    structure = circuit_of_sdd(compile_event("x0 & x1 | x2 & ~x5", circuit.vtree))
    made = random_predictor(structure, rng)
    said = made.evaluate(joint.states)[:, 0] >= 0.5
    assert 0 < said.sum() < len(said)
    found = classifier_agreement(circuit, made, "x3")
    assert found == approx(agreement(joint, [NAN] * 8, said, joint.states[:, 3]), rel=REL)


def test_two_trees_cost_no_more_than_their_pairs_of_leaves():
    circuit = learned_circuit(0, n_vars=12)
    rng = np.random.default_rng(0)
    f, g = tree(12, rng, depth=4), tree(12, rng, depth=4)
    found = classifier_agreement(circuit, f, g, details=True)
    assert isinstance(found, Agreement)
    assert found.is_exact
    assert found.n_nodes <= f.get_n_leaves() * g.get_n_leaves()


def test_agreement_with_itself_and_with_its_opposite():
    circuit = learned_circuit(0, n_vars=12)
    f = forest(12, np.random.default_rng(0), n_trees=7)
    assert classifier_agreement(circuit, f, f) == approx(1.0, rel=1e-12)
    x = variables(circuit)
    event = at_least(5, x)
    assert classifier_agreement(circuit, event, ~event) == approx(0.0, abs=1e-12)


@pytest.mark.parametrize("max_nodes", [0, 1, 3, 10, 30, 100])
def test_intervals_contain_the_truth_at_every_limit(max_nodes):
    circuit = special_circuits()["learned 2"]
    joint = Joint(circuit)
    rng = np.random.default_rng(1)
    f, g = forest(8, rng, n_trees=9), forest(8, rng, n_trees=9, depth=2)
    truth = agreement(joint, [NAN] * 8, f.predict(joint.states), g.predict(joint.states))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = classifier_agreement(circuit, f, g, max_nodes=max_nodes, details=True)
    assert found.lower_bound - 1e-13 <= truth <= found.upper_bound + 1e-13  # rounding
    assert found.n_nodes <= max_nodes
    is_said = any(isinstance(one.message, SearchLimitWarning) for one in seen)
    assert is_said == (not found.is_exact)
    if max_nodes <= 3:
        assert is_said
