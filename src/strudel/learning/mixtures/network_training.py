"""How the network of a continuous mixture learns.

In:  training and validation rows as `RowEdges`, and the options of the method.
Out: `Training`, the network that was best on the validation rows.

Steps of AdamW on batches of rows, each with other points. The rate rises, then falls to zero, by
the share of the steps or of the time that is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.on_device.recorded import Recorded
from strudel.learning.history import MixtureHistory
from strudel.learning.mixtures.free_edges import FreeEdges, RowEdges
from strudel.learning.mixtures.network import Network, Points
from strudel.learning.options import Continuous

N_CHECKS = 40  # of the validation rows, in a run to its end
CHECKED_POINTS = 1024  # while the network learns
MOST_POINTS = 8192  # of one network
IMITATED_POINTS = 4096  # where a network begins with the likeness of a mixture
WARM_UP = 0.1  # share of the steps in which the rate rises
WEIGHT_DECAY = 0.3  # nltcs and jester gain 0.004 and 0.03 nats against none
ALIKE = 0.01  # nats that a row tells about its point, or fewer: all points are alike
EARLY = 0.25  # share of the steps after which a network with points alike gives up
MOST_JUDGED = 4096  # training rows that say so where there are no validation rows


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """What a network learns from."""

    single: Circuit  # with closed-form parameters
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
        start: Mixture | float,
    ) -> None:
        """`start` is a mixture to begin with, or how large random weights of the last layer are."""
        self.rows, self.method, self.history = rows, method, history
        self._generator = torch.Generator(rows.device).manual_seed(seed)
        self.points = Points(method.latent_dim, MOST_POINTS, seed, rows.device)
        scale = start if isinstance(start, float) else 1.0
        self._network = Network.start(rows.single, rows.edges, method, scale, self._generator)
        if isinstance(start, Mixture):
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

    @property
    def score(self) -> float:
        """The best log-likelihood so far, of validation rows if there are any."""
        best = self.history.last_row(self.history.best)
        return float(best["train"] if math.isnan(best["valid"]) else best["valid"])

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
        return self._learn(self._batch().places, points, *self._network.drop(self._generator))

    def _learn_from(self, places: Tensor, points: Tensor, *kept: Tensor) -> Tensor:
        """Change the network; returns the mean log-likelihood of the rows that it learned from."""
        log_theta = self._network.log_theta(points, *kept)
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
