"""Facts about the live line of `strudel fit`."""

import io
import re
import sys

import pytest
from rich.console import Console

from strudel.cli.main import main
from strudel.cli.progress import CircuitProgress, progress_line
from strudel.learning.progress import Progress


def progress_at(n_splits, best):
    return Progress(
        stage="structure",
        step=n_splits,
        train=-6.0,
        valid=-6.5 - 0.01 * (n_splits - best),
        best_step=best,
        best_valid=-6.5,
        n_edges=1000 + n_splits,
        elapsed=2.0,
        message="",
    )


def test_line_tells_splits_likelihoods_size_speed_and_patience():
    line = progress_line(progress_at(n_splits=1000, best=940), patience=100)
    assert line == (
        "split 1,000  valid -7.1000  best -6.5000  2,000 edges  train -6.0000  patience left 40  "
        "500 splits/s"
    )


def test_line_ends_where_the_room_does():
    line = progress_line(progress_at(n_splits=1000, best=940), patience=100, room=45)
    assert line == "split 1,000  valid -7.1000  best -6.5000"


@pytest.mark.parametrize("width", [80, 100, 160])
def test_name_seconds_bar_and_facts_fit_the_terminal(monkeypatch, capsys, width):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    with CircuitProgress(patience=10) as progress:
        before = lines_of(progress._progress)
        progress.update(progress_at(n_splits=123456, best=123453))
        (line,) = lines_of(progress._progress)
    assert re.search(r"preparing +\d+\.\d s  +counting pairs", before[0])
    assert re.search(r"learning +\d+\.\d s [━╸╺ ]{12,} split 123,456  valid -6.5300", line)
    assert "━" in line
    assert "…" not in line
    assert len(line.rstrip()) <= width
    assert ("patience left" in line) == (width > 100)


def lines_of(progress):
    """What a terminal of this width shows now, line by line."""
    console = Console(file=io.StringIO(), width=progress.console.width)
    console.print(progress.get_renderable())
    return console.file.getvalue().splitlines()


def test_nothing_is_shown_where_stderr_is_no_terminal(capsys):
    with CircuitProgress(patience=10) as progress:
        progress.update(progress_at(n_splits=5, best=2))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_the_line_and_the_bar_of_used_patience(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    with CircuitProgress(patience=10) as progress:
        progress.update(progress_at(n_splits=5, best=2))
        (task,) = progress._progress.tasks
        assert task.completed == 3
        assert task.total == 10
        progress.update(progress_at(n_splits=6, best=6))  # too soon after the last update
        assert task.completed == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "patience left 7" in err


def test_quiet_silences_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with CircuitProgress(patience=10, is_quiet=True) as progress:
        progress.update(progress_at(n_splits=5, best=2))
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_outside_the_search_is_exit_code_130(monkeypatch, capsys):
    import strudel.cli.input_tables

    def interrupted(source):
        raise KeyboardInterrupt

    monkeypatch.setattr(strudel.cli.input_tables, "is_dataset", interrupted)
    assert main(["fit", "--components", "1", "digits"]) == 130
    assert capsys.readouterr() == ("", "strudel: interrupted\n")
