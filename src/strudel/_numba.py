"""Kernels, compiled when they are first called, and threads that share their work.

In:  a function over arrays and numbers.
Out: `kernel`, the same compiled; `in_threads`, which calls one for ranges of tasks.

The compiler is loaded by the first kernel that is compiled, and `soonest` does work for which that
does not pay. Under ``NUMBA_DISABLE_JIT=1`` all kernels run as plain Python, which is how small
tests measure coverage.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from strudel._compiling import compiler

F = TypeVar("F", bound=Callable[..., Any])

RANGES_PER_THREAD = 4  # so that all end at about the same time
COMPILER_SECONDS = 0.3  # to load the compiler takes longer,
KERNEL_SECONDS = 0.01  # and to load a compiled kernel as well; to compile it, up to a second
_is_compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
_is_warming_up = False
_lock = threading.RLock()


def kernel(function: F) -> F:
    """Compile a loop over arrays, on first use."""
    return cast(F, Kernel(function)) if _is_compiled else function


class Kernel:
    """A loop over arrays that is compiled when it is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._compiled: Any = None
        self._inner: Any = None
        self._plain_seconds = 0.0

    def __call__(self, *args: Any) -> Any:
        if self._compiled is None:
            with _lock:
                self._compiled = self._compiled or _compiler().callable_from_python(self._function)
        return self._compiled(*args)

    @property
    def _numba_type_(self) -> Any:
        """What the compiler takes it for, where another kernel calls it."""
        if self._inner is None:
            self._inner = _compiler().callable_from_kernels(self._function)
        return self._inner._numba_type_

    @functools.cached_property
    def plain(self) -> Callable[..., Any]:
        """The same in plain Python, with all kernels that it calls."""
        function = self._function
        names = dict(function.__globals__)
        for name in function.__code__.co_names:
            if isinstance(names.get(name), Kernel):
                names[name] = names[name].plain
        return FunctionType(function.__code__, names, function.__name__, function.__defaults__)


def soonest(function: F, seconds: float) -> F:
    """A kernel in the form that is done soonest, for work that takes this long in plain Python.

    It stays plain Python until its calls together take as long as it takes to get it compiled.
    """
    if not isinstance(function, Kernel) or function._compiled is not None or _is_warming_up:
        return function
    function._plain_seconds += seconds
    is_loaded = _compiler.cache_info().currsize > 0
    most = KERNEL_SECONDS if is_loaded else COMPILER_SECONDS
    return function if function._plain_seconds > most else cast(F, function.plain)


@contextmanager
def nothing_plain() -> Iterator[None]:
    """Inside the block every kernel is compiled, for later processes."""
    global _is_warming_up
    _is_warming_up = True
    try:
        yield
    finally:
        _is_warming_up = False


@functools.cache
def _compiler() -> Any:
    start = time.perf_counter()
    from strudel import _compiler

    _compiler.teach_bits(popcount, lowest_bit)
    _compiler.teach_lanes(lane)
    compiler.loading += time.perf_counter() - start
    return _compiler


def popcount(word: Any) -> int:
    """Count the ones in a 64-bit word."""
    return int(word).bit_count()


def lowest_bit(word: Any) -> int:
    """Position of the lowest one in a non-zero 64-bit word."""
    return (int(word) & -int(word)).bit_length() - 1


def lane(theta: Any, b: int) -> Any:
    """Entry `b` of a parameter per lane, or the one parameter that all lanes share."""
    return theta[b] if isinstance(theta, np.ndarray) else theta


def _n_cores() -> int:
    """As many threads as the compiler would use."""
    if "NUMBA_NUM_THREADS" in os.environ:
        return int(os.environ["NUMBA_NUM_THREADS"])
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


MOST_THREADS = _n_cores()
_own = threading.local()  # how many threads the present one may use; all unless it says less


def n_threads() -> int:
    """How many threads kernels share their work among."""
    return getattr(_own, "n_threads", MOST_THREADS)


@contextmanager
def use_threads(n_jobs: int | None) -> Iterator[None]:
    """Share the work of kernels among `n_jobs` threads inside the block.

    -1 means all cores; None means as many as outside the block, which is all by default.
    """
    before = n_threads()
    if n_jobs is not None:
        _own.n_threads = MOST_THREADS if n_jobs < 0 else max(1, min(n_jobs, MOST_THREADS))
    try:
        yield
    finally:
        _own.n_threads = before


def in_threads(work: Callable[..., None], n_tasks: int, *args: Any) -> None:
    """Call ``work(first, last, *args)`` for ranges that make up all tasks, on several threads.

    Tasks are independent of each other, and kernels release the interpreter, so this is as quick
    as a parallel loop of the compiler, which takes seconds to compile.
    """
    n_callers = min(n_tasks, n_threads())
    if n_callers < 2:
        if n_tasks:
            work(0, n_tasks, *args)
        return
    n_ranges = min(n_tasks, RANGES_PER_THREAD * n_callers)
    cuts = [n_tasks * i // n_ranges for i in range(n_ranges + 1)]
    ranges = iter(list(pairwise(cuts)))  # of a list: threads may share it

    def run() -> None:
        for first, last in ranges:
            work(first, last, *args)

    helpers = [_helpers().submit(run) for _ in range(n_callers - 1)]
    try:
        run()
    finally:
        wait(helpers)  # also after an interrupt: they write into the caller's arrays
    for helper in helpers:
        helper.result()


def run_blocks(run: Callable[[slice], None], n_rows: int, block_rows: int) -> None:
    """Call `run` on blocks of rows, on several threads."""
    blocks = [slice(start, start + block_rows) for start in range(0, n_rows, block_rows)]

    def run_range(first: int, last: int) -> None:
        for block in blocks[first:last]:
            run(block)

    in_threads(run_range, len(blocks))


_pool: list[ThreadPoolExecutor] = []


def _helpers() -> ThreadPoolExecutor:
    """The threads beside the caller's; what they call works alone."""
    if not _pool:
        _pool.append(
            ThreadPoolExecutor(MOST_THREADS, "strudel", lambda: setattr(_own, "n_threads", 1))
        )
    return _pool[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.clear)  # threads do not survive a fork
