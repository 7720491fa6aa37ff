"""What a command does when it is told to end.

In:  SIGTERM, as batch systems and `kill` send it.
Out: the same as after Ctrl-C: the best model so far is written, within two seconds.

What is not done by then is left: files are complete or as they were.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 1.7  # for Python to end, and a little more for the rest
TERMINATED = 128 + 15
_is_ending = threading.Event()


@contextmanager
def terminate_like_interrupt() -> Iterator[None]:
    """Inside the block SIGTERM is a `KeyboardInterrupt`, and the process ends soon after it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one changes nothing
    end_soon()
    raise KeyboardInterrupt


def exit_if_terminated(code: int) -> None:
    """End the process at once if SIGTERM came: what Python does at its end may take long."""
    if _is_ending.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def end_soon() -> None:
    """End the process after `SECONDS`, whatever it is doing then."""
    _is_ending.set()
    timer = threading.Timer(SECONDS, os._exit, (TERMINATED,))
    timer.daemon = True
    timer.start()
    # The timer waits for Python; this one does not, if a library never comes back to it.
    faulthandler.dump_traceback_later(SECONDS + 0.2, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115
