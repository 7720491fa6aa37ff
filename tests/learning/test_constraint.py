"""Estimators under a constraint: nothing that violates it is possible, and the rest is learned."""

from __future__ import annotations

import itertools
import random
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import oracle
from column_circuits import joint_of
from joint import Joint
from makers import random_function, sdd_of
from strategies import examples, seeds
from strudel import Strudel, load, log_likelihood, log_marginal, save, variables
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import why_not_deterministic
from strudel.data.bits import pack_columns
from strudel.learning.bits.fold import folded
from strudel.learning.options import BaggedEM, SearchOptions
from strudel.learning.prepared_rows import constraint_circuit, restrict
from strudel.learning.search.learn_structure import first_circuit
from strudel.logic import Cnf, exactly
from strudel.tables.schema import bit_columns


def rows_of(allowed, n, rng):
    """Rows that satisfy, some much more often than others."""
    allowed = sorted(allowed)
    weights = [rng.random() ** 3 + 1e-3 for _ in allowed]
    return np.array(rng.choices(allowed, weights, k=n), dtype=np.uint8)


def assert_supported(model, allowed):
    joint = Joint(model if isinstance(model, Circuit) else folded(model))
    p, is_allowed = joint.p, np.array([tuple(row) in allowed for row in joint.states.tolist()])
    assert not np.any(p[~is_allowed])
    assert np.all(p[is_allowed] > 0)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)


@examples(25)
@given(st.integers(2, 7), seeds, st.sampled_from(["chow_liu", "independent"]))
def test_random_formulas(n_vars, seed, init):
    pytest.importorskip("pysdd")
    rng = random.Random(seed)
    clauses = [
        [rng.choice((-1, 1)) * (var + 1) for var in rng.sample(range(n_vars), min(3, n_vars))]
        for _ in range(rng.randint(1, 6))
    ]
    allowed = {
        row
        for row in oracle.all_rows(n_vars)
        if all(any(row[abs(lit) - 1] == (lit > 0) for lit in clause) for clause in clauses)
    }
    constraint = Cnf.from_literals(clauses, n_vars)
    if not allowed:
        with pytest.raises(ValueError, match="No row satisfies the constraint"):
            Strudel(n_components=1, constraint=constraint).fit([[0] * n_vars] * 9)
        return
    rows = rows_of(allowed, 80, rng)
    model = Strudel(n_components=1, constraint=constraint, init=init, random_state=0).fit(rows)
    assert_supported(model.circuit_, allowed)
    assert why_not_deterministic(model.circuit_) is None
    assert model.history_.n_splits[0] == 0


@pytest.mark.parametrize("method", ["em", BaggedEM(n_bags=2), "boosting"])
def test_mixtures(method):
    allowed = {row for row in oracle.all_rows(6) if sum(row) in (2, 3)}
    x = variables([f"x{i}" for i in range(6)])
    event = exactly(2, x) | exactly(3, x)
    pytest.importorskip("pysdd")
    rows = rows_of(allowed, 200, random.Random(0))
    model = Strudel(
        n_components=3, method=method, max_splits=5, constraint=event, random_state=0
    ).fit(rows)
    assert_supported(model.circuit_, allowed)
    with pytest.raises(ValueError, match="row 0 does not"):
        clone(model).fit(np.ones_like(rows))


@pytest.mark.parametrize("size", [1, 2])
def test_there_is_nothing_to_choose_among_vtrees(size):
    with pytest.raises(ValueError, match="under a constraint there is one: name a vtree"):
        Strudel(size, constraint="exactly(1, x0, x1)", vtree="auto").fit([[0, 1], [1, 0]] * 5)


# Without PySDD: counts, and SDDs on the right vtree


def one_hot_rows(n, rng):
    """Two groups of three columns, one 1 in each; the groups tend to agree."""
    first = rng.integers(3, size=n)
    second = np.where(rng.random(n) < 0.7, first, rng.integers(3, size=n))
    return np.hstack([np.eye(3, dtype=np.uint8)[first], np.eye(3, dtype=np.uint8)[second]])


def test_a_count_and_what_it_leaves_open():
    rng = np.random.default_rng(0)
    rows = np.hstack([one_hot_rows(500, rng), rng.integers(0, 2, (500, 1), dtype=np.uint8)])
    rows = np.hstack([rows, rows[:, -1:] ^ (rng.random((500, 1)) < 0.05)]).astype(np.uint8)
    model = Strudel(n_components=1, constraint="exactly(1, x0, x1, x2)", random_state=0).fit(rows)
    allowed = {row for row in oracle.all_rows(8) if sum(row[:3]) == 1}
    assert_supported(model.circuit_, allowed)
    # The last two columns, which the event does not mention, depend on each other before any split.
    tree = Strudel(
        n_components=1, constraint="exactly(1, x0, x1, x2)", max_splits=0, random_state=0
    ).fit(rows)
    coins = clone(tree).set_params(init="independent").fit(rows)
    both = [log_marginal(m, {6: 1, 7: 1})[0] for m in (tree, coins)]
    assert both[0] == pytest.approx(np.log(rows[:, 6:].all(axis=1).mean()), abs=0.1)
    assert both[1] < both[0] - 0.4
    free = Strudel(n_components=1, max_splits=0, random_state=0).fit(rows)
    assert tree.score(rows) > free.score(rows)  # nothing is spent on what cannot be


def test_the_first_circuit_is_the_sdd_and_the_tree():
    rng = random.Random(1)
    allowed = random_function(6, rng, 0.4)
    train = pack_columns(rows_of(allowed, 50, rng))
    for init in ("chow_liu", "independent"):
        search = SearchOptions(init=init)
        free = first_circuit(train, search)
        sdd = sdd_of(allowed, free.vtree)
        columns = bit_columns([f"x{i}" for i in range(6)])
        every = constraint_circuit(free, sdd, columns, None)
        first = restrict(free, every, None)
        assert_supported(first, allowed)
        assert set(zip(*np.nonzero(joint_of(every)), strict=True)) == allowed
        assert first.vtree == free.vtree
        size = int(sdd.n_elements) + 2 * free.n_edges
        assert first.n_edges <= 2 * size


# What is refused


def test_a_violating_row_is_named():
    rows = one_hot_rows(30, np.random.default_rng(0))
    rows[[17, 21], 0] = 1
    rows[[17, 21], 1] = 1
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    model = Strudel(n_components=1, constraint="exactly(1, a, b, c)", random_state=0)
    ones = ", ".join(np.array(list("abcdef"))[rows[17] == 1])
    words = re.escape(f"row 17 does not (and 1 more do not): its ones are {ones}.")
    with pytest.raises(ValueError, match=words):
        model.fit(frame)
    assert not hasattr(model, "n_features_in_")
    good = frame.drop(index=[17, 21])
    with pytest.raises(ValueError, match=r"Every row of X_valid must satisfy .* row 1 does not:"):
        model.fit(good, X_valid=frame.iloc[[0, 17]])
    model.fit(good, X_valid=frame.iloc[[0, 1]])
    fitted = model.circuit_
    with pytest.raises(ValueError, match="row 17"):
        model.fit(frame)
    assert model.circuit_ is fitted
    assert np.isneginf(model.score_samples(frame.iloc[[17]]))


def test_a_name_that_is_not_there():
    with pytest.raises(ValueError, match="smokr"):
        Strudel(n_components=1, constraint="smokr & x1").fit([[0, 1]] * 9)


# Files and clones


def test_a_model_with_a_constraint_is_saved(tmp_path):
    rows = one_hot_rows(100, np.random.default_rng(0))
    x = variables([f"x{i}" for i in range(6)])
    states = np.array(list(itertools.product((0, 1), repeat=6)))
    for constraint in ("exactly(1, x0, x1, x2)", exactly(1, [x["x0"], x["x1"], x["x2"]])):
        model = Strudel(n_components=1, constraint=constraint, random_state=0).fit(rows)
        save(model, tmp_path / "m.strudel")
        loaded = load(tmp_path / "m.strudel")
        assert np.array_equal(log_likelihood(loaded, states), log_likelihood(model, states))
        assert str(loaded.constraint) == "exactly(1, x0, x1, x2)"
        again = loaded.fit(rows)
        assert np.array_equal(log_likelihood(again, states), log_likelihood(model, states))
