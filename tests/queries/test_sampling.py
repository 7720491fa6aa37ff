from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from joint import (
    NAN,
    Joint,
    mixture_models,
    models_with_rows,
    some_rows,
    special_circuits,
    special_mixtures,
)
from strategies import partition_circuit, seeds, split_circuit, sum_circuit
from strudel import sample
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.trees.vtree import balanced_vtree, random_vtree


def chi_square(rows, p):
    """The chance of rows as unlikely as these, if `p` were right; rare states are put together."""
    n_vars = rows.shape[1]
    number = rows @ (1 << np.arange(n_vars)[::-1])
    found, expected = np.bincount(number, minlength=len(p)), p * len(rows)
    assert np.all(found[p == 0.0] == 0)
    is_rare = expected < 5
    found = np.append(found[~is_rare], found[is_rare].sum())
    expected = np.append(expected[~is_rare], expected[is_rare].sum())
    if expected[-1] < 5:
        found, expected = found[:-1], expected[:-1]
    if len(expected) < 2:
        return 1.0
    return stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue


def sampled():
    """Circuits and mixtures of which samples are drawn, by name."""
    made = {name: special_circuits()[name] for name in ("figure 1", "zeros", "learned 0")}
    makers = {"split": split_circuit, "partition": partition_circuit, "sums": sum_circuit}
    for seed, (name, make) in enumerate(makers.items()):
        made[name] = make(random_vtree(5, seed), random.Random(seed), size=4)
    names = ("figure 1", "zeros", "fair coins", "learned", "not deterministic", "no weight")
    return made | {f"mixture: {name}": special_mixtures()[name] for name in names}


@pytest.mark.parametrize("name", sampled())
def test_samples_have_the_right_distribution(name, rng):
    model = sampled()[name]
    joint = Joint(model)
    assert chi_square(sample(model, 4000, random_state=1), joint.p) > 1e-3
    row = some_rows(joint, rng, n_rows=1)[0]
    assert chi_square(sample(model, 4000, row, random_state=2), joint.given(row)) > 1e-3


@pytest.mark.compiled
def test_a_thousand_variables_have_their_means(rng):
    p = rng.random(1000)
    rows = sample(compile_factorized(balanced_vtree(1000), p), 4000, random_state=0)
    z = (rows.mean(axis=0) - p) / np.sqrt(p * (1 - p) / 4000)
    assert stats.kstest(z, "norm").pvalue > 1e-3


@given(st.one_of(models_with_rows(6), models_with_rows(6, model=mixture_models)), seeds)
def test_completions_agree_with_the_evidence_and_are_possible(case, seed):
    model, joint, rows = case
    found = sample(model, 3, rows, random_state=seed)
    assert found.shape == (len(rows), 3, model.vtree.n_vars)
    assert found.dtype == np.uint8
    assert sample(model, 0).shape == (0, model.vtree.n_vars)
    assert sample(model, 0, given=rows).shape == (len(rows), 0, model.vtree.n_vars)
    for row, completions in zip(rows, found, strict=True):
        for state in completions:
            assert joint.given(row)[int("".join(map(str, state)), 2)] > 0.0


@pytest.mark.parametrize("n", [-1, 2.5, "3"])
def test_a_bad_number_of_rows_is_refused(n):
    with pytest.raises(ValueError, match="n_samples must be a whole number of rows, zero or more"):
        sample(figure_1_circuit(), n)


@pytest.mark.parametrize("known", [None, {"X3": 1}, [[NAN, 1, NAN, NAN], [NAN] * 4]])
def test_a_seed_may_be_a_number_a_generator_or_a_random_state(known):
    circuit = figure_1_circuit()
    first = sample(circuit, 20, known, random_state=7)
    np.testing.assert_array_equal(sample(circuit, 20, known, np.random.default_rng(7)), first)
    state = np.random.RandomState(7)
    of_state = [sample(circuit, 20, known, state) for _ in range(2)]
    again = sample(circuit, 20, known, np.random.RandomState(7))
    np.testing.assert_array_equal(of_state[0], again)
    assert not np.array_equal(*of_state)  # its numbers go on
    assert sample(circuit, 20, known).shape == first.shape
