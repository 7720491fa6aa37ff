"""EM for a mixture on rows in partitions: each part counts, the parameters are here.

In:  a deterministic circuit for the structure, and rows in partitions.
Out: `Mixture`, the best one on the validation rows.

The steps are those of `learning/mixtures/em.py`. What the parts send is rounded to a grid so fine
that nothing is lost and so coarse that sums are exact: responsibilities to multiples of 2**-24
(more where the rows weigh more than 2**28), the log-likelihood of a row likewise. So neither the
parts nor their order change a single digit; where weights are not whole numbers, responsibilities
are exact to rounding only. Bags and restarts are more columns of the same step: the flows of a row
are read once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, average
from strudel.data.bits import BitMatrix, merge_equal_rows
from strudel.learning.mixtures.em import (
    STRENGTHS,
    TRAINING_STRENGTH,
    UNEVEN,
    Clusters,
    Runs,
    best_restarts,
    find_clusters,
    joined,
    n_batches,
    run_em,
    train_batches,
)
from strudel.learning.mixtures.em_steps import (
    BLOCK_ROWS,
    Bag,
    Choices,
    Ensemble,
    Prior,
    bags_of_states,
    choices_of,
    count_states,
    log_mean,
    uniform_prior,
)
from strudel.learning.options import MixtureOptions
from strudel.learning.partitioned.engines import Engine, file_backed
from strudel.learning.partitioned.learn_structure import fit_partitioned_parameters
from strudel.learning.partitioned.packed_rows import GOLDEN, BaggedRows, hash_rows, mixed
from strudel.learning.partitioned.partitioned_table import PartitionedRows
from strudel.learning.progress import MixtureHistory

DIGITS = 24  # binary, of a responsibility and of a log-likelihood
EXACT_DIGITS = 52  # binary, of a sum of responsibilities
LARGEST = 2.0**62  # of sums of whole numbers in int64
CLUSTERED_ROWS = 2**15  # rows that k-means looks at


@dataclass(eq=False)
class FlowPart:
    """The flows of the rows of one part."""

    choices: Choices
    bags: list[Bag]
    rows: BitMatrix
    bag_weight: AnyArray | None  # (n_bags, n_rows) where every run sees other rows

    def weights(self, step: Step) -> list[FloatArray]:
        """Of the rows of every bag, `(1, n_rows)` or `(n_groups, n_rows)`."""
        if self.bag_weight is None or not self.bags:
            return [bag.weight[np.newaxis] for bag in self.bags]
        first, last = step.runs
        groups = np.repeat(np.arange(first, last), step.n_groups // (last - first))
        stops = np.cumsum([bag.n_rows for bag in self.bags])
        blocks = np.split(self.bag_weight, stops[:-1], axis=1)
        return [np.ascontiguousarray(block[groups], dtype=np.float64) for block in blocks]

    def __sizeof__(self) -> int:
        arrays = [array for bag in self.bags for array in vars(bag).values()]
        arrays += [self.rows.words, *([] if self.bag_weight is None else [self.bag_weight])]
        return int(sum(array.nbytes for array in arrays))

    def to_files(self) -> None:
        """Keep the states of the rows on disk."""
        self.bags = [
            replace(bag, row_state=file_backed(bag.row_state), state_row=file_backed(bag.state_row))
            for bag in self.bags
        ]


@dataclass(frozen=True, eq=False)
class Step:
    """The parameters of a step, as the parts need them."""

    n_groups: int
    size: int
    grid: float  # a responsibility is a whole multiple of its inverse
    quantum: float  # of which all weights are whole multiples
    runs: tuple[int, int]  # the first and, less one, the last of all runs that learn together
    base: AnyArray
    delta: AnyArray


@dataclass(frozen=True, eq=False)
class Counts:
    """What parts count in a step; sums are exact."""

    count: FloatArray
    total: FloatArray
    log_p: AnyArray  # whole numbers (n_groups + 1,), see `_units`: every group, and their average

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.count + other.count, self.total + other.total, self.log_p + other.log_p)


def fit_partitioned_mixture(
    circuit: Circuit,
    train: PartitionedRows,
    valid: PartitionedRows | None,
    *,
    options: MixtureOptions,
    sample: tuple[AnyArray, FloatArray],
    rng: np.random.Generator,
    n_bags: int | None = None,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
) -> tuple[Mixture, MixtureHistory, float]:
    """Fit a mixture whose components share the structure of a circuit.

    `sample` are rows in memory, with their weights, from which k-means finds where to start.
    `n_bags` averages mixtures of this many bootstrap samples of the rows. Returns also the mean
    log-likelihood of the validation rows.
    """
    engine = train.engine
    is_smoothed = options.pseudocount == "auto" or options.pseudocount > 1e-9
    # By weight: how many distinct rows there are depends on the parts.
    counted = engine.total(count_states, train.parts, circuit, True)
    if valid is not None:
        counted = counted + engine.total(count_states, valid.parts, circuit, True)
    choices = choices_of(circuit, counted, has_defaults=is_smoothed)
    single = fit_partitioned_parameters(circuit, train, 1.0)
    parts = train.parts
    if n_bags is not None:
        options = replace(options, n_runs=n_bags)
        parts = train.bagged(n_bags, int(rng.integers(2**31)))
    rows = RowsInParts(
        engine,
        engine.place(flow_part, parts, choices),
        [] if valid is None else engine.place(flow_part, valid.parts, choices),
        train,
        valid,
        sample,
        is_bagged=n_bags is not None,
    )

    def prior(strength: float) -> Prior:
        if options.smoothing == "single":
            return Prior(float(strength), single.theta)
        return uniform_prior(single, strength)

    def train_some(first: int, limits: MixtureOptions) -> Runs:
        n_groups = limits.n_runs * limits.n_init
        strength = TRAINING_STRENGTH if limits.pseudocount == "auto" else limits.pseudocount
        ensemble = Ensemble(choices, prior(strength), n_groups, limits.n_components)
        mine = replace(rows, runs=(first, first + limits.n_runs))
        return run_em(mine, ensemble, limits, rng, on_iteration)

    batches = n_batches(BLOCK_ROWS, choices, options)
    runs = joined(train_batches(train_some, batches, options))
    strengths = STRENGTHS if options.pseudocount == "auto" else (options.pseudocount,)
    best, best_score = None, -np.inf
    for strength in strengths:
        size = runs.n_components
        ensemble = Ensemble(choices, prior(strength), runs.n_runs, size, runs.counts)
        ensemble.maximise()
        score = rows.valid_scores(ensemble, 1)[1] if rows.has_valid else np.nan
        if best is None or score > best_score:
            best, best_score = ensemble, score
    assert best is not None
    return average(best.mixtures()), runs.history, best_score


@dataclass(frozen=True, eq=False)
class RowsInParts:
    """What EM asks of the rows, asked of all parts."""

    engine: Engine
    train: list[Any]  # of FlowPart
    valid: list[Any]
    train_rows: PartitionedRows
    valid_rows: PartitionedRows | None
    sample: tuple[AnyArray, FloatArray]
    is_bagged: bool
    runs: tuple[int, int] = (0, 1)

    @property
    def has_valid(self) -> bool:
        """Whether some validation row counts."""
        return self.valid_rows is not None

    @property
    def train_total(self) -> float:
        """Weight of all training rows."""
        return self.train_rows.total_weight

    def start(self, ensemble: Ensemble, options: MixtureOptions, rng: np.random.Generator) -> None:
        """The counts of the first responsibilities."""
        starts = [_start_of(*self.sample, options, rng) for _ in range(ensemble.n_groups)]
        self._take(ensemble, first_counts, starts)

    def expect(self, ensemble: Ensemble) -> tuple[FloatArray, float]:
        """E-step on all parts."""
        log_p = self._take(ensemble, expect)
        by_group = log_p[:-1] / self.train_rows.quantum if self.is_bagged else log_p[:-1]
        return by_group, float(log_p[-1])  # how often a bag holds a row is a whole number

    def valid_scores(self, ensemble: Ensemble, n_init: int) -> tuple[FloatArray, float]:
        """Of every group, and of what is returned."""
        assert self.valid_rows is not None
        step = self._step(ensemble, self.valid_rows)
        every = np.arange(ensemble.n_groups)
        units = self.engine.total(log_likelihood_units, self.valid, step, every)
        if n_init > 1:  # which are the best is known now
            best = best_restarts(units[:-1].astype(np.float64), n_init)
            units[-1] = self.engine.total(log_likelihood_units, self.valid, step, best)[-1]
        scores = _from_units(units, step)
        return scores[:-1], float(scores[-1]) / self.valid_rows.total_weight

    def _take(self, ensemble: Ensemble, count: Callable[..., Counts], *more: Any) -> FloatArray:
        """Put the counts of all parts into the ensemble; returns their log-likelihoods."""
        step = self._step(ensemble, self.train_rows)
        found: Counts = self.engine.total(count, self.train, step, *more)
        ensemble.count[:] = found.count
        ensemble.total[:] = found.total
        return _from_units(found.log_p, step)

    def _step(self, ensemble: Ensemble, rows: PartitionedRows) -> Step:
        base, delta = ensemble.columns()
        return Step(
            ensemble.n_groups,
            ensemble.size,
            2.0 ** _digits(rows.total_weight / rows.quantum),
            rows.quantum,
            self.runs,
            base.copy(),
            delta.copy(),
        )


def _digits(n_units: float) -> int:
    """Binary digits of a responsibility: so many that sums over such a weight remain exact."""
    left = EXACT_DIGITS - int(np.ceil(np.log2(max(n_units, 1.0))))
    return min(DIGITS, left) if left >= DIGITS // 2 else DIGITS  # else nothing would be exact


def flow_part(rows: BitMatrix | BaggedRows, choices: Choices) -> FlowPart:
    """Find the flows of one part."""
    if isinstance(rows, BaggedRows):
        return FlowPart(choices, bags_of_states(choices, rows.rows), rows.rows, rows.bag_weight)
    merged, _ = merge_equal_rows(rows) if rows.n_rows else (rows, None)
    return FlowPart(choices, bags_of_states(choices, merged), merged, None)


def _ensemble_of(part: FlowPart, step: Step) -> Ensemble:
    nothing = Prior(0.0, np.zeros(0))  # parameters come from elsewhere
    ensemble = Ensemble(part.choices, nothing, step.n_groups, step.size)
    ensemble.set_columns(step.base, step.delta)
    return ensemble


def expect(part: FlowPart, step: Step) -> Counts:
    """E-step on one part."""
    ensemble = _ensemble_of(part, step)
    units = _no_units(step.n_groups)
    quantum = step.quantum if part.bag_weight is None else 1.0
    for bag, weight in zip(part.bags, part.weights(step), strict=True):
        share, log_p = ensemble.shares(bag)
        of_average = _units(_average(log_p), bag.weight, step.quantum)
        units += np.append(_units(log_p, weight, quantum), of_average)
        ensemble.add(bag, _on_grid(share, step), weight)
    return Counts(ensemble.count, ensemble.total, units)


def log_likelihood_units(part: FlowPart, step: Step, averaged: AnyArray) -> AnyArray:
    """Log-likelihood of the rows of one part: under every group, and the average of some."""
    ensemble = _ensemble_of(part, step)
    units = _no_units(step.n_groups)
    for bag in part.bags:
        log_p = ensemble.shares(bag)[1]
        average = _average(log_p[:, averaged])
        units += _units(np.hstack([log_p, average]), bag.weight, step.quantum)
    return units


def _average(log_p: FloatArray) -> FloatArray:
    return log_mean(log_p)[:, np.newaxis]


def _no_units(n_groups: int) -> AnyArray:
    return np.zeros(n_groups + 1, dtype=object)  # whole numbers of any size


def _units(log_p: FloatArray, weight: FloatArray, quantum: float) -> AnyArray:
    """Log-likelihoods times weights, summed over rows, as whole numbers.

    Both factors are whole multiples, of 2**-24 and of a quantum, and so is the sum: every order of
    summation gives the same. A row that is impossible makes it minus infinity.
    """
    times = np.rint(weight.T.reshape(len(log_p), -1) / quantum)
    with np.errstate(invalid="ignore"):
        is_impossible = ((log_p == -np.inf) & (times > 0.0)).any(axis=0)
    logs = np.rint(np.where(np.isfinite(log_p), log_p, 0.0) * 2.0**DIGITS)
    if len(log_p) and np.abs(logs).max() * times.sum(axis=0).max() >= LARGEST:
        wide = logs.astype(np.int64).astype(object) * times.astype(np.int64).astype(object)
        units = wide.sum(axis=0)
    else:
        units = (logs.astype(np.int64) * times.astype(np.int64)).sum(axis=0).astype(object)
    units[is_impossible] = -np.inf
    return units


def _from_units(units: AnyArray, step: Step) -> FloatArray:
    """Sums of log-likelihoods as floats."""
    return units.astype(np.float64) * (step.quantum / 2.0**DIGITS)


def _on_grid(share: AnyArray, step: Step) -> AnyArray:
    """Responsibilities as multiples of the grid, in place."""
    np.round(share * np.float32(step.grid), out=share)
    share /= np.float32(step.grid)
    return share


@dataclass(frozen=True, eq=False)
class RandomStart:
    """Shares that depend on the values of a row and a seed only."""

    seed: int


def _start_of(
    sample: AnyArray, weight: FloatArray, options: MixtureOptions, rng: np.random.Generator
) -> RandomStart | Clusters:
    if options.init_params == "random":
        return RandomStart(int(rng.integers(2**63)))
    return find_clusters(sample, weight, options.n_components, options.init_params, rng)


def first_counts(part: FlowPart, step: Step, starts: list[RandomStart | Clusters]) -> Counts:
    """The counts of the first responsibilities of one part."""
    ensemble = _ensemble_of(part, step)
    table = part.rows.unpack()
    first = 0
    for bag, weight in zip(part.bags, part.weights(step), strict=True):
        rows = table[first : first + bag.n_rows]
        share = np.hstack([_shares(rows, start, step.size) for start in starts])
        ensemble.add(bag, _on_grid(share.astype(np.float32), step), weight)
        first += bag.n_rows
    return Counts(ensemble.count, ensemble.total, _no_units(step.n_groups))


def _shares(rows: AnyArray, start: RandomStart | Clusters, size: int) -> FloatArray:
    if isinstance(start, RandomStart):
        return _random_shares(rows, start.seed, size)
    label = start.label(rows)
    return (label[:, np.newaxis] == np.arange(size)).astype(np.float64)


def _random_shares(rows: AnyArray, seed: int, size: int) -> FloatArray:
    """Uneven shares by a hash of the row: equal rows get equal ones, wherever they are."""
    state = hash_rows(rows, seed)
    with np.errstate(over="ignore"):
        numbers = np.column_stack([mixed(state + np.uint64(c) * GOLDEN) for c in range(size)])
    # A power of a uniform number has about the shape of a gamma variate near zero.
    share = ((numbers >> np.uint64(11)) * 2.0**-53) ** (1.0 / UNEVEN) + 1e-300
    return share / share.sum(axis=1, keepdims=True)
