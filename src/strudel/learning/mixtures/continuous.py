"""Continuous mixtures: a network ties the components (Correia et al. 2023, for any structure).

In:  a deterministic `Circuit` for the structure, and fully observed rows.
Out: `Mixture`, an ordinary one: one component per point.

The network maps a point z to the parameters of a circuit, and the model is the mean of these
circuits over a standard normal z. F is the 0/1 matrix of the edges that every row takes, found
once, and T holds the log-parameters of some points: the log-likelihoods of all rows under all
points are F @ T, so a step is a product and a softmax. Every step has other points. At the end the
points are fixed and get weights by EM; those that hardly count are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from strudel._numba import n_threads
from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits
from strudel.errors import AlikeComponentsWarning
from strudel.learning.history import MixtureHistory
from strudel.learning.journal import Journal
from strudel.learning.mixture_methods import Continuous, MixtureOptions
from strudel.learning.mixtures.em import TRAINING_STRENGTH, MixtureData, train_runs
from strudel.learning.mixtures.free_edges import FreeEdges, RowEdges
from strudel.learning.mixtures.network_training import Training, TrainingRows

# Where a network begins, and begins again if its points are alike: with the likeness of a mixture
# by EM of so many components, or with random weights of the last layer, so much larger than usual.
STARTS = (64, 8.0, 32.0)
START_STEPS = 20  # of EM
START_SHARE = 1 / 8  # of the time
MOST_NUMBERS = 2**27  # likelihoods of rows under points, from which weights are found: 512 MiB
WEIGHT_STEPS = 100  # of EM
TOLERANCE = 1e-3  # nats per row that are worth more points
DROPPED = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)  # weight of all points that are left out
PRUNING_TOLERANCE = 1e-4  # nats per row that leaving out may cost


def fit_continuous_mixture(
    circuit: Circuit,
    X: BitMatrix | ArrayLike,
    n_components: int | Sequence[int] = 2048,
    *,
    method: Continuous | None = None,
    X_valid: BitMatrix | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    options: MixtureOptions | None = None,
    rng: np.random.Generator | int | None = None,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
    journal: Journal | None = None,
) -> Mixture:
    """Fit a mixture whose components a network ties.

    Takes what `fit_mixture` takes; of the options, only `max_seconds` and `device` count.
    `n_components` are the points of one network, or several numbers of which the validation rows
    choose one; the mixture has fewer components if some points hardly count. The history has one
    row per check of the validation rows.
    """
    method, options = method or Continuous(), options or MixtureOptions()
    sizes = [n_components] if isinstance(n_components, int) else sorted(n_components)
    # Without smoothing, bags list all edges of a row: F is made of them.
    listed = replace(options, pseudocount=0.0, device=None)
    data = MixtureData.of(circuit, as_bits(X, sample_weight), X_valid, listed)
    edges = FreeEdges.of(data.single)
    device = options.device or torch.device("cpu")
    rows = TrainingRows(
        data.single,
        edges,
        RowEdges.of(edges, data.choices, data.train, device),
        RowEdges.of(edges, data.choices, data.valid, device) if data.valid else None,
    )
    runs = _Runs(data, rows, method, options, on_iteration, journal or Journal())
    with _threads():
        mixture = runs.mixture(sizes, np.random.default_rng(rng))
    return mixture.with_names(circuit.feature_names)


@dataclass(frozen=True, eq=False)
class _Runs:
    """Several networks, one after another."""

    data: MixtureData
    rows: TrainingRows
    method: Continuous
    options: MixtureOptions
    on_iteration: Callable[[MixtureHistory], None] | None
    journal: Journal

    def mixture(self, sizes: Sequence[int], rng: np.random.Generator) -> Mixture:
        """The mixture of the points of all networks."""
        if len(self.rows.edges.edge) == 0:  # there is one circuit, and one row
            self._nothing_to_learn()
            return as_mixture(self.rows.single)
        trained = self._train(rng)
        history = trained[-1].history
        if all(one.is_alike for one in trained) and history.stopped_because != "interrupted":
            warnings.warn(
                "All points of the continuous mixture are alike: it is hardly more than the single "
                "circuit. Use method='em', or other options of Continuous.",
                AlikeComponentsWarning,
                stacklevel=2,
            )
            return as_mixture(self.rows.single)
        log_theta = _parameters(trained, sizes[-1])
        n_points = log_theta.shape[1]
        weight = np.full(n_points, 1.0 / n_points)
        try:
            if self.rows.valid is not None and history.stopped_because != "interrupted":
                weight = _weights(self.rows, log_theta.float(), sizes, len(trained))
        except KeyboardInterrupt:
            history.stopped_because = "interrupted"
        kept = np.flatnonzero(weight)
        parameters = self.rows.edges.of_all_edges(log_theta[:, kept].cpu().numpy())
        return Mixture(self.rows.single, parameters, np.log(weight[kept]))

    def _nothing_to_learn(self) -> None:
        history = MixtureHistory(clock=self.journal.now)
        history.add(0.0, np.nan if self.rows.valid is None else 0.0, 0.0)
        history.stopped_because = "nothing left to gain"
        if self.on_iteration is not None:
            self.on_iteration(history)

    def _train(self, rng: np.random.Generator) -> list[Training]:
        """All networks; an interrupt leaves those that are ready."""
        trained: list[Training] = []
        started = self.journal.now()
        try:
            for i in range(self.method.n_runs):
                seconds = self.options.max_seconds
                if seconds is not None:  # what is left, in even parts
                    left = max(seconds - (self.journal.now() - started), 0.0)
                    if left == 0.0 and trained:
                        break
                    seconds = left / (self.method.n_runs - i)
                one = self._train_one(rng, seconds)
                if one.history.stopped_because == "interrupted" and trained:
                    raise KeyboardInterrupt
                trained.append(one)
                if one.history.stopped_because == "interrupted":
                    break
        except KeyboardInterrupt:
            if not trained:
                raise
            trained[-1].history.stopped_because = "interrupted"
        return trained

    def _train_one(self, rng: np.random.Generator, max_seconds: float | None) -> Training:
        """One network; where its points are alike, it starts again from another one."""
        best: Training | None = None
        started = self.journal.now()
        for start in STARTS:
            begin = self._start(start, rng, max_seconds) if isinstance(start, int) else start
            history = MixtureHistory(clock=self.journal.now)
            one = Training(self.rows, self.method, int(rng.integers(2**63)), history, begin)
            left = max_seconds
            if max_seconds is not None:
                left = max(max_seconds - (self.journal.now() - started), 0.0)
            gives_up = start != STARTS[-1]
            one.run(left, gives_up, self.on_iteration, self.journal, rng)
            if best is None or not one.is_alike or one.score > best.score:
                best = one
            if not one.is_alike or history.stopped_because in ("interrupted", "max_seconds"):
                break
        assert best is not None
        return best

    def _start(self, n_components: int, rng: np.random.Generator, seconds: float | None) -> Mixture:
        """A mixture by a few steps of EM."""
        options = replace(
            self.options,
            n_components=min(n_components, self.data.rows.n_rows),
            n_runs=1,
            n_init=1,
            smoothing="single",
            pseudocount=TRAINING_STRENGTH,
            max_iter=START_STEPS,
            max_seconds=None if seconds is None else START_SHARE * seconds,
        )
        runs = train_runs(self.data, options, rng, journal=self.journal)
        if runs.history.stopped_because == "interrupted":
            raise KeyboardInterrupt
        return runs.mixtures(self.data.prior(options))[0]


def _parameters(trained: list[Training], n_points: int) -> Tensor:
    """Log-parameters of the first points of every network, in float64."""
    found = []
    for one in trained:
        assert one.best is not None
        points = one.points.first(n_points).double()
        found.append(one.best.copy(torch.float64).log_theta(points))
    return torch.cat(found, dim=1)


def _weights(
    rows: TrainingRows, log_theta: Tensor, sizes: Sequence[int], n_runs: int
) -> FloatArray:
    """Weights of all points, zero for those that are left out.

    For every size, EM finds the weights while validation rows become more likely. The smallest
    size that is about as good as the best one is taken, and of its points those that count.
    """
    assert rows.valid is not None
    n_rows = max(1, MOST_NUMBERS // log_theta.shape[1])
    # Rows are in the order of their bits: some of them, evenly spread.
    some = slice(None, None, -(-len(rows.train) // n_rows))
    train = _Likelihoods.of(rows.train.some(some), log_theta)
    valid = _Likelihoods.of(rows.valid, log_theta)
    number = torch.arange(log_theta.shape[1], device=log_theta.device) % (
        log_theta.shape[1] // n_runs
    )
    found = []
    for size in sizes:
        is_in = number < size
        found.append(_climb(train, valid, is_in / is_in.sum()))
    enough = max(score for score, _ in found) - TOLERANCE
    score, weight = next(one for one in found if one[0] >= enough)
    order = torch.argsort(weight)
    lightest = weight[order].cumsum(0)
    for share in DROPPED:
        fewer = weight.clone()
        fewer[order[lightest <= share]] = 0.0
        fewer /= fewer.sum()
        if valid.score(fewer) >= score - PRUNING_TOLERANCE:
            weight = fewer
            break
    weights = weight.double().cpu().numpy()
    return weights / weights.sum()


def _climb(train: _Likelihoods, valid: _Likelihoods, weight: Tensor) -> tuple[float, Tensor]:
    """The score of validation rows and the weights, where EM raises the former no more."""
    score = valid.score(weight)
    for _ in range(WEIGHT_STEPS):
        step = train.step(weight)
        new = valid.score(step)
        if not new > score:
            break
        score, weight = new, step
    return score, weight


@dataclass(frozen=True, eq=False)
class _Likelihoods:
    """Likelihoods of rows under points, each row relative to its largest."""

    relative: Tensor  # (n_rows, n_points) float32
    largest: Tensor  # (n_rows,) its log
    share: Tensor  # (n_rows,) weights of the rows that add up to one

    @classmethod
    def of(cls, rows: RowEdges, log_theta: Tensor) -> _Likelihoods:
        """Of some rows."""
        relative = torch.empty((len(rows), log_theta.shape[1]), device=log_theta.device)
        largest = torch.empty(len(rows), device=log_theta.device)
        for some, logs in rows.logs(log_theta):
            largest[some] = logs.amax(dim=1)
            relative[some] = torch.exp(logs - largest[some].unsqueeze(1))
        return cls(relative, largest, (rows.weight / rows.weight.sum()).float())

    def score(self, weight: Tensor) -> float:
        """Mean log-likelihood."""
        log_p = torch.log(self.relative @ weight) + self.largest
        return float(self.share.double() @ log_p.double())

    def step(self, weight: Tensor) -> Tensor:
        """Weights after a step of EM."""
        ratio = self.share / (self.relative @ weight)
        return weight * (self.relative.T @ ratio)


@contextmanager
def _threads() -> Iterator[None]:
    """As many threads of torch as kernels may use."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)
