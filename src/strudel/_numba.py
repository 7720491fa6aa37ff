"""The one place with compiler options and threads: `kernel`, `parallel_kernel`, `run_blocks`.

Two bit intrinsics and `lane` are here too. Kernels are cached on disk unless
``STRUDEL_NUMBA_CACHE=0``. Under ``NUMBA_DISABLE_JIT=1`` they run as plain Python, which is how
small tests measure coverage, so `popcount` and `lowest_bit` have a plain twin.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from threading import RLock
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import config, types
from numba.extending import intrinsic, overload

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {
    "cache": os.environ.get("STRUDEL_NUMBA_CACHE", "1") != "0",
    "nogil": True,
    "error_model": "numpy",  # log(0) is -inf and 0/0 is nan, without a check per division
}

prange = numba.prange


def kernel(function: F) -> F:
    """Compile a loop over arrays, on first use."""
    return _compiled(function, parallel=False)


def parallel_kernel(function: F) -> F:
    """Compile a loop over arrays whose `prange` iterations are independent."""
    return _compiled(function, parallel=True)


def _compiled(function: F, parallel: bool) -> F:
    try:
        return cast(F, numba.njit(parallel=parallel, **_OPTIONS)(function))
    except RuntimeError:  # no folder to keep compiled code in
        if not _OPTIONS["cache"]:
            raise
        _OPTIONS["cache"] = False
        warnings.warn(
            "No folder is writable for compiled code, so it is compiled anew in every process. "
            "Set NUMBA_CACHE_DIR to a writable folder to keep it.",
            stacklevel=4,
        )
        return _compiled(function, parallel)


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


def run_blocks(run: Callable[[slice], None], n_rows: int, block_rows: int) -> None:
    """Call `run` on blocks of rows, on as many threads as parallel kernels use.

    For long kernels, which let go of the interpreter: a `prange` around them takes 4 s to compile.
    """
    parts = [slice(start, start + block_rows) for start in range(0, n_rows, block_rows)]
    n_threads = min(len(parts), numba.get_num_threads())
    if n_threads < 2:
        for part in parts:
            run(part)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(run, parts))


_one_caller = RLock()


@contextmanager
def alone_if_needed() -> Iterator[None]:
    """Wait for other callers if the threads of parallel kernels can serve one only.

    That is so in Numba's simplest threading layer, "workqueue", which ends the process otherwise.
    """
    try:
        is_needed = numba.threading_layer() == "workqueue"  # type: ignore[attr-defined]
    except ValueError:  # no parallel kernel has run yet, so nobody knows
        is_needed = True
    with _one_caller if is_needed else nullcontext():
        yield


@contextmanager
def use_threads(n_jobs: int | None) -> Iterator[None]:
    """Run parallel kernels on `n_jobs` threads inside the block.

    All cores for -1; for None as many as outside the block, which are all unless someone says less.
    """
    most: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    before = numba.get_num_threads()
    if n_jobs is not None:
        numba.set_num_threads(most if n_jobs < 0 else max(1, min(n_jobs, most)))
    try:
        yield
    finally:
        numba.set_num_threads(before)
