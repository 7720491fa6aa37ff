"""One circuit: by presets, with rows sampled from a mixture, from a circuit to continue from."""

import numpy as np
import pytest

from strudel import BestFirst, Greedy, Race, Strudel
from strudel.circuits.properties import why_not_deterministic
from strudel.errors import InterruptedWarning
from strudel.learning import fit


def clusters(seed, n_rows=300, n_vars=8):
    rng = np.random.default_rng(seed)
    centre = rng.random((5, n_vars)) < 0.5
    flips = rng.random((n_rows, n_vars)) < 0.1
    return (centre[rng.integers(5, size=n_rows)] ^ flips).astype(np.uint8)


@pytest.mark.compiled
@pytest.mark.parametrize("preset", ["fast", "accurate"])
def test_presets_learn_deterministic_circuits(preset):
    rows, valid = clusters(1), clusters(1, n_rows=400)[300:]
    options = {"search": Race(sampled_rows=500)} if preset == "accurate" else {}
    model = Strudel(
        n_components=1, preset=preset, patience=10, max_splits=20, random_state=0, **options
    )
    model.fit(rows, X_valid=valid)
    history = model.history_
    assert why_not_deterministic(model.circuit_) is None
    assert model.score(valid) == pytest.approx(history.valid[history.best])
    assert model.score(valid) > Strudel(n_components=1, max_splits=0).fit(
        rows, X_valid=valid
    ).score(valid)


@pytest.mark.compiled
def test_sampled_rows_are_kept_only_if_they_help():
    rows, valid = clusters(2, n_rows=100), clusters(3, n_rows=100)
    alone = Strudel(n_components=1, search="best_first", random_state=0).fit(rows, X_valid=valid)
    sampling = BestFirst(sampled_rows=1000)
    both = Strudel(n_components=1, search=sampling, random_state=0).fit(rows, X_valid=valid)
    assert both.score(valid) >= alone.score(valid)


@pytest.mark.compiled
@pytest.mark.parametrize(("few_variables", "n_sampled"), [(8, 280), (7, 120)])
def test_of_many_variables_fewer_rows_are_sampled(monkeypatch, few_variables, n_sampled):
    original, found = fit.sample, []

    def sample(mixture, n_rows, **options):
        found.append(n_rows)
        return original(mixture, n_rows, **options)

    monkeypatch.setattr(fit, "sample", sample)
    monkeypatch.setattr(fit, "N_SAMPLED", 70)
    monkeypatch.setattr(fit, "N_SAMPLED_WIDE", 30)
    monkeypatch.setattr(fit, "FEW_VARIABLES", few_variables)
    model = Strudel(
        n_components=1, search=Greedy(sampled_rows="auto"), max_splits=2, random_state=0
    )
    model.fit(clusters(0, n_rows=80))
    assert found == [n_sampled]


@pytest.mark.compiled
@pytest.mark.parametrize("search", [Greedy, BestFirst])
def test_a_search_with_sampled_rows_goes_on_within_its_bounds(search):
    rows, valid = clusters(4, n_rows=60), clusters(5, n_rows=200)
    model = Strudel(n_components=1, search=search(sampled_rows=500), max_splits=6, random_state=0)
    model.fit(rows, X_valid=valid)
    history = model.history_
    assert history.n_splits[history.best] <= 6
    assert model.score(valid) == pytest.approx(history.valid[history.best])
    assert np.all(np.diff(history.seconds) >= 0.0)


@pytest.mark.compiled
@pytest.mark.parametrize(("most_splits", "is_start"), [(2, True), (10**6, False)])
def test_a_mixture_far_better_than_a_greedy_one_is_on_the_search(
    monkeypatch, most_splits, is_start
):
    original, starts = fit.learn_mixture, []

    def learn(rows, job):
        starts.append(rows.start)
        return original(rows, job)

    monkeypatch.setattr(fit, "learn_mixture", learn)
    monkeypatch.setattr(fit, "FAR", -1.0)
    monkeypatch.setattr(fit, "MOST_SPLITS", most_splits)
    rows, valid = clusters(6, n_rows=300), clusters(3, n_rows=300)
    search = BestFirst(sampled_rows=400)
    model = Strudel(n_components=1, search=search, max_splits=6, random_state=0).fit(
        rows, X_valid=valid
    )
    assert (starts[0] is not None) == is_start
    if is_start:
        assert starts[0].n_edges <= model.circuit_.size
    assert model.score(valid) == pytest.approx(model.history_.valid[model.history_.best])


@pytest.mark.compiled
def test_sampled_rows_need_validation_rows():
    model = Strudel(
        n_components=1, search=Greedy(sampled_rows=10), max_splits=1, validation_fraction=None
    )
    with pytest.raises(ValueError, match="sampled_rows needs validation rows"):
        model.fit(clusters(0))


@pytest.mark.compiled
def test_an_interrupt_of_the_mixture_keeps_the_circuit(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit, "sample", interrupted)
    model = Strudel(n_components=1, search=Greedy(sampled_rows=10), max_splits=3, random_state=0)
    with pytest.warns(InterruptedWarning):
        model.fit(clusters(0))
    assert why_not_deterministic(model.circuit_) is None


@pytest.mark.compiled
def test_a_warm_start_is_never_worse_on_validation_rows():
    rows, valid = clusters(5), clusters(5, n_rows=400)[300:]
    options = {"search": "best_first", "smoothing": "hierarchical", "random_state": 0}
    model = Strudel(n_components=1, **options).fit(rows, X_valid=valid)
    before = model.score(valid)
    model.set_params(max_splits=0).fit(rows, X_valid=valid, warm_start=True)
    assert model.score(valid) >= before
