"""The edges with an alternative, and which of them every row takes.

In:  a circuit, and the `Bag`s of rows that list all edges with a choice.
Out: `FreeEdges`; `RowEdges`, which multiplies the 0/1 matrix F of rows by parameters T.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strudel._types import FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.learning.mixtures.shared_flows import Bag, Choices

BLOCK_NUMBERS = 2**22  # of F, or of a product, that are in memory together


@dataclass(frozen=True, eq=False)
class FreeEdges:
    """The edges of all sums with several, sums of as many edges side by side.

    So every sum is a line of a block, and a softmax per sum needs no index.
    """

    circuit: Circuit
    edge: IntArray  # (n_free,)
    blocks: list[tuple[int, int]]  # how many sums a block has, and how many edges each of them

    @classmethod
    def of(cls, circuit: Circuit) -> FreeEdges:
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
