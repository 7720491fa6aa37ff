"""Entropy where the choices of a circuit are hidden: some of its columns were summed out.

In:  a circuit of one component that adds up to one.
Out: the exact entropy in nats, or None if it takes too many states.

A sum chooses one of its edges. Where a row tells which one was taken, the choice is *visible* and
entropies add up: ``H(sum) = sum of theta (H(left) + H(right) - log theta)``. Where it does not, the
choice is *hidden*, and what counts is the blend of the edges:

- Edges that exclude each other are a visible choice among groups of edges.
- A group with one left child is that child times a blend of right children, and the entropy of
  the blend is found the same way; so also with one right child.
- Any other group is cut into blocks of states of one side on which all its nodes on that side are
  proportional. Knowing the block leaves a blend on the other side.

A hidden choice close to the columns it touches takes a few blocks; in the worst case a block is a
single state, and the number of states is what the caller limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import overlaps
from strudel.circuits.walks import edges_at, first_node
from strudel.data.bits import x_log_x_of

PAIRS_PER_STATE = 2**14  # pairs of products compared in the time that a state takes


class Blend(NamedTuple):
    """Nodes of one vtree node with weights that add up to 1."""

    v: int
    nodes: IntArray
    weights: FloatArray


class Block(NamedTuple):
    """Some states of a vtree node's columns on which several nodes are proportional."""

    share: FloatArray  # (n_nodes,) the probability of the block under each
    parts: list[Blend]  # which are independent within the block


class _Group(NamedTuple):
    """Products of one vtree node, with the side to be cut into blocks and the other side."""

    own_v: int
    own: IntArray  # the distinct nodes on the side to be cut
    own_place: AnyArray  # (n_products,) which of them
    other_v: int
    other: IntArray  # (n_products,) the nodes on the other side
    share: FloatArray  # (n_sums, n_products)


class HiddenChoices:
    """The entropy of one component, whatever choices it hides."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit, self.vtree = circuit, circuit.vtree
        self.theta = np.exp(circuit.edge_log_theta[:, 0])
        self.overlaps, is_open = overlaps(circuit)
        first, last = self.vtree.node_span
        self.n_columns = last - first
        n_leaves = circuit.n_leaves
        self.is_visible = np.append(np.ones(n_leaves, dtype=bool), ~is_open)
        self.is_sure = self.is_visible.copy()  # of its own edges; and now of what is below, too
        cells = np.exp(circuit.leaf_log_p[:, 0])
        own = np.add.reduceat(x_log_x_of(cells), circuit.leaf_first[:-1])
        self.entropies = np.append(-own, np.zeros(len(is_open)))
        for v in np.flatnonzero(self.vtree.node_var == NONE).tolist():
            edges, begin = edges_at(circuit, v)
            left, right = circuit.edge_left[edges], circuit.edge_right[edges]
            theta = self.theta[edges]
            below = self.entropies[left] + self.entropies[right]
            at = first_node(circuit, v) + np.arange(len(begin))
            self.entropies[at] = np.add.reduceat(theta * below - x_log_x_of(theta), begin)
            is_visible = self.is_visible[left] & self.is_visible[right]
            self.is_visible[at] &= np.logical_and.reduceat(is_visible, begin)
        self.n_states = 0
        self.max_states = 0

    def entropy(self, max_states: int) -> float | None:
        """The entropy, or None rather than look at more states."""
        circuit, vtree = self.circuit, self.vtree
        self.n_states, self.max_states = 0, max_states
        root = Blend(vtree.root, np.array([circuit.root], dtype=np.int32), np.ones(1))
        self._pending: dict[int, dict[bytes, tuple[float, Blend]]] = {}
        self._total = 0.0
        self._add(root, 1.0)
        try:
            # Entropy is the mean over all ways down of what each choice on the way adds.
            for v in range(vtree.n_nodes - 1, -1, -1):
                for mass, blend in self._pending.pop(v, {}).values():
                    self._open(blend, mass)
        except (_TooManyStatesError, RecursionError):
            # The stack overflows where a hidden choice reaches far down a vtree as deep as that.
            return None
        return self._total

    def _cells(self, nodes: IntArray) -> FloatArray:
        """The probabilities `(n_nodes, n_cells)` of leaves of one column."""
        place = int(self.circuit.leaf_column[nodes[0]])
        table = self.circuit.leaf_table(place)[:, :, 0]
        return np.exp(table[nodes - self.circuit.column_leaves[place]])

    def _add(self, blend: Blend, mass: float) -> None:
        """Note that a blend is met with some probability, or add its entropy if that is easy."""
        v, nodes, weights = blend
        if len(nodes) == 1 and self.is_visible[nodes[0]]:
            self._total += mass * float(self.entropies[nodes[0]])
        elif self.vtree.node_var[v] != NONE:
            self._total += mass * _surprise(weights @ self._cells(nodes))
        else:
            key = nodes.tobytes() + weights.tobytes()
            waiting = self._pending.setdefault(v, {})
            if key not in waiting:
                self._count_state()
            waiting[key] = (mass + waiting.get(key, (0.0, blend))[0], blend)

    def _open(self, blend: Blend, mass: float) -> None:
        """Add what the first visible choice of a blend adds, and pass on what follows it."""
        chances = []
        for p, parts in self._choices(blend):
            chances.append(p)
            for part in parts:
                self._add(part, mass * p)
        self._total += mass * _surprise(np.array(chances))

    def _choices(self, blend: Blend) -> Iterator[tuple[float, list[Blend]]]:
        """The ways a blend can go that exclude each other, and the independent parts of each."""
        v, nodes, weights = blend
        for group in self._groups(v, nodes, weights[np.newaxis]):
            for block in self._blocks(group.own_v, group.own, np.eye(len(group.own))):
                part = group.share[0] * block.share[group.own_place]
                p = float(part.sum())
                if p > 0.0:
                    rest, weight = _collect(group.other, part[np.newaxis] / p)
                    weight = weight[0] if len(rest) > 1 else np.ones(1)
                    yield p, [*block.parts, Blend(group.other_v, rest, weight)]

    def _blocks(self, v: int, nodes: IntArray, weights: FloatArray) -> Iterator[Block]:
        """Cut the states at `v` into blocks on which several sums of nodes are proportional.

        Sum j weighs node k by `weights[j, k]`.
        """
        if len(nodes) == 1:
            self._count_state()
            yield Block(weights[:, 0], [Blend(v, nodes, np.ones(1))])
        elif self.vtree.node_var[v] != NONE:
            for share in (weights @ self._cells(nodes)).T:
                if share.any():
                    self._count_state()
                    yield Block(share, [])
        else:
            for group in self._groups(v, nodes, weights):
                for first in self._blocks(group.own_v, group.own, np.eye(len(group.own))):
                    part = group.share * first.share[group.own_place]
                    is_there = part.any(axis=0)
                    if is_there.any():
                        rest = _collect(group.other[is_there], part[:, is_there])
                        for second in self._blocks(group.other_v, *rest):
                            yield Block(second.share, first.parts + second.parts)

    def _products(
        self, nodes: IntArray, weights: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """The left and right children of all edges of some sums, each pair once.

        With them the weight `(n_sums, n_pairs)` of each pair in every weighted sum of the nodes.
        """
        circuit = self.circuit
        sums = nodes - circuit.n_leaves
        first, last = circuit.sum_edges[sums], circuit.sum_edges[sums + 1]
        edges = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
        owner = np.repeat(np.arange(len(nodes)), last - first)
        key = circuit.edge_left[edges].astype(np.int64) << 32 | circuit.edge_right[edges]
        key, share = _collect(key, weights[:, owner] * self.theta[edges])
        return (key >> 32).astype(np.int32), key.astype(np.int32), share

    def _groups(self, v: int, nodes: IntArray, weights: FloatArray) -> Iterator[_Group]:
        """The products of some sums in groups that exclude each other."""
        sides = int(self.vtree.node_left[v]), int(self.vtree.node_right[v])
        *children, share = self._products(nodes, weights)
        n_products = len(children[0])
        self._count_state(n_products**2 // PAIRS_PER_STATE)
        if len(nodes) == 1 and self.is_sure[nodes[0]]:
            label: AnyArray = np.arange(n_products)
        else:
            from scipy.sparse.csgraph import connected_components

            meets: AnyArray = np.ones((n_products, n_products), dtype=bool)
            for side, child in zip(sides, children, strict=True):
                place = child - first_node(self.circuit, side)
                meets &= self.overlaps[side][np.ix_(place, place)]
            _, label = connected_components(meets, directed=False)
        order = np.argsort(label, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
            yield self._cut(sides, [child[group] for child in children], share[:, group])

    def _cut(self, sides: tuple[int, int], children: list[IntArray], share: FloatArray) -> _Group:
        """Choose the side with one node; failing that, with fewer columns."""
        found = []
        for side, nodes in zip(sides, children, strict=True):
            own, place = np.unique(nodes, return_inverse=True)
            found.append((int(self.n_columns[side]) * (len(own) > 1), side, own, place, nodes))
        mine, other = found if found[0][0] <= found[1][0] else found[::-1]
        return _Group(mine[1], mine[2], mine[3], other[1], other[4], share)

    def _count_state(self, n: int = 1) -> None:
        self.n_states += n
        if self.n_states > self.max_states:
            raise _TooManyStatesError


class _TooManyStatesError(Exception):
    pass


def _collect(keys: AnyArray, share: FloatArray) -> tuple[AnyArray, FloatArray]:
    """The distinct keys, and the columns of `share` added up for each."""
    distinct, place = np.unique(keys, return_inverse=True)
    if len(distinct) == len(keys):
        return distinct, share[:, np.argsort(place)]
    total = np.zeros((len(share), len(distinct)))
    np.add.at(total.T, place, share.T)
    return distinct, total


def _surprise(p: FloatArray) -> float:
    """The entropy of one choice with these chances."""
    return float(-x_log_x_of(p).sum())
