import pytest
from reproduce.runner import run_tasks, unfinished
from reproduce.store import Outcome, Store
from reproduce.tasks import EXPERIMENTS, Experiment, Settings, Task, settings_of

from reproduce import runner


def task(name, seconds=1.0, mib=100.0):
    return Task(Experiment(name, "", seconds, seconds, mib), "nltcs", Settings(seconds))


def keep(store, one, failure=None):
    result = None if failure else {}
    settings = one.settings.as_dict()
    store.write(Outcome(one.experiment.name, one.dataset, settings, result, failure))


def test_finished_tasks_are_not_done_again_and_failed_ones_are(tmp_path):
    store, tasks = Store(tmp_path), [task("a"), task("b", 9.0), task("c", 5.0)]
    keep(store, tasks[0])
    keep(store, tasks[2], failure="broken")
    assert [one.experiment.name for one in unfinished(tasks, store)] == ["b", "c"]


def test_a_real_task_leaves_its_json_and_is_kept(tmp_path):
    store = Store(tmp_path)
    experiment = EXPERIMENTS["figure_1"]
    one = Task(experiment, "example", settings_of(experiment, None, is_quick=True))
    seen = []
    run_tasks([one], store, 2, seen.append)
    outcome = store.read("figure_1", "example", one.settings)
    assert outcome.result["probability"] == pytest.approx(0.6 * 0.8 * 0.4 * 0.1)
    assert outcome.machine["python"]
    assert (seen[-1].n_done, seen[-1].n_tasks) == (1, 1)
    run_tasks([one], store, 2)
    assert store.read("figure_1", "example", one.settings).finished == outcome.finished


class Fake:
    """A process that sleeps, or dies."""

    log: list

    def __init__(self, work, one, folder):
        self.one = one
        self.exitcode = 0
        self.log.append(("start", one.experiment.name))
        if one.experiment.name == "dies":
            self.exitcode = -9
        elif one.experiment.name != "hangs":
            keep(Store(folder), one)
        self.sentinel = self

    def join(self, *_):
        pass


@pytest.fixture
def fakes(monkeypatch):
    Fake.log = []
    monkeypatch.setattr(runner, "start_process", Fake)
    monkeypatch.setattr(
        runner, "end_process", lambda one: Fake.log.append(("end", one.one.experiment.name))
    )
    monkeypatch.setattr(
        runner, "wait", lambda all_, _: [one for one in all_ if one.one.experiment.name != "hangs"]
    )
    return Fake.log


def test_a_process_that_dies_is_a_failure_and_the_rest_goes_on(tmp_path, fakes):
    tasks = [task("dies", 9.0), task("works", 1.0)]
    run_tasks(tasks, Store(tmp_path), 1)
    assert "exit code -9" in Store(tmp_path).read("dies", "nltcs", tasks[0].settings).failure
    assert Store(tmp_path).read("works", "nltcs", tasks[1].settings).result == {}


def test_a_process_that_hangs_is_ended(tmp_path, fakes, monkeypatch):
    monkeypatch.setattr(Task, "most_seconds", 0.0)
    one = task("hangs")
    run_tasks([one], Store(tmp_path), 1)
    assert ("end", "hangs") in fakes
    assert "took longer" in Store(tmp_path).read("hangs", "nltcs", one.settings).failure


def test_the_longest_starts_first_if_there_is_memory_for_it(tmp_path, fakes, monkeypatch):
    monkeypatch.setattr(runner, "total_memory", lambda: 1000 * 2**20 / 0.75)
    tasks = [task("small", 1.0, 100.0), task("large", 5.0, 900.0), task("huge", 9.0, 5000.0)]
    run_tasks(tasks, Store(tmp_path), 2)
    assert fakes == [("start", name) for name in ("huge", "large", "small")]
