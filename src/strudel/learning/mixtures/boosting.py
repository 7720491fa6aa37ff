"""Boosting: a mixture that grows by one component at a time (Rosset and Segal 2002).

In:  a deterministic `Circuit` for the structure, and fully observed rows.
Out: `Mixture`, the first components up to the best ones on the validation rows.

The mixture F becomes (1 - a) F + a h. The new component h first sees the rows that F finds least
likely, each at weight 1 / F(x) up to a limit. Then come steps of EM in which F stays fixed: h is
fitted, in closed form, to its responsibilities for the rows, and the weight a is searched along a
line on which the likelihood is concave. As a = 0 is on that line, the training likelihood never
falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits
from strudel.learning.mixtures.em import MixtureData
from strudel.learning.mixtures.em_steps import Ensemble
from strudel.learning.options import MixtureOptions
from strudel.learning.progress import MixtureHistory, offer

N_STARTS = 8  # of every component, side by side; the best one stays
MOST_STEPS = 30  # of EM for one component
SMALLEST_WEIGHT = 1e-9  # of a new component, and of all others together


def fit_boosted_mixture(
    circuit: Circuit,
    X: BitMatrix | ArrayLike,
    n_components: int = 10,
    *,
    X_valid: BitMatrix | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    options: MixtureOptions | None = None,
    rng: np.random.Generator | int | None = None,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
) -> Mixture:
    """Grow a mixture by one component at a time, on rows that it does not explain yet.

    Takes what `fit_mixture` takes, of which `n_runs` and `init_params` do not count; more `n_init`
    try more starts of every component. The history has one row per component, and patience counts
    components. The first one is the single circuit. There are fewer than `n_components` if
    validation says so, or if no further one raises the training likelihood.
    """
    options = replace(options or MixtureOptions(), n_components=n_components)
    data = MixtureData.of(circuit, as_bits(X, sample_weight), X_valid, options)
    growing = _GrowingMixture(data, options, np.random.default_rng(rng))
    history = MixtureHistory()
    limits = replace(options, max_iter=n_components)  # steps of the history are components
    try:
        while not history.stopped_because:
            if not growing.add_component():
                history.stopped_because = "nothing left to gain"
                break
            if history.add(growing.train, growing.valid, options.tol):
                offer(partial(growing.mixture, len(history)), history.best_score)
            if not history.is_finished(limits) and len(history) == n_components:
                history.stopped_because = "n_components"
            if on_iteration is not None:
                on_iteration(history)
    except KeyboardInterrupt:
        history.stopped_because = "interrupted"
        if len(history) == 0:
            raise
    return growing.mixture(history.best + 1).with_names(circuit.feature_names)


class _GrowingMixture:
    """The components so far, and how likely their mixture F finds the rows."""

    def __init__(
        self, data: MixtureData, options: MixtureOptions, rng: np.random.Generator
    ) -> None:
        self._data, self._options, self._rng = data, options, rng
        self._table = data.rows.unpack()
        self._weight = data.rows.weights / data.train_total
        self._log_theta: list[FloatArray] = []  # one column per component
        self._share: list[float] = []  # what each component got of the mixture when it came
        self._log_f = np.full(data.rows.n_rows, -np.inf)
        self._valid_log_f = np.full(len(data.valid_weight), -np.inf)

    @property
    def train(self) -> float:
        """Mean log-likelihood of the training rows."""
        return float(self._weight @ self._log_f)

    @property
    def valid(self) -> float:
        """Mean log-likelihood of the validation rows; nan if there are none."""
        weight = self._data.valid_weight
        return float(weight @ self._valid_log_f / weight.sum()) if len(weight) else np.nan

    def mixture(self, n_components: int) -> Mixture:
        """The first components."""
        weight = np.empty(0)
        for share in self._share[:n_components]:
            weight = np.append(weight * (1.0 - share), share)
        log_theta = np.column_stack(self._log_theta[:n_components])
        return Mixture(self._data.choices.circuit, log_theta, np.log(weight))

    def add_component(self) -> bool:
        """Add the best new component found; returns whether it raises the likelihood."""
        if self._share:
            new, log_h = self._climb(self._starts())
            shares = [best_share(column - self._log_f, self._weight) for column in log_h.T]
        else:
            new = Ensemble(self._data.choices, self._data.prior(self._options), 1, 1)
            log_h, shares = self._fit(new, np.ones((len(self._weight), 1))), [1.0]
        mixed = [_mix(self._log_f, h, share) for h, share in zip(log_h.T, shares, strict=True)]
        best = int(np.argmax([self._weight @ log_p for log_p in mixed]))
        share = shares[best]
        if share == 0.0:
            return False
        self._log_f = mixed[best]
        if self._data.valid:
            valid_log_h = new.log_likelihoods(self._data.valid)[:, best]
            self._valid_log_f = _mix(self._valid_log_f, valid_log_h, share)
        component = new.mixtures()[best]
        self._log_theta.append(component.edge_log_theta[:, 0])
        self._share.append(share)
        return True

    def _starts(self) -> FloatArray:
        """First responsibilities of new components, `(n_rows, n_starts)`.

        One takes the rows by 1 / F(x), at most one of each. The others look near a row drawn that
        way: unlikely rows are often of several kinds.
        """
        part = 1.0 / (len(self._share) + 1)  # an even part of the rows
        limit = _quantile(self._log_f, part, self._weight)
        unlikely = expit(limit - self._log_f)  # 1 / (1 + F(x) / limit)
        starts = [unlikely]
        chance = unlikely * self._weight / (unlikely @ self._weight)
        for row in self._rng.choice(len(chance), N_STARTS * self._options.n_init - 1, p=chance):
            distance = (self._table != self._table[row]).sum(axis=1)
            is_near = distance <= _quantile(distance, part, self._weight)
            starts.append(0.9 * is_near + 0.1 * unlikely)
        return np.column_stack(starts)

    def _climb(self, share: FloatArray) -> tuple[Ensemble, FloatArray]:
        """EM of new components and their weights, from first responsibilities, with F fixed.

        Returns the components, and the log-likelihoods `(n_rows, n_starts)` of the rows under them.
        """
        options = self._options
        new = Ensemble(self._data.choices, self._data.prior(options), share.shape[1], 1)
        log_h = self._fit(new, share)
        before = -np.inf
        for _ in range(min(MOST_STEPS, options.max_iter)):
            weight = np.clip(self._weight @ share, SMALLEST_WEIGHT, 1.0 - SMALLEST_WEIGHT)
            log_odds = log_h - self._log_f[:, np.newaxis] + logit(weight)
            gain = np.log1p(-weight) + self._weight @ np.logaddexp(0.0, log_odds)
            if gain.max() <= before + options.tol:
                break
            before = gain.max()
            share = expit(log_odds)
            log_h = self._fit(new, share)
        return new, log_h

    def _fit(self, new: Ensemble, share: FloatArray) -> FloatArray:
        """Fit every new component to its share of the rows; returns their log-likelihoods."""
        new.clear()
        first = 0
        for bag in self._data.train:
            part = share[first : first + bag.n_rows].astype(np.float32)
            new.add(bag, part, bag.weight[np.newaxis])
            first += bag.n_rows
        new.maximise()
        return new.log_likelihoods(self._data.train)


def _mix(log_f: FloatArray, log_h: FloatArray, share: float) -> FloatArray:
    """Log of `(1 - share) F + share h`."""
    if share in (0.0, 1.0):
        return log_h if share else log_f
    log_p: FloatArray = np.logaddexp(np.log1p(-share) + log_f, np.log(share) + log_h)
    return log_p


def _quantile(values: AnyArray, part: float, weight: FloatArray) -> float:
    return float(np.quantile(values, part, weights=weight, method="inverted_cdf"))


def best_share(log_ratio: FloatArray, weight: FloatArray) -> float:
    """The `a` that maximises the mean of `log((1 - a) + a * ratio)`; 0 if every `a` lowers it."""
    is_more = log_ratio > 0.0
    small = np.exp(-np.abs(log_ratio))  # the ratio or its inverse, whichever is below one

    def slope(a: float) -> float:
        more = (1.0 - small) / ((1.0 - a) * small + a)
        less = (small - 1.0) / ((1.0 - a) + a * small)
        return float((weight * np.where(is_more, more, less)).sum())

    if slope(SMALLEST_WEIGHT) <= 0.0:
        return 0.0
    if slope(1.0 - SMALLEST_WEIGHT) >= 0.0:
        return 1.0 - SMALLEST_WEIGHT
    return float(brentq(slope, SMALLEST_WEIGHT, 1.0 - SMALLEST_WEIGHT))
