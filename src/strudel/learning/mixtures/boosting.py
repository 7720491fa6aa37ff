"""Boosting: a mixture that grows by one component at a time (Rosset and Segal 2002).

In:  a deterministic `BitCircuit` for the structure, and fully observed rows.
Out: `BitMixture`, the first components up to the best ones on the validation rows.

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

from strudel._types import AnyArray, FloatArray
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.mixture import BitMixture
from strudel.learning.mixtures.em import MixtureData, Step, climb
from strudel.learning.mixtures.em_steps import Ensemble
from strudel.learning.options import MixtureOptions
from strudel.learning.progress import MixtureHistory

N_STARTS = 8  # of every component, side by side; the best one stays
MOST_STEPS = 30  # of EM for one component
SMALLEST_WEIGHT = 1e-9  # of a new component, and of all others together


def fit_boosted_mixture(
    circuit: BitCircuit,
    X: BitMatrix | ArrayLike,
    n_components: int = 10,
    *,
    X_valid: BitMatrix | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    options: MixtureOptions | None = None,
    rng: np.random.Generator | int | None = None,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
) -> BitMixture:
    """Grow a mixture by one component at a time, on rows that it does not explain yet.

    Takes what `fit_mixture` takes, of which `n_runs` and `init_params` do not count; more `n_init`
    try more starts of every component. The history has one row per component, and patience counts
    components. The first one is the single circuit. There are fewer than `n_components` if
    validation says so, or if no further one raises the training likelihood.
    """
    options, rng = options or MixtureOptions(), np.random.default_rng(rng)
    data = MixtureData.of(circuit, as_bits(X, sample_weight), X_valid, options)
    table, weight = data.rows.unpack(), data.rows.weights / data.train_total
    log_f, valid_log_f = np.full(len(weight), -np.inf), np.full(len(data.valid_weight), -np.inf)
    columns: list[FloatArray] = []  # log-parameters of every component
    shares: list[float] = []  # what each component got of the mixture when it came

    def step() -> Step | str:
        """The mixture with the best new component found, if it raises the likelihood."""
        nonlocal log_f, valid_log_f
        if len(shares) == n_components:
            return "n_components"
        prior = data.prior(options)
        if shares:
            first = _first_shares(table, log_f, weight, len(shares), options.n_init, rng)
            new = Ensemble(data.choices, prior, first.shape[1], 1)
            log_h = _climb(new, data, weight, log_f, first, options)
            tried = [best_share(h - log_f, weight) for h in log_h.T]
        else:
            new, tried = Ensemble(data.choices, prior, 1, 1), [1.0]
            log_h = _fit(new, data, np.ones((len(weight), 1)))
        mixed = [_mix(log_f, h, share) for h, share in zip(log_h.T, tried, strict=True)]
        best = int(np.argmax([weight @ log_p for log_p in mixed]))
        if tried[best] == 0.0:
            return "nothing left to gain"
        log_f, valid = mixed[best], np.nan
        if data.valid:
            valid_log_f = _mix(valid_log_f, new.log_likelihoods(data.valid)[:, best], tried[best])
            valid = float(data.valid_weight @ valid_log_f / data.valid_weight.sum())
        columns.append(new.mixtures()[best].edge_log_theta[:, 0])
        shares.append(tried[best])
        return Step(float(weight @ log_f), valid, partial(mixture, len(shares)))

    def mixture(size: int) -> BitMixture:
        """The first components."""
        part = np.empty(0)
        for share in shares[:size]:
            part = np.append(part * (1.0 - share), share)
        return BitMixture(data.choices.circuit, np.column_stack(columns[:size]), np.log(part))

    limits = replace(options, max_iter=n_components)  # steps of the history are components
    found: BitMixture = climb(step, MixtureHistory(), limits, on_iteration)
    return found


def _first_shares(
    table: AnyArray,
    log_f: FloatArray,
    weight: FloatArray,
    size: int,
    n_init: int,
    rng: np.random.Generator,
) -> FloatArray:
    """First responsibilities of new components, `(n_rows, n_starts)`.

    One takes the rows by 1 / F(x), at most one of each. The others look near a row drawn that way:
    unlikely rows are often of several kinds.
    """
    from scipy.special import expit

    part = 1.0 / (size + 1)  # an even part of the rows
    unlikely = expit(_quantile(log_f, part, weight) - log_f)  # 1 / (1 + F(x) / limit)
    starts = [unlikely]
    chance = unlikely * weight / (unlikely @ weight)
    for row in rng.choice(len(chance), N_STARTS * n_init - 1, p=chance):
        distance = (table != table[row]).sum(axis=1)
        is_near = distance <= _quantile(distance, part, weight)
        starts.append(0.9 * is_near + 0.1 * unlikely)
    return np.column_stack(starts)


def _quantile(values: AnyArray, part: float, weight: FloatArray) -> float:
    return float(np.quantile(values, part, weights=weight, method="inverted_cdf"))


def _climb(
    new: Ensemble,
    data: MixtureData,
    weight: FloatArray,
    log_f: FloatArray,
    share: FloatArray,
    options: MixtureOptions,
) -> FloatArray:
    """EM of new components and their weights, from first responsibilities, with F fixed.

    Returns the log-likelihoods `(n_rows, n_starts)` of the rows under the new components.
    """
    from scipy.special import expit, logit

    log_h, before = _fit(new, data, share), -np.inf
    for _ in range(min(MOST_STEPS, options.max_iter)):
        mass = np.clip(weight @ share, SMALLEST_WEIGHT, 1.0 - SMALLEST_WEIGHT)
        log_odds = log_h - log_f[:, np.newaxis] + logit(mass)
        gain = np.log1p(-mass) + weight @ np.logaddexp(0.0, log_odds)
        if gain.max() <= before + options.tol:
            break
        before, share = gain.max(), expit(log_odds)
        log_h = _fit(new, data, share)
    return log_h


def _fit(new: Ensemble, data: MixtureData, share: FloatArray) -> FloatArray:
    """Fit every new component to its share of the rows; returns their log-likelihoods."""
    new.clear()
    first = 0
    for bag in data.train:
        part = share[first : first + bag.n_rows].astype(np.float32)
        new.add(bag, part, bag.weight[np.newaxis])
        first += bag.n_rows
    new.maximise()
    return new.log_likelihoods(data.train)


def _mix(log_f: FloatArray, log_h: FloatArray, share: float) -> FloatArray:
    """Log of `(1 - share) F + share h`."""
    if share in (0.0, 1.0):
        return log_h if share else log_f
    log_p: FloatArray = np.logaddexp(np.log1p(-share) + log_f, np.log(share) + log_h)
    return log_p


def best_share(log_ratio: FloatArray, weight: FloatArray) -> float:
    """The `a` that maximises the mean of `log((1 - a) + a * ratio)`; 0 if every `a` lowers it."""
    small = np.exp(-np.abs(log_ratio))  # the ratio or its inverse, whichever is below one

    def slope(a: float) -> float:
        more = (1.0 - small) / ((1.0 - a) * small + a)
        less = (small - 1.0) / ((1.0 - a) + a * small)
        return float((weight * np.where(log_ratio > 0.0, more, less)).sum())

    if slope(SMALLEST_WEIGHT) <= 0.0:
        return 0.0
    if slope(1.0 - SMALLEST_WEIGHT) >= 0.0:
        return 1.0 - SMALLEST_WEIGHT
    from scipy.optimize import brentq

    return float(brentq(slope, SMALLEST_WEIGHT, 1.0 - SMALLEST_WEIGHT))
