"""How a fit of a mixture ends: with all rounds done, at a limit, or at an interrupt.

In:  what a search or a single fit found.
Out: `LearnedMixture`, all that the estimator keeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strudel.circuits.mixture import Mixture
from strudel.learning.mixtures.choose import Choice
from strudel.learning.mixtures.mixture_history import MixtureHistory


@dataclass(eq=False)
class LearnedMixture:
    """All that `fit` keeps, together, so that a fit that fails changes nothing."""

    mixture: Mixture
    history: MixtureHistory
    chosen: dict[str, Any]


class Clock:
    """What is left of `max_seconds`."""

    def __init__(
        self,
        started: float,
        max_seconds: float | None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._now = now
        self._deadline = None if max_seconds is None else started + max_seconds

    def left(self) -> float | None:
        """Seconds, at least 0; None without a limit."""
        return None if self._deadline is None else max(self._deadline - self._now(), 0.0)


def learned_from_choice(choice: Choice, stopped_because: str) -> LearnedMixture:
    """Keep what the search found."""
    trial = choice.trial
    chosen = {
        "n_splits": trial.n_splits,
        "n_components": trial.n_components,
        "n_runs": trial.n_runs,
        "valid": trial.valid,
    }
    choice.history.stopped_because = stopped_because
    return LearnedMixture(choice.mixture(), choice.history, chosen)
