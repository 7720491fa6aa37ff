"""Continuous mixtures: a network ties the components (Correia et al. 2023, for any structure).

In:  a deterministic `Circuit` for the structure, and fully observed rows.
Out: `Mixture`, an ordinary one: one component per point.

The network maps a point z to the parameters of a circuit, and the model is the mean of these
circuits over a standard normal z. F is the 0/1 matrix of the edges that every row takes, found
once, and T holds the log-parameters of some points: the log-likelihoods of all rows under all
points are F @ T, so a step is a product and a softmax. Every step has other points. At the end
there are fixed ones, with weights (`latent_points`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike

from strudel._compiling import Clock
from strudel._numba import n_threads
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits
from strudel.errors import AlikeComponentsWarning
from strudel.learning.best_so_far import offer
from strudel.learning.history import MixtureHistory
from strudel.learning.mixtures.em import TRAINING_STRENGTH, MixtureData, train_runs
from strudel.learning.mixtures.free_edges import FreeEdges, RowEdges
from strudel.learning.mixtures.latent_points import LatentPoints, move, prune, weigh
from strudel.learning.mixtures.network_training import Training, TrainingRows
from strudel.learning.options import Continuous, MixtureOptions

# Where a network begins, and begins again if its points are alike: with the likeness of a mixture
# by EM of so many components, or with random weights of the last layer, so much larger than usual.
STARTS = (64, 8.0, 32.0)
START_STEPS = 20  # of EM
START_SHARE = 1 / 8  # of the time
TRAIN_SHARE = 0.8  # of all the time; the rest is for the weights of the points
FEW_MULTIPLICATIONS = 2**25  # of a product in a step: a second thread would hardly help


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
) -> Mixture:
    """Fit a mixture whose components a network ties.

    Takes what `fit_mixture` takes; of the options, only `max_seconds` and `device` count.
    `n_components` are the points of one network, or several numbers of which the validation rows
    choose one; the mixture has fewer components if some points hardly count. The history has one
    row per check of the validation rows.
    """
    method, options = method or Continuous(), options or MixtureOptions()
    clock = Clock(options.max_seconds)
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
    runs = _Runs(data, rows, method, options, on_iteration, clock)
    with _threads_for(len(edges.edge) * method.n_points * method.batch_size):
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
    clock: Clock

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
        return self._mixture_of(self._points(trained, sizes, rng))

    def _evenly(self, one: Training) -> Mixture:
        """The mixture of the first points of a network that still learns."""
        assert one.best is not None
        points = LatentPoints.evenly([one.best], [one.points.first(self.method.n_points)])
        return self._mixture_of(points)

    def _mixture_of(self, points: LatentPoints) -> Mixture:
        log_theta, log_weight = points.parameters()
        return Mixture(self.rows.single, self.rows.edges.of_all_edges(log_theta), log_weight)

    def _points(
        self, trained: list[Training], sizes: Sequence[int], rng: np.random.Generator
    ) -> LatentPoints:
        """The points of all networks; an interrupt leaves them as they are."""
        history = trained[-1].history
        networks = [one.best for one in trained if one.best is not None]
        points = LatentPoints.evenly(networks, [one.points.first(sizes[-1]) for one in trained])
        if self.rows.valid is None or history.stopped_because == "interrupted":
            return points
        try:
            points = weigh(self.rows, points, sizes, self.clock)
            if history.stopped_because != "max_seconds":
                points = move(self.rows, points, int(rng.integers(2**63)), self.clock)
            points = prune(self.rows, points)
        except KeyboardInterrupt:
            history.stopped_because = "interrupted"
        return points

    def _nothing_to_learn(self) -> None:
        history = MixtureHistory()
        history.add(0.0, np.nan if self.rows.valid is None else 0.0, 0.0)
        history.stopped_because = "nothing left to gain"
        if self.on_iteration is not None:
            self.on_iteration(history)

    def _train(self, rng: np.random.Generator) -> list[Training]:
        """All networks; an interrupt leaves those that are ready."""
        trained: list[Training] = []
        clock = self.clock.part(TRAIN_SHARE)
        try:
            for i in range(self.method.n_runs):
                if clock.is_up and trained:
                    break
                one = self._train_one(rng, clock.part(1 / (self.method.n_runs - i)))
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

    def _train_one(self, rng: np.random.Generator, clock: Clock) -> Training:
        """One network; where its points are alike, it starts again from another one."""
        best: Training | None = None
        for start in STARTS:
            begin = self._start(start, rng, clock) if isinstance(start, int) else start
            history = MixtureHistory()
            one = Training(self.rows, self.method, int(rng.integers(2**63)), history, begin)
            gives_up = start != STARTS[-1]

            def on_check(latest: MixtureHistory, one: Training = one) -> None:
                offer(partial(self._evenly, one), latest.best_score)
                if self.on_iteration is not None:
                    self.on_iteration(latest)

            one.run(clock.left(), gives_up, on_check)
            if best is None or not one.is_alike or one.score > best.score:
                best = one
            if not one.is_alike or history.stopped_because in ("interrupted", "max_seconds"):
                break
        assert best is not None
        return best

    def _start(self, n_components: int, rng: np.random.Generator, clock: Clock) -> Mixture:
        """A mixture by a few steps of EM."""
        options = replace(
            self.options,
            n_components=min(n_components, self.data.rows.n_rows),
            n_runs=1,
            n_init=1,
            smoothing="single",
            pseudocount=TRAINING_STRENGTH,
            max_iter=START_STEPS,
            max_seconds=clock.part(START_SHARE).left(),
        )
        runs = train_runs(self.data, options, rng)
        if runs.history.stopped_because == "interrupted":
            raise KeyboardInterrupt
        return runs.mixtures(self.data.prior(options))[0]


@contextmanager
def _threads_for(n_multiplications: int) -> Iterator[None]:
    """As many threads of torch as kernels may use; one for small steps.

    Threads of torch wait for each other by spinning: with two of them on a busy machine, a network
    of nltcs was not done after five processor minutes; with one it takes about 25 seconds.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if n_multiplications < FEW_MULTIPLICATIONS else n_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)
