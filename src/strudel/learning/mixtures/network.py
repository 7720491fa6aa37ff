"""A network that turns points into the parameters of circuits on one structure.

In:  `FreeEdges`, the edges of a structure with an alternative, and points of a latent space.
Out: `Network`, the log-parameters of these edges for every point; `Points`, quasi-random ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.mixtures.free_edges import FreeEdges
from strudel.learning.options import Continuous

LOWEST_START = -9.0  # of the first log-parameters: lower ones would be slow to rise
RIDGE = 0.01  # of the regression that sets the last layer
EDGE_OF_CUBE = 1e-6  # how near to it a point may come: the normal quantile stays below 5


@dataclass(frozen=True, eq=False)
class Network:
    """Fully connected layers; the last one gives logits of all free edges."""

    edges: FreeEdges
    tensors: list[Tensor]  # of every layer weights (n_out, n_in), and biases (n_out, 1)
    dropout: float

    @classmethod
    def start(
        cls, single: Circuit, edges: FreeEdges, method: Continuous, scale: float, generator: Any
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
        return cls(edges, [one.requires_grad_() for one in tensors], method.dropout)

    def imitate(self, mixture: Mixture, points: Tensor, generator: Any) -> None:
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

    def log_theta(self, points: Tensor, kept: Tensor | None = None) -> Tensor:
        """Log-parameters `(n_free, n_points)`, with all units or with those that are kept."""
        units = self._hidden(points, kept)
        return self.edges.log_softmax(torch.addmm(self.tensors[-1], self.tensors[-2], units))

    def _hidden(self, points: Tensor, kept: Tensor | None = None) -> Tensor:
        """The last hidden layer, `(width, n_points)`."""
        values = points.T
        layers = zip(self.tensors[:-2:2], self.tensors[1:-2:2], strict=True)
        for i, (weight, bias) in enumerate(layers):
            values = torch.nn.functional.leaky_relu(torch.addmm(bias, weight, values))
            if kept is not None:
                values = values * kept[i]
        return values

    def drop(self, generator: Any) -> list[Tensor]:
        """Which units a step keeps, if it leaves out some: a factor for every unit.

        The same for all points of a step: others for every point take a third more time.
        """
        if self.dropout == 0.0:
            return []
        shape = (len(self.tensors) // 2 - 1, len(self.tensors[0]), 1)
        kept = torch.empty(shape, device=generator.device)
        return [kept.bernoulli_(1.0 - self.dropout, generator=generator) / (1.0 - self.dropout)]

    def copy(self, dtype: Any = torch.float32) -> Network:
        """The same network now, which learns no more."""
        tensors = [one.detach().to(dtype, copy=True) for one in self.tensors]
        return Network(self.edges, tensors, self.dropout)


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
