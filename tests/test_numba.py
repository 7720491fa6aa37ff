"""Kernels, and the threads that share their work."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from strudel._numba import (
    KERNEL_SECONDS,
    in_threads,
    kernel,
    lowest_bit,
    n_threads,
    popcount,
    run_blocks,
    soonest,
    use_threads,
)


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    monkeypatch.setattr("strudel._numba.MOST_THREADS", 3)
    monkeypatch.setattr("strudel._numba._pool", [])
    with use_threads(-1):
        yield


@kernel
def _count_visits(first, last, visits):
    for task in range(first, last):
        visits[task] += _one(visits, task)


@kernel
def _one(visits, task):
    return 1 if task < len(visits) else 0


@pytest.mark.parametrize("n_tasks", [0, 1, 2, 11, 12, 13, 1000])
def test_every_task_is_done_once(n_tasks):
    visits = np.zeros(n_tasks, dtype=np.int64)
    in_threads(_count_visits, n_tasks, visits)
    assert np.all(visits == 1)


def test_work_is_shared_among_threads():
    barrier = threading.Barrier(3, timeout=20)  # broken unless three callers meet
    names = set()

    def work(first, last):
        if threading.current_thread().name not in names:
            names.add(threading.current_thread().name)
            barrier.wait()

    in_threads(work, 12)
    assert len(names) == 3


def test_helpers_do_not_ask_for_helpers():
    found = []

    def work(first, last):
        if threading.current_thread() is not threading.main_thread():
            found.append(n_threads())
        run_blocks(lambda block: None, 100, 1)

    in_threads(work, 1000)
    assert set(found) <= {1}


def test_an_error_of_a_helper_is_raised():
    def work(first, last):
        raise ValueError(f"task {first}")

    with pytest.raises(ValueError, match="task"):
        in_threads(work, 100)


def test_threads_are_limited_inside_a_block_only():
    assert n_threads() == 3
    with use_threads(1):
        assert n_threads() == 1
        with use_threads(None):
            assert n_threads() == 1
    assert n_threads() == 3


@pytest.mark.compiled
def test_kernels_share_one_form_for_all_integers():
    """0, an int32 read from an array and an int64 call the same compiled function."""

    @kernel
    def second(numbers, i):
        return numbers[i + 1]

    @kernel
    def first(numbers):
        return second(numbers, 0) + second(numbers, numbers[0]) + second(numbers, len(numbers) - 3)

    assert first(np.arange(4, dtype=np.int32)) == 1 + 1 + 2
    assert len(second._inner.overloads) == 1


@kernel
def _sum_of_bits(words, total):
    for i in range(len(words)):
        total[0] += _bits(words[i])


@kernel
def _bits(word):
    return popcount(word) + lowest_bit(word)


@pytest.mark.compiled
def test_little_work_needs_no_compiler_and_much_work_gets_it():
    words = np.array([6, 1, 2**63], dtype=np.uint64)
    total = np.zeros(1, dtype=np.int64)
    for n_calls in (1, 2):
        soonest(_sum_of_bits, KERNEL_SECONDS / 2)(words, total)
        assert total[0] == n_calls * (2 + 1 + 1 + 0 + 1 + 63)
        assert _sum_of_bits._compiled is None
    soonest(_sum_of_bits, 0.001)(words, total)
    assert total[0] == 3 * 68
    assert _sum_of_bits._compiled is not None
    assert soonest(_sum_of_bits, 0.001) is _sum_of_bits


@pytest.mark.compiled
def test_the_compiler_is_loaded_only_when_it_is_needed():
    code = (
        "import sys, strudel.algebra, strudel.predictions, strudel.models.strudel\n"
        "from strudel.circuits import figure_1_circuit\n"
        "from strudel.queries import marginal_probabilities\n"
        "print(marginal_probabilities(figure_1_circuit(), {'X3': 1}).round(4))\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[0.4 0.9 1.  0.2]\nFalse\n"
