import numpy as np
import pytest
from reproduce.plan import make_plan
from reproduce.store import Outcome, Results, Store
from reproduce.tasks import Settings

SETTINGS = Settings(seconds=3.0)


def outcome(result, **changes):
    return Outcome("growth", "nltcs", SETTINGS.as_dict(), result, **changes)


def test_an_outcome_comes_back(tmp_path):
    store = Store(tmp_path)
    written = outcome({"bits": np.array([1.5, np.nan]), "n": np.int64(3)}, seconds=2.0)
    store.write(written)
    read = store.read("growth", "nltcs", SETTINGS)
    assert read.result == {"bits": [1.5, None], "n": 3}
    assert read.seconds == 2.0


def test_other_settings_are_other_results(tmp_path):
    store = Store(tmp_path)
    store.write(outcome({}))
    assert store.read("growth", "nltcs", SETTINGS) is not None
    assert store.read("growth", "nltcs", Settings(seconds=4.0)) is None
    assert store.read("growth", "nltcs", Settings(seconds=3.0, is_quick=True)) is None
    assert store.read("growth", "dna", SETTINGS) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"format": 1}', '{"format": 99}'])
def test_what_cannot_be_read_is_computed_again(tmp_path, damage):
    store = Store(tmp_path)
    store.write(outcome({}))
    store.path("growth", "nltcs").write_text(damage)
    assert store.read("growth", "nltcs", SETTINGS) is None


def with_seed(seed, test):
    settings = Settings(seconds=3.0, seed=seed)
    return Outcome("mixture", "nltcs", settings.as_dict(), {"test": test, "edges": 10 + seed})


def test_seeds_have_a_mean_and_a_spread():
    one = Results([with_seed(0, -6.0)]).means("mixture")["nltcs"]
    assert (one["test"], one["n_seeds"], one["spread"]) == (-6.0, 1, None)
    three = Results([with_seed(s, t) for s, t in enumerate((-6.0, -7.0, -8.0))])
    found = three.means("mixture")["nltcs"]
    assert (found["test"], found["n_seeds"], found["spread"]) == (-7.0, 3, 1.0)
    assert found["edges"] == 10
    assert three.by_dataset("mixture")["nltcs"]["test"] == -6.0


def test_only_our_best_models_are_run_with_several_seeds(tmp_path):
    plan = make_plan(
        ["table:records", "table:single-models"], tmp_path, datasets=["generated-10"], n_seeds=3
    )
    seeds = {(task.experiment.name, task.settings.seed) for task in plan.tasks}
    ours = {(name, seed) for name in ("accurate", "mixture") for seed in range(3)}
    assert seeds == ours | {("single", 0)}
