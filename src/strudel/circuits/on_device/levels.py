"""The order of a pass through a circuit, for many rows at once: level by level.

In:  a `Graph`: the sums of a circuit above its inputs, which are leaves.
Out: a `Pass` up, which gives the value of every node, and a `Pass` down, which gives what the rest
     of the circuit makes of a node's value.

Both are lists of sums of terms. On the way up, the value of a sum is

    value[sum] = sum over its edges of theta[edge] * value[left] * value[right].

On the way down, the factor of a node is the derivative of the root's value by the node's,

    factor[node] = sum over the edges to it of theta[edge] * factor[parent] * value[sibling],

so that `theta * factor[parent] * value[left] * value[right]` is the share of the root's value that
goes through an edge. One kernel serves both ways.

Most sums have one or two terms, a few have hundreds. Wide ones are summed in parts, so that no
thread has to wait for a long one; the others are padded to 1, 2, 4 or 8 terms.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, IntArray
from strudel.circuits.circuit import Circuit

MOST_TERMS = 8  # of one sum; wider ones are summed in parts


class Graph(NamedTuple):
    """Sums of products above inputs, which come first; children before parents, the root last."""

    n_inputs: int
    node_edges: IntArray  # (n_nodes + 1,) edges of node n; inputs have none
    edge_left: IntArray
    edge_right: IntArray

    @property
    def n_nodes(self) -> int:
        """Number of inputs and sums."""
        return len(self.node_edges) - 1

    @property
    def edge_parent(self) -> IntArray:
        """The sum that every edge leaves."""
        return np.repeat(np.arange(self.n_nodes, dtype=np.int32), np.diff(self.node_edges))


def graph_of(circuit: Circuit) -> Graph:
    """The sums above the leaves."""
    node_edges = np.concatenate([np.zeros(circuit.n_leaves, dtype=np.int32), circuit.sum_edges])
    return Graph(circuit.n_leaves, node_edges, circuit.edge_left, circuit.edge_right)


class Block(NamedTuple):
    """Sums of one level that have equally many terms."""

    first_sum: int
    last_sum: int
    first_term: int
    width: int

    @property
    def sums(self) -> slice:
        """The sums of the block."""
        return slice(self.first_sum, self.last_sum)

    @property
    def terms(self) -> slice:
        """The terms of the block, those of a sum one after another."""
        n_terms = (self.last_sum - self.first_sum) * self.width
        return slice(self.first_term, self.first_term + n_terms)


class Level(NamedTuple):
    """Sums that need nothing of each other, those of 1, 2, 4 and 8 terms one after another."""

    first_sum: int
    last_sum: int
    first_term: int
    up_to_1: int  # how many have one term
    up_to_2: int  # how many have at most two
    up_to_4: int  # and four

    def blocks(self) -> list[Block]:
        """The sums by their number of terms."""
        stops = (self.up_to_1, self.up_to_2, self.up_to_4, self.last_sum - self.first_sum)
        found, start, term = [], 0, self.first_term
        for width, stop in zip((1, 2, 4, 8), stops, strict=True):
            if stop > start:
                found.append(Block(self.first_sum + start, self.first_sum + stop, term, width))
            term += (stop - start) * width
            start = stop
        return found


class Pass(NamedTuple):
    """Sums in the order in which they are evaluated, and their terms.

    Parameters are those of the edges that `choice_edges` lists, and two more: one, for edges
    without a choice, and zero, for terms that only fill up. Besides the nodes of the circuit there
    is `n_nodes`, of value one, beside the parts of wide sums, which come then.
    """

    out: AnyArray  # (n_sums,) the node that a sum is the value of
    theta: AnyArray  # (n_terms,) the parameter of a term
    left: AnyArray  # (n_terms,) a node; on the way down, a parent
    right: AnyArray  # (n_terms,) a node; on the way down, a sibling
    levels: list[Level]
    idle: AnyArray  # slots that are not written: inputs, the root, and what it does not reach
    n_slots: int  # nodes of the circuit, the one of value one, and parts
    input_level: int  # levels before those of the inputs


class _Terms(NamedTuple):
    """Terms in any order, with the node that each is a part of."""

    out: AnyArray
    theta: AnyArray
    left: AnyArray
    right: AnyArray

    def take(self, index: AnyArray) -> _Terms:
        return _Terms(*(column[index] for column in self))


def pass_up(graph: Graph) -> Pass:
    """The values of all sums, children before parents.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> up = pass_up(graph_of(figure_1_circuit()))
    >>> [block.width for level in up.levels for block in level.blocks()]
    [1, 2, 2]
    """
    terms = _Terms(
        graph.edge_parent.astype(np.int64),
        _parameters(graph),
        graph.edge_left.astype(np.int64),
        graph.edge_right.astype(np.int64),
    )
    return _schedule(terms, graph, ["left", "right"])


def pass_down(graph: Graph) -> Pass:
    """The factors of all nodes but the root, parents before children, inputs last."""
    parent, theta = graph.edge_parent.astype(np.int64), _parameters(graph)
    left, right = graph.edge_left.astype(np.int64), graph.edge_right.astype(np.int64)
    terms = _Terms(
        np.concatenate([left, right]),
        np.concatenate([theta, theta]),
        np.concatenate([parent, parent]),
        np.concatenate([right, left]),
    )
    return _schedule(terms, graph, ["left"])  # values are all known


def choice_edges(graph: Graph) -> AnyArray:
    """The edges of sums with several, which carry a parameter."""
    return np.flatnonzero(np.diff(graph.node_edges)[graph.edge_parent] > 1)


def _parameters(graph: Graph) -> AnyArray:
    """The number of the parameter of every edge."""
    chosen = choice_edges(graph)
    number = np.full(len(graph.edge_left), len(chosen))
    number[chosen] = np.arange(len(chosen))
    return number


def _schedule(terms: _Terms, graph: Graph, needs: list[str]) -> Pass:
    """Cut wide sums into parts, sort sums by level and width, and pad them.

    `needs` names the columns of nodes that must be evaluated before.
    """
    terms, owner = _cut_wide_sums(terms, graph)
    is_input = owner < graph.n_inputs
    is_last = is_input[terms.out]  # not everybody asks for inputs
    level = _levels(terms.take(~is_last), needs, len(owner))
    level += _levels(terms.take(is_last), needs, len(owner)) + is_input * level.max()
    count = np.bincount(terms.out, minlength=len(owner))
    width = 2 ** np.ceil(np.log2(np.maximum(count, 1))).astype(np.int64)
    out = np.flatnonzero(count)
    out = out[np.lexsort((out, width[out], level[out]))]
    first = np.append(0, np.cumsum(width[out]))

    n_terms = int(first[-1])
    theta = np.full(n_terms, len(choice_edges(graph)) + 1)
    left, right = np.full(n_terms, graph.n_nodes), np.full(n_terms, graph.n_nodes)
    start = np.empty(len(owner), dtype=np.int64)
    start[out] = first[:-1]
    place = start[terms.out] + number_in_run(terms.out)
    theta[place], left[place], right[place] = terms.theta, terms.left, terms.right

    levels = [
        Level(begin, end, int(first[begin]), *_up_to(width[out[begin:end]]))
        for begin, end in _runs(level[out])
    ]
    n_before = sum(not is_input[out[one.first_sum]] for one in levels)
    idle = np.flatnonzero(count == 0)
    return Pass(out, theta, left, right, levels, idle, len(owner), n_before)


def _up_to(width: AnyArray) -> tuple[int, int, int]:
    """How many sums have at most 1, 2 and 4 terms."""
    one, two, four = (int(np.count_nonzero(width <= most)) for most in (1, 2, 4))
    return one, two, four


def _cut_wide_sums(terms: _Terms, graph: Graph) -> tuple[_Terms, AnyArray]:
    """Sums of at most `MOST_TERMS` terms, ordered by sum, and of every slot the node it is for."""
    owner = np.arange(graph.n_nodes + 1)
    done = [terms.take(np.empty(0, dtype=np.int64))]  # an input alone has no terms
    while len(terms.out):
        terms = terms.take(np.argsort(terms.out, kind="stable"))
        is_wide = np.bincount(terms.out)[terms.out] > MOST_TERMS
        done.append(terms.take(~is_wide))
        terms = terms.take(is_wide)
        part = terms.out * len(terms.out) + number_in_run(terms.out) // MOST_TERMS
        _, one_of, part = np.unique(part, return_index=True, return_inverse=True)
        whole = terms.out[one_of]
        slot = len(owner) + np.arange(len(whole))
        done.append(terms._replace(out=slot[part]))
        owner = np.append(owner, owner[whole])
        one = np.full(len(whole), len(choice_edges(graph)))
        terms = _Terms(whole, one, slot, np.full(len(whole), graph.n_nodes))
    terms = _Terms(*(np.concatenate(columns) for columns in zip(*done, strict=True)))
    return terms.take(np.argsort(terms.out, kind="stable")), owner


def _levels(terms: _Terms, needs: list[str], n_slots: int) -> IntArray:
    """How many sums come before each slot on the longest way to it."""
    level = np.zeros(n_slots, dtype=np.int32)
    while True:  # as often as the circuit is deep
        later = level.copy()
        for name in needs:
            np.maximum.at(later, terms.out, level[getattr(terms, name)] + 1)
        if np.array_equal(later, level):
            return level
        level = later


def number_in_run(values: AnyArray) -> AnyArray:
    """0, 1, 2, ... within every run of equal values."""
    starts = np.flatnonzero(np.diff(values, prepend=NONE - 1))
    return np.arange(len(values)) - np.repeat(starts, np.diff(np.append(starts, len(values))))


def _runs(values: AnyArray) -> list[tuple[int, int]]:
    """The first and last place of every run of equal values."""
    starts = np.flatnonzero(np.diff(values, prepend=NONE - 1)).tolist()
    return list(pairwise([*starts, len(values)]))
