"""Walks where many sums have the same children: products of matrices instead of edges.

In:  a `Circuit` of one component, tables of its leaves, rows of codes.
Out: the log-probability of every row, and how probable it is to pass each leaf.

In a latent tree all sums at a vtree node have the same products below, and so a matrix says what
they add up to, for many rows at once. Numbers are linear, and at every vtree node the largest of a
row is 1; the caller walks again in logs where that loses digits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.circuit import Circuit

WIDTH = 4  # edges of sums, and sums with these children, from which matrices are quicker
FAINT = 1e-200  # the largest number of a column's leaves, below which digits may be lost
LEAST = 1e-290  # of what is left of the largest number on the way from a leaf to the root


class _Block(NamedTuple):
    """Sums at a vtree node with the same pairs of children, or with one pair each."""

    sums: AnyArray  # which of those at the vtree node
    left: AnyArray  # (n_pairs,) numbers at the left vtree child
    right: AnyArray
    theta: FloatArray  # (n_sums, n_pairs); or (n_sums,) where each sum has a pair of its own
    is_plain: bool  # whether no child comes twice

    def products(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """The values of the pairs."""
        return np.asarray(left[self.left] * right[self.right])

    def sums_of(self, products: FloatArray) -> FloatArray:
        """The values of the sums."""
        if self.theta.ndim == 1:
            return self.theta[:, np.newaxis] * products
        return self.theta @ products

    def shares_of(self, rest: FloatArray) -> FloatArray:
        """What goes down to the pairs, before it is multiplied by their values."""
        if self.theta.ndim == 1:
            return self.theta[:, np.newaxis] * rest
        return self.theta.T @ rest


class Dense(NamedTuple):
    """The blocks at every inner vtree node."""

    circuit: Circuit
    blocks: dict[int, list[_Block]]

    @staticmethod
    def of(circuit: Circuit) -> Dense | None:
        """Those of a circuit; None if edges one by one are quicker."""
        width = np.diff(circuit.sum_edges)
        n_wide = width[width >= WIDTH].sum()
        if circuit.n_components > 1 or n_wide == 0 or 2 * n_wide < width[width > 1].sum():
            return None
        vtree, blocks = circuit.vtree, {}
        first = np.where(vtree.node_var != NONE, 0, circuit.n_leaves + circuit.vtree_sums[:-1])
        first[vtree.var_leaf] = circuit.column_leaves[:-1]
        theta = np.exp(circuit.edge_log_theta[:, 0])
        for v in np.flatnonzero(vtree.node_var == NONE).tolist():
            low, high = circuit.vtree_sums[v : v + 2].tolist()
            ends = circuit.sum_edges[low : high + 1].tolist()
            left = circuit.edge_left[ends[0] : ends[-1]] - first[vtree.node_left[v]]
            right = circuit.edge_right[ends[0] : ends[-1]] - first[vtree.node_right[v]]
            blocks[v] = _blocks(left, right, theta[ends[0] : ends[-1]], np.array(ends) - ends[0])
        every = [block for some in blocks.values() for block in some if block.theta.ndim == 2]
        n_many = sum(block.theta.size for block in every if len(block.sums) >= WIDTH)
        n_few = sum(block.theta.size for block in every) - n_many
        return Dense(circuit, blocks) if n_many > n_few else None

    def logs(self, tables: list[FloatArray], codes: AnyArray) -> tuple[FloatArray, AnyArray]:
        """The log-probability of every row, and in which rows digits may be lost."""
        values, _, log_scale, is_lost = self._up(tables, codes)
        with np.errstate(divide="ignore"):
            return np.log(values[self.circuit.vtree.root][-1]) + log_scale, is_lost

    def leaf_flows(
        self, tables: list[FloatArray], codes: AnyArray
    ) -> tuple[FloatArray, FloatArray, AnyArray]:
        """The same with how probable it is to pass each leaf, `(n_leaves, n_rows)`."""
        vtree = self.circuit.vtree
        values, products, log_scale, is_lost = self._up(tables, codes)
        with np.errstate(divide="ignore"):
            logs = np.log(values[vtree.root][-1]) + log_scale
        flows = [np.zeros_like(value) for value in values]
        flows[vtree.root][-1] = logs > -np.inf
        for v in sorted(self.blocks, reverse=True):
            left, right = flows[vtree.node_left[v]], flows[vtree.node_right[v]]
            value = values[v]
            rest = np.divide(flows[v], value, out=np.zeros_like(value), where=value > 0.0)
            for block, product in zip(self.blocks[v], products[v], strict=True):
                through = block.shares_of(rest[block.sums])
                through *= product
                for side, child in ((left, block.left), (right, block.right)):
                    if block.is_plain:
                        side[child] += through
                    else:
                        np.add.at(side, child, through)
        return logs, np.concatenate([flows[leaf] for leaf in vtree.var_leaf]), is_lost

    def _up(
        self, tables: list[FloatArray], codes: AnyArray
    ) -> tuple[list[FloatArray], dict[int, list[FloatArray]], FloatArray, AnyArray]:
        """Values of all nodes and products, whose logs lack a scale per row."""
        vtree, n_rows = self.circuit.vtree, len(codes)
        values: list[FloatArray] = []
        left_over: list[FloatArray] = []  # of the largest number, from the leaves below
        products: dict[int, list[FloatArray]] = {}
        log_scale = np.zeros(n_rows)
        for v, place in enumerate(vtree.node_var.tolist()):
            if place != NONE:
                value = np.ascontiguousarray(tables[place][:, codes[:, place]])
                largest = value.max(axis=0)
                over = np.where((largest > FAINT) & np.isfinite(largest), 1.0, 0.0)
            else:
                l, r = int(vtree.node_left[v]), int(vtree.node_right[v])
                n_sums = sum(len(block.sums) for block in self.blocks[v])
                value = np.empty((n_sums, n_rows))
                products[v] = [block.products(values[l], values[r]) for block in self.blocks[v]]
                for block, product in zip(self.blocks[v], products[v], strict=True):
                    value[block.sums] = block.sums_of(product)
                over = np.minimum(left_over[l], left_over[r])
            top = value.max(axis=0)
            if place == NONE:
                over = over * top
                scale = np.where(top > 0.0, top, 1.0)
                for product in products[v]:
                    product /= scale
            else:
                scale = np.where(top > 0.0, top, 1.0)
            value /= scale
            log_scale += np.log(scale)
            values.append(value)
            left_over.append(over)
        return values, products, log_scale, ~(left_over[-1] > LEAST)


def _blocks(left: AnyArray, right: AnyArray, theta: FloatArray, ends: AnyArray) -> list[_Block]:
    """The sums at a vtree node, by their children."""
    by_children: dict[bytes, list[int]] = {}
    width = np.diff(ends)
    alone = np.flatnonzero(width == 1)
    for s in np.flatnonzero(width > 1).tolist():
        below = left[ends[s] : ends[s + 1]].tobytes() + right[ends[s] : ends[s + 1]].tobytes()
        by_children.setdefault(below, []).append(s)
    blocks = []
    if len(alone):
        edge = ends[alone]
        blocks.append(_block(alone, left[edge], right[edge], theta[edge]))
    for sums in by_children.values():
        edges = ends[sums][:, np.newaxis] + np.arange(width[sums[0]])
        blocks.append(_block(np.array(sums), left[edges[0]], right[edges[0]], theta[edges]))
    return blocks


def _block(sums: AnyArray, left: AnyArray, right: AnyArray, theta: FloatArray) -> _Block:
    is_plain = all(len(np.unique(side)) == len(side) for side in (left, right))
    return _Block(sums, left, right, theta, is_plain)
