"""The best model so far of a long fit, in a file.

In:  a path; models that learners offer after their steps, made only when they are written.
Out: a model file, complete at any time, which `warm_start` and `load` read.

Learners call `offer` and need not know whether anybody listens. Files are written by
`strudel.io`, a later layer, which is imported by name, only here.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any

from strudel._compiling import now

SECONDS = 60.0  # between two writes, at least


class BestSoFar:
    """Writes what is better than all before, about once a minute."""

    def __init__(self, path: str | os.PathLike[str], kinds: tuple[type, ...]) -> None:
        if not Path(path).parent.is_dir() or Path(path).is_dir():
            raise ValueError(
                f"save_to must be a file in a folder that exists, but is {str(path)!r}."
            )
        self.path, self.kinds = path, kinds
        self.finish: Callable[[Any], Any] = lambda model: model  # of prepared rows: of all columns
        self._score = -math.inf
        self._make: Callable[[], Any] | None = None  # of a model that is not written yet
        self._written = now()

    def offer(self, make: Callable[[], Any], score: float) -> None:
        """A model, and the mean log-likelihood by which models are compared."""
        if score > self._score:
            self._score, self._make = score, make
        if self._make is not None and now() - self._written >= SECONDS:
            model, self._make = self._make(), None
            self._written = now()
            if isinstance(model, self.kinds):
                self.write(self.finish(model))

    def write(self, model: Any) -> None:
        """Write a model; a full disk does not end the fit."""
        try:
            import_module("strudel.io").save(model, self.path)
        except OSError as error:
            warnings.warn(
                f"The best model so far could not be written to {str(self.path)!r}: "
                f"{error.strerror or error}.",
                RuntimeWarning,
                stacklevel=2,
            )


_keeper: ContextVar[BestSoFar | None] = ContextVar("keeper", default=None)


@contextmanager
def kept_in(keeper: BestSoFar | None) -> Iterator[None]:
    """Inside the block, models that are offered go to a file, or nowhere."""
    before = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(before)


def offer(make: Callable[[], Any], score: float) -> None:
    """Say that there is a model now, with its score on validation rows."""
    keeper = _keeper.get()
    if keeper is not None:
        keeper.offer(make, score)


def finish_with(finish: Callable[[Any], Any]) -> None:
    """Say what makes a model of prepared rows one of all columns."""
    keeper = _keeper.get()
    if keeper is not None:
        keeper.finish = finish


def model_in(path: str | os.PathLike[str]) -> Any:
    """The model of a file."""
    return import_module("strudel.io").load(path)
