"""Facts about `strudel fit --resume`."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from killed_fits import DyingCheckpoint, Killed
from strudel import Strudel
from strudel.io import Checkpoint
from strudel.io.model_file import load
from strudel.io.read_tables import read_table

OPTIONS = ("--max-splits", "60", "--set", "patience=1000", "--checkpoint-seconds", "0")


def killed_fit(table, path):
    """Start a fit in another process and kill it when it has written a checkpoint."""
    part = path.with_name(path.name + ".part")
    command = [
        sys.executable,
        "-m",
        "strudel",
        "fit",
        "--components",
        "1",
        str(table),
        "-o",
        str(path),
        *OPTIONS,
    ]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONWARNINGS": "ignore"})
    try:
        deadline = time.monotonic() + 300
        while not part.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
    finally:
        process.kill()
        process.wait()
    assert part.exists(), "the fit ended before it could be killed"
    return part


@pytest.mark.compiled
def test_a_killed_fit_goes_on_to_the_same_model(run, table, tmp_path):
    path, other = tmp_path / "a.strudel", tmp_path / "b.strudel"
    part = killed_fit(table, path)
    assert not path.exists()

    code, _, err = run("fit", "--components", 1, table, "-o", path, *OPTIONS)
    assert code == 2
    assert err.count("\n") == 1
    assert "--resume" in err
    code, _, err = run(
        "fit", "--components", 1, table, "-o", path, *OPTIONS, "--seed", 1, "--resume"
    )
    assert code == 2
    assert "random_state=0, and now it is 1. --no-resume starts again." in err

    code, _, err = run("fit", "--components", 1, table, "-o", path, *OPTIONS, "--resume")
    assert (code, err) == (0, f"note: continuing from {str(part)!r}\n")
    assert not part.exists()
    run("fit", "--components", 1, table, "-o", other, *OPTIONS)
    one, two = load(path), load(other)
    assert np.array_equal(one.circuit_.edge_log_theta, two.circuit_.edge_log_theta)
    assert np.array_equal(one.history_.valid, two.history_.valid)
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["a.strudel", "b.strudel"]


def test_without_a_checkpoint_it_starts_again(run, table, tmp_path):
    path = tmp_path / "a.strudel"
    code, _, err = run(
        "fit", "--components", 1, table, "-o", path, "--max-splits", 1, "--resume", "-q"
    )
    assert code == 0
    assert "starting again" in err
    assert path.exists()


def test_a_left_over_checkpoint_can_be_thrown_away(run, table, tmp_path):
    path, part = tmp_path / "a.strudel", tmp_path / "a.strudel.part"
    part.write_bytes(b"something else")
    code, _, err = run("fit", "--components", 1, table, "-o", path, "--max-splits", 1, "--resume")
    assert code == 2
    assert err.count("\n") == 2  # what it does, and why it cannot
    assert run(
        "fit", "--components", 1, table, "-o", path, "--max-splits", 1, "--no-resume", "-q"
    ) == (0, "", "")
    assert not part.exists()


def left_from_a_killed_fit(table, path):
    """A checkpoint as `strudel fit` leaves it, made without another process."""
    X = read_table(table).X.astype(np.uint8)
    with pytest.raises(Killed):
        Strudel(n_components=1, random_state=0, max_splits=3).fit(
            X, checkpoint=DyingCheckpoint(path, 2)
        )
    return path


def test_what_is_left_is_never_silently_deleted(run, table, tmp_path):
    path = tmp_path / "a.strudel"
    part = left_from_a_killed_fit(table, path.with_name("a.strudel.part"))
    code, _, err = run("fit", "--components", 1, table, "-o", path, "--max-splits", 1, "-q")
    assert (code, err.count("\n")) == (2, 1)
    assert "--resume continues it, --no-resume starts again" in err
    assert part.exists()
    assert (
        run("fit", "--components", 1, table, "-o", path, "--max-splits", 1, "-q", "--no-resume")[0]
        == 0
    )
    assert not part.exists()


def test_a_fit_that_is_running_is_not_disturbed(run, table, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "claim", lambda self: False)
    path = tmp_path / "a.strudel"
    code, _, err = run(
        "fit", "--components", 1, table, "-o", path, "--max-splits", 1, "-q", "--resume"
    )
    assert (code, err.count("\n")) == (2, 1)
    assert "belongs to another fit, which is running" in err
    code, _, err = run("fit", "--components", 1, table, "-o", path, "--max-splits", 1, "-q")
    assert code == 0
    assert "This one has no checkpoint" in err


def test_a_folder_is_no_checkpoint(run, table, tmp_path):
    (tmp_path / "a.strudel.part").mkdir()
    code, _, err = run(
        "fit", "--components", 1, table, "-o", tmp_path / "a.strudel", "--max-splits", 1
    )
    assert code == 2
    assert "it is a folder" in err
