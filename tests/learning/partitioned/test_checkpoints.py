"""Fits of tables in parts that die go on from their checkpoint, to the same model."""

import pickle
from threading import Thread

import numpy as np
import pytest

from partitioned_tables import TRAIN, VALID, assert_same_mixture, assert_same_search, in_parts
from strudel import EM, BaggedEM, FileFormatError, Greedy, Strudel
from strudel.data.bits import pack_columns
from strudel.errors import InterruptedWarning
from strudel.io import Checkpoint
from strudel.learning.partitioned.engines import Here
from strudel.learning.partitioned.partition import Partition

pytest.importorskip("dask")

pytestmark = pytest.mark.compiled

CIRCUITS = [
    {},
    {"search": Greedy(variable_score="random")},
    {"search": Greedy(structure_rows=150)},
]
FEW = {"max_iter": 8, "patience": 8}  # steps of EM
MIXTURES = [
    {"method": EM(n_runs=2, **FEW)},
    {"method": BaggedEM(n_bags=2, **FEW)},
    {"method": EM(n_init=2, init_params="random", **FEW)},
    {
        "n_components": "auto",
        "method": EM(n_runs=1, **FEW),
        "max_components": 4,
        "search": Greedy(structure_rows=150),
    },
]


class Died(Exception):
    """Stands for a kill."""


def fit_and_die(model, path, n_steps):
    """Fit until so many steps are done, and saved; then nothing is tidied up."""
    steps, is_circuit = 0, isinstance(model, Strudel)

    def die(progress):
        nonlocal steps
        steps += is_circuit or progress.stage != "structure"
        if steps == n_steps:
            raise Died

    with pytest.raises(Died):
        model.fit(
            in_parts(TRAIN, {90, 200}),
            X_valid=in_parts(VALID, {50}),
            checkpoint=Checkpoint(path, seconds=0.0),
            callback=die,
        )


@pytest.mark.parametrize("options", CIRCUITS, ids=str)
def test_a_circuit_goes_on(tmp_path, options):
    options = {"random_state": 0, "max_splits": 12, **options}
    X, V = in_parts(TRAIN, {90, 200}), in_parts(VALID, {50})
    whole = Strudel(n_components=1, **options).fit(X, X_valid=V)
    fit_and_die(Strudel(n_components=1, **options), tmp_path / "a.part", 6)
    resumed = []
    model = Strudel(n_components=1, **options)
    # Other parts of the same table: nothing in the checkpoint depends on them.
    model.fit(
        in_parts(TRAIN, {7}),
        X_valid=in_parts(VALID, {9}),
        checkpoint=Checkpoint(tmp_path / "a.part"),
        callback=lambda progress: resumed.append(progress.step),
    )
    assert_same_search(whole, model)
    assert resumed[0] > 4, "it began again"


@pytest.mark.parametrize("options", MIXTURES, ids=str)
def test_a_mixture_goes_on(tmp_path, options):
    options = {"n_components": 3, "max_splits": 4, "random_state": 0} | options
    X, V = in_parts(TRAIN, {90, 200}), in_parts(VALID, {50})
    whole = Strudel(**options).fit(X, X_valid=V)
    fit_and_die(Strudel(**options), tmp_path / "a.part", 5)
    path = Checkpoint(tmp_path / "a.part")
    assert path.path.exists()
    model = Strudel(**options).fit(in_parts(TRAIN, {7}), X_valid=VALID, checkpoint=path)
    assert_same_mixture(whole, model)
    assert not path.path.exists()


def test_a_checkpoint_belongs_to_its_rows(tmp_path):
    fit_and_die(Strudel(n_components=1, random_state=0), tmp_path / "a.part", 3)
    changed = TRAIN.copy()
    changed[0] = 1 - changed[0]
    for other in (changed, TRAIN[::-1]):  # samples and bags depend on the order
        with pytest.raises(FileFormatError, match="other rows"):
            Strudel(n_components=1, random_state=0).fit(
                in_parts(other, ()), X_valid=VALID, checkpoint=Checkpoint(tmp_path / "a.part")
            )


def test_an_interrupt_while_sizes_are_chosen_ends_the_fit():
    steps = []

    def interrupt(progress):
        if progress.stage != "structure":
            steps.append(progress)
        if len(steps) == 2:
            raise KeyboardInterrupt

    model = Strudel(max_components=4, random_state=0)
    with pytest.warns(InterruptedWarning):
        model.fit(in_parts(TRAIN, {100}), X_valid=VALID, callback=interrupt)
    assert model.history_.stopped_because == "interrupted"
    assert np.isfinite(model.score(VALID))
    assert len(steps) <= 3


def test_a_part_that_is_written_to_disk_while_at_work_waits():
    circuit = (
        Strudel(n_components=1, random_state=0, max_splits=0).fit(TRAIN, X_valid=VALID).circuit_
    )
    part = Partition(pack_columns(TRAIN), circuit, False)
    saved = []
    with part._lock:
        thread = Thread(target=lambda: saved.append(pickle.dumps(part)))
        thread.start()
        part.growing.growth.edge["train"][:] = 0.0  # in the middle of an operation
        thread.join(0.2)
        assert not saved
        part.growing.growth.edge["train"][:] = 7.0
    thread.join(30.0)
    assert np.all(pickle.loads(saved[0]).growing.growth.edge["train"] == 7.0)


@pytest.mark.parametrize("n_asked", [1, 6, 25], ids=["first", "search", "EM"])
def test_an_interrupt_while_parts_work_keeps_the_best_so_far(monkeypatch, n_asked):
    total, asked = Here.total, 0

    def interrupted(self, *args):
        nonlocal asked
        asked += 1
        if asked == n_asked + 3:  # sizes and the tree come first
            raise KeyboardInterrupt
        return total(self, *args)

    model = Strudel(n_components=3, max_splits=4, random_state=0, method=EM(**FEW))
    monkeypatch.setattr(Here, "total", interrupted)
    try:
        with pytest.warns(InterruptedWarning):
            model.fit(in_parts(TRAIN, {100}), X_valid=VALID)
    except KeyboardInterrupt:
        assert n_asked == 1  # there is no circuit yet
    else:
        assert np.isfinite(model.score(VALID))
