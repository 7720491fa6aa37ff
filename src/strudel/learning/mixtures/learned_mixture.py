"""How a fit of a mixture ends: with all rounds done, at a limit, or at an interrupt.

In:  what a search or a single fit found.
Out: `LearnedMixture`, all that the estimator keeps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.methods import MixtureOptions
from strudel.learning.mixtures.choose import Choice
from strudel.learning.mixtures.em import fit_mixture
from strudel.learning.mixtures.mixture_history import MixtureHistory
from strudel.models.base import LearningRows
from strudel.queries.likelihood import rows_log_likelihood


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


def settle(choice: Choice, stopped_because: str) -> LearnedMixture:
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


def single_circuit(
    structure: Circuit, n_splits: int, rows: LearningRows, options: MixtureOptions
) -> LearnedMixture:
    """The single circuit, for an interrupt before there is a mixture."""
    found: list[MixtureHistory] = []
    quick = replace(options, n_runs=1, n_init=1, init_params="random", max_iter=1)
    mixture = fit_mixture(
        structure, rows.train, 1, X_valid=rows.valid, options=quick, on_iteration=found.append
    )
    found[-1].stopped_because = "interrupted"
    return LearnedMixture(mixture, found[-1], chosen_for(mixture, n_splits, 1, rows))


def chosen_for(
    mixture: Mixture, n_splits: int, n_components: int, rows: LearningRows
) -> dict[str, Any]:
    """What became of a mixture; the history's likelihood is from before smoothing is chosen."""
    valid = math.nan
    if rows.valid is not None:
        log_p = rows_log_likelihood(mixture, rows.valid.unpack())
        counts = rows.valid.weights > 0.0
        valid = float(np.average(log_p[counts], weights=rows.valid.weights[counts]))
    return {
        "n_splits": n_splits,
        "n_components": n_components,
        "n_runs": mixture.n_components // n_components,
        "valid": valid,
    }
