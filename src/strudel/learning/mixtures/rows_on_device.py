"""Where EM on a device begins, and what it asks of the rows there.

In:  `MixtureData` whose choices are on a device of torch.
Out: `RowsOnDevice`: first responsibilities of all groups at once, and validation scores.

k-means runs on all rows that it looks at in every step, as matrix products; random numbers differ
from those of the CPU, and a seed gives the same ones each time. A small table starts as it does on
the CPU: there, k-means by batches finds a few large clusters besides tiny ones, and overfits less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strudel._types import AnyArray, FloatArray
from strudel.learning.mixtures.em import RowsHere
from strudel.learning.mixtures.em_on_device import EnsembleOnDevice, log_mean, weighted_sums
from strudel.learning.mixtures.first_responsibilities import CLUSTERED_ROWS, UNEVEN
from strudel.learning.options import MixtureOptions

STEPS = 10  # of k-means
FEW_ROWS = 4096  # dna, with 1,600 rows, gains 0.8 nats by the start of the CPU


@dataclass(frozen=True, eq=False)
class RowsOnDevice(RowsHere):
    """Rows on a device."""

    def start(self, ensemble: Any, options: MixtureOptions, rng: np.random.Generator) -> None:
        """The counts of the first responsibilities."""
        is_small = self.data.rows.n_rows <= FEW_ROWS
        if is_small or options.columns is not None or self.first_share is not None:
            super().start(ensemble, options, rng)
            return
        shares = self._first_shares(ensemble, options, rng)
        for bag, weight, share in zip(self.data.train, self.weights, shares, strict=True):
            ensemble.add(bag, share, weight)

    def valid_scores(self, ensemble: Any, n_init: int) -> tuple[FloatArray, float]:
        """Of every group, and of what is returned."""
        logs = ensemble.logs(self.data.valid)
        weight = ensemble.choices.numbers(self.data.valid_weight).unsqueeze(1)
        score = weighted_sums(weight, logs)
        best = score.view(-1, n_init).argmax(dim=1, keepdim=True)
        mine = logs.unflatten(1, (-1, n_init)).gather(2, best.expand(len(logs), -1, 1)).squeeze(2)
        mean = weighted_sums(weight, log_mean(mine)) / self.data.valid_weight.sum()
        found = torch.cat([score, mean]).cpu().numpy()
        return found[:-1], float(found[-1])

    def _first_shares(
        self, ensemble: EnsembleOnDevice, options: MixtureOptions, rng: np.random.Generator
    ) -> Iterator[Tensor]:
        """For the rows of every bag, the shares of all components."""
        choices, n_groups, size = ensemble.choices, ensemble.n_groups, ensemble.size
        generator = torch.Generator(choices.device).manual_seed(int(rng.integers(2**63)))
        blocks = [choices.block(bag) for bag in self.data.train]
        if options.init_params == "random":
            for block in blocks:
                shape = (block.n_padded, n_groups, size)
                uniform = torch.rand(shape, generator=generator, device=choices.device)
                # A power of a uniform number has about the shape of a gamma variate near zero.
                share = uniform.pow_(1.0 / UNEVEN).add_(1e-30)
                yield share.div_(share.sum(dim=2, keepdim=True)).flatten(1)
            return
        table, weight = self.data.rows.unpack(), self.data.rows.weights
        chosen = np.arange(len(table))
        if len(table) > CLUSTERED_ROWS:
            chosen = np.sort(rng.choice(len(table), CLUSTERED_ROWS, replace=False))
        sample = _on(table[chosen], choices.device)
        by_row = _on(weight[chosen], choices.device)
        n_clusters = min(size, len(sample))
        if options.init_params == "kmeans":
            first = _some_rows(by_row, n_groups, n_clusters, generator)
        else:
            first = _far_rows(sample, by_row, n_groups, n_clusters, generator)
        centres = k_means(sample, by_row, sample[first])
        start = 0
        for block in blocks:
            rows = _on(block.padded(table[start : start + block.n_rows], torch.uint8), None)
            label = nearest(rows, centres) + size * torch.arange(n_groups, device=rows.device)
            share = torch.zeros((len(rows), n_groups * size), device=rows.device)
            yield share.scatter_(1, label, 1.0)
            start += block.n_rows


def k_means(rows: Tensor, weight: Tensor, centres: Tensor) -> Tensor:
    """Centres `(n_groups, n_clusters, n_vars)` after some steps; one without rows stays."""
    n_groups, n_clusters, _ = centres.shape
    for _ in range(STEPS):
        label = nearest(rows, centres) + n_clusters * torch.arange(n_groups, device=rows.device)
        share = torch.zeros((len(rows), n_groups * n_clusters), device=rows.device)
        share.scatter_(1, label, weight.unsqueeze(1).expand(label.shape))
        mass = share.sum(dim=0).view(n_groups, n_clusters, 1)
        mean = (share.T @ rows).view(centres.shape) / mass
        centres = torch.where(mass > 0.0, mean, centres)
    return centres


def nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre of every row, `(n_rows, n_groups)`."""
    n_groups, n_clusters, _ = centres.shape
    flat = centres.flatten(0, 1)
    closeness = torch.addmm(-0.5 * flat.square().sum(dim=1), rows, flat.T)
    label: Tensor = closeness.view(-1, n_groups, n_clusters).argmax(dim=2)
    return label


def _some_rows(weight: Tensor, n_groups: int, n_clusters: int, generator: Any) -> Tensor:
    """Different rows for the centres of every group, by weight, `(n_groups, n_clusters)`."""
    race = torch.empty((n_groups, len(weight)), device=weight.device)
    race.exponential_(generator=generator)
    rows: Tensor = (race / weight).topk(n_clusters, largest=False).indices
    return rows


def _far_rows(
    rows: Tensor, weight: Tensor, n_groups: int, n_clusters: int, generator: Any
) -> Tensor:
    """The same with rows far from one another (k-means++)."""
    race = torch.empty((n_groups, len(rows)), device=rows.device)
    far = torch.ones_like(race)
    chosen = []
    for _ in range(n_clusters):
        race.exponential_(generator=generator)
        row = (race / (weight * far).clamp(min=1e-30)).argmin(dim=1)
        chosen.append(row)
        centre = rows[row]
        # Squared distances of 0/1 rows are whole numbers.
        distance = rows.sum(dim=1) + centre.sum(dim=1, keepdim=True) - 2.0 * centre @ rows.T
        far = distance if len(chosen) == 1 else torch.minimum(far, distance)
    return torch.stack(chosen, dim=1)


def _on(array: AnyArray | Tensor, device: Any) -> Tensor:
    return torch.as_tensor(array, device=device).float()
