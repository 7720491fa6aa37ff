"""What a person sees of a fit: one line after two seconds, where there is a screen."""

import io
import math
import sys
import threading
from types import SimpleNamespace

import pytest

from makers import rows_of_kinds
from strudel import Strudel
from strudel._compiling import Clock
from strudel.learning import progress as module
from strudel.learning.fit import fit_circuit
from strudel.learning.progress import LiveLine, Progress, Reporter, find_screen


class Terminal(io.StringIO):
    def isatty(self):
        return True


def use_terminal(monkeypatch):  # in the test itself: pytest sets its own stderr after fixtures
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "60")
    return sys.stderr


def progress_at(stage, step, valid):
    return Progress(stage, step, -6.0, valid, step, valid, 0, 1.0, "")


def test_the_line_tells_stage_likelihood_and_time():
    line = LiveLine(print)
    assert line.words(3.4) == "preparing the rows, 3 s"
    line.progress = progress_at("structure", 1200, -6.54321)
    line.clock = Clock(20.0, iter([10.0, 14.0]).__next__)
    assert line.words(9.0) == (
        "growing the structure, step 1,200, log-likelihood -6.543, 9 s, at most 16 s left"
    )
    line.progress, line.clock = progress_at("training", 7, math.nan), Clock(None)
    assert line.words(10.0) == "training, step 7, log-likelihood -6.000, 10 s"


def test_a_short_fit_shows_nothing(monkeypatch):
    terminal = use_terminal(monkeypatch)
    with Reporter(verbose="auto") as report:
        report.say("choice", "one")
    assert report.line is not None
    assert terminal.getvalue() == ""


def test_a_long_fit_shows_one_line_and_clears_it(monkeypatch):
    terminal = use_terminal(monkeypatch)
    monkeypatch.setattr(module, "SECONDS_BEFORE", 0.0)
    original, is_shown = module._on_terminal, threading.Event()

    def show(text):
        original(text)
        is_shown.set()

    def longer(*arguments):
        assert is_shown.wait(60.0)
        return fit_circuit(*arguments)

    monkeypatch.setattr(module, "_on_terminal", show)
    monkeypatch.setattr("strudel.models.strudel.fit_circuit", longer)
    Strudel(n_components=1, max_splits=2, random_state=0, verbose="auto").fit(rows_of_kinds())
    assert "\n" not in terminal.getvalue()
    texts = terminal.getvalue().split("\r")[1::2]
    assert {len(text) for text in texts} == {59}
    assert texts[0].startswith("preparing the rows, 0 s")
    assert texts[-1].strip() == ""


@pytest.mark.parametrize("verbose", [0, False, "auto"])
def test_nothing_is_shown_without_a_screen(capsys, monkeypatch, verbose):
    monkeypatch.setattr(module, "SECONDS_BEFORE", 0.0)
    with Reporter(verbose=verbose) as report:
        report.say("choice", "one")
    assert capsys.readouterr() == ("", "")
    assert find_screen() is None


def test_whoever_has_a_callback_shows_it(monkeypatch):
    use_terminal(monkeypatch)
    told = []
    with Reporter(told.append, verbose="auto") as report:
        report.say("choice", "one")
    assert report.line is None
    assert [progress.message for progress in told] == ["one"]


def test_a_notebook_has_a_display_that_is_updated(monkeypatch):
    shown = []

    def display(data, *, raw, display_id):
        shown.append(data["text/plain"])
        return SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    show = find_screen()
    show("training")
    show("")
    assert shown == ["training", ""]
    ipython.get_ipython = lambda: SimpleNamespace()  # a shell in a terminal
    assert find_screen() is None
