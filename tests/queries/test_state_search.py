"""Branch and bound on mixtures: answers by enumeration, bounds that hold, limits that are told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joint import (
    NAN,
    REL,
    coins,
    mixture_models,
    models_with_rows,
    some_rows,
    special_joint,
    special_mixtures,
)
from strategies import examples, mixed
from strudel import log_likelihood, marginal_map, most_probable_state
from strudel.circuits import compile_chow_liu
from strudel.errors import SearchLimitWarning
from strudel.learning.parameters import fit_parameters
from strudel.queries import state_search
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu


def check_best(mixture, joint, rows, k):
    states, log_p = most_probable_state(mixture, rows, k=k)
    states, log_p = states.reshape(len(rows), k, -1), log_p.reshape(len(rows), k)
    for row, state, found in zip(rows, states, log_p, strict=True):
        _, expected = joint.best(row, k)
        n_found = len(expected)
        assert found[:n_found] == pytest.approx(expected, rel=REL, abs=1e-11)
        assert np.all(found[n_found:] == -math.inf)
        assert len({tuple(one) for one in state[:n_found]}) == n_found
        assert np.all(joint.agrees(row)[state[:n_found] @ powers(mixture.vtree.n_vars)])
        own = joint.p[state[:n_found] @ powers(mixture.vtree.n_vars)]
        assert np.log(own) == pytest.approx(found[:n_found], rel=REL, abs=1e-11)


def powers(n_vars):
    """What makes the number of a state of its values."""
    return 1 << np.arange(n_vars)[::-1]


@pytest.fixture(params=[1, 64])
def n_listed(request, monkeypatch):
    """With 1 the search branches to the end; with 64 it lists the last states."""
    monkeypatch.setattr(state_search, "N_LISTED", request.param)
    return request.param


@examples(100)
@given(models_with_rows(7, max_rows=3, model=mixture_models), st.sampled_from([1, 64]))
def test_the_best_completion_is_that_of_the_table(case, n_listed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_search, "N_LISTED", n_listed)
        check_best(*case, k=1)


@examples(60)
@given(models_with_rows(6, max_rows=2, model=mixture_models), st.integers(2, 20))
def test_the_k_best_completions_are_those_of_the_table(case, k):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_search, "N_LISTED", 1)
        check_best(*case, k=k)


@pytest.mark.compiled
@pytest.mark.parametrize("name", special_mixtures())
def test_special_mixtures(name, rng, n_listed):
    mixture = special_mixtures()[name]
    joint = special_joint(name)
    for k in (1, 4):
        check_best(mixture, joint, some_rows(joint, rng, n_rows=4, known=0.2), k)


@examples(80)
@given(models_with_rows(6, max_rows=1, model=mixture_models), st.data())
def test_marginal_map_agrees_with_enumeration(case, data):
    mixture, joint, rows = case
    order = data.draw(st.permutations(range(mixture.vtree.n_vars)))
    query = order[: data.draw(st.integers(1, len(order)))]
    total = joint.marginal_states(rows[0], query)
    found = marginal_map(mixture, query, rows[0])
    assert found.is_optimal
    assert found.upper_bound == found.log_probability
    best = math.log(max(total.values()))
    assert found.log_probability == pytest.approx(best, rel=REL, abs=1e-11)
    assert math.log(total[tuple(found.state.values())]) == pytest.approx(best, rel=REL, abs=1e-11)


def conflicting_mixture(n_vars=14, n_components=60, seed=0):
    """Each component insists on values of three variables: like a formula, and as hard."""
    rng = np.random.default_rng(seed)
    theta = np.full((n_components, n_vars), 0.5)
    for row in theta:
        row[rng.permutation(n_vars)[:3]] = rng.choice([0.02, 0.98], 3)
    return coins(theta)


@pytest.mark.compiled
def test_a_limit_gives_the_best_so_far_and_a_bound_that_holds():
    mixture = conflicting_mixture()
    state, log_p = most_probable_state(mixture)
    numbers = np.arange(2**14)
    states = (numbers[:, np.newaxis] >> np.arange(14)[::-1] & 1).astype(np.uint8)
    best = log_likelihood(mixture, states).max()
    assert log_p == pytest.approx(best, rel=REL)
    gaps = []
    for max_nodes in (0, 8, 40):
        with pytest.warns(SearchLimitWarning, match="no other completion has more than") as caught:
            _, found = most_probable_state(mixture, max_nodes=max_nodes)
        bound = caught[0].message.upper_bound
        assert bound.shape == (1,)
        assert found <= best + 1e-12 < bound[0]
        gaps.append(bound[0] - best)
        report = marginal_map(mixture, range(14), max_nodes=max_nodes)
        assert not report.is_optimal
        assert report.upper_bound == pytest.approx(bound[0], rel=1e-12)
        assert report.n_nodes <= max_nodes
    assert gaps == sorted(gaps, reverse=True)
    with pytest.warns(SearchLimitWarning, match="for 1 of 2 rows. For row 1, the best one found"):
        most_probable_state(mixture, [state, [NAN] * 14], max_seconds=0)
    with pytest.warns(SearchLimitWarning, match="row 0, it found fewer than 300 completions"):
        most_probable_state(conflicting_mixture(8), k=300, max_nodes=1)


def test_bad_limits_are_refused():
    for limit in ({"max_seconds": -1}, {"max_nodes": -1}):
        with pytest.raises(ValueError, match="must be zero or more, or None"):
            most_probable_state(special_mixtures()["learned"], **limit)


@pytest.mark.compiled
def test_a_thousand_variables_are_maximal_under_flips(rng):
    data = (rng.random((300, 1000)) < rng.random(1000)) ^ (rng.random((300, 1)) < 0.5)
    tree = learn_chow_liu_tree(data.astype(np.uint8), alpha=1.0)
    structure = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    parts = [fit_parameters(structure, data[i::4].astype(np.uint8)) for i in range(4)]
    mixture = mixed(parts)
    row = np.where(rng.random(1000) < 0.5, data[0], NAN)
    state, log_p = most_probable_state(mixture, row)
    assert log_likelihood(mixture, [state])[0] == pytest.approx(log_p, rel=1e-12)
    flips = np.repeat(state[np.newaxis], 1000, axis=0)
    flips[np.arange(1000), np.arange(1000)] ^= 1
    assert log_likelihood(mixture, flips[np.isnan(row)]).max() <= log_p + 1e-9
