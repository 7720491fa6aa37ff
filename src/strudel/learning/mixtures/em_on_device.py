"""The EM of `em_steps` on a device of torch, as matrix products.

In:  `Choices` and `Bag`s of the rows, as the kernels of the CPU get them.
Out: `EnsembleOnDevice`, which learns what `Ensemble` learns, up to the rounding of float32.

Rows go bag by bag. What a row takes is kept on the device in two bytes (four in large structures)
for each entry of a bag; the 0/1 matrix of `flow_products` is kept where all bags together need at
most KEPT_BYTES, and made again for every product where they need more. Everything stays on the
device between steps: a few numbers per step come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.flow_products import (
    FlowBlock,
    Parameters,
    aligned,
    log_products,
    log_sums,
    shares_in_parts,
    tensor_cores,
    transposed_products,
    upper_bits,
)
from strudel.learning.mixtures.em_steps import Counts, Prior
from strudel.learning.mixtures.shared_flows import Bag, Choices

KEPT_BYTES = 2**30  # of the 0/1 matrices of all bags


@dataclass(frozen=True, eq=False)
class ChoicesOnDevice(Choices):
    """Choices whose components learn on a device, with the blocks of rows that are there."""

    _blocks: dict[int, tuple[Bag, FlowBlock]] = field(default_factory=dict)

    @classmethod
    def of(cls, choices: Choices, device: Any) -> ChoicesOnDevice:
        """The same choices, on a device."""
        own = {one.name: getattr(choices, one.name) for one in fields(Choices)}
        return cls(**own | {"device": device})

    def block(self, bag: Bag) -> FlowBlock:
        """The rows of a bag on the device; they stay there."""
        if id(bag) not in self._blocks:
            length = np.diff(bag.row_first)
            codes = np.full((bag.n_rows, max(1, length.max(initial=0))), self.n_listed, np.int32)
            codes[np.arange(codes.shape[1]) < length[:, np.newaxis]] = self._column[bag.row_state]
            kept = sum(block.kept_bytes for _, block in self._blocks.values())
            is_kept = kept + 4 * len(codes) * aligned(self.n_listed + 1) <= KEPT_BYTES
            block = FlowBlock.of(codes, self.n_listed, self.device, is_kept)
            self._blocks[id(bag)] = bag, block
        return self._blocks[id(bag)][1]

    def index(self, numbers: AnyArray) -> Tensor:
        """Indices on the device."""
        return torch.from_numpy(np.asarray(numbers, dtype=np.int64)).to(self.device)

    def numbers(self, values: Any) -> Tensor:
        """Numbers in float64 on the device."""
        return torch.as_tensor(values, dtype=torch.float64, device=self.device)

    @cached_property
    def n_listed(self) -> int:
        """Number of states that bags hold: those that are no default."""
        return int(self.is_listed.sum())

    @cached_property
    def _column(self) -> AnyArray:
        """The column of every listed state."""
        return np.cumsum(self.is_listed) - 1

    @cached_property
    def listed(self) -> Tensor:
        """The state of every column."""
        return self.index(np.flatnonzero(self.is_listed))

    @cached_property
    def default_state(self) -> Tensor:
        """The defaults, where places have one."""
        return self.index(self.default[self.default != NONE])

    @cached_property
    def listed_default(self) -> Tensor:
        """The default of the place of every listed state."""
        default = np.empty(self.n_states, dtype=np.int64)
        default[self.place_state] = np.repeat(self.default, np.diff(self.place_first))
        return self.index(default[self.is_listed])

    @cached_property
    def by_place(self) -> tuple[Tensor, Tensor]:
        """The states by place, and how many every place has."""
        return self.index(self.place_state), self.index(np.diff(self.place_first))

    @cached_property
    def by_node(self) -> tuple[Tensor, Tensor]:
        """The sum of every edge, and how many edges every sum has."""
        length = np.diff(self.node_first)
        return self.index(np.repeat(np.arange(len(length)), length)), self.index(length)


class EnsembleOnDevice:
    """`Ensemble` with its tables on a device: `count` and `total` in float64."""

    def __init__(
        self,
        choices: ChoicesOnDevice,
        prior: Prior,
        n_groups: int,
        size: int,
        counts: Counts | None = None,
    ) -> None:
        self.choices = choices
        self.n_groups = n_groups
        self.size = size
        self._strength = prior.strength
        self._mean = choices.numbers(prior.mean[choices.edge]).unsqueeze(1)
        self.count = choices.numbers(np.zeros(0)).new_zeros((choices.n_states, self.n_columns))
        self.total = self.count.new_zeros(self.n_columns)
        if counts is not None:
            self.set_counts(counts.count, counts.total)
        self._parameters: Parameters
        self._weights: dict[int, tuple[FloatArray, Tensor]] = {}

    @property
    def n_columns(self) -> int:
        """Number of components of all groups."""
        return self.n_groups * self.size

    def counts(self) -> Counts:
        """A copy of the counts; it stays on the device."""
        return Counts(self.count.clone(), self.total.clone())

    def set_counts(self, count: Any, total: Any) -> None:
        """Take over these counts, arrays or tensors."""
        self.count.copy_(torch.as_tensor(count))
        self.total.copy_(torch.as_tensor(total))

    def maximise(self) -> None:
        """M-step: the best parameters for the counts, in float64."""
        choices = self.choices
        has_defaults = len(choices.default_state) > 0
        if has_defaults:
            state, n_states = choices.by_place
            self.count.index_fill_(0, choices.default_state, 0.0)
            left = self.total - _segment_sums(self.count[state], n_states)
            self.count.index_copy_(0, choices.default_state, left.clamp_(min=0.0))
        node, n_edges = choices.by_node
        count = self.count[: len(node)]
        total = (_segment_sums(count, n_edges) + self._strength)[node]
        theta = (count + self._strength * self._mean) / total
        if self._strength == 0.0:  # a component may never reach a sum
            theta = torch.where(total > 0.0, theta, self._mean)
        log_theta = torch.zeros_like(self.count)  # stays 0 for "no choice here"
        torch.log(theta, out=log_theta[: len(node)])
        logs = log_theta.new_empty((choices.n_listed + 1, self.n_columns))
        logs[:-1] = log_theta[choices.listed]
        logs[-1] = self._log_weight()
        if has_defaults:
            logs[:-1] -= log_theta[choices.listed_default]
            logs[-1] += log_theta[choices.default_state].sum(dim=0)
        self._parameters = Parameters.of(logs, may_be_zero=not has_defaults)

    def _log_weight(self) -> Tensor:
        mass = self.total.view(self.n_groups, self.size)
        # One virtual row per group keeps every weight above zero.
        weight = (mass + 1.0 / self.size) / (mass.sum(dim=1, keepdim=True) + 1.0)
        return weight.log().ravel()

    def expect(
        self, bags: Sequence[Bag], weights: Sequence[FloatArray]
    ) -> tuple[FloatArray, float]:
        """E-step: the counts under the parameters; returns what `Ensemble.expect` returns."""
        self._clear()
        found = self.total.new_zeros(self.n_groups + 1)
        with tensor_cores(self.choices.device):
            for bag, weight in zip(bags, weights, strict=True):
                block, by_row = self.choices.block(bag), self._weight(bag, weight)
                matrix = block.matrix()
                logs = log_products(matrix, self._parameters)
                sums, high, low = shares_in_parts(logs, self.n_groups, self.size, by_row)
                self._add(transposed_products(matrix, high, low))
                found[:-1] += weighted_sums(by_row, sums)
                mine = self._weight(bag, bag.weight[np.newaxis], bag.weight)
                found[-1] += weighted_sums(mine, log_mean(sums).unsqueeze(1))[0]
        by_group = found.cpu().numpy()
        return by_group[:-1], float(by_group[-1])

    def add(self, bag: Bag, share: Any, weight: FloatArray) -> None:
        """Add the rows of a bag to the counts: component c gets `share[r, c]` of row r.

        `share` is an array, or a tensor `(n_padded, n_columns)` on the device.
        """
        block = self.choices.block(bag)
        if isinstance(share, np.ndarray):
            share = block.padded(share, torch.float32)
        by_row = self._weight(bag, weight).float().unsqueeze(2)
        grouped = share.unflatten(1, (by_row.shape[1], -1)) * by_row
        shares = torch.zeros((block.n_padded, aligned(self.n_columns)), device=share.device)
        shares[:, : self.n_columns] = grouped.flatten(1)
        high = upper_bits(shares)
        with tensor_cores(self.choices.device):
            self._add(transposed_products(block.matrix(), high, shares.sub_(high)))

    def log_likelihoods(self, bags: Sequence[Bag]) -> FloatArray:
        """Log-likelihood of each row under each group."""
        logs: FloatArray = self.logs(bags).double().cpu().numpy()
        return logs

    def logs(self, bags: Sequence[Bag]) -> Tensor:
        """The same in float32, on the device."""
        found = []
        with tensor_cores(self.choices.device):
            for bag in bags:
                logs = log_products(self.choices.block(bag).matrix(), self._parameters)
                found.append(log_sums(logs, self.n_groups, self.size)[: bag.n_rows])
        return torch.cat(found)

    def _clear(self) -> None:
        self.count.zero_()
        self.total.zero_()

    def _add(self, sums: Tensor) -> None:
        """Add sums over rows, one line per column of the 0/1 matrix."""
        n_listed, n_columns = self.choices.n_listed, self.n_columns
        self.count.index_add_(0, self.choices.listed, sums[:n_listed, :n_columns])
        self.total += sums[n_listed, :n_columns]

    def _weight(self, bag: Bag, weight: FloatArray, key: FloatArray | None = None) -> Tensor:
        """Weights `(n_padded, 1)` or `(n_padded, n_groups)` of the rows of a bag; they stay."""
        key = weight if key is None else key
        if id(key) not in self._weights:
            self._weights[id(key)] = key, self.choices.block(bag).padded(weight.T)
        return self._weights[id(key)][1]


def log_mean(log_p: Tensor) -> Tensor:
    """Log-likelihood of each row under the average of the groups, from that under each."""
    logs: Tensor = torch.logsumexp(log_p.double(), dim=1) - np.log(log_p.shape[1])
    return logs


def weighted_sums(weight: Tensor, log_p: Tensor) -> Tensor:
    """Log-likelihood of every group; a row of weight zero may be impossible."""
    sums: Tensor = torch.where(weight > 0.0, weight * log_p, 0.0).sum(dim=0)
    return sums


def _segment_sums(lines: Tensor, length: Tensor) -> Tensor:
    """Sums of lines that follow one another; in a fixed order, unlike those of `index_add`."""
    sums: Tensor = torch.segment_reduce(lines, "sum", lengths=length, axis=0, unsafe=True)
    return sums
