"""Latent trees: every column has a hidden state, and states follow one another along a tree.

The tree is that of Chow and Liu (1968) over the columns. Given its state a column is independent of
all others, and so the mixture that a column has for each state of the column above is one product
of matrices for many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.special import xlogy

from strudel._compiling import NO_LIMIT, Clock
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.learning.tables.em import (
    BATCH,
    TINY,
    CellRows,
    Counts,
    Leaf,
    OnEpoch,
    Prior,
    learn,
    sums_by_place,
)

SHARP = Prior(0.05, 0.5)
FEW_CHILDREN = 8  # whose messages are multiplied before their largest is 1 again


@dataclass(frozen=True, eq=False)
class TreeShape:
    """A tree over columns."""

    parent: IntArray  # (n_columns,) NONE at the root
    order: IntArray  # (n_columns,) from the root down

    @property
    def root(self) -> int:
        """The column that no other is above."""
        return int(self.order[0])

    @cached_property
    def children(self) -> list[list[int]]:
        """The columns right below each column."""
        return [np.flatnonzero(self.parent == c).tolist() for c in range(len(self.parent))]

    @staticmethod
    def chain(n_columns: int) -> TreeShape:
        """Columns one below the other."""
        order = np.arange(n_columns, dtype=np.int32)
        return TreeShape(order - np.int32(1), order)

    @staticmethod
    def of_most_information(cells: IntArray, weight: AnyArray, n_cells: AnyArray) -> TreeShape:
        """The tree of Chow and Liu; its root is in the middle, so that no column is far from it.

        `cells` has NONE where a value is missing.
        """
        n_columns = len(n_cells)
        if n_columns == 1:
            return TreeShape(np.array([NONE]), np.array([0]))
        nats = np.zeros((n_columns, n_columns))
        for i in range(n_columns):
            for j in range(i):
                shape = int(n_cells[i]), int(n_cells[j])
                nats[i, j] = nats[j, i] = _information(cells[:, i], cells[:, j], weight, shape)
        distance = nats.max() + 1.0 - nats
        np.fill_diagonal(distance, 0.0)
        links = minimum_spanning_tree(distance)
        links = links + links.T
        walks = [breadth_first_order(links, root, directed=False) for root in range(n_columns)]
        order, above = min(walks, key=lambda walk: _depth(*walk))
        return TreeShape(np.where(above < 0, NONE, above), order)


def _information(a: IntArray, b: IntArray, weight: AnyArray, shape: tuple[int, int]) -> float:
    """The mutual information of two columns, less what chance alone gives."""
    known = (a != NONE) & (b != NONE)
    flat = np.bincount(a[known] * shape[1] + b[known], weight[known], shape[0] * shape[1])
    joint = flat.reshape(shape)
    total, rows, columns = joint.sum(), joint.sum(axis=1), joint.sum(axis=0)
    if total <= 0.0:
        return 0.0
    nats = float(xlogy(joint, joint).sum() + xlogy(total, total))
    nats -= float(xlogy(rows, rows).sum() + xlogy(columns, columns).sum())
    freedom = (np.count_nonzero(rows) - 1) * (np.count_nonzero(columns) - 1)
    return max(nats - 0.5 * freedom, 0.0) / float(total)


def _depth(order: IntArray, above: IntArray) -> int:
    depth = np.zeros(len(order), dtype=np.int64)
    for column in order[1:]:
        depth[column] = depth[above[column]] + 1
    return int(depth.max())


@dataclass(frozen=True, eq=False)
class LatentTree:
    """A tree over columns, and the parameters of its states."""

    tree: TreeShape
    parameters: Counts
    stopped_because: str = ""

    @property
    def n_states(self) -> int:
        """States of every column."""
        return int(self.parameters.tables[0].shape[1])

    def log_likelihood(self, rows: CellRows) -> FloatArray:
        """Log-likelihoods of rows, and of which values they have."""
        return _Hidden(self.tree, [], self.n_states).log_likelihood(self.parameters, rows)


def learn_latent_tree(
    rows: CellRows,
    valid: CellRows,
    tree: TreeShape,
    n_states: int,
    *,
    rng: np.random.Generator,
    clock: Clock = NO_LIMIT,
    on_epoch: OnEpoch | None = None,
) -> LatentTree:
    """Learn the states by EM, until the `valid` rows are no more likely."""
    model = _Hidden(tree, Leaf.all_of(rows, SHARP), n_states)
    return LatentTree(tree, *learn(model, rows, valid, rng, clock, on_epoch))


def _scaled(values: AnyArray) -> FloatArray:
    """Make the largest number of every line 1; the logs of what they were."""
    scale = values.max(axis=1, keepdims=True) + TINY
    values /= scale
    return np.asarray(np.log(scale[:, 0]))


@dataclass(frozen=True, eq=False)
class _Hidden:
    """The model that EM learns."""

    tree: TreeShape
    leaves: Sequence[Leaf]
    n_states: int

    def start(self, n_rows: float, rng: np.random.Generator) -> Counts:
        n, each = self.n_states, n_rows / self.n_states
        tables = [leaf.start(n, rng) * each for leaf in self.leaves]
        links = [rng.dirichlet(np.full(n, 0.3), n) * each for _ in self.leaves]
        links[self.tree.root] = np.full((1, n), each)
        return Counts(tables, links)

    def log_likelihood(self, parameters: Counts, rows: CellRows) -> FloatArray:
        logs = []
        for start in range(0, len(rows), BATCH):
            _, message, log_scale = self._up(parameters, rows.places[start : start + BATCH])
            logs.append(self._log_p(message, log_scale))
        return np.concatenate(logs)

    def _log_p(self, message: list[AnyArray], log_scale: FloatArray) -> FloatArray:
        return np.asarray(log_scale + np.log(message[self.tree.root][:, 0] + TINY))

    def _up(
        self, parameters: Counts, places: IntArray
    ) -> tuple[list[AnyArray], list[AnyArray], FloatArray]:
        """By column: how probable all below is in every state, and what it says of those above.

        Both are scaled; also the logs of the scales.
        """
        inside: list[Any] = [None] * len(self.tree.parent)
        message: list[Any] = [None] * len(self.tree.parent)
        log_scale = np.zeros(len(places))
        for column in self.tree.order[::-1].tolist():
            values = parameters.tables[column][places[:, column]]  # (n_rows, n_states)
            for number, child in enumerate(self.tree.children[column]):
                values *= message[child]
                if number % FEW_CHILDREN == FEW_CHILDREN - 1:  # of many, the product is small
                    log_scale += _scaled(values)
            log_scale += _scaled(values)
            inside[column], message[column] = values, values @ parameters.links[column].T
        return inside, message, log_scale

    def expected(self, parameters: Counts, rows: CellRows) -> tuple[Counts, FloatArray]:
        """One pass up, one down."""
        tree, root, links = self.tree, self.tree.root, parameters.links
        inside, message, log_scale = self._up(parameters, rows.places)
        counts = Counts([np.empty(0)] * len(links), [np.empty(0)] * len(links))
        outside: list[Any] = [None] * len(links)  # times the weight, over the likelihood
        outside[root] = (rows.weight[:, np.newaxis] / (message[root] + TINY)) * links[root]
        counts.links[root] = (outside[root] * inside[root]).sum(axis=0, keepdims=True)
        for column in tree.order.tolist():
            posterior = outside[column] * inside[column]  # (n_rows, n_states)
            n_places = len(parameters.tables[column])
            counts.tables[column] = sums_by_place(posterior, rows.places[:, column], n_places)
            for child in tree.children[column]:
                rest = posterior / (message[child] + TINY)  # all but what the child says
                counts.links[child] = links[child] * (rest.T @ inside[child])
                outside[child] = rest @ links[child]
        return counts, self._log_p(message, log_scale)
