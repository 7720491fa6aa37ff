import os
import stat

import pytest

from strudel._files import complete_file


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
