"""Estimators that know the codes of their columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from column_circuits import joint_of
from strudel import Greedy, Strudel
from strudel.learning import fit
from strudel.learning.learn_mixture import MixtureTask
from strudel.learning.options import BaggedEM
from strudel.tables import TableEncoder

pd = pytest.importorskip("pandas")


def frame(n_rows=300, seed=0):
    """Three colours, sizes in four cells, and a flag; all depend on one another."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, size=n_rows)
    colour = np.where(rng.random(n_rows) < 0.2, rng.integers(0, 3, size=n_rows), hidden)
    return pd.DataFrame(
        {
            "colour": np.array(["red", "green", "blue"])[colour],
            "size": hidden * 2.0 + rng.normal(size=n_rows),
            "flag": (hidden > 1) ^ (rng.random(n_rows) < 0.1),
        }
    )


def assert_codes_only(model):
    """All cells together have a chance, and bits that code none have nothing."""
    p = joint_of(model.circuit_)
    assert p.sum() == pytest.approx(1.0)
    assert (p > 0).all()


def encoder(code="thermometer"):
    return TableEncoder(n_bins=4, code=code)


@pytest.mark.parametrize("code", ["thermometer", "one_hot"])
def test_bits_that_are_no_code_are_impossible(code):
    table = frame()
    model = Strudel(n_components=1, columns=encoder(code), max_splits=10, random_state=0).fit(table)
    assert_codes_only(model)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 3, "max_splits": 4},
        {"n_components": 3, "max_splits": 0, "method": BaggedEM(n_bags=2)},
        {"n_components": 3, "max_splits": 0, "method": "boosting"},
    ],
    ids=["em", "bagged", "boosting"],
)
def test_mixtures_know_the_codes(options):
    table = frame()
    model = Strudel(columns=encoder(), random_state=0, **options).fit(table)
    assert_codes_only(model)


def test_a_constraint_comes_on_top():
    table = frame()
    table = table[~((table["colour"] == "red") & table["flag"])]
    model = Strudel(
        n_components=1,
        columns=encoder(),
        constraint='~(colour == "red" & flag = True)',
        max_splits=5,
        random_state=0,
    ).fit(table)
    p = joint_of(model.circuit_)
    assert p.sum() == pytest.approx(1.0)
    n_allowed = 3 * 4 * 2 - 4  # colours, cells, flags; less red flags of every size
    assert (p > 0).sum() == n_allowed


@pytest.mark.compiled
def test_sampled_rows_are_possible(monkeypatch):
    # Else the second search would refuse them. A small mixture is enough, and quick.
    def small(n_components, n_splits, method, most, search, options):
        assert search.columns is not None
        options = replace(options, n_components=3)
        return MixtureTask(3, 0, method, most, replace(search, max_splits=0), options)

    monkeypatch.setattr(fit, "MixtureTask", small)
    search = Greedy(sampled_rows=200)
    model = Strudel(
        n_components=1, columns=encoder("one_hot"), search=search, max_splits=5, random_state=0
    )
    assert_codes_only(model.fit(frame(150)))


@pytest.mark.compiled
@pytest.mark.parametrize("n_components", [1, 2])
def test_unknown_values_are_completed_by_codes(n_components):
    table = frame(200)
    is_hidden = np.random.default_rng(1).random(table.shape) < 0.25
    is_hidden[is_hidden.all(axis=1)] = False
    table = table.astype({"flag": object}).mask(is_hidden)
    options = {"n_components": n_components, "max_splits": 5 if n_components == 1 else 0}
    model = Strudel(columns=encoder("one_hot"), random_state=0, **options).fit(table)
    assert_codes_only(model)
    assert np.isfinite(model.score(table))
