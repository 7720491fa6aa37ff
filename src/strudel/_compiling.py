"""What the compiler does, and a clock that stops meanwhile.

In:  events of the compiler.
Out: `now`, seconds that time limits and histories are measured by; `Clock`, what is left of a
     limit; `compiled`, what was done.

The first call of a kernel compiles it, once per installation. If this counted, a search of two
seconds would learn nothing on a new machine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Compiled:
    """What the compiler has done in this process.

    Attributes
    ----------
    n_functions : int
        Functions that were compiled; those that were found on disk do not count.
    seconds : float
        How long that took.
    """

    n_functions: int
    seconds: float

    def __sub__(self, other: Compiled) -> Compiled:
        return Compiled(self.n_functions - other.n_functions, self.seconds - other.seconds)

    def __str__(self) -> str:
        return (
            f"compiling, once per installation: {self.n_functions} functions, {self.seconds:.0f} s"
        )


class _Compiler:
    """Adds up the seconds in which some thread compiles; only one at a time can."""

    def __init__(self) -> None:
        self.n_functions = 0
        self.loading = 0.0  # seconds, which are not those of any function
        self.listeners: list[Callable[[Compiled], None]] = []
        self._seconds = 0.0
        self._depth = 0  # a function compiles those that it calls
        self._since = 0.0
        self._collects = True

    def on_start(self) -> None:
        if self._depth == 0:
            self._since = time.perf_counter()
            self._collects = gc.isenabled()
            gc.disable()  # looking through the compiler's many small objects takes 7 % of its time
        self._depth += 1

    def on_end(self) -> None:
        self.n_functions += 1
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._since
            if self._collects:
                gc.enable()
        for listener in self.listeners:
            listener(compiled())

    @property
    def is_at_work(self) -> bool:
        return self._depth > 0

    def seconds(self) -> float:
        """Until now."""
        return self._seconds + (time.perf_counter() - self._since if self._depth else 0.0)


compiler = _Compiler()


def compiled() -> Compiled:
    """What the compiler has done in this process so far."""
    return Compiled(compiler.n_functions, compiler.seconds())


def is_compiling() -> bool:
    """Whether some function is not ready yet."""
    return compiler.is_at_work


def now() -> float:
    """Seconds on a clock that stops while the compiler is loaded, or compiles something."""
    return time.perf_counter() - compiler.seconds() - compiler.loading


class Clock:
    """What is left of a time limit."""

    def __init__(self, max_seconds: float | None, now: Callable[[], float] = now) -> None:
        self._now = now
        self._deadline = None if max_seconds is None else now() + max_seconds

    def left(self) -> float | None:
        """Seconds, at least 0; None without a limit."""
        return None if self._deadline is None else max(self._deadline - self._now(), 0.0)

    @property
    def is_up(self) -> bool:
        """Whether nothing is left."""
        return self.left() == 0.0

    def part(self, share: float) -> Clock:
        """A clock for a share of what is left."""
        left = self.left()
        return Clock(None if left is None else share * left, self._now)


NO_LIMIT = Clock(None)


@contextmanager
def on_compile(listener: Callable[[Compiled], None]) -> Iterator[None]:
    """Call `listener` after every function that is compiled inside the block."""
    before = compiled()

    def tell(so_far: Compiled) -> None:
        listener(so_far - before)

    compiler.listeners.append(tell)
    try:
        yield
    finally:
        compiler.listeners.remove(tell)
