"""Fit mixtures of circuits with one structure by EM (section 5 of the paper).

In:  a deterministic `BitCircuit` for the structure, and fully observed rows.
Out: `BitMixture`, the best one on the validation rows; or the average of several, from different
     starts or on bootstrap samples of the rows (the paper's BEM).

All runs are still one structure, and one flow per row: a bag is only other weights of the same
rows, so bags learn side by side. Components that begin alike stay alike for ever, so a start has to
tell them apart: by clusters of similar rows, or at random.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from strudel._numba import use_threads
from strudel._types import AnyArray, FloatArray, IntArray
from strudel.data.bits import BitMatrix, merge_equal_rows, pack_columns
from strudel.data.validation import as_bits, slices
from strudel.errors import ImpossibleRowError
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.mixture import BitMixture, average
from strudel.learning.mixtures.em_steps import (
    Bag,
    Choices,
    Counts,
    Ensemble,
    Prior,
    best_restarts,
    log_mean,
    share_flows,
    uniform_prior,
)
from strudel.learning.options import InitParams, MixtureOptions
from strudel.learning.parameters import closed_form
from strudel.learning.progress import MixtureHistory, offer

if TYPE_CHECKING:
    from strudel.learning.mixtures.on_device import EnsembleOnDevice

AnyEnsemble: TypeAlias = "Ensemble | EnsembleOnDevice"  # wherever its tables are
Responsibilities = Callable[[slice], FloatArray]  # rows -> (n_rows, n_components)

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # what pseudocount="auto" tries
FEW_ADDITIONS = 2**22  # what one thread does in a millisecond or two
TRAINING_STRENGTH = 2.0  # pseudocount during EM when it is chosen afterwards
CLUSTERED_ROWS = 2**15  # rows that k-means looks at; the others go to the nearest centre
UNEVEN = 0.1  # shape of the gamma variates of a random start: most of a row goes to few components
N_DIRECTIONS, NO_DIRECTION = 8, 1e-9  # that a circuit lacks; no variance, but for rounding
MOST_VARIABLES = 1000  # that are compared in pairs
LIGHT = 1e-30  # of a weight: sums of 32 bits stay far from their ends
_alone = RLock()


def fit_mixture(
    circuit: BitCircuit,
    X: BitMatrix | ArrayLike,
    n_components: int = 10,
    *,
    n_bags: int | None = None,
    X_valid: BitMatrix | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    options: MixtureOptions | None = None,
    rng: np.random.Generator | int | None = None,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
) -> BitMixture:
    """Fit a mixture whose components share the structure of a circuit.

    The flow of every row is found once; an EM step is then a few additions per row and component.

    Parameters
    ----------
    circuit : Circuit
        Deterministic; its own parameters do not matter.
    X : BitMatrix or array-like of shape (n_rows, n_vars)
        Fully observed rows.
    n_components : int
        Components of one run; that of `options` is ignored.
    n_bags : int, optional
        Average mixtures of so many bootstrap samples of the rows instead of `n_runs`. A bag has as
        many draws as the rows weigh, rounded. The validation rows judge the average, and all bags
        stop at the same step.
    X_valid : BitMatrix or array-like, optional
        Rows that decide when to stop and which step to keep. Without them EM continues until the
        training likelihood hardly grows.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row counts.
    options : MixtureOptions, optional
        Starts, smoothing, averaging and limits.
    rng : numpy Generator or seed
        For the starts.
    on_iteration : callable, optional
        Called with the history after every step, for progress.

    A keyboard interrupt ends EM, not the call: the best mixture so far is returned.
    """
    options = replace(options or MixtureOptions(), n_components=n_components)
    if n_bags is not None:
        options = replace(options, n_runs=n_bags)
    rng = np.random.default_rng(rng)
    data = MixtureData.of(circuit, as_bits(X, sample_weight), X_valid, options)
    bags = None if n_bags is None else draw_bags(data.rows, n_bags, rng)
    runs = train_runs(data, options, rng, on_iteration, bags)
    mixtures = runs.mixtures(best_prior(data, [runs], options))
    return average(mixtures)


@dataclass(frozen=True, eq=False)
class MixtureData:
    """The rows as EM sees them: flows through one structure."""

    rows: BitMatrix  # distinct training rows that count
    single: BitCircuit  # the structure with its closed-form parameters
    choices: Choices
    train: Sequence[Bag]
    valid: Sequence[Bag]

    @classmethod
    def of(
        cls,
        circuit: BitCircuit,
        train: BitMatrix,
        valid: BitMatrix | ArrayLike | None,
        options: MixtureOptions,
    ) -> MixtureData:
        """Merge equal rows and find all flows."""
        rows, place = distinct_rows(train)
        if rows.n_rows == 0:
            raise ValueError("Learning needs at least one row with a positive weight.")
        options.check_validation(has_valid=valid is not None)
        tables, places = [rows], [place]
        if valid is not None:
            valid_rows, valid_place = distinct_rows(as_bits(valid))
            tables.append(valid_rows)
            places.append(valid_place)
        single = closed_form(circuit, rows)
        # With hardly any smoothing a parameter may be zero, and the difference of two logs not a
        # number.
        is_smoothed = options.pseudocount == "auto" or options.pseudocount > 1e-9
        try:
            choices, bags = share_flows(circuit, *tables, has_defaults=is_smoothed)
        except ImpossibleRowError as error:
            name, row = ("X", "X_valid")[error.table], places[error.table][error.row]
            raise ValueError(f"Row {row} of {name} is impossible under this structure.") from None
        if options.device is not None:
            from strudel.learning.mixtures.on_device import ChoicesOnDevice  # late: needs torch

            choices = ChoicesOnDevice.of(choices, options.device)
        valid_bags = [] if valid is None else bags[1]
        return cls(rows, single, choices, bags[0], valid_bags)

    @property
    def train_total(self) -> float:
        """Weight of all training rows."""
        return self.rows.total_weight

    def valid_score(self, log_p: FloatArray) -> float:
        """Mean log-likelihood of the validation rows under the average of some groups."""
        weight = self.valid_weight
        return float(weight @ log_mean(log_p) / weight.sum())

    @cached_property
    def valid_weight(self) -> FloatArray:
        """Weight of every validation row."""
        return np.concatenate([bag.weight for bag in self.valid]) if self.valid else np.empty(0)

    def prior(self, options: MixtureOptions, strength: float | None = None) -> Prior:
        """What parameters are drawn to, with another strength than that of the options if given."""
        if strength is None:
            strength = TRAINING_STRENGTH if options.pseudocount == "auto" else options.pseudocount
        if options.smoothing == "single":
            return Prior(float(strength), self.single.theta)
        return uniform_prior(self.single, strength)


def distinct_rows(bits: BitMatrix) -> tuple[BitMatrix, IntArray]:
    """The distinct rows that count, and the place of each in the table."""
    counted = np.flatnonzero(bits.weights > 0.0)
    if len(counted) < bits.n_rows:
        words = pack_columns(bits.unpack()[counted]).words
        bits = BitMatrix(words, len(counted), bits.weights[counted])
    merged, place = merge_equal_rows(bits)
    first = np.unique(place, return_index=True)[1]
    return merged, counted[first].astype(np.int32)


def draw_bags(rows: BitMatrix, n_bags: int, rng: np.random.Generator) -> FloatArray:
    """How often each bag holds each distinct row, `(n_bags, n_rows)`."""
    n_draws = max(round(rows.total_weight), 1)
    share = rows.weights / rows.total_weight
    return rng.multinomial(n_draws, share, size=n_bags).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Runs:
    """Trained mixtures of equal size, as the counts from which any smoothing can be read off."""

    choices: Choices
    n_runs: int
    n_components: int  # of one run
    counts: Counts
    history: MixtureHistory

    def mixtures(self, prior: Prior) -> list[BitMixture]:
        """The mixture of every run."""
        return self._ensemble(prior).mixtures()

    def log_likelihoods(self, prior: Prior, bags: Sequence[Bag]) -> FloatArray:
        """Log-likelihood of each row under each run."""
        ensemble = self._ensemble(prior)
        with _threads_for(bags, ensemble):
            ensemble.maximise()
            return ensemble.log_likelihoods(bags)

    def _ensemble(self, prior: Prior) -> AnyEnsemble:
        """The runs with parameters that are drawn to a prior."""
        return new_ensemble(self.choices, prior, self.n_runs, self.n_components, self.counts)


def priors(data: MixtureData, options: MixtureOptions) -> list[Prior]:
    """What the strength of smoothing is chosen from."""
    if options.pseudocount != "auto":
        return [data.prior(options)]
    return [data.prior(options, strength) for strength in STRENGTHS]


def best_prior(data: MixtureData, parts: list[Runs], options: MixtureOptions) -> Prior:
    """The prior that is best for the average of all runs on the validation rows."""
    choice = priors(data, options)
    if len(choice) == 1:
        return choice[0]
    log_p = [[runs.log_likelihoods(prior, data.valid) for runs in parts] for prior in choice]
    return choice[int(np.argmax([data.valid_score(np.hstack(one)) for one in log_p]))]


def new_ensemble(
    choices: Choices, prior: Prior, n_groups: int, size: int, counts: Counts | None = None
) -> AnyEnsemble:
    """An ensemble on the device of its choices, or here."""
    if choices.device is None:
        return Ensemble(choices, prior, n_groups, size, counts)
    from strudel.learning.mixtures.on_device import ChoicesOnDevice, EnsembleOnDevice

    assert isinstance(choices, ChoicesOnDevice)
    return EnsembleOnDevice(choices, prior, n_groups, size, counts)


def train_runs(
    data: MixtureData,
    options: MixtureOptions,
    rng: np.random.Generator,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
    row_weight: FloatArray | None = None,
    first_share: FloatArray | None = None,
) -> Runs:
    """Train `n_runs` mixtures side by side, each from `n_init` starts of which one is kept.

    `row_weight` of shape `(n_runs, n_rows)` gives every run its own weights; `first_share` are the
    responsibilities `(n_rows, n_components)` with which a single run begins.
    """
    weights = [bag.weight[np.newaxis] for bag in data.train]
    if row_weight is not None:
        per_group = np.repeat(row_weight, options.n_init, axis=0)
        stops = np.cumsum([bag.n_rows for bag in data.train])
        parts = np.split(per_group, stops[:-1], axis=1)
        weights = [np.ascontiguousarray(part) for part in parts]
    n_groups, has_valid = options.n_runs * options.n_init, data.valid_weight.sum() > 0.0
    ensemble = new_ensemble(data.choices, data.prior(options), n_groups, options.n_components)

    def runs_of(counts: Counts, score: FloatArray) -> Runs:
        """The best restart of every run."""
        kept = best_restarts(score, options.n_init)[:, np.newaxis]
        columns = (kept * ensemble.size + np.arange(ensemble.size)).ravel()
        chosen = counts.columns(columns)
        return Runs(data.choices, options.n_runs, ensemble.size, chosen, history)

    def step() -> Step:
        ensemble.maximise()
        valid, score = np.nan, None
        if has_valid:
            score, valid = ensemble.scores(data.valid, data.valid_weight, options.n_init)
        counts = ensemble.counts()
        by_group, train = ensemble.expect(data.train, weights)
        make = partial(runs_of, counts, by_group if score is None else score)
        return Step(train / data.train_total, valid, make)

    history, prior = MixtureHistory(), ensemble.prior
    with _threads_for(data.train, ensemble):
        start(ensemble, data, weights, options, rng, first_share)
        best: Runs = climb(
            step, history, options, on_iteration, lambda runs: average(runs.mixtures(prior))
        )
    return best


class Step(NamedTuple):
    """Mean log-likelihoods of training and validation rows, and what makes the result of now."""

    train: float
    valid: float  # nan without validation rows
    make: Callable[[], Any]


def climb(
    step: Callable[[], Step | str],
    history: MixtureHistory,
    options: MixtureOptions,
    on_iteration: Callable[[MixtureHistory], None] | None,
    mixture_of: Callable[[Any], BitMixture] = lambda mixture: mixture,
) -> Any:
    """Steps until validation, or the step itself, says stop; returns what the best one makes.

    An interrupt ends them with the best so far, which is also offered as a mixture on the way.
    """
    best: Step | None = None
    try:
        while not history.stopped_because:
            found = step()
            if isinstance(found, str):
                history.stopped_because = found
                break
            if history.add(found.train, found.valid, options.tol) or best is None:
                best = found
                offer(partial(_made, mixture_of, best.make), history.best_score)
            history.is_finished(options)
            if on_iteration is not None:
                on_iteration(history)
    except KeyboardInterrupt:
        history.stopped_because = "interrupted"
        if best is None:
            raise
    assert best is not None
    return best.make()


def _made(mixture_of: Callable[[Any], BitMixture], make: Callable[[], Any]) -> BitMixture:
    return mixture_of(make())


def _threads_for(bags: Sequence[Bag], ensemble: AnyEnsemble) -> AbstractContextManager[None]:
    """One thread where a step ends sooner than a second one would begin."""
    n_additions = sum(len(bag.row_state) for bag in bags) * ensemble.n_columns
    return use_threads(1) if n_additions < FEW_ADDITIONS else nullcontext()


# Where it begins


def start(
    ensemble: AnyEnsemble,
    data: MixtureData,
    weights: Sequence[FloatArray],
    options: MixtureOptions,
    rng: np.random.Generator,
    first_share: FloatArray | None = None,
) -> None:
    """Give the ensemble the counts of its first responsibilities."""
    there: Any = ensemble  # where many rows are on a device, it knows how to begin
    is_there = data.choices.device is not None and first_share is None
    if is_there and there.start(data.rows, data.train, weights, options.init_params, rng):
        return
    starts = (
        [first_share.__getitem__]
        if first_share is not None
        else [
            responsibilities(data.rows, options.n_components, options.init_params, rng)
            for _ in range(ensemble.n_groups)
        ]
    )
    first = 0
    for bag, weight in zip(data.train, weights, strict=True):
        rows = slice(first, first + bag.n_rows)
        share = np.hstack([first_shares(rows) for first_shares in starts]).astype(np.float32)
        ensemble.add(bag, share, weight)
        first += bag.n_rows


def responsibilities(
    bits: BitMatrix,
    n_components: int,
    start: InitParams,
    rng: np.random.Generator,
) -> Responsibilities:
    """First responsibilities of one mixture: of similar rows, or random ones."""
    if start == "random":
        seed = int(rng.integers(2**63))
        return lambda rows: _random_shares(rows, n_components, seed)
    table = bits.unpack()
    chosen: AnyArray | slice = slice(None)
    if bits.n_rows > CLUSTERED_ROWS:
        chosen = np.sort(rng.choice(bits.n_rows, CLUSTERED_ROWS, replace=False))
    label = cluster_labels(table, bits.weights, n_components, start, rng, chosen)
    return lambda rows: (label[rows, np.newaxis] == np.arange(n_components)).astype(np.float64)


def cluster_labels(
    table: AnyArray,
    weight: FloatArray,
    n_clusters: int,
    start: InitParams,
    rng: np.random.Generator,
    chosen: AnyArray | slice = slice(None),
) -> IntArray:
    """The cluster of every row, by k-means on those that are chosen."""
    from sklearn.cluster import MiniBatchKMeans  # late: the rest of learning needs neither

    sample, weight = table[chosen], weight[chosen]
    k_means = MiniBatchKMeans(
        min(n_clusters, len(sample)),
        init="random" if start == "kmeans" else "k-means++",
        max_iter=5,
        n_init=1,
        random_state=int(rng.integers(2**31)),
    )
    most = weight.max()
    if not LIGHT <= most <= 1.0 / LIGHT:  # k-means takes 32 bits; only shares matter
        weight = weight / most
    with _one_thread():
        k_means.fit(sample.astype(np.float32), sample_weight=weight)
        labels = [
            k_means.predict(table[block].astype(np.float32))
            for block in slices(len(table), CLUSTERED_ROWS)
        ]
    return np.concatenate(labels)


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread: the work is small, and pools of several libraries would wait for one another.

    Both settings are those of the whole process, so only one thread at a time may change them.
    """
    with _alone, _thread_pools().limit(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows than clusters: some stay empty
        yield


@cache
def _thread_pools() -> Any:
    """The thread pools of other libraries: to find them takes 20 ms, and mixtures start often."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _random_shares(rows: slice, n_components: int, seed: int) -> FloatArray:
    rng = np.random.default_rng([seed, rows.start])
    share = rng.gamma(UNEVEN, size=(rows.stop - rows.start, n_components)) + 1e-300
    return share / share.sum(axis=1, keepdims=True)
