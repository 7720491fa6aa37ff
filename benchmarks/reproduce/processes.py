"""Child processes that end when their parent ends, whatever ends it.

In:  a function and its arguments.
Out: its answer, or an error if it takes too long or fails.

Processes are spawned, so they share nothing, and their memory is freed when they end. Keyboard
interrupts go to the parent alone, which ends its children; a learner would take one as a request to
stop early.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

SET_TO_ONE = (
    "PYTHONSAFEPATH",  # else Python looks for modules in the current folder first
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def start_process(function: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Start a function in a process with one thread, which runs no code of the current folder."""
    process = multiprocessing.get_context("spawn").Process(
        target=_live, args=(function, *arguments)
    )
    with _safe_and_small():
        process.start()
    return process


def end_process(process: BaseProcess) -> None:
    """Terminate a process, and kill it if it does not end."""
    process.terminate()
    process.join(5.0)
    if process.is_alive():
        process.kill()
        process.join()


def call_within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own and return its answer.

    Raises
    ------
    TimeoutError
        The call took longer.
    RuntimeError
        The function raised an error, or its process died.
    """
    here, there = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = start_process(_answer, there, function, *arguments)
    there.close()
    try:
        if not here.poll(seconds):
            raise TimeoutError(f"took longer than {seconds:.0f} s")
        answer, error = here.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"its process died, exit code {process.exitcode}") from None
    finally:
        end_process(process)
        here.close()
    if error is not None:
        raise RuntimeError(error)
    return answer


def _answer(pipe: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    try:
        pipe.send((function(*arguments), None))
    except Exception as error:
        pipe.send((None, f"{type(error).__name__}: {error}"))


def _live(function: Callable[..., None], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull, "w") as nowhere:  # stdout belongs to the command; some packages print
        os.dup2(nowhere.fileno(), 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    function(*arguments)


def _end_with_parent() -> None:
    """End this process when its parent has ended, even by kill -9."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def _safe_and_small() -> Iterator[None]:
    """Set the environment of a new process."""
    before = {name: os.environ.get(name) for name in SET_TO_ONE}
    os.environ.update(dict.fromkeys(SET_TO_ONE, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
