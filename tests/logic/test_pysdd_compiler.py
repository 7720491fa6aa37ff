"""Compiling has bounds: large steps are done apart, and an error names the part that grew."""

import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

from strudel.errors import SizeLimitError
from strudel.logic import pysdd_compiler
from strudel.logic.event_compiler import compile_event
from strudel.logic.terms import variables
from strudel.trees.vtree import balanced_vtree

pytest.importorskip("pysdd")

NAMES = [f"x{i}" for i in range(6)]
PLACE = {name: v for v, name in enumerate(NAMES)}
X = variables(NAMES)
EVENT = (X["x0"] ^ X["x3"]) & (X["x1"] >> X["x4"]) | (X["x2"] & ~X["x5"])
ROWS = np.array(list(np.ndindex(*[2] * 6)))


@pytest.fixture
def apart(monkeypatch):
    """All steps are large."""
    monkeypatch.setattr("strudel.logic.pysdd_compiler.SMALL", 0)
    monkeypatch.setattr("strudel.logic.pysdd_compiler.LARGE_STEP", 0)


def test_a_large_step_is_done_in_a_process_of_its_own(apart):
    inner = compile_event("x0 & x5", balanced_vtree(6))  # simple, so no step at all
    sdd = compile_event(EVENT | inner, balanced_vtree(6), NAMES)
    expected = EVENT.holds(ROWS, NAMES) | ((ROWS[:, 0] == 1) & (ROWS[:, 5] == 1))
    np.testing.assert_array_equal(sdd.holds(ROWS), expected)


def test_a_step_that_takes_too_long_is_stopped(apart, monkeypatch):
    monkeypatch.setattr(pysdd_compiler, "allowed_seconds", lambda: 0.01)
    with pytest.raises(SizeLimitError, match=r"its part Event\(.* takes longer than 0.01 s"):
        pysdd_compiler._compile_apart(
            EVENT, balanced_vtree(6), {name: v for v, name in enumerate(NAMES)}
        )


@pytest.mark.parametrize("is_on_path", [False, True], ids=["", "on_path"])
def test_nothing_in_the_current_folder_is_run(apart, hostile_folder, monkeypatch, is_on_path):
    if is_on_path:  # as with `python -m`, where all that this process needs is imported already
        monkeypatch.setattr("sys.path", [str(hostile_folder.parent / "downloads"), *sys.path])
    sdd = compile_event(EVENT, balanced_vtree(6), NAMES)
    np.testing.assert_array_equal(sdd.holds(ROWS), EVENT.holds(ROWS, NAMES))
    assert not hostile_folder.exists()


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("sys.exit('no module named strudel')", RuntimeError, "exit code 1.*no module named"),
        ("raise MemoryError", SizeLimitError, "GiB of memory"),
        ("sys.exit('calloc failed in multiply')", SizeLimitError, "GiB of memory"),
        ("os.kill(os.getpid(), 9)", SizeLimitError, "signal 9"),
    ],
)
def test_an_error_says_why_the_other_process_ended(apart, monkeypatch, code, error, words):
    command = [sys.executable, "-c", f"import os, sys; {code}"]
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: popen(command, **options))
    with pytest.raises(error, match=words):
        compile_event(EVENT, balanced_vtree(6), NAMES)


def test_the_other_process_says_where_it_is_and_what_it_found():
    task = pickle.dumps((EVENT, balanced_vtree(6), PLACE))
    found, log = io.BytesIO(), io.StringIO()
    assert pysdd_compiler.serve(io.BytesIO(task), found, log) == 0
    sdd = pysdd_compiler.Sdd(balanced_vtree(6), *pickle.loads(found.getvalue()))
    np.testing.assert_array_equal(sdd.holds(ROWS), EVENT.holds(ROWS, NAMES))
    steps = [int(line) for line in log.getvalue().split()]
    assert steps == list(range(len(steps)))


def test_too_many_elements_name_the_part(monkeypatch):
    monkeypatch.setattr("strudel.logic.pysdd_compiler.MAX_ELEMENTS", 3)
    with pytest.raises(SizeLimitError, match="more than 3 elements") as caught:
        compile_event(EVENT, balanced_vtree(6), NAMES)
    assert repr(caught.value.part)[:20] in str(caught.value)
    task = pickle.dumps((EVENT, balanced_vtree(6), PLACE))
    log = io.StringIO()
    assert pysdd_compiler.serve(io.BytesIO(task), io.BytesIO(), log) == 1
    assert log.getvalue().split()[-1] == "elements"


def test_time_is_also_a_limit_here(monkeypatch):
    monkeypatch.setenv("STRUDEL_COMPILE_SECONDS", "0")
    with pytest.raises(SizeLimitError, match="takes longer than 0 s"):
        compile_event(EVENT, balanced_vtree(6), NAMES)


def test_a_count_has_a_bound(monkeypatch):
    monkeypatch.setattr("strudel.logic.simple_events.MAX_ELEMENTS", 20)
    with pytest.raises(SizeLimitError, match="A count of 6 variables"):
        compile_event(f"at_least(3, {', '.join(NAMES)})", balanced_vtree(6), NAMES)
