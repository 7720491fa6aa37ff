"""The points of a continuous mixture at the end: where they are, and what they weigh.

In:  networks that have learned, with points of each, and training and validation rows.
Out: `LatentPoints`, the components of the mixture.

Weights come from EM on the training rows, as long as validation rows become more likely. The points
themselves move by gradient, with the networks as they are. What hardly counts is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from strudel._compiling import Clock
from strudel._types import FloatArray
from strudel.learning.mixtures.free_edges import RowEdges
from strudel.learning.mixtures.network import Network
from strudel.learning.mixtures.network_training import TrainingRows

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
