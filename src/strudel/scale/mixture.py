"""EM for a mixture on rows in parts: each part counts, the parameters are here.

In:  a deterministic circuit for the structure, and rows in parts.
Out: `Mixture`, the best one on the validation rows.

The steps are those of `learning/em_steps.py`. What the parts send is rounded to a grid so fine that
nothing is lost and so coarse that sums are exact: responsibilities to multiples of 2**-24, the
log-likelihood of a row likewise. So neither the parts nor their order change a single digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, average
from strudel.data.bits import BitMatrix, merge_equal_rows, pack_rows
from strudel.learning.em import STRENGTHS, TRAINING_STRENGTH
from strudel.learning.em_steps import Ensemble, Prior, log_mean, uniform_prior
from strudel.learning.mixture_history import MixtureHistory
from strudel.learning.options import MixtureOptions
from strudel.learning.shared_flows import (
    Bag,
    Choices,
    bags_of_states,
    choices_of,
    count_states,
)
from strudel.learning.starts import UNEVEN, Clusters, find_clusters
from strudel.scale.structure import fit_spread_parameters
from strudel.scale.tables import SpreadRows

GRID = 2.0**24
CLUSTERED_ROWS = 2**15  # rows that k-means looks at


@dataclass(frozen=True, eq=False)
class FlowPart:
    """The flows of the rows of one part."""

    choices: Choices
    bags: list[Bag]
    rows: BitMatrix


@dataclass(frozen=True, eq=False)
class Step:
    """The parameters of a step, as the parts need them."""

    n_groups: int
    size: int
    base: AnyArray
    delta: AnyArray


@dataclass(frozen=True, eq=False)
class Counts:
    """What parts count in a step; sums are exact."""

    count: FloatArray
    total: FloatArray
    log_p: AnyArray  # int64 (n_groups + 1,) in units of 1 / GRID: every group, and their average

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.count + other.count, self.total + other.total, self.log_p + other.log_p)


def fit_spread_mixture(
    circuit: Circuit,
    train: SpreadRows,
    valid: SpreadRows | None,
    *,
    options: MixtureOptions,
    sample: AnyArray,
    rng: np.random.Generator,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
) -> tuple[Mixture, MixtureHistory]:
    """Fit a mixture whose components share the structure of a circuit.

    `sample` are rows in memory, from which k-means finds where to start; `n_restarts` of the
    options does not count.
    """
    engine = train.engine
    is_smoothed = options.pseudocount == "auto" or options.pseudocount > 1e-9
    # By weight: how many distinct rows there are depends on the parts.
    counted = engine.total(count_states, train.parts, circuit, True)
    if valid is not None:
        counted = counted + engine.total(count_states, valid.parts, circuit, True)
    choices = choices_of(circuit, counted, has_defaults=is_smoothed)
    train_parts = engine.place(flow_part, train.parts, choices)
    valid_parts = [] if valid is None else engine.place(flow_part, valid.parts, choices)
    single = fit_spread_parameters(circuit, train, 1.0)

    def prior(strength: float) -> Prior:
        if options.smoothing == "single":
            return Prior(float(strength), single.theta)
        return uniform_prior(single, strength)

    is_chosen = options.pseudocount == "auto"
    first = TRAINING_STRENGTH if is_chosen else float(options.pseudocount)
    ensemble = Ensemble(choices, prior(first), options.n_runs, options.n_components)
    starts = [_start_of(sample, options, rng) for _ in range(options.n_runs)]
    _take(ensemble, engine.total(first_counts, train_parts, starts, options.n_components))

    history = MixtureHistory()
    best: tuple[FloatArray, FloatArray] | None = None
    try:
        while not history.stopped_because:
            ensemble.maximise()
            score = np.nan
            if valid is not None:
                score = _valid_score(ensemble, valid, valid_parts)
            before = ensemble.count.copy(), ensemble.total.copy()
            found: Counts = engine.total(expect, train_parts, _step_of(ensemble))
            _take(ensemble, found)
            log_p = float(found.log_p[-1]) / GRID / train.total_weight
            if history.add(log_p, score, options.tolerance) or best is None:
                best = before
            history.is_finished(options)
            if on_iteration is not None:
                on_iteration(history)
    except KeyboardInterrupt:
        history.stopped_because = "interrupted"
        if best is None:
            raise
    assert best is not None
    choice = [Ensemble(choices, prior(first), options.n_runs, options.n_components, *best)]
    if is_chosen and valid is not None:
        choice = [
            Ensemble(choices, prior(strength), options.n_runs, options.n_components, *best)
            for strength in STRENGTHS
        ]
    for one in choice:
        one.maximise()
    if len(choice) > 1:
        assert valid is not None
        choice.sort(key=lambda one: -_valid_score(one, valid, valid_parts))
    return average(choice[0].mixtures()), history


def _step_of(ensemble: Ensemble) -> Step:
    return Step(ensemble.n_groups, ensemble.size, ensemble._base.copy(), ensemble._delta.copy())


def _take(ensemble: Ensemble, found: Counts) -> None:
    """Put the counts of all parts into the ensemble."""
    ensemble.count[:] = found.count
    ensemble.total[:] = found.total


def _valid_score(ensemble: Ensemble, valid: SpreadRows, parts: list[Any]) -> float:
    """Mean log-likelihood of the validation rows under the average of all groups."""
    units = valid.engine.total(log_likelihood_units, parts, _step_of(ensemble))
    return float(units[-1]) / GRID / valid.total_weight


def flow_part(rows: BitMatrix, choices: Choices) -> FlowPart:
    """Find the flows of one part."""
    merged, _ = merge_equal_rows(rows) if rows.n_rows else (rows, None)
    return FlowPart(choices, bags_of_states(choices, merged), merged)


def _ensemble_of(part: FlowPart, step: Step) -> Ensemble:
    nothing = Prior(0.0, np.zeros(0))  # parameters come from elsewhere
    ensemble = Ensemble(part.choices, nothing, step.n_groups, step.size)
    ensemble._base, ensemble._delta = step.base, step.delta
    return ensemble


def expect(part: FlowPart, step: Step) -> Counts:
    """E-step on one part."""
    ensemble = _ensemble_of(part, step)
    units = np.zeros(step.n_groups + 1, dtype=np.int64)
    for bag in part.bags:
        share, log_p = ensemble._shares(bag)
        units += _units(log_p, bag.weight)
        np.round(share * np.float32(GRID), out=share)
        share /= np.float32(GRID)
        ensemble.add(bag, share, bag.weight[np.newaxis])
    return Counts(ensemble.count, ensemble.total, units)


def log_likelihood_units(part: FlowPart, step: Step) -> AnyArray:
    """Log-likelihood of the rows of one part under every group and their average."""
    ensemble = _ensemble_of(part, step)
    units = np.zeros(step.n_groups + 1, dtype=np.int64)
    for bag in part.bags:
        units += _units(ensemble._shares(bag)[1], bag.weight)
    return units


def _units(log_p: FloatArray, weight: FloatArray) -> AnyArray:
    """Sums over rows, in whole units, in which every order of summation gives the same."""
    every = np.column_stack([log_p, log_mean(log_p)])
    every = np.maximum(every, -1e6)  # an impossible row; its smoothing is zero
    return np.rint(np.rint(every * GRID) * weight[:, np.newaxis]).astype(np.int64).sum(axis=0)


@dataclass(frozen=True, eq=False)
class RandomStart:
    """Shares that depend on the values of a row and a seed only."""

    seed: int


def _start_of(
    sample: AnyArray, options: MixtureOptions, rng: np.random.Generator
) -> RandomStart | Clusters:
    if options.start == "random":
        return RandomStart(int(rng.integers(2**63)))
    weights = np.ones(len(sample))
    return find_clusters(sample, weights, options.n_components, options.start, rng)


def first_counts(part: FlowPart, starts: list[RandomStart | Clusters], size: int) -> Counts:
    """The counts of the first responsibilities of one part."""
    nothing = Prior(0.0, np.zeros(0))
    ensemble = Ensemble(part.choices, nothing, len(starts), size)
    table = part.rows.unpack()
    first = 0
    for bag in part.bags:
        rows = table[first : first + bag.n_rows]
        share = np.hstack([_shares(rows, start, size) for start in starts]).astype(np.float32)
        np.round(share * np.float32(GRID), out=share)
        share /= np.float32(GRID)
        ensemble.add(bag, share, bag.weight[np.newaxis])
        first += bag.n_rows
    units = np.zeros(len(starts) + 1, dtype=np.int64)
    return Counts(ensemble.count, ensemble.total, units)


def _shares(rows: AnyArray, start: RandomStart | Clusters, size: int) -> FloatArray:
    if isinstance(start, RandomStart):
        return _random_shares(rows, start.seed, size)
    label = start.label(rows)
    return (label[:, np.newaxis] == np.arange(size)).astype(np.float64)


def _random_shares(rows: AnyArray, seed: int, size: int) -> FloatArray:
    """Uneven shares by a hash of the row: equal rows get equal ones, wherever they are."""
    state = np.full(len(rows), np.uint64(seed))
    with np.errstate(over="ignore"):
        for words in pack_rows(rows).T:
            state = _mixed(state ^ words)
        numbers = np.column_stack(
            [_mixed(state + np.uint64(c) * np.uint64(0x9E3779B97F4A7C15)) for c in range(size)]
        )
    # A power of a uniform number has about the shape of a gamma variate near zero.
    share = ((numbers >> np.uint64(11)) * 2.0**-53) ** (1.0 / UNEVEN) + 1e-300
    return share / share.sum(axis=1, keepdims=True)


def _mixed(x: AnyArray) -> AnyArray:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
