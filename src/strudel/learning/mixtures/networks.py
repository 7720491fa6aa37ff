"""Continuous mixtures: a network ties the components (Correia et al. 2023, for any structure).

In:  a deterministic `BitCircuit` for the structure, and fully observed rows.
Out: `BitMixture`, an ordinary one: one component per point.

The network maps a point z to the parameters of a circuit, and the model is the mean of these
circuits over a standard normal z. F is the 0/1 matrix of the edges that every row takes, found
once, and T holds the log-parameters of some points: the log-likelihoods of all rows under all
points are F @ T, so a step is a product and a softmax. Every step of AdamW has other rows and other
points; the rate rises, then falls to zero, by the share of the steps or of the time that is over.

At the end there are fixed points. Their weights come from EM on the training rows, as long as
validation rows become more likely; the points themselves move by gradient, with the networks as
they are; and what hardly counts is left out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from strudel._compiling import Clock
from strudel._numba import n_threads
from strudel._types import FloatArray, IntArray
from strudel.circuits.on_device.recorded import Recorded
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits
from strudel.errors import AlikeComponentsWarning
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.mixture import BitMixture, as_mixture
from strudel.learning.mixtures.em import TRAINING_STRENGTH, MixtureData, train_runs
from strudel.learning.mixtures.em_steps import Bag, Choices
from strudel.learning.options import Continuous, MixtureOptions
from strudel.learning.progress import MixtureHistory, offer

BLOCK_NUMBERS = 2**22  # of F, or of a product, that are in memory together
LOWEST_START = -9.0  # of the first log-parameters: lower ones would be slow to rise
RIDGE = 0.01  # of the regression that sets the last layer
EDGE_OF_CUBE = 1e-6  # how near to it a point may come: the normal quantile stays below 5
N_CHECKS = 40  # of the validation rows, in a run to its end
CHECKED_POINTS = 1024  # while the network learns
MOST_POINTS = 8192  # of one network
IMITATED_POINTS = 4096  # where a network begins with the likeness of a mixture
WARM_UP = 0.1  # share of the steps in which the rate rises
WEIGHT_DECAY = 0.3  # nltcs and jester gain 0.004 and 0.03 nats against none
ALIKE = 0.01  # nats that a row tells about its point, or fewer: all points are alike
EARLY = 0.25  # share of the steps after which a network with points alike gives up
MOST_JUDGED = 4096  # training rows that say so where there are no validation rows
MOST_NUMBERS = 2**27  # likelihoods of rows under points, from which weights are found: 512 MiB
WEIGHT_STEPS = 100  # of EM
ENOUGH = 1e-3  # nats per row that are not worth more points
# Moving 1,024 points gains 0.03 nats on audio; moving 4,096 only helps the validation rows.
MOST_MOVED = 1024
MOVES = 100  # steps of the points
MOVED_ROWS = 512  # of a step
MOVING_RATE = 0.01
DROPPED = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)  # weight of all points that are left out
PRICE = 1e-4  # nats per row that leaving out may cost
# Where a network begins, and begins again if its points are alike: with the likeness of a mixture
# by EM of so many components, or with random weights of the last layer, so much larger than usual.
STARTS = (64, 8.0, 32.0)
START_STEPS = 20  # of EM
START_SHARE = 1 / 8  # of the time
TRAIN_SHARE = 0.8  # of all the time; the rest is for the weights of the points
FEW_MULTIPLICATIONS = 2**25  # of a product in a step: a second thread would hardly help


@dataclass(frozen=True, eq=False)
class FreeEdges:
    """The edges of all sums with several, sums of as many edges side by side.

    So every sum is a line of a block, and a softmax per sum needs no index.
    """

    circuit: BitCircuit
    edge: IntArray  # (n_free,)
    blocks: list[tuple[int, int]]  # how many sums a block has, and how many edges each of them

    @classmethod
    def of(cls, circuit: BitCircuit) -> FreeEdges:
        """Those of a circuit."""
        n_alike = np.diff(circuit.node_edges)[circuit.edge_parent]  # edges of the same sum
        order = np.argsort(n_alike, kind="stable")
        edge = order[n_alike[order] > 1].astype(np.int32)
        sizes, counts = np.unique(n_alike[edge], return_counts=True)
        blocks = [(int(n // size), int(size)) for size, n in zip(sizes, counts, strict=True)]
        return cls(circuit, edge, blocks)

    @cached_property
    def place(self) -> IntArray:
        """The place of every edge of the circuit, `n_free` for those that are not free."""
        place = np.full(self.circuit.n_edges, len(self.edge), dtype=np.int32)
        place[self.edge] = np.arange(len(self.edge))
        return place

    def log_softmax(self, logits: Tensor) -> Tensor:
        """Log-parameters `(n_free, n_points)` from any numbers."""
        found, first = [], 0
        for n_sums, size in self.blocks:
            block = logits[first : first + n_sums * size].unflatten(0, (n_sums, size))
            found.append(torch.log_softmax(block, dim=1).flatten(0, 1))
            first += n_sums * size
        return found[0] if len(found) == 1 else torch.cat(found)

    def of_all_edges(self, log_theta: FloatArray) -> FloatArray:
        """Log-parameters of every edge, from those of the free ones."""
        found = np.zeros((self.circuit.n_edges, log_theta.shape[1]))
        found[self.edge] = log_theta
        return found


@dataclass(frozen=True, eq=False)
class RowEdges:
    """The free edges that every row takes, by their places, on a device."""

    places: Tensor  # (n_rows, n_entries), `n_free` where a row takes fewer
    weight: Tensor  # (n_rows,) float64
    n_free: int

    @classmethod
    def of(cls, edges: FreeEdges, choices: Choices, bags: Sequence[Bag], device: Any) -> RowEdges:
        """Those of the rows of some bags without defaults."""
        n_free = len(edges.edge)
        place = np.full(choices.n_states, n_free, dtype=np.int16 if n_free < 2**15 else np.int32)
        place[: len(choices.edge)] = edges.place[choices.edge]
        lengths = [np.diff(bag.row_first) for bag in bags]
        width = max(1, max(length.max(initial=0) for length in lengths))
        found = []
        for bag, length in zip(bags, lengths, strict=True):
            places = np.full((bag.n_rows, width), n_free, dtype=place.dtype)
            places[np.arange(width) < length[:, np.newaxis]] = place[bag.row_state]
            found.append(places)
        weight = torch.from_numpy(np.concatenate([bag.weight for bag in bags]))
        return cls(torch.from_numpy(np.concatenate(found)).to(device), weight.to(device), n_free)

    def __len__(self) -> int:
        return len(self.weight)

    def some(self, chosen: Any) -> RowEdges:
        """Some of the rows."""
        return RowEdges(self.places[chosen], self.weight[chosen], self.n_free)

    def matrix(self) -> Tensor:
        """F, `(n_rows, n_free)`."""
        return self.matrix_of(self.places)

    def matrix_of(self, places: Tensor) -> Tensor:
        """F of other rows."""
        matrix = torch.zeros((len(places), self.n_free + 1), device=places.device)
        return matrix.scatter_(1, places.long(), 1.0)[:, :-1]

    def logs(self, log_theta: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """F @ T, block by block: the log-likelihoods of rows under every point."""
        step = max(1, BLOCK_NUMBERS // max(log_theta.shape[1], self.n_free))
        for start in range(0, len(self), step):
            rows = slice(start, start + step)
            yield rows, self.some(rows).matrix() @ log_theta


@dataclass(frozen=True, eq=False)
class Network:
    """Fully connected layers; the last one gives logits of all free edges."""

    edges: FreeEdges
    tensors: list[Tensor]  # of every layer weights (n_out, n_in), and biases (n_out, 1)

    @classmethod
    def start(
        cls, single: BitCircuit, edges: FreeEdges, method: Continuous, scale: float, generator: Any
    ) -> Network:
        """Random layers; the logits vary around the log-parameters of a single circuit.

        Weights of the last layer are `scale` times as large as usual: with small ones the
        points hardly matter at first, and may never do.
        """
        sizes = [method.latent_dim, *[method.width] * method.depth, len(edges.edge)]
        tensors: list[Tensor] = []
        for n_in, n_out in pairwise(sizes):
            for shape in ((n_out, n_in), (n_out, 1)):
                uniform = torch.rand(shape, generator=generator, device=generator.device)
                tensors.append((2.0 * uniform - 1.0) / math.sqrt(n_in))
        tensors[-2] *= scale
        bias = torch.from_numpy(single.edge_log_theta[edges.edge]).clamp(min=LOWEST_START)
        tensors[-1].copy_(bias.unsqueeze(1))
        return cls(edges, [one.requires_grad_() for one in tensors])

    def imitate(self, mixture: BitMixture, points: Tensor, generator: Any) -> None:
        """Set the last layer so that every component of a mixture has a region of its own.

        A region is where a random centre is nearest, larger for a component of larger weight; in
        it, logits are about those of the component, as well as a linear layer can have them.
        """
        weight = torch.from_numpy(mixture.weights).to(points)
        n_points, n_components = len(points), len(weight)
        order = torch.randperm(n_points, generator=generator, device=points.device)
        centre = points[order[:n_components]]
        closeness = points @ centre.T - 0.5 * centre.square().sum(dim=1) + weight.log()
        logits = torch.from_numpy(mixture.edge_log_theta[self.edges.edge]).to(points.device)
        wanted = logits.clamp(min=LOWEST_START)[:, closeness.argmax(dim=1)]
        units = self._hidden(points).detach().double()
        units = torch.cat([units, torch.ones_like(units[:1])])
        squares = units @ units.T
        squares.diagonal().add_(RIDGE * squares.diagonal().mean())
        solution = torch.linalg.solve(squares, units @ wanted.T).T
        with torch.no_grad():
            self.tensors[-2].copy_(solution[:, :-1])
            self.tensors[-1].copy_(solution[:, -1:])

    def log_theta(self, points: Tensor) -> Tensor:
        """Log-parameters `(n_free, n_points)`."""
        units = self._hidden(points)
        return self.edges.log_softmax(torch.addmm(self.tensors[-1], self.tensors[-2], units))

    def _hidden(self, points: Tensor) -> Tensor:
        """The last hidden layer, `(width, n_points)`."""
        values = points.T
        layers = zip(self.tensors[:-2:2], self.tensors[1:-2:2], strict=True)
        for weight, bias in layers:
            values = torch.nn.functional.leaky_relu(torch.addmm(bias, weight, values))
        return values

    def copy(self, dtype: Any = torch.float32) -> Network:
        """The same network now, which learns no more."""
        tensors = [one.detach().to(dtype, copy=True) for one in self.tensors]
        return Network(self.edges, tensors)


class Points:
    """Quasi-random points (Sobol), scrambled, that together look like a normal distribution."""

    def __init__(self, dimension: int, n_points: int, seed: int, device: Any) -> None:
        engine = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=seed)
        self._uniform = engine.draw(n_points, dtype=torch.float64).to(device)

    def first(self, n_points: int) -> Tensor:
        """So many of them, always the same."""
        return _normal(self._uniform[:n_points])

    def shifted(self, n_points: int, generator: Any) -> Tensor:
        """So many of them, all moved together around the cube at random."""
        shape = (1, self._uniform.shape[1])
        shift = torch.rand(shape, generator=generator, device=generator.device)
        return _normal((self._uniform[:n_points] + shift) % 1.0)


def _normal(uniform: Tensor) -> Tensor:
    inside = uniform.clamp(EDGE_OF_CUBE, 1.0 - EDGE_OF_CUBE)
    points: Tensor = torch.special.ndtri(inside).float()
    return points


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """What a network learns from."""

    single: BitCircuit  # with closed-form parameters
    edges: FreeEdges
    train: RowEdges
    valid: RowEdges | None

    @property
    def device(self) -> Any:
        """Where all of it is."""
        return self.train.weight.device


class Training:
    """One network, and the best that it has been."""

    def __init__(
        self,
        rows: TrainingRows,
        method: Continuous,
        seed: int,
        history: MixtureHistory,
        start: BitMixture | float,
    ) -> None:
        """`start` is a mixture to begin with, or how large random weights of the last layer are."""
        self.rows, self.method, self.history = rows, method, history
        self._generator = torch.Generator(rows.device).manual_seed(seed)
        self.points = Points(method.latent_dim, MOST_POINTS, seed, rows.device)
        scale = start if isinstance(start, float) else 1.0
        self._network = Network.start(rows.single, rows.edges, method, scale, self._generator)
        if isinstance(start, BitMixture):
            self._network.imitate(start, self.points.first(IMITATED_POINTS), self._generator)
        is_on_gpu = rows.device.type == "cuda"
        self._rate = torch.tensor(method.learning_rate, device=rows.device)
        self._optimiser = torch.optim.AdamW(
            self._network.tensors,
            lr=self._rate if is_on_gpu else method.learning_rate,
            weight_decay=WEIGHT_DECAY,
            fused=True,
            capturable=is_on_gpu,
        )
        self._learn = Recorded(self._learn_from, rows.device)
        self._order = torch.empty(0, dtype=torch.int64, device=rows.device)
        self._step = 0
        self._next = 0  # row of the order
        self.best: Network | None = None
        self.information = 0.0  # what a row tells about its point, in the best network
        everything = rows.train if rows.valid is None else rows.valid
        self._judges = everything if rows.valid is not None else everything.some(slice(MOST_JUDGED))

    @property
    def is_alike(self) -> bool:
        """Whether the points of the best network are alike."""
        return self.information < ALIKE

    def run(
        self,
        max_seconds: float | None,
        gives_up: bool,
        on_iteration: Callable[[MixtureHistory], None] | None,
    ) -> None:
        """To the end; an interrupt ends it with the best so far, if there is one.

        One that `gives_up` stops early where its points are alike.
        """
        try:
            while not self.history.stopped_because:
                self._check(self._some_steps(max_seconds))
                self._decide(max_seconds, gives_up)
                if on_iteration is not None:
                    on_iteration(self.history)
        except KeyboardInterrupt:
            self.history.stopped_because = "interrupted"
            if self.best is None:
                raise
        finally:
            self._learn.forget()

    def _some_steps(self, max_seconds: float | None) -> float:
        """The steps up to the next check; returns the log-likelihood of their rows."""
        last = min(self._step + max(1, self.method.max_iter // N_CHECKS), self.method.max_iter)
        first, total = self._step, torch.zeros((), device=self.rows.device)
        while self._step < last:
            share = self._step / self.method.max_iter
            if max_seconds is not None:
                gone = self.history.elapsed / max(max_seconds, 1e-9)
                if gone >= 1.0 and self._step > first:
                    break
                share = min(max(share, gone), 1.0)
            total += self._step_once(share)
            self._step += 1
        return float(total) / (self._step - first)

    def _step_once(self, share: float) -> Tensor:
        """One step; returns the mean log-likelihood of its rows."""
        rate_now = self.method.learning_rate * rate(share)
        self._rate.fill_(rate_now)
        if self._rate.device.type == "cpu":
            for group in self._optimiser.param_groups:
                group["lr"] = rate_now
        points = self.points.shifted(self.method.n_points, self._generator)
        return self._learn(self._batch().places, points)

    def _learn_from(self, places: Tensor, points: Tensor) -> Tensor:
        """Change the network; returns the mean log-likelihood of the rows that it learned from."""
        log_theta = self._network.log_theta(points)
        logs = self.rows.train.matrix_of(places) @ log_theta
        log_p = torch.logsumexp(logs, dim=1).mean() - math.log(self.method.n_points)
        self._optimiser.zero_grad()
        (-log_p).backward()
        self._optimiser.step()
        return log_p.detach()

    def _batch(self) -> RowEdges:
        """The next rows, in an order that is new in every epoch."""
        size = min(self.method.batch_size, len(self.rows.train))
        if self._next + size > len(self._order):
            self._order, self._next = _epoch(self.rows.train.weight, size, self._generator), 0
        self._next += size
        return self.rows.train.some(self._order[self._next - size : self._next])

    def _check(self, train: float) -> None:
        """Write down how likely the rows are, and keep the network if it is the best."""
        network = self._network.copy()
        log_p, information = judge(
            network.log_theta(self.points.first(CHECKED_POINTS)), self._judges
        )
        valid = math.nan if self.rows.valid is None else log_p
        row = (self._step, train, valid, self.history.elapsed)
        if self.history.add_row(row, 0.0) or self.best is None:
            self.best, self.information = network, information

    def _decide(self, max_seconds: float | None, gives_up: bool) -> None:
        """Whether to stop."""
        history, method = self.history, self.method
        since = self._step - int(history.last_row(history.best)["n_iterations"])
        if gives_up and self._step >= EARLY * method.max_iter and self.is_alike:
            history.stopped_because = "patience"
        elif self._step >= method.max_iter:
            history.stopped_because = "max_iter"
        elif since >= method.patience:
            history.stopped_because = "patience"
        elif max_seconds is not None and history.elapsed >= max_seconds:
            history.stopped_because = "max_seconds"


def rate(share: float) -> float:
    """The step size, of its largest, when this share of the steps is over: one cycle."""
    if share < WARM_UP:
        return 0.04 + 0.96 * (1.0 - math.cos(math.pi * share / WARM_UP)) / 2.0
    return max((1.0 + math.cos(math.pi * (share - WARM_UP) / (1.0 - WARM_UP))) / 2.0, 1e-4)


def judge(log_theta: Tensor, rows: RowEdges) -> tuple[float, float]:
    """Mean log-likelihood of rows under equally likely points, and what a row tells of its point.

    The latter is their mutual information, in nats: zero where all points are alike.
    """
    sums = torch.zeros(2, dtype=torch.float64, device=rows.weight.device)
    for some, logs in rows.logs(log_theta):
        log_p = torch.logsumexp(logs, dim=1)
        share = torch.exp(logs - log_p.unsqueeze(1))
        expected = (share * logs).sum(dim=1)
        log_p = log_p.double() - math.log(logs.shape[1])
        both = torch.stack([log_p, expected.double() - log_p])
        sums += both @ rows.weight[some]
    mean, information = (sums / rows.weight.sum()).tolist()
    return mean, information


def _epoch(weight: Tensor, batch_size: int, generator: Any) -> Tensor:
    """An order of rows, each as often as it counts; whole weights of one epoch come out exactly.

    Systematic sampling: as many rows as their weight says, at most a fraction more or fewer.
    """
    total = weight.sum()
    n_rows = max(len(weight), batch_size, min(round(float(total)), 8 * len(weight)))
    start = torch.rand(1, generator=generator, device=weight.device, dtype=torch.float64)
    place = (torch.arange(n_rows, device=weight.device) + start) * (total / n_rows)
    rows = torch.searchsorted(weight.cumsum(0), place, right=True).clamp(max=len(weight) - 1)
    return rows[torch.randperm(n_rows, generator=generator, device=weight.device)]


@dataclass(frozen=True, eq=False)
class LatentPoints:
    """Points of several networks, all of which make one mixture."""

    networks: list[Network]
    points: list[Tensor]  # (n_points, dimension) of every network
    weight: Tensor  # (n_all,) float32; adds up to one

    @classmethod
    def evenly(cls, networks: list[Network], points: list[Tensor]) -> LatentPoints:
        """Points of equal weight."""
        weight = torch.cat([torch.ones(len(own), device=own.device) for own in points])
        return cls(networks, points, weight / len(weight))

    def log_theta(self, points: list[Tensor] | None = None) -> Tensor:
        """Log-parameters `(n_free, n_all)`, of these or of other points."""
        pairs = zip(self.networks, self.points if points is None else points, strict=True)
        return torch.cat([network.log_theta(own) for network, own in pairs], dim=1)

    def some(self, is_kept: Tensor) -> LatentPoints:
        """Some of the points, with weights in proportion."""
        parts = torch.split(is_kept, [len(own) for own in self.points])
        points = [own[part] for own, part in zip(self.points, parts, strict=True)]
        weight = self.weight[is_kept]
        return LatentPoints(self.networks, points, weight / weight.sum())

    def parameters(self) -> tuple[FloatArray, FloatArray]:
        """Log-parameters of the free edges, and log-weights, in float64."""
        networks = [network.copy(torch.float64) for network in self.networks]
        exact = replace(self, networks=networks, points=[own.double() for own in self.points])
        log_weight = torch.log_softmax(self.weight.double().log(), dim=0)
        return exact.log_theta().cpu().numpy(), log_weight.cpu().numpy()


def weigh(
    rows: TrainingRows, start: LatentPoints, sizes: Sequence[int], clock: Clock
) -> LatentPoints:
    """The first points of every network, with weights.

    Of some sizes, the smallest that is about as good as the best one on the validation rows.
    """
    train, valid = _both(rows, start)
    number = torch.cat([torch.arange(len(own), device=own.device) for own in start.points])
    found: list[tuple[Tensor, float, Tensor]] = []
    for size in sizes:
        if found and clock.is_up:
            break
        is_in = number < size
        found.append((is_in, *_climb(train, valid, is_in / is_in.sum(), clock)))
    enough = max(score for _, score, _ in found) - ENOUGH
    is_in, _, weight = next(one for one in found if one[1] >= enough)
    return replace(start, weight=weight).some(is_in)


def move(rows: TrainingRows, start: LatentPoints, seed: int, clock: Clock) -> LatentPoints:
    """Points and weights after some steps of Adam, if that makes validation rows more likely.

    Many points stay where they are.
    """
    if len(start.weight) > MOST_MOVED:
        return start
    device = rows.device
    generator = torch.Generator(device).manual_seed(seed)
    points = [own.clone().requires_grad_() for own in start.points]
    log_weight = start.weight.log().clamp(min=-30.0).requires_grad_()
    optimiser = torch.optim.Adam([*points, log_weight], lr=MOVING_RATE)
    place = rows.train.weight.cumsum(0)
    for step in range(MOVES):
        if clock.is_up:
            return start
        for group in optimiser.param_groups:
            group["lr"] = MOVING_RATE * (1.0 - step / MOVES)
        drawn = torch.rand(MOVED_ROWS, generator=generator, device=device, dtype=torch.float64)
        chosen = torch.searchsorted(place, drawn * place[-1]).clamp(max=len(place) - 1)
        logs = rows.train.some(chosen).matrix() @ start.log_theta(points)
        log_p = torch.logsumexp(logs + torch.log_softmax(log_weight, dim=0), dim=1)
        optimiser.zero_grad()
        (-log_p.mean()).backward()
        optimiser.step()
    weight = torch.softmax(log_weight.detach(), dim=0)
    moved = replace(start, points=[own.detach() for own in points], weight=weight)
    train, valid = _both(rows, moved)
    score, weight = _climb(train, valid, weight, clock)
    assert rows.valid is not None
    before = _Likelihoods.of(rows.valid, start.log_theta()).score(start.weight)
    return replace(moved, weight=weight) if score > before else start


def prune(rows: TrainingRows, start: LatentPoints) -> LatentPoints:
    """The points without those that hardly count."""
    assert rows.valid is not None
    valid = _Likelihoods.of(rows.valid, start.log_theta())
    score = valid.score(start.weight)
    order = torch.argsort(start.weight)
    lightest = start.weight[order].cumsum(0)
    for share in DROPPED:
        is_kept = torch.ones_like(start.weight, dtype=torch.bool)
        is_kept[order[lightest <= share]] = False
        weight = start.weight * is_kept
        if valid.score(weight / weight.sum()) >= score - PRICE:
            return start.some(is_kept)
    return start.some(start.weight > 0.0)


def _both(rows: TrainingRows, start: LatentPoints) -> tuple[_Likelihoods, _Likelihoods]:
    """Likelihoods of training rows, or of as many as there is room for, and validation rows."""
    assert rows.valid is not None
    log_theta = start.log_theta()
    n_rows = max(1, MOST_NUMBERS // log_theta.shape[1])
    # Rows are in the order of their bits: some of them, evenly spread.
    some = slice(None, None, -(-len(rows.train) // n_rows))
    train = _Likelihoods.of(rows.train.some(some), log_theta)
    return train, _Likelihoods.of(rows.valid, log_theta)


def _climb(
    train: _Likelihoods, valid: _Likelihoods, weight: Tensor, clock: Clock
) -> tuple[float, Tensor]:
    """The score of validation rows and the weights, where EM raises the former no more."""
    score = valid.score(weight)
    for _ in range(WEIGHT_STEPS):
        if clock.is_up:
            break
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


def fit_continuous_mixture(
    circuit: BitCircuit,
    X: BitMatrix | ArrayLike,
    n_components: int | Sequence[int] = 2048,
    *,
    method: Continuous | None = None,
    X_valid: BitMatrix | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    options: MixtureOptions | None = None,
    rng: np.random.Generator | int | None = None,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
) -> BitMixture:
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
    return mixture


@dataclass(frozen=True, eq=False)
class _Runs:
    """Several networks, one after another."""

    data: MixtureData
    rows: TrainingRows
    method: Continuous
    options: MixtureOptions
    on_iteration: Callable[[MixtureHistory], None] | None
    clock: Clock

    def mixture(self, sizes: Sequence[int], rng: np.random.Generator) -> BitMixture:
        """The mixture of the points of all networks."""
        if len(self.rows.edges.edge) == 0:  # there is one circuit, and one row
            history = MixtureHistory()
            history.add(0.0, np.nan if self.rows.valid is None else 0.0, 0.0)
            history.stopped_because = "nothing left to gain"
            if self.on_iteration is not None:
                self.on_iteration(history)
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

    def _evenly(self, one: Training) -> BitMixture:
        """The mixture of the first points of a network that still learns."""
        assert one.best is not None
        points = LatentPoints.evenly([one.best], [one.points.first(self.method.n_points)])
        return self._mixture_of(points)

    def _mixture_of(self, points: LatentPoints) -> BitMixture:
        log_theta, log_weight = points.parameters()
        return BitMixture(self.rows.single, self.rows.edges.of_all_edges(log_theta), log_weight)

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

    def _train(self, rng: np.random.Generator) -> list[Training]:
        """All networks; an interrupt leaves those that are ready."""
        trained: list[Training] = []
        clock = self.clock.part(TRAIN_SHARE)
        try:
            for i in range(self.method.n_runs):
                if trained and (
                    clock.is_up or trained[-1].history.stopped_because == "interrupted"
                ):
                    break
                one = self._train_one(rng, clock.part(1 / (self.method.n_runs - i)))
                if trained and one.history.stopped_because == "interrupted":
                    raise KeyboardInterrupt
                trained.append(one)
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
            if best is None or not one.is_alike or one.history.best_score > best.history.best_score:
                best = one
            if not one.is_alike or history.stopped_because in ("interrupted", "max_seconds"):
                break
        assert best is not None
        return best

    def _start(self, n_components: int, rng: np.random.Generator, clock: Clock) -> BitMixture:
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
