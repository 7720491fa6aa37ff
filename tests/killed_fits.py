"""Checkpoints whose fit is killed: what happens on machines, for tests."""

from __future__ import annotations

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
