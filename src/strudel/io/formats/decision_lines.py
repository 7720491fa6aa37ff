"""Lines of decisions: nodes that choose among pairs of a prime and a sub, as PSDDs have them.

In:  the columns of such lines, as a reader collected them.
Out: children as places among the lines, the vtree that all decisions follow, and a `Circuit`.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE, FloatArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.io.formats.text import TextFile
from strudel.trees.vtree import Vtree, VtreeNodes


class DecisionNodes:
    """The node lines, column by column; a node is its place among them."""

    def __init__(self) -> None:
        self.name: list[int] = []
        self.line: list[int] = []
        self.kind: list[bytes] = []
        self.literals: dict[int, int] = {}  # L: node -> literal
        self.coins: dict[int, tuple[int, float, float]] = {}  # T: node -> variable, log P(0), P(1)
        self.decision: list[int] = []  # D: nodes
        self.width: list[int] = []  # D: number of elements
        self.prime: list[int] = []
        self.sub: list[int] = []
        self.log_theta: FloatArray = np.empty(0)

    def largest_variable(self) -> int:
        """Of all lines, whether the root is about it or not."""
        literals = (literal // 2 for literal in self.literals.values())
        return max((*literals, *(coin[0] for coin in self.coins.values())), default=NONE)


def resolve_children(file: TextFile, nodes: DecisionNodes) -> None:
    """Turn primes and subs into nodes that come before their parents."""
    place = {name: node for node, name in enumerate(nodes.name)}
    if len(place) < len(nodes.name):
        seen: set[int] = set()
        for name, line in zip(nodes.name, nodes.line, strict=True):
            if name in seen:
                file.refuse(f"id {name} is used for two nodes", line)
            seen.add(name)
    parent = np.repeat(np.array(nodes.decision, dtype=np.int64), nodes.width)
    n_nodes, late = len(nodes.name), []

    def by_id(child: int) -> int:
        return place.get(child, n_nodes)

    def by_place(child: int) -> int:
        return child if 0 <= child < n_nodes else n_nodes

    for find in (by_id, by_place):
        found = [[find(child) for child in column] for column in (nodes.prime, nodes.sub)]
        late.append(np.flatnonzero((np.array(found, dtype=np.int64) >= parent).any(axis=0)))
        if not len(late[-1]):
            nodes.prime, nodes.sub = found
            return
    bad = int(late[0][0])
    child = (
        nodes.prime[bad]
        if place.get(nodes.prime[bad], parent[bad]) >= parent[bad]
        else nodes.sub[bad]
    )
    file.refuse(f"child {child} is not the id of an earlier node", nodes.line[parent[bad]])


def recover(nodes: DecisionNodes) -> tuple[Vtree, list[int]] | None:
    """The vtree by which all decisions split, and the vtree node of every node; None if none.

    The vtree below a decision is a pair of those below its first prime and sub; equal pairs are
    one. The rest follows from the pair of the root.
    """
    shapes = VtreeNodes()
    number_of: dict[tuple[int, int], int] = {}  # by its two sides, or a variable and NONE
    shape: list[int] = []
    starts = np.concatenate([[0], np.cumsum(nodes.width)]).astype(np.int64).tolist()
    decisions = 0
    for node, kind in enumerate(nodes.kind):
        if kind == b"D":
            element = starts[decisions]
            decisions += 1
            split = (shape[nodes.prime[element]], shape[nodes.sub[element]])
        elif kind == b"L":
            split = (nodes.literals[node] // 2, NONE)
        else:
            split = (nodes.coins[node][0], NONE)
        if split not in number_of:
            number_of[split] = shapes.leaf(split[0]) if split[1] == NONE else shapes.inner(*split)
        shape.append(number_of[split])
    try:
        vtree, number = shapes.build_from(shape[-1])
    except ValueError:  # a variable is shared, or missing
        return None
    placed = number[shape]
    if nodes.decision:
        at = placed[np.repeat(nodes.decision, nodes.width)]
        is_wrong = (placed[nodes.prime] != vtree.node_left[at]) | (
            placed[nodes.sub] != vtree.node_right[at]
        )
        if np.any(is_wrong & (at != NONE)):
            return None
    return vtree, placed.tolist()


def assemble_nodes(nodes: DecisionNodes, vtree: Vtree, node_vtree: list[int]) -> Circuit:
    """The circuit, when all nodes fit the vtree; nodes outside it are not below the root."""
    n_literals = 2 * vtree.n_vars
    kinds = np.array(nodes.kind)
    is_inside = np.array(node_vtree) != NONE
    is_sum = is_inside & (kinds != b"L")
    index = np.full(len(kinds), NONE, dtype=np.int64)
    index[is_sum] = n_literals + np.arange(np.count_nonzero(is_sum))
    for node, literal in nodes.literals.items():
        if is_inside[node]:
            index[node] = literal
    root = int(index[-1])
    all_vtree = [np.repeat(vtree.var_leaf, 2), np.array(node_vtree)[is_sum]]
    coins = [(node, *coin) for node, coin in nodes.coins.items() if is_inside[node]]
    coin_parent = index[[coin[0] for coin in coins]] if coins else np.empty(0, dtype=np.int64)
    coin_var = np.array([coin[1] for coin in coins], dtype=np.int64)
    parent = np.repeat(np.array(nodes.decision, dtype=np.int64), nodes.width)
    kept = np.flatnonzero(is_inside[parent]) if len(parent) else np.empty(0, dtype=np.int64)
    prime, sub = (np.array(column, dtype=np.int64)[kept] for column in (nodes.prime, nodes.sub))
    edge_parent = [coin_parent, coin_parent, index[parent[kept]]]
    edge_left = [2 * coin_var + 1, 2 * coin_var, index[prime]]
    edge_right = [np.full(2 * len(coins), NONE), index[sub]]
    log_theta = [
        np.array([coin[3] for coin in coins]),
        np.array([coin[2] for coin in coins]),
        nodes.log_theta[kept],
    ]
    if root < n_literals:  # one variable, fixed
        fixed, root = root, n_literals + int(np.count_nonzero(is_sum))
        all_vtree.append(vtree.var_leaf[:1])
        edge_parent.append(np.array([root]))
        edge_left.append(np.array([fixed]))
        edge_right.append(np.array([NONE]))
        log_theta.append(np.zeros(1))
    return assemble(
        vtree,
        np.concatenate(all_vtree).astype(np.int32),
        edge_parent=np.concatenate(edge_parent).astype(np.int32),
        edge_left=np.concatenate(edge_left).astype(np.int32),
        edge_right=np.concatenate(edge_right).astype(np.int32),
        edge_log_theta=np.concatenate(log_theta).astype(np.float64),
        root=root,
    )
