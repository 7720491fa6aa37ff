from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from column_circuits import as_bits
from strudel import Strudel, log_likelihood
from strudel.data.bits import pack_columns
from strudel.learning.bits.fold import folded
from strudel.learning.mixtures import choose as module
from strudel.learning.mixtures.choose import (
    MixtureSearch,
    Round,
    Setting,
    prefixes_of,
)
from strudel.learning.options import MixtureOptions, SearchOptions
from strudel.learning.search.learn_structure import grow

OPTIONS = MixtureOptions(smoothing="single", pseudocount="auto", tol=1e-4)
SHORT = (Round(10**9, 1, 3, 2), Round(3, 2, 5, 2), Round(1, 5, 8, 2))


def kinds(seed, n_rows, n_vars=10, n_kinds=6):
    """Rows of several kinds that are the same for every seed."""
    centre = np.random.default_rng(3).choice([0.1, 0.9], (n_kinds, n_vars))
    rng = np.random.default_rng(seed)
    kind = rng.integers(n_kinds, size=n_rows)
    return (rng.random((n_rows, n_vars)) < centre[kind]).astype(np.uint8)


TRAIN, VALID = kinds(0, 400), kinds(1, 150)


def grown():
    search = SearchOptions(max_splits=12, patience=12)
    return grow(pack_columns(TRAIN), pack_columns(VALID), search=search).growing


def searched(prefixes=(0, 4, 12), **params):
    rounds = {}

    def on_trial(trial, words):
        rounds.setdefault(words, []).append(trial)

    defaults = {"n_components": (2, 4), "rounds": SHORT, "rng": 0, "on_trial": on_trial}
    search = MixtureSearch(OPTIONS, **defaults | params)
    choice = search.run(grown().snapshot, list(prefixes), pack_columns(TRAIN), pack_columns(VALID))
    return search, choice, list(rounds.values())


@pytest.fixture(scope="module")
def result():
    return searched()


def setting(trial):
    return trial.n_splits, trial.n_components


def test_settings_are_dropped_from_round_to_round(result):
    search, _, rounds = result
    assert [len(set(map(setting, trials))) for trials in rounds] == [6, 3, 1]
    assert [trial for trials in rounds for trial in trials] == search.trials


def test_the_best_of_a_round_go_on(result):
    _, _, rounds = result
    for now, later in pairwise(rounds):
        last = {setting(trial): trial.valid for trial in now}  # a setting may be trained twice
        kept = {setting(trial) for trial in later}
        dropped = [valid for one, valid in last.items() if one not in kept]
        assert min(last[one] for one in kept) >= max(dropped)


def test_the_winner_is_the_best_of_the_last_round(result):
    _, choice, rounds = result
    assert choice.trial[:-2] == max(rounds[-1], key=lambda trial: trial.n_runs)[:-2]


def test_the_mixture_is_as_likely_as_the_trial_says(result):
    _, choice, rounds = result
    assert [max(trial.n_runs for trial in trials) for trials in rounds] == [1, 2, 5]
    assert choice.trial.n_runs == sum(runs.n_runs for runs in choice.parts) == 5
    assert choice.prior.strength == choice.trial.pseudocount
    snapshot = grown().snapshot(choice.trial.n_splits)
    assert np.array_equal(choice.data.single.edge_left, snapshot.edge_left)
    mixture = choice.mixture()
    assert mixture.n_components == choice.trial.n_components * choice.trial.n_runs
    assert log_likelihood(folded(mixture), VALID).mean() == pytest.approx(
        choice.trial.valid, abs=1e-4
    )


def test_prefixes_are_short_ones_and_the_winner():
    assert prefixes_of(0) == [0]
    assert prefixes_of(1) == [0, 1]
    assert prefixes_of(45) == [0, 45]  # 30 splits are about as many
    assert prefixes_of(46) == [0, 30, 46]
    assert prefixes_of(5000) == [0, 30, 100, 300, 1000, 5000]


@pytest.mark.compiled
@pytest.mark.parametrize("limit", [1, 3, 4, 9, 20])
def test_the_largest_number_of_components_is_respected(limit):
    _, choice, rounds = searched((0, 4), max_components=limit)
    assert choice.mixture().n_components <= limit
    assert all(trial.n_components * trial.n_runs <= limit for trials in rounds for trial in trials)


def test_where_there_is_no_room_for_more_runs_longer_ones_take_their_place():
    rounds = (Round(10**9, 1, 1, 5), Round(1, 4, 60, 10))
    short, _, _ = searched((4,), n_components=(4,), max_components=4, rounds=rounds[:1])
    both, choice, _ = searched((4,), n_components=(4,), max_components=4, rounds=rounds)
    assert both.trials[0][:-2] == short.trials[0][:-2]
    assert choice.trial.valid > short.trials[0].valid
    assert choice.trial.n_runs == 1


def test_structures_too_large_for_memory_are_left_out(monkeypatch):
    growing = grown()
    room = 2 * growing.snapshot(0).n_edges
    monkeypatch.setattr(module, "MOST_NUMBERS", room)
    search, _, _ = searched()
    assert {setting(trial) for trial in search.trials} == {(0, 2)}


@pytest.mark.compiled
def test_the_seed_alone_decides(result):
    search, choice, _ = result
    again, chosen, _ = searched()
    assert [trial[:-2] for trial in again.trials] == [trial[:-2] for trial in search.trials]
    assert np.array_equal(chosen.mixture().edge_log_theta, choice.mixture().edge_log_theta)
    other, _, _ = searched(rng=1)
    assert [trial.valid for trial in other.trials] != [trial.valid for trial in search.trials]


def test_no_time_at_all_is_enough_for_one_setting():
    search, choice, _ = searched(max_seconds=0.0)
    assert len(search.trials) == 1
    assert search.stopped_because == "max_seconds"
    assert choice.mixture().n_components == 2


def test_runs_that_are_cut_short_never_spoil_what_there_is(monkeypatch, result):
    """Bad runs, interrupted in the second round, are not averaged with good ones."""
    original, calls = module.train_runs, []

    def worse(data, options, rng, **others):
        calls.append(1)
        runs = original(data, options, rng)
        if len(calls) == 7:
            runs.history.stopped_because = "interrupted"
            runs.counts.count[:] = runs.counts.count[::-1].copy()
        return runs

    monkeypatch.setattr(module, "train_runs", worse)
    search, choice, rounds = searched()
    assert search.stopped_because == "interrupted"
    assert len(rounds) == 1
    assert choice.trial.valid == max(trial.valid for trial in search.trials)
    assert choice.trial.n_runs == 1


@pytest.mark.parametrize("call", [1, 2, 9])
def test_an_interrupt_anywhere_keeps_the_best_if_there_is_one(monkeypatch, call):
    original, calls = module.train_runs, []

    def interrupted(*args, **others):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **others)

    monkeypatch.setattr(module, "train_runs", interrupted)
    if call == 1:
        with pytest.raises(KeyboardInterrupt):
            searched()
        return
    search, choice, _ = searched()
    assert search.stopped_because == "interrupted"
    assert len(search.trials) == call - 1
    assert choice.trial.valid == max(trial.valid for trial in search.trials)


def candidate(n_components, row_log_p, n_edges=10):
    """What a setting reached, row by row."""
    row_log_p = np.array(row_log_p, dtype=float)
    data = SimpleNamespace(single=SimpleNamespace(n_edges=n_edges))
    parts = [SimpleNamespace(n_runs=1)]
    setting = Setting(0, data, n_components, 1, [], 0.0, parts=parts, valid=row_log_p.mean())
    return setting, row_log_p


def test_the_smallest_mixture_wins_that_rows_cannot_tell_from_the_best():
    best = [-1.0, -1.0, -1.0, -1.0]
    surely_worse = [-1.1, -1.2, -1.1, -1.2]  # by 0.15, with a standard error of 0.03
    perhaps_worse = [-1.5, -0.4, -1.5, -0.8]  # by 0.05, with one of 0.3
    found = module._smallest_as_good(
        [candidate(225, best), candidate(25, surely_worse), candidate(75, perhaps_worse)],
        np.ones(4),
    )
    assert found.n_components == 75
    # Of a larger structure, 75 components are more parameters than 225 of a small one.
    found = module._smallest_as_good(
        [candidate(225, best), candidate(75, perhaps_worse, n_edges=40)],
        np.ones(4),
    )
    assert found.n_components == 225


@pytest.mark.compiled
def test_a_small_table_gets_a_small_mixture_that_is_one_of_the_trials():
    search, choice, _ = searched(prefers_small=True)
    _, largest, _ = searched()
    assert choice.trial[:-2] in [trial[:-2] for trial in search.trials]  # but for the time
    assert choice.mixture().n_components == choice.trial.n_runs * choice.trial.n_components
    assert choice.mixture().n_components <= largest.mixture().n_components
    log_p = log_likelihood(folded(choice.mixture()), VALID)
    assert log_p.mean() == pytest.approx(choice.trial.valid)
    apart = log_likelihood(folded(largest.mixture()), VALID) - log_p
    assert apart.mean() <= apart.std() / np.sqrt(len(VALID) - 1) + 1e-9


def test_validation_rows_that_stay_impossible_end_no_search():
    X = np.random.default_rng(0).integers(0, 2, (60, 4)).astype(np.uint8)
    X[:, 0] = 0
    V = X[:20].copy()
    V[0, 0] = 1  # of probability zero, without any smoothing
    model = Strudel(n_components=1, max_splits=0, validation_fraction=None).fit(X)
    circuit = as_bits(model.circuit_)
    search = MixtureSearch(MixtureOptions(pseudocount=0.0), n_components=(2, 3), rng=0)
    choice = search.run(lambda n: circuit, [0], pack_columns(X), pack_columns(V))
    assert choice.trial.valid == -np.inf
    assert np.isfinite(log_likelihood(folded(choice.mixture()), X)).all()
