"""The clock of time limits, and what is told of the compiler."""

import time

import numpy as np
import pytest

from strudel import Strudel
from strudel._compiling import (
    NO_LIMIT,
    Clock,
    Compiled,
    compiled,
    compiler,
    is_compiling,
    now,
    on_compile,
)
from strudel._numba import kernel


def test_the_clock_stands_still_while_something_is_compiled(monkeypatch):
    clock = iter(range(0, 1000, 10))
    before = now()
    monkeypatch.setattr(compiler, "_seconds", 0.0)  # and back, for the clock of other tests
    monkeypatch.setattr(time, "perf_counter", lambda: before + next(clock))
    compiler.on_start()
    compiler.on_start()  # what it calls
    assert is_compiling()
    compiler.on_end()
    assert is_compiling()
    first = now()
    second = now()
    compiler.on_end()
    assert not is_compiling()
    third = now()
    fourth = now()
    assert second == pytest.approx(first)  # although the real clock went on
    assert fourth - third == pytest.approx(10.0)


@pytest.mark.compiled
def test_every_function_that_is_compiled_is_told(monkeypatch):
    monkeypatch.setattr("strudel._compiler._is_kept", False)

    @kernel
    def double(x):
        return x + x

    told = []
    before = compiled()
    with on_compile(told.append):
        assert double(2.5) == 5.0
        assert double(3.5) == 7.0
    assert [done.n_functions for done in told] == [1]
    assert told[0].seconds > 0.0
    assert (compiled() - before).n_functions == 1
    double(1)  # for integers
    assert len(told) == 1


def test_progress_of_compiling_reaches_the_callback():
    told = []

    def callback(progress):
        told.append(progress)
        if len(told) == 1:
            compiler.on_start()
            compiler.on_end()

    rows = np.random.default_rng(0).integers(0, 2, (100, 4))
    Strudel(n_components=1, max_splits=2, random_state=0).fit(rows, callback=callback)
    shown = [progress for progress in told if progress.stage == "compiling"]
    assert shown[-1].step >= 1
    assert shown[-1].message.startswith("compiling, once per installation: ")


def test_a_sentence_of_it():
    assert str(Compiled(12, 5.4)) == "compiling, once per installation: 12 functions, 5 s"


def test_a_clock_says_what_is_left_and_hands_down_a_part():
    time = [10.0]
    clock = Clock(4.0, lambda: time[0])
    time[0] = 12.0
    part = clock.part(0.25)
    assert (clock.left(), part.left(), part.is_up) == (2.0, 0.5, False)
    time[0] = 13.0
    assert (clock.left(), part.left(), part.is_up) == (1.0, 0.0, True)
    assert part.part(0.5).is_up
    assert (NO_LIMIT.part(0.5).left(), NO_LIMIT.is_up) == (None, False)
