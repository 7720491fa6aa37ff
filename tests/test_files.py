import os
import stat
import subprocess
import sys
import time

import pytest

from strudel._files import Lock, complete_file


def write(path, text, error=None):
    with complete_file(path) as unfinished:
        unfinished.write_text(text)
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "rows.csv"
    write(path, "old")
    with pytest.raises(type(error)):
        write(path, "ne", error)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_kept_and_are_the_usual_ones_for_a_new_file(tmp_path):
    path, usual = tmp_path / "rows.csv", tmp_path / "usual.csv"
    write(path, "old")
    usual.write_text("old")
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text() == "new"


def test_a_link_stays_one(tmp_path):
    path, link = tmp_path / "rows.csv", tmp_path / "link.csv"
    link.symlink_to(path)
    write(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write(path, "new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert list(tmp_path.iterdir()) == [path]


HOLD = """
import sys, time
from pathlib import Path
from strudel._files import complete_file

with complete_file(sys.argv[1]) as unfinished:
    unfinished.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def other_writer(path):
    """Another process that is writing a file."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


def test_what_a_killed_process_left_is_removed_but_not_what_another_one_writes(tmp_path):
    path = tmp_path / "rows[1].csv"
    killed, writing = other_writer(path), other_writer(path)
    killed.kill()
    killed.communicate()
    assert len(list(tmp_path.iterdir())) == 2
    write(path, "new")
    (left,) = set(tmp_path.iterdir()) - {path}
    assert left.read_text() == "half"
    assert path.read_text() == "new"
    writing.kill()
    writing.communicate()
    write(path, "newer")
    assert list(tmp_path.iterdir()) == [path]


def test_without_locks_only_old_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("strudel._files.fcntl", None)
    path, new, old = (tmp_path / name for name in ("a.csv", ".a.csv.1.tmp", ".a.csv.2.tmp"))
    for file in (new, old):
        file.write_text("half")
    os.utime(old, (time.time() - 9999,) * 2)
    write(path, "new")
    assert sorted(tmp_path.iterdir()) == [new, path]


def test_a_lock_is_on_a_file_that_is_there(tmp_path):
    path = tmp_path / "a"
    assert Lock.on(path) is None
    path.touch()
    lock = Lock.on(path)
    assert lock.is_held
    assert Lock.on(path) is None
    lock.release()
