"""Shapley values against their definition, by their axioms, and where they are sampled."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joint import NAN, Joint, mixture_models, models, models_with_rows, special_circuits
from strategies import examples
from strudel.circuits.compile import compile_factorized
from strudel.predictions.explanation import shap_values
from strudel.trees.vtree import balanced_vtree
from worlds import PREDICTORS, World, forest, sum_of

approx = pytest.approx
seeds = st.integers(0, 2**32 - 1)


def by_definition(world, row, column=-1):
    """The mean gain of every known value over all orders."""
    row = np.array(row, dtype=float)
    known = np.flatnonzero(~np.isnan(row))
    worth = {}
    for size in range(len(known) + 1):
        for chosen in itertools.combinations(known, size):
            part = np.full(len(row), NAN)
            part[list(chosen)] = row[list(chosen)]
            worth[chosen] = float(world.expected(part)[column])
    values = np.zeros(len(row))
    for var in known:
        rest = [other for other in known if other != var]
        for size in range(len(rest) + 1):
            weight = math.factorial(size) * math.factorial(len(rest) - size)
            for chosen in itertools.combinations(rest, size):
                more = tuple(sorted((*chosen, var)))
                values[var] += weight * (worth[more] - worth[chosen])
    return values / math.factorial(len(known))


@given(
    st.one_of(models_with_rows(6, 2, models), models_with_rows(5, 2, mixture_models)),
    seeds,
    st.sampled_from([*sorted(PREDICTORS), "variable"]),
)
@examples(40)
def test_against_the_definition(case, seed, kind):
    model, joint, rows = case
    rng = np.random.default_rng(seed)
    if kind == "variable":
        predictor = int(rng.integers(model.vtree.n_vars))
        world = World(joint, joint.states[:, predictor])
    else:
        predictor = PREDICTORS[kind](model.vtree.n_vars, rng)
        world = World(joint, predictor)
    found = shap_values(model, predictor, np.array(rows))
    assert found.is_exact.all()
    assert not found.standard_error.any()
    for i, row in enumerate(rows):
        scale = max(1.0, float(np.abs(world.output).max()))
        assert found.values[i] == approx(by_definition(world, row), rel=1e-9, abs=1e-12 * scale)
        assert found.prediction[i] == approx(world.expected(row)[-1], rel=1e-10, abs=1e-13)
        gap = found.prediction[i] - found.base_value
        assert found.values[i].sum() == approx(gap, abs=1e-12 * scale)


@pytest.mark.compiled
def test_classes_of_a_classifier_add_up_to_nothing():
    circuit = special_circuits()["learned 0"]
    predictor = forest(8, np.random.default_rng(0), 3)
    row = Joint(circuit).states[17]
    values = [shap_values(circuit, predictor, row, target=c).values for c in (0, 1, 2)]
    assert np.sum(values, axis=0) == approx(np.zeros(8), abs=1e-12)
    wanted = by_definition(World(Joint(circuit), predictor), row, column=1)
    assert values[1] == approx(wanted, abs=1e-12)
    with pytest.raises(ValueError, match="Set target"):
        shap_values(circuit, predictor, row)
    with pytest.raises(ValueError, match="target must be"):
        shap_values(circuit, predictor, row, target=7)


def test_a_sum_of_independent_variables_needs_no_game():
    theta = np.array([0.1, 0.5, 0.7, 0.9, 0.4])
    circuit = compile_factorized(balanced_vtree(5), theta)
    weight = np.array([1.0, -2.0, 0.0, 3.0, 0.5])
    row = np.array([1, 1, 0, 0, NAN])
    found = shap_values(circuit, sum_of(weight, 7.0), row)
    wanted = np.where(np.isnan(row), 0.0, weight * (np.nan_to_num(row) - theta))
    assert found.values == approx(wanted, abs=1e-13)
    assert abs(found.values[2]) < 1e-15  # a feature that says nothing gets nothing


@pytest.mark.compiled
def test_sampled_values_keep_the_sum_and_their_errors_are_honest():
    circuit = special_circuits()["learned 3"]
    predictor = forest(8, np.random.default_rng(1))
    rows = Joint(circuit).states[[3, 77, 130, 200]]
    exact = shap_values(circuit, predictor, rows)
    found = shap_values(circuit, predictor, rows, max_exact=4, n_permutations=400)
    assert not found.is_exact.any()
    gap = found.prediction - found.base_value
    assert found.values.sum(axis=1) == approx(gap, abs=1e-12)
    assert np.all(found.standard_error > 0.0)
    z = (found.values - exact.values) / found.standard_error
    assert np.abs(z).max() < 4.5
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6
    again = shap_values(circuit, predictor, rows, max_exact=4, n_permutations=400)
    assert np.array_equal(again.values, found.values)
    other = shap_values(circuit, predictor, rows, max_exact=4, n_permutations=400, random_state=5)
    assert not np.array_equal(other.values, found.values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_exact": 30}, "at most 20"),
        ({"n_permutations": 3}, "at least 4"),
        ({"n_permutations": 10.5}, "whole number"),
    ],
)
def test_wrong_arguments(options, words):
    with pytest.raises(ValueError, match=words):
        shap_values(special_circuits()["figure 1"], "X1", [0, 0, 1, 1], **options)
