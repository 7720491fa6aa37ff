"""Facts about checkpoints: a fit that goes on gives what it would have given; files are safe."""

import gc
import json
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
from sklearn.base import clone

from killed_fits import DyingCheckpoint, Killed
from strudel import EM, BaggedEM, Greedy, LearnPSDD, Race, Strudel
from strudel.errors import FileFormatError, JournalError
from strudel.io import Checkpoint
from strudel.io.archive import Checksum

ACCURATE = {"search": "race", "vtree": "auto", "smoothing": "hierarchical", "max_splits": 12}


def make_rows(n_rows=150, n_vars=6, seed=0):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, size=(n_rows, 1))
    return (hidden ^ (rng.random((n_rows, n_vars)) < 0.2)).astype(np.uint8)


def killed_after(model, path, n_writes, X):
    with pytest.raises(Killed):
        model.fit(X, checkpoint=DyingCheckpoint(path, n_writes))


def parameters(model):
    held = getattr(model, "circuit_", None) or model.circuit_
    return held.edge_log_theta


def same(model, other):
    return np.array_equal(parameters(model), parameters(other)) and np.array_equal(
        model.history_.valid, other.history_.valid
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.part"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"search": Greedy(edge_score="random", variable_score="random"), "max_splits": 12},
        pytest.param({"search": "best_first"}, marks=pytest.mark.compiled),
        pytest.param({"search": "learnpsdd", "max_splits": 12}, marks=pytest.mark.compiled),
        pytest.param(ACCURATE, marks=pytest.mark.compiled),
        pytest.param({**ACCURATE, "search": Race(sampled_rows=100)}, marks=pytest.mark.compiled),
    ],
    ids=["greedy", "random", "best_first", "learnpsdd", "race", "sampled"],
)
def test_a_circuit_comes_out_the_same_however_often_the_fit_was_killed(path, options):
    X = make_rows()
    expected = Strudel(n_components=1, random_state=3, **options).fit(X)
    model = Strudel(n_components=1, random_state=3, **options)
    for n_writes in (1, 2):  # the second one goes on from the first
        killed_after(model, path, n_writes, X)
    assert same(model.fit(X, checkpoint=Checkpoint(path)), expected)
    assert not path.exists()


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("options", "n_writes"),
    [
        ({"n_components": 2, "max_splits": 2, "method": EM(n_init=2)}, (1, 3, 2)),
        ({"n_components": "auto", "max_components": 60, "max_splits": 5}, (2, 8, 20)),
        ({"n_components": 2, "max_splits": 2, "method": BaggedEM(n_bags=2)}, (3, 2)),
        ({"n_components": 2, "max_splits": 2, "method": "boosting"}, (2,)),
    ],
    ids=["em", "auto", "bagged_em", "boosting"],
)
def test_a_mixture_comes_out_the_same_however_often_the_fit_was_killed(path, options, n_writes):
    X = make_rows()
    expected = Strudel(random_state=3, **options).fit(X)
    model = Strudel(random_state=3, **options)
    for n in n_writes:
        killed_after(model, path, n, X)
    assert same(model.fit(X, checkpoint=Checkpoint(path)), expected)
    assert not path.exists()


def test_the_time_of_all_processes_counts(path):
    X = make_rows()
    model = Strudel(n_components=1, random_state=0, max_seconds=100, max_splits=5)
    killed_after(model, path, 3, X)
    change_meta(path, lambda meta: meta["sections"][0].update(seconds=1000.0))
    model.fit(X, checkpoint=Checkpoint(path))
    assert model.history_.stopped_because == "max_seconds"
    assert len(model.history_) == 4


def test_other_rows_and_other_options_are_refused(path):
    X = make_rows()
    killed_after(Strudel(n_components=1, random_state=0, patience=100), path, 3, X)
    checkpoint = Checkpoint(path)
    with pytest.raises(FileFormatError, match="fit to other rows"):
        Strudel(n_components=1, random_state=0, patience=100).fit(X[::-1], checkpoint=checkpoint)
    with pytest.raises(FileFormatError, match="patience=100, and now it is 7"):
        Strudel(n_components=1, random_state=0, patience=7).fit(X, checkpoint=checkpoint)
    with pytest.raises(FileFormatError, match="n_components=1, and now it is 10"):
        Strudel(n_components=10, random_state=0).fit(X, checkpoint=checkpoint)
    assert path.exists()


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (
            Strudel(n_components=1, search=LearnPSDD(copies="depth")),
            {"search__copies": "complete"},
            r"search=LearnPSDD \{.*'depth'.*, and now it is LearnPSDD \{.*'complete'",
        ),
        (
            Strudel(n_components=2, max_splits=2, method=EM(n_init=2)),
            {"method__n_init": 1},
            r"method=EM \{.*'n_init': '2'",
        ),
        (
            Strudel(n_components=2, max_splits=2),
            {"max_splits": 3},
            "max_splits=2, and now it is 3",
        ),
    ],
    ids=["search", "method", "splits"],
)
def test_other_options_of_objects_are_refused(path, model, changes, words):
    X = make_rows()
    model = clone(model).set_params(random_state=0)
    killed_after(model, path, 2, X)
    with pytest.raises(FileFormatError, match=words):
        model.set_params(**changes).fit(X, checkpoint=Checkpoint(path))


def test_a_seed_is_needed(path):
    with pytest.raises(ValueError, match="whole number as random_state"):
        Strudel(n_components=1).fit(make_rows(), checkpoint=Checkpoint(path))


def test_a_disk_that_is_full_does_not_end_the_fit(path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoint, "_write", fail)
    model = Strudel(n_components=1, random_state=0, max_splits=2)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        model.fit(make_rows(), checkpoint=Checkpoint(path, seconds=0))
    assert len(model.history_) == 3


def read_members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def change_meta(path, change):
    members = read_members(path)
    meta = json.loads(members["meta.json"])
    change(meta)
    members["meta.json"] = json.dumps(meta).encode()
    write_members(path, members)


def write_members(path, members):
    """With the checksum of what is written, as if it had been saved like this."""
    meta = json.loads(members["meta.json"])
    checksum = Checksum(meta)
    for name in sorted(members.keys() - {"meta.json"}):
        checksum.add(name, members[name])
    meta["checksum"] = checksum.text()
    members = members | {"meta.json": json.dumps(meta).encode()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_file_that_was_cut_or_changed_is_refused_in_one_line(path):
    X = make_rows()
    model = Strudel(n_components=1, random_state=0)
    killed_after(model, path, 3, X)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    messages = []
    for trial in range(60):
        damaged = bytearray(whole)
        if trial % 2:
            damaged = damaged[: rng.integers(len(whole))]
        else:
            for place in rng.integers(len(whole), size=3):
                damaged[place] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            model.fit(X, checkpoint=Checkpoint(path))
        except (FileFormatError, JournalError) as error:
            messages.append(str(error))
    assert len(messages) > 30
    assert not any("\n" in message for message in messages)


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.update(format="another"),
        lambda meta: meta.update(version=99),
        lambda meta: meta.update(strudel="0.0"),
        lambda meta: meta.update(sections=3),
        lambda meta: meta["sections"].append(7),
        lambda meta: meta["sections"][0].update(kind="EM"),
        lambda meta: meta["sections"][0].update(seconds=float("nan")),
        lambda meta: meta["sections"][0].update(rng_state={"bit_generator": "PCG64"}),
        lambda meta: meta["sections"][0]["arrays"][0][2].__setitem__(0, 10**12),
        lambda meta: meta["sections"][0].update(arrays=[]),
        lambda meta: meta["sections"][0]["arrays"].pop(),
    ],
)
def test_facts_that_make_no_sense_are_refused(path, change):
    X = make_rows()
    model = Strudel(n_components=1, random_state=0)
    killed_after(model, path, 3, X)
    change_meta(path, change)
    with pytest.raises((FileFormatError, JournalError)):
        model.fit(X, checkpoint=Checkpoint(path))


@pytest.mark.compiled
@pytest.mark.parametrize("search", ["greedy", "best_first", "learnpsdd"])
def test_operations_that_are_impossible_are_never_done(path, search):
    X = make_rows()
    model = Strudel(n_components=1, random_state=0, search=search, max_splits=8)
    killed_after(model, path, 3, X)
    members = read_members(path)
    whole = members["checkpoint.i4.npy"]
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(20):
        damaged = bytearray(whole)
        for place in rng.integers(128, len(whole), size=2):
            damaged[place] = rng.integers(256)
        write_members(path, members | {"checkpoint.i4.npy": bytes(damaged)})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model.fit(X, checkpoint=Checkpoint(path))
        except (FileFormatError, JournalError):
            n_refused += 1
    assert n_refused > 0


HOLD = """
import sys, time
from strudel.io import Checkpoint

checkpoint = Checkpoint(sys.argv[1])
assert checkpoint.claim()
print("claimed", flush=True)
time.sleep(60)
"""


def test_two_fits_of_one_checkpoint_do_not_disturb_each_other(path):
    path.write_bytes(b"of another fit")
    other = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"claimed\n"
    model = Strudel(n_components=1, random_state=0, max_splits=2)
    with pytest.warns(RuntimeWarning, match="belongs to another fit, which is running"):
        model.fit(make_rows(), checkpoint=Checkpoint(path, seconds=0))
    assert len(model.history_) == 3
    assert path.read_bytes() == b"of another fit"
    other.kill()
    other.communicate()
    with pytest.raises(FileFormatError):  # now it is ours, and damaged
        model.fit(make_rows(), checkpoint=Checkpoint(path, seconds=0))
    path.unlink()
    model.fit(make_rows(), checkpoint=Checkpoint(path, seconds=0))
    assert list(path.parent.iterdir()) == []


def test_a_fit_that_fails_leaves_no_lock(path):
    with pytest.raises(ValueError, match="random_state"):
        Strudel(n_components=1, random_state=None).fit(make_rows(), checkpoint=Checkpoint(path))
    with pytest.raises(ValueError, match="one row"):
        Strudel(n_components=1, random_state=0).fit(np.zeros((0, 3)), checkpoint=Checkpoint(path))
    gc.collect()
    assert list(path.parent.iterdir()) == []
