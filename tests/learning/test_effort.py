"""Bounds of the automatic mixture: what follows from the size of a table, and that they hold."""

from dataclasses import replace

import numpy as np
import pytest

from strudel import Strudel
from strudel.learning import effort as efforts
from strudel.learning.effort import ACCURATE, DEFAULT, EFFORTS, FAST
from strudel.learning.mixtures.choose import Round


def rows_of_kinds(n_rows=300, n_vars=8, seed=0):
    """Two kinds of rows, in each of which neighbours agree."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, (n_rows, 1))
    X = rng.random((n_rows, n_vars)) < np.where(kind, 0.8, 0.2)
    X[:, 1::2] = X[:, ::2] ^ (rng.random((n_rows, n_vars // 2)) < 0.1)
    return X.astype(np.uint8)


@pytest.mark.parametrize("effort", EFFORTS.values(), ids=EFFORTS)
def test_larger_tables_have_no_more_components(effort):
    sizes = [effort.most_components(n_cells, False) for n_cells in (1, 10**5, 10**7, 10**9)]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) >= efforts.FEWEST


def test_more_effort_is_more_of_everything():
    for name in ("max_components", "of_tables", "max_work", "structure_cells", "max_copies"):
        values = [getattr(effort, name) for effort in (FAST, DEFAULT, ACCURATE)]
        assert values == sorted(values), name
    assert ACCURATE.structure_rows(100) is None  # all rows
    assert DEFAULT.structure_rows(100) * 100 <= DEFAULT.structure_cells


def test_a_fit_keeps_to_its_bounds(monkeypatch):
    rounds = (Round(10**9, 1, 3, 3), Round(1, 4, 5, 3))
    small = replace(
        DEFAULT, max_components=18, sizes=(3, 5), rounds=rounds, splits=(0,), max_splits=2
    )
    monkeypatch.setitem(EFFORTS, "default", small)
    model = Strudel(random_state=0).fit(rows_of_kinds())
    assert model.circuit_.n_components <= 18
    assert {trial.n_splits for trial in model.trials_} <= {-1, 0, 1, 2}
    assert {trial.n_components for trial in model.trials_} <= {3, 5}
    assert all(trial.n_runs <= 4 for trial in model.trials_)


def test_a_structure_that_a_sample_shows_has_parameters_of_all_rows(monkeypatch):
    monkeypatch.setattr(efforts, "FEWEST_ROWS", 50)
    rounds = (Round(10**9, 1, 40, 40),)
    small = replace(DEFAULT, structure_cells=1.0, max_components=15, sizes=(5,), rounds=rounds)
    monkeypatch.setitem(EFFORTS, "default", small)
    X = rows_of_kinds(n_rows=2000)
    model = Strudel(random_state=0).fit(X)
    counted = X.mean(axis=0)
    np.testing.assert_allclose(model.marginal_probabilities(), counted, atol=0.02)


def test_a_method_that_is_named_has_no_bounds(monkeypatch):
    monkeypatch.setitem(EFFORTS, "default", replace(DEFAULT, max_components=15, sizes=(5,)))
    X, options = rows_of_kinds(), {"max_splits": 1, "max_components": 60, "random_state": 0}
    by_em = Strudel(method="em", **options).fit(X)
    assert {trial.n_components for trial in by_em.trials_} == {25}
