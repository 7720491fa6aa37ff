"""Entropy of some of the variables, with the others summed out.

In:  a `Circuit` in normal form, its parameters given the evidence, and the variables to keep.
Out: the exact entropy in nats, or None if it takes too many states.

A sum chooses one of its edges. Where the kept variables tell which one was taken, the choice is
*visible* and entropies add up: ``H(sum) = sum of theta (H(left) + H(right) - log theta)``. Where
they do not, the choice is *hidden*, and what counts is the blend of the edges:

- Edges that exclude each other on kept variables are a visible choice among groups of edges.
- A group with one left child is that child times a blend of right children, and the entropy of
  the blend is found the same way; so also with one right child.
- Any other group is cut into blocks of states of one side on which all its nodes on that side are
  proportional. Knowing the block leaves a blend on the other side.

A hidden choice close to the kept variables it touches takes a few blocks; in the worst case a block
is a single state, and the number of states is what the caller limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.determinism import Needs, edge_needs, find_needs
from strudel.data.bits import x_log_x, x_log_x_of

PAIRS_PER_STATE = 2**14  # pairs of products compared in the time that a state takes


class Blend(NamedTuple):
    """Nodes of one vtree node with weights that add up to 1."""

    v: int
    nodes: IntArray
    weights: FloatArray


class Block(NamedTuple):
    """Some states of a vtree node's kept variables on which several nodes are proportional."""

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


class SubsetEntropy:
    """The entropy of the kept variables under one circuit."""

    def __init__(
        self, circuit: Circuit, theta: FloatArray, is_kept: AnyArray, is_known: AnyArray
    ) -> None:
        vtree = circuit.vtree
        self.circuit, self.theta, self.vtree = circuit, theta, vtree
        self.n_kept = vtree.count_below(is_kept)
        # Below these no choice is hidden: all that is not known is kept.
        is_all_kept = vtree.count_below(~(is_kept | is_known)) == 0
        self.is_certified = is_all_kept & circuit.is_deterministic
        needs = find_needs(circuit, variables=np.flatnonzero(is_kept), is_live=theta > 0.0)
        has_kept = needs.node_one[: 2 * circuit.n_vars].any(axis=0)
        self.one, self.zero = needs.node_one[:, has_kept], needs.node_zero[:, has_kept]
        n_nodes = circuit.n_nodes
        self.p_zero = np.tile([1.0, 0.0], n_nodes // 2 + 1)[:n_nodes]  # of literals and leaf sums
        self.p_one = 1.0 - self.p_zero
        self.is_visible = np.ones(n_nodes, dtype=np.bool_)
        self.entropy = np.zeros(n_nodes)
        _visible_entropies(
            circuit.node_vtree,
            circuit.edges,
            needs,
            self.n_kept,
            self.is_certified,
            theta,
            self.p_one,
            self.p_zero,
            self.is_visible,
            self.entropy,
        )
        self.n_states = 0
        self.max_states = 0

    @property
    def is_one_pass(self) -> bool:
        """Whether no choice is hidden at all."""
        return bool(self.is_visible[self.circuit.root])

    def of_root(self, max_states: int) -> float | None:
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

    def _add(self, blend: Blend, mass: float) -> None:
        """Note that a blend is met with some probability, or add its entropy if that is easy."""
        v, nodes, weights = blend
        if self.n_kept[v] == 0:
            return
        if len(nodes) == 1 and self.is_visible[nodes[0]]:
            self._total += mass * float(self.entropy[nodes[0]])
        elif self.vtree.node_var[v] != NONE:
            p_one, p_zero = weights @ self.p_one[nodes], weights @ self.p_zero[nodes]
            self._total += mass * float(_surprise(np.array([p_one, p_zero])))
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
        self._total += mass * float(_surprise(np.array(chances)))

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
        if self.n_kept[v] == 0:
            yield Block(weights.sum(axis=1), [])
        elif len(nodes) == 1:
            self._count_state()
            yield Block(weights[:, 0], [Blend(v, nodes, np.ones(1))])
        elif self.vtree.node_var[v] != NONE:
            self._count_state()
            yield Block(weights @ self.p_one[nodes], [])
            yield Block(weights @ self.p_zero[nodes], [])
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
        first, last = circuit.node_edges[nodes], circuit.node_edges[nodes + 1]
        owner = np.repeat(np.arange(len(nodes)), last - first)
        shift = np.concatenate([[0], np.cumsum(last - first)])[:-1]
        edges = np.arange(len(owner)) - np.repeat(shift - first, last - first)
        is_there = self.theta[edges] > 0.0
        edges, owner = edges[is_there], owner[is_there]
        key = circuit.edge_left[edges].astype(np.int64) << 32 | circuit.edge_right[edges]
        key, share = _collect(key, weights[:, owner] * self.theta[edges])
        return (key >> 32).astype(np.int32), key.astype(np.int32), share

    def _groups(self, v: int, nodes: IntArray, weights: FloatArray) -> Iterator[_Group]:
        """The products of some sums in groups that exclude each other on kept variables."""
        left, right, share = self._products(nodes, weights)
        self._count_state(len(left) ** 2 // PAIRS_PER_STATE)
        if self.is_certified[v] and len(nodes) == 1:
            label = np.arange(len(left))
        else:
            label = np.full(len(left), NONE)
            one = self.one[left] | self.one[right]
            zero = self.zero[left] | self.zero[right]
            _label_groups(one, zero, np.empty(len(left), dtype=np.int64), label)
        order = np.argsort(label, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
            yield self._cut(v, left[group], right[group], share[:, group])

    def _cut(self, v: int, left: IntArray, right: IntArray, share: FloatArray) -> _Group:
        """Choose the side with one node, or nothing to keep; failing that, with less to keep."""
        sides = []
        for below, nodes in ((self.vtree.node_left[v], left), (self.vtree.node_right[v], right)):
            own, place = np.unique(nodes, return_inverse=True)
            n_kept = int(self.n_kept[below])
            sides.append((n_kept if len(own) > 1 else 0, int(below), own, place, nodes))
        mine, other = sides if sides[0][0] <= sides[1][0] else sides[::-1]
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


@kernel
def _visible_entropies(
    node_vtree: IntArray,
    edges: Edges,
    needs: Needs,
    vtree_kept: AnyArray,
    is_certified: AnyArray,
    theta: FloatArray,
    p_one: FloatArray,
    p_zero: FloatArray,
    is_visible: AnyArray,
    entropy: FloatArray,
) -> None:
    """Fill the outputs of the sums: their entropy, and whether no choice is hidden."""
    node_edges, edge_left, edge_right = edges
    for n in range(len(node_vtree)):
        start, stop, v = node_edges[n], node_edges[n + 1], node_vtree[n]
        if start == stop:  # a literal
            continue
        p_one[n] = p_zero[n] = 0.0
        for e in range(start, stop):
            if theta[e] == 0.0:
                continue
            l, r = edge_left[e], edge_right[e]
            if r == NONE:
                p_one[n] += theta[e] * p_one[l]
                p_zero[n] += theta[e] * p_zero[l]
            else:
                entropy[n] += theta[e] * (entropy[l] + entropy[r] - np.log(theta[e]))
                is_visible[n] &= is_visible[l] and is_visible[r]
        if vtree_kept[v] == 0:
            entropy[n] = 0.0
            is_visible[n] = True
        elif edge_right[start] == NONE:
            entropy[n] -= x_log_x(p_one[n]) + x_log_x(p_zero[n])
        elif is_visible[n] and not is_certified[v]:
            is_visible[n] = _are_told_apart(n, edges, needs, theta)


@kernel
def _are_told_apart(n: int, edges: Edges, needs: Needs, theta: FloatArray) -> bool:
    """Whether any two edges of a sum differ in what they need of a kept variable."""
    one, zero, node_from, node_to = needs
    for e in range(edges.node_edges[n], edges.node_edges[n + 1]):
        if theta[e] == 0.0:
            continue
        for f in range(e + 1, edges.node_edges[n + 1]):
            if theta[f] == 0.0:
                continue
            is_excluded = False
            for w in range(node_from[n], node_to[n]):
                e_one, e_zero = edge_needs(e, w, edges, one, zero)
                f_one, f_zero = edge_needs(f, w, edges, one, zero)
                if (e_one & f_zero) | (e_zero & f_one):
                    is_excluded = True
                    break
            if not is_excluded:
                return False
    return True


@kernel
def _label_groups(one: WordArray, zero: WordArray, todo: AnyArray, label: AnyArray) -> None:
    """Give equal labels to products linked by others that do not exclude each other."""
    n_groups = 0
    for first in range(len(label)):
        if label[first] != NONE:
            continue
        label[first] = n_groups
        todo[0] = first
        size = 1
        while size > 0:
            size -= 1
            e = todo[size]
            for f in range(len(label)):
                if label[f] != NONE:
                    continue
                is_excluded = False
                for w in range(one.shape[1]):
                    if (one[e, w] & zero[f, w]) | (zero[e, w] & one[f, w]):
                        is_excluded = True
                        break
                if not is_excluded:
                    label[f] = n_groups
                    todo[size] = f
                    size += 1
        n_groups += 1
