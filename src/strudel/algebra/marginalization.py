"""Circuits with some columns summed out, over the others.

In:  a circuit, and the columns to keep.
Out: a circuit over these, on the vtree without the leaves of the others.

A vtree node that keeps columns on one side only goes away. Its sums become sums of nodes of the
side that stays, and so of the products there: weights of edges are multiplied down to the next
vtree node with columns on both sides, or to a leaf, whose tables they mix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.algebra.event_circuit import sum_over_cases
from strudel.algebra.operands import one_circuit
from strudel.circuits.circuit import Circuit, starts
from strudel.circuits.properties import (
    as_deterministic_as,
    made_deterministic,
    why_not_deterministic,
)
from strudel.circuits.reweigh import normalized
from strudel.circuits.walks import first_node
from strudel.errors import SizeLimitError
from strudel.queries.cells import joint_table
from strudel.queries.given import Asked, find_columns
from strudel.tables.evidence import nothing_known
from strudel.trees.vtree import Restriction, restrict_vtree

MAX_EDGES = 2**24
MAX_TABLE = 10  # columns
BLOCK_TERMS = 2**21  # of products of weights, added up together


def marginalize(
    p: Any, keep: Any, *, normalize: bool = False, max_edges: int = MAX_EDGES
) -> Circuit:
    """The distribution of some columns, the others summed out, as a circuit.

    Parameters
    ----------
    p : Circuit or fitted estimator
    keep : names or numbers of columns
        They are the columns of the result, in this order.
    normalize : bool
        Whether the result adds up to 1. If not, it adds up to what `p` does.
    max_edges : int
        Limit on the edges of the result, and of every step on the way to it.

    Returns
    -------
    Circuit
        On the vtree of `p` without the other columns. In general it is not deterministic: summing
        out a column hides the choices that only it tells apart. With at most ten columns it is a
        table if that is smaller: one edge per state, and so deterministic.

    Raises
    ------
    ValueError
        If more edges would be needed. A sum of the result may need all products at its vtree node:
        at worst the result has as many edges as there are pairs of a node and an edge of `p`.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> from strudel.circuits import figure_1_circuit
    >>> p = marginalize(figure_1_circuit(), ["X3", "X4"])
    >>> p.columns.names
    ('X3', 'X4')
    >>> np.exp(log_likelihood(p, [[0, 0], [1, 0], [0, 1], [1, 1]])).round(4)
    array([0.12, 0.48, 0.28, 0.12])
    """
    circuit = one_circuit(p)
    kept = find_columns(circuit, keep, "keep")
    if normalize and circuit.log_total == -np.inf:
        raise ValueError("p is zero everywhere, so its marginal cannot be normalised.")
    found = without_others(circuit, kept, max_edges)
    is_small = _table_size(found) <= found.n_edges * found.n_components
    if is_small and why_not_deterministic(found) is not None:
        found = _as_table(found)
    return replace(found, log_total=0.0) if normalize else found


def without_others(circuit: Circuit, kept: Sequence[int], max_edges: int = MAX_EDGES) -> Circuit:
    """The same distribution of some columns, with as many components."""
    smaller = restrict_vtree(circuit.vtree, kept)
    vtree, mixing = smaller.vtree, _Mixing(circuit, smaller, max_edges)
    leaves = [mixing.leaves(v) for v in vtree.var_leaf.tolist()]
    inner = np.flatnonzero(vtree.node_var == NONE).tolist()
    mixes = [mixing.edges(v) for v in inner]
    sums = [_runs(mix.node)[1] for mix in mixes]
    nodes = [*(nodes for nodes, _, _ in leaves), *sums]
    number = np.full(circuit.n_nodes, NONE, dtype=np.int32)
    number[np.concatenate(nodes)] = np.arange(sum(map(len, nodes)))
    n_leaves, k = sum(len(own) for own, _, _ in leaves), circuit.n_components
    tables, known = (np.concatenate([leaf[i].reshape(-1, k) for leaf in leaves]) for i in (1, 2))
    node, below, weight = _joined(mixes, circuit.n_components)
    left, right = np.divmod(below, circuit.n_nodes)
    columns = circuit.columns
    own = replace(
        columns,
        columns=tuple(columns[place] for place in kept),
        left_out=(),
        missingness=columns.missingness.without(
            [name for place, name in enumerate(columns.names) if place not in kept]
        ),
    )
    with np.errstate(divide="ignore"):
        made = Circuit(
            own,
            vtree,
            np.repeat(np.arange(len(kept)), [len(own) for own, _, _ in leaves]),
            np.log(tables),
            np.repeat(np.array(inner, dtype=np.int32), [len(own) for own in sums]),
            starts(number[node] - n_leaves, sum(map(len, sums))),
            number[left],
            number[right],
            np.log(weight),
            circuit.log_weight,
            None if circuit.known is None else known,
        )
    found, _ = normalized(made)
    if found is None or circuit.log_total == -np.inf:
        return made.nothing()
    found = replace(found, log_total=circuit.log_total)
    return as_deterministic_as(found, circuit) if len(kept) == len(columns) else found


class _Mixed(NamedTuple):
    """Sums of what is below: `weight` `(n, k)` of `below` in `node`, sorted by both, each once."""

    node: AnyArray
    below: AnyArray
    weight: FloatArray


class _Mixing:
    """What nodes become where columns go away, in the numbers of the circuit.

    Below a vtree node that stays there may be some that go, down to the next one that stays. A node
    at the top of these is a sum of nodes at the bottom.
    """

    def __init__(self, circuit: Circuit, smaller: Restriction, max_edges: int) -> None:
        self.circuit, self.smaller, self.max_edges = circuit, smaller, max_edges
        self.theta = np.exp(circuit.edge_log_theta)
        vtree = circuit.vtree
        self.tops = np.full(smaller.vtree.n_nodes, vtree.root)  # above each node that stays
        for v in smaller.origin[smaller.vtree.node_var == NONE]:
            for top in (vtree.node_left[v], vtree.node_right[v]):
                self.tops[smaller.number[top]] = top

    def leaves(self, v: int) -> tuple[AnyArray, FloatArray, FloatArray]:
        """The nodes at the top of a leaf that stays.

        Also their tables `(n_nodes, n_cells, k)`, and how often the cells are known.
        """
        stays = int(self.smaller.origin[v])
        mix = self._bottom(v)
        place = int(self.circuit.vtree.node_var[stays])
        leaf = mix.below - first_node(self.circuit, stays)
        weight = mix.weight[:, np.newaxis] * np.exp(self.circuit.leaf_table(place))[leaf]
        first, nodes = _runs(mix.node)
        table = np.add.reduceat(weight, first)
        known = np.ones_like(table)
        if self.circuit.known is not None:
            told = np.add.reduceat(weight * self.circuit.leaf_table(place, "known")[leaf], first)
            np.divide(told, table, out=known, where=table > 0.0)
        return nodes, table, np.clip(known, 0.0, 1.0)

    def edges(self, v: int) -> _Mixed:
        """The edges of the nodes at the top of an inner node that stays.

        What is below them is the number of a pair of nodes, left * n_nodes + right.
        """
        circuit = self.circuit
        pair = circuit.edge_left.astype(np.int64) * circuit.n_nodes + circuit.edge_right
        return self._through(self._bottom(v), pair)

    def _bottom(self, v: int) -> _Mixed:
        """The nodes at the top as sums of the nodes at the vtree node that stays."""
        circuit, vtree = self.circuit, self.circuit.vtree
        at, stays = int(self.tops[v]), int(self.smaller.origin[v])
        nodes = np.flatnonzero(circuit.node_vtree == at)
        mix = _Mixed(nodes, nodes, np.ones((len(nodes), circuit.n_components)))
        while at != stays:
            left = int(vtree.node_left[at])
            is_left = self.smaller.number[left] != NONE
            mix = self._through(mix, circuit.edge_left if is_left else circuit.edge_right)
            at = left if is_left else int(vtree.node_right[at])
        return mix

    def _through(self, mix: _Mixed, edge_below: AnyArray) -> _Mixed:
        """Sums of sums as sums of what is below the edges of these."""
        circuit, k = self.circuit, self.circuit.n_components
        which = mix.below - circuit.n_leaves
        width = np.diff(circuit.sum_edges)[which]
        last = np.cumsum(width)
        made = _joined([], k)
        for block in np.split(np.arange(len(which)), _ends(last, max(1, BLOCK_TERMS // k))):
            entry = np.repeat(block, width[block])
            place = np.arange(len(entry)) + (last[block[0]] - width[block[0]])
            edge = circuit.sum_edges[which[entry]] + place - (last - width)[entry]
            weight = mix.weight[entry] * self.theta[edge]
            more = _Mixed(mix.node[entry], edge_below[edge], weight)
            made = _merged(_joined([made, more], k))
            if len(made.node) > self.max_edges:
                raise SizeLimitError(
                    f"marginalize needs more than max_edges = {self.max_edges} edges.",
                    "Allow more with max_edges, or ask log_marginal, which needs no circuit.",
                    part="marginalize",
                )
        return made


def _joined(mixes: Sequence[_Mixed], k: int) -> _Mixed:
    none = np.zeros(0, dtype=np.int64)
    nothing = _Mixed(none, none, np.zeros((0, k)))
    return _Mixed(*map(np.concatenate, zip(nothing, *mixes, strict=True)))


def _merged(mix: _Mixed) -> _Mixed:
    """Sorted, and equal terms added up."""
    order = np.lexsort((mix.below, mix.node))
    node, below = mix.node[order], mix.below[order]
    first = np.flatnonzero(np.diff(node, prepend=NONE) | np.diff(below, prepend=NONE))
    return _Mixed(node[first], below[first], np.add.reduceat(mix.weight[order], first))


def _runs(node: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Where each node begins among sorted ones, and the nodes."""
    first = np.flatnonzero(np.diff(node, prepend=NONE))
    return first, node[first]


def _ends(last: AnyArray, n_terms: int) -> AnyArray:
    """Where to cut terms that end at `last`, so that about so many are taken at a time."""
    ends = np.unique(np.searchsorted(last, np.arange(n_terms, last[-1], n_terms), side="right"))
    return ends[(ends > 0) & (ends < len(last))]


def _table_size(circuit: Circuit) -> float:
    """How many edges a table of all states has; infinite where it cannot stand for the circuit."""
    vtree, n_columns = circuit.vtree, len(circuit.columns)
    if circuit.known is not None or not 1 < n_columns <= MAX_TABLE:
        return np.inf
    log_size = np.log([circuit.columns[place].n_cells for place in vtree.order])
    ends = np.concatenate([[0.0], np.cumsum(log_size)])
    first, last = vtree.node_span
    return float(np.exp(ends[last] - ends[first])[vtree.node_var == NONE].sum())


def _as_table(circuit: Circuit) -> Circuit:
    """The same distribution as a sum over all states: a leaf per cell, a sum per state below."""
    columns = circuit.columns
    asked, sizes = Asked(circuit, nothing_known(columns)), columns.n_cells.tolist()
    logs, _ = joint_table(asked, range(len(columns)), "marginalize", math.prod(sizes))
    states = np.indices(logs.shape).reshape(len(columns), -1)
    made = sum_over_cases(
        columns, circuit.vtree, [np.eye(n) for n in sizes], list(states), logs.ravel()
    )
    found, _ = normalized(made_deterministic(made))
    assert found is not None  # it was not zero
    return replace(found, log_total=circuit.log_total)
