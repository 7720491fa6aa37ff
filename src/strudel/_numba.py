"""The one place with compiler options and threads: `kernel`, `in_threads`, `use_threads`.

Two bit intrinsics and `lane` are also here. Kernels are cached on disk unless
``STRUDEL_NUMBA_CACHE=0``. Under ``NUMBA_DISABLE_JIT=1`` they run as plain Python, which is how
small tests measure coverage, so `popcount` and `lowest_bit` have a plain twin.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import config, types
from numba.extending import intrinsic, overload

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",  # log(0) is -inf and 0/0 is nan, without a check per division
}
_is_kept = os.environ.get("STRUDEL_NUMBA_CACHE", "1") != "0"
RANGES_PER_THREAD = 4  # so that all end at about the same time
_BARE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: F) -> F:
    """Compile a loop over arrays, on first use.

    Other kernels call a bare form of it, which is part of their own compiled code: it has no entry
    from Python, is not cached by itself, and takes every signed integer as int64. Without this
    the first `fit` took 1.4 times as long to compile: 0, an int32 read from an array and an int64
    made three copies of the same function.
    """
    outer: Any = numba.njit(**_OPTIONS)(function)
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]

        def compile_first(signature: Any) -> Any:
            _keep_on_disk(outer)  # late: finding a folder for each kernel slows the import
            vars(outer).pop("compile", None)  # from now on its own; another thread may be here
            return outer.compile(signature)

        @functools.cache
        def inner() -> Any:
            return numba.njit(**_OPTIONS, **_BARE)(function)

        def get_call_template(args: Any, kws: Any) -> Any:
            widened = {name: _widened(arg) for name, arg in kws.items()}
            return inner().get_call_template([_widened(arg) for arg in args], widened)

        outer.compile = compile_first
        outer.get_call_template = get_call_template
        outer.get_overload = lambda signature: inner().get_overload(signature)
    return cast(F, outer)


def _keep_on_disk(dispatcher: Any) -> None:
    """Keep what is compiled, if there is a folder for it."""
    global _is_kept
    if not _is_kept:
        return
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        _is_kept = False
        warnings.warn(
            "No folder is writable for compiled code, so it is compiled again in every process. "
            "Set NUMBA_CACHE_DIR to a writable folder to keep it.",
            stacklevel=5,
        )


def _widened(arg: Any) -> Any:
    arg = types.unliteral(arg)  # type: ignore[no-untyped-call]
    return types.int64 if arg in types.signed_domain else arg


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def popcount(word: Any) -> int:
        """Count the ones in a 64-bit word."""
        return int(word).bit_count()

    def lowest_bit(word: Any) -> int:
        """Position of the lowest one in a non-zero 64-bit word."""
        return (int(word) & -int(word)).bit_length() - 1

else:

    @intrinsic
    def popcount(typing_context: Any, word: Any) -> Any:
        """Count the ones in a 64-bit word."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ctpop(args[0])

        return types.int64(types.uint64), generate

    @intrinsic
    def lowest_bit(typing_context: Any, word: Any) -> Any:
        """Position of the lowest one in a non-zero 64-bit word."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], context.get_constant(types.boolean, True))

        return types.int64(types.uint64), generate


def lane(theta: Any, b: int) -> Any:
    """Entry `b` of a parameter per lane, or the one parameter that all lanes share.

    Compiled, the choice is made by type: a pass over shared parameters costs nothing more.
    """
    return theta[b] if isinstance(theta, np.ndarray) else theta


@overload(lane, inline="always")
def _lane(theta: Any, b: Any) -> Any:
    """The compiled twin of `lane`."""

    def own(theta: Any, b: Any) -> Any:
        return theta[b]

    def shared(theta: Any, b: Any) -> Any:
        return theta

    return own if isinstance(theta, types.Array) else shared


_own = threading.local()  # how many threads the present one may use; all unless it says less


def n_threads() -> int:
    """How many threads kernels share their work among."""
    most: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return getattr(_own, "n_threads", most)


@contextmanager
def use_threads(n_jobs: int | None) -> Iterator[None]:
    """Share the work of kernels among `n_jobs` threads inside the block.

    -1 means all cores; None means as many as outside the block, which is all by default.
    """
    most: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    before = n_threads()
    if n_jobs is not None:
        _own.n_threads = most if n_jobs < 0 else max(1, min(n_jobs, most))
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
        most: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        _pool.append(ThreadPoolExecutor(most, "strudel", lambda: setattr(_own, "n_threads", 1)))
    return _pool[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.clear)  # threads do not survive a fork
