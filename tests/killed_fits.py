"""Fits that are killed or interrupted: what happens on machines, for tests."""

from __future__ import annotations

import pytest

from strudel.errors import InterruptedWarning
from strudel.io import Checkpoint


class Killed(BaseException):
    """Ends a fit as a signal would: nothing may catch it."""


class DyingCheckpoint(Checkpoint):
    """Kills the fit after so many writes."""

    def __init__(self, path, n_writes):
        super().__init__(path, seconds=0)
        self.n_left = n_writes

    def _write(self, fit, journal):
        super()._write(fit, journal)
        self.n_left -= 1
        if self.n_left == 0:
            raise Killed


def check_interrupted(model, X, V, words, n_times=1):
    """Interrupt a fit when progress says some words for the n-th time: it keeps what it says."""
    seen = []

    def callback(progress):
        seen.append(words in progress.message)
        if sum(seen) == n_times:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning):
        model.fit(X, X_valid=V, callback=callback)
    assert model.history_.stopped_because == "interrupted"
    assert model.chosen_["valid"] == pytest.approx(model.score(V))
