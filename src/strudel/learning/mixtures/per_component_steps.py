"""EM for components that own their structure, one step after another.

In:  `Structure`s, first responsibilities, and the weights of the rows.
Out: `OwnSteps`: the weight through every edge of every component, and the best of all steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from strudel._types import FloatArray
from strudel.data.bits import exact_weights
from strudel.learning.history import MixtureHistory
from strudel.learning.mixture_methods import MixtureOptions
from strudel.learning.mixtures.em import TRAINING_STRENGTH
from strudel.learning.mixtures.per_component_parts import Structure, log_parameters

NEGLIGIBLE = -30.0  # what is below exp(-30) of a row counts as zero


def training_strength(options: MixtureOptions) -> float:
    """Virtual rows per sum while learning."""
    return TRAINING_STRENGTH if options.pseudocount == "auto" else float(options.pseudocount)


@dataclass(frozen=True, eq=False)
class Step:
    """A mixture on the way: what its parameters are made of, per component."""

    n_splits: tuple[int, ...]
    counts: list[FloatArray]  # (n_edges,) each
    priors: list[FloatArray]
    weights: list[FloatArray]  # (n_rows,) each, behind the counts
    log_weight: FloatArray
    score: float  # mean log-likelihood of the validation rows, or the training rows without any


class OwnSteps:
    """EM on some structures, which may grow between steps."""

    def __init__(
        self,
        row_weight: FloatArray,
        valid_weight: FloatArray,
        options: MixtureOptions,
        history: MixtureHistory,
        on_iteration: Callable[[MixtureHistory], None] | None = None,
    ) -> None:
        self.row_weight = row_weight
        self.valid_weight = valid_weight
        self.options = options
        self.history = history
        self.on_iteration = on_iteration
        self.best: Step | None = None
        self.structures: list[Structure] = []
        self.counts: list[FloatArray] = []
        self.priors: list[FloatArray] = []
        self.weights: list[FloatArray] = []  # of the rows, per component
        self.n_splits: tuple[int, ...] = ()
        self._first_log_weight: FloatArray = np.empty(0)

    def begin(self, structures: list[Structure], share: FloatArray) -> None:
        """Start from responsibilities `(n_rows, n_components)`."""
        self.structures = structures
        self.n_splits = (0,) * len(structures)
        self._expect(share)
        self._draw()

    def resume(
        self, structures: list[Structure], counts: list[FloatArray], log_weight: FloatArray
    ) -> None:
        """Start from parameters, by their counts and the weights of the components."""
        self.structures, self.counts = structures, counts
        self.n_splits = (0,) * len(structures)
        self._first_log_weight = log_weight
        self._draw()

    def change(
        self, structures: list[Structure], counts: list[FloatArray], n_splits: tuple[int, ...]
    ) -> None:
        """Go on with other structures, for the same responsibilities."""
        self.structures, self.counts, self.n_splits = structures, counts, n_splits
        self._draw()

    def _draw(self) -> None:
        smoothing = self.options.smoothing
        self.priors = [one.prior(self.row_weight, smoothing) for one in self.structures]

    def is_late(self) -> bool:
        """Whether the time is over; keeps the reason in the history."""
        limit = self.options.max_seconds
        if limit is not None and self.history.elapsed >= limit:
            self.history.stopped_because = "max_seconds"
            return True
        return False

    def climb(self) -> None:
        """Steps until they gain no more, then back to the best; one component gains nothing."""
        options, n_steps, last_gain, gained = self.options, 0, 0, -np.inf
        while n_steps < options.max_iter and n_steps - last_gain < options.patience:
            score = self.take()
            n_steps += 1
            if score > gained + options.tol:
                gained, last_gain = score, n_steps
            if len(self.structures) == 1 or self.is_late():
                break
        assert self.best is not None
        if self.best.weights and self.best.n_splits == self.n_splits:
            self.counts, self.weights = self.best.counts, self.best.weights

    def take(self) -> float:
        """One step: parameters for the counts, their score, and new counts."""
        strength = training_strength(self.options)
        log_theta = [
            log_parameters(count, one.edge_parent, prior, strength)
            for count, one, prior in zip(self.counts, self.structures, self.priors, strict=True)
        ]
        log_weight = self._log_weight()
        valid = float("nan")
        if len(self.valid_weight):
            log_p = self._log_likelihoods(log_theta, of_valid=True)
            valid = _mean(self.valid_weight, logsumexp(log_p + log_weight, axis=1))
        log_joint = self._log_likelihoods(log_theta) + log_weight
        log_p = np.asarray(logsumexp(log_joint, axis=1))
        train = _mean(self.row_weight, log_p)
        score = train if np.isnan(valid) else valid
        if self.best is None or score > self.best.score:
            # Arrays are replaced by every step, never changed.
            self.best = Step(
                self.n_splits, self.counts, self.priors, self.weights, log_weight, score
            )
        self.history.add(train, valid, self.options.tol)
        with np.errstate(invalid="ignore"):  # a row that is impossible
            below = log_joint - log_p[:, np.newaxis]
        self._expect(np.where(below > NEGLIGIBLE, np.exp(np.minimum(below, 0.0)), 0.0))
        if self.on_iteration is not None:
            self.on_iteration(self.history)
        return score

    def _log_likelihoods(
        self, log_theta: list[FloatArray], *, of_valid: bool = False
    ) -> FloatArray:
        """Of every row under every component."""
        columns = [
            one.log_likelihoods(logs, of_valid=of_valid)
            for one, logs in zip(self.structures, log_theta, strict=True)
        ]
        return np.column_stack(columns)

    def _expect(self, share: FloatArray) -> None:
        """The counts for responsibilities."""
        self.weights = [exact_weights(self.row_weight * column) for column in share.T]
        self.counts = [
            one.counts(weight) for one, weight in zip(self.structures, self.weights, strict=True)
        ]

    def _log_weight(self) -> FloatArray:
        if not self.weights:
            return self._first_log_weight
        # One virtual row keeps every weight above zero.
        mass = np.array([weight.sum() for weight in self.weights])
        logs: FloatArray = np.log((mass + 1.0 / len(mass)) / (mass.sum() + 1.0))
        return logs


def _mean(weight: FloatArray, log_p: FloatArray) -> float:
    """The mean of rows that count; the others may be impossible."""
    counts = weight > 0.0
    return float(weight[counts] @ log_p[counts] / weight.sum())
