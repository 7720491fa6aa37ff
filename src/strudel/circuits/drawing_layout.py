"""Where the parts of a small circuit go in a drawing.

In:  a `Circuit`.
Out: `CircuitLayout`: marks (literals, sums, products) and the lines between, root on the right.

Every vtree node owns a horizontal band inside the band of its parent, and one column per depth.
Children of a product lie one step down the vtree, so every line joins neighbouring columns and
never runs past a mark. A sum with a single edge makes no choice; it is drawn as its product alone,
as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.circuit import Circuit

Kind: TypeAlias = Literal["literal", "sum", "product"]


@dataclass(frozen=True, eq=False)
class CircuitLayout:
    """Marks and lines of a drawing; x grows towards the root, y upwards, neighbours are 1 apart."""

    mark_kind: tuple[Kind, ...]
    mark_label: tuple[str, ...]  # the literal; empty at sums and products
    mark_x: FloatArray  # (n_marks,)
    mark_y: FloatArray  # (n_marks,)
    line_start: IntArray  # (n_lines,) mark on the input side
    line_end: IntArray  # (n_lines,) mark on the output side
    line_edge: IntArray  # (n_lines,) the circuit edge a line belongs to
    line_theta: FloatArray  # (n_lines,) the parameter to write on the line, NaN for none

    @property
    def width(self) -> float:
        """Distance between the first and the last column."""
        return float(np.ptp(self.mark_x))

    @property
    def height(self) -> float:
        """Distance between the lowest and the highest mark."""
        return float(np.ptp(self.mark_y))


def layout_circuit(circuit: Circuit) -> CircuitLayout:
    """Place every part of a circuit that its root reaches."""
    return _Drawing(circuit).finish()


class _Drawing:
    """The growing layout, filled from the root's vtree node down."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.theta = circuit.theta
        self.kind: list[Kind] = []
        self.label: list[str] = []
        self.x: list[float] = []
        self.y: list[float] = []
        self.lines: list[tuple[int, int, int, float]] = []
        # uses[node]: the marks of its parents, with the edge and the parameter to write on it.
        self.uses: list[list[tuple[int, int, float]]] = [[] for _ in range(circuit.n_nodes)]
        first, sums = circuit.sums_by_vtree
        self.vtree_sums: list[list[int]] = [own.tolist() for own in np.split(sums, first[1:-1])]
        self.band_size = _band_sizes(circuit, self.vtree_sums)

    def finish(self) -> CircuitLayout:
        """Place all bands and freeze."""
        vtree = self.circuit.vtree
        top = np.zeros(vtree.n_nodes)
        height = np.zeros(vtree.n_nodes)
        height[vtree.root] = self.band_size[vtree.root]
        for v in range(vtree.n_nodes - 1, -1, -1):
            if vtree.node_var[v] != NONE:
                self._place_leaf(v, top[v], height[v])
                continue
            self._place_inner(v, top[v], height[v])
            left, right = vtree.node_left[v], vtree.node_right[v]
            share = self.band_size[left] / (self.band_size[left] + self.band_size[right])
            height[left], height[right] = height[v] * share, height[v] * (1 - share)
            top[left], top[right] = top[v], top[v] + height[left]
        lines = np.array([line[:3] for line in self.lines], dtype=np.int32).reshape(-1, 3)
        return CircuitLayout(
            mark_kind=tuple(self.kind),
            mark_label=tuple(self.label),
            mark_x=np.array(self.x),
            mark_y=-np.array(self.y),
            line_start=lines[:, 0],
            line_end=lines[:, 1],
            line_edge=lines[:, 2],
            line_theta=np.array([line[3] for line in self.lines]),
        )

    def _place_inner(self, v: int, top: float, height: float) -> None:
        column = -2.0 * float(self.circuit.vtree.node_depth[v])
        nodes = self._by_parents(self.vtree_sums[v])
        choices: list[tuple[int, int]] = []  # the mark of a sum, and one of its edges
        for node, y in zip(nodes, _spread(len(nodes), top, height), strict=True):
            first, last = self.circuit.node_edges[node : node + 2]
            if last - first == 1:
                product = self._mark("product", "", column, y)
                self._join_parents(node, product)
                self._use_children(first, product)
            else:
                mark = self._mark("sum", "", column, y)
                self._join_parents(node, mark)
                choices += [(mark, edge) for edge in range(first, last)]
        for (mark, edge), y in zip(choices, _spread(len(choices), top, height), strict=True):
            product = self._mark("product", "", column - 1.0, y)
            self.lines.append((product, mark, edge, float(self.theta[edge])))
            self._use_children(edge, product)

    def _place_leaf(self, v: int, top: float, height: float) -> None:
        column = -2.0 * float(self.circuit.vtree.node_depth[v])
        var = int(self.circuit.vtree.node_var[v])
        literals = [2 * var + 1, 2 * var]
        direct = [node for node in literals if self.uses[node] or node == self.circuit.root]
        sums = self._by_parents(self.vtree_sums[v])
        share = len(direct) / (len(direct) + max(len(sums), 2)) if sums else 1.0  # of the band
        for node, y in zip(direct, _spread(len(direct), top, height * share), strict=True):
            # Its lines run to the middle of the parent's band and must clear its twin.
            is_behind = len(direct) == 2 and node == direct[self._is_left_child(v)]
            self._join_parents(
                node,
                self._mark(
                    "literal", literal_name(self.circuit, node), column - 0.4 * is_behind, y
                ),
            )
        top, height = top + height * share, height * (1 - share)
        for node, y in zip(sums, _spread(len(sums), top, height), strict=True):
            mark = self._mark("sum", "", column, y)
            self._join_parents(node, mark)
            for edge in range(*self.circuit.node_edges[node : node + 2]):
                literal = self.circuit.edge_left[edge]
                self.uses[literal].append((mark, edge, float(self.theta[edge])))
        below = [node for node in literals if self.uses[node]]
        for node, y in zip(below, _spread(len(below), top, height), strict=True):
            self._join_parents(
                node, self._mark("literal", literal_name(self.circuit, node), column - 1.0, y)
            )

    def _is_left_child(self, v: int) -> bool:
        vtree = self.circuit.vtree
        parent = vtree.node_parent[v]
        return bool(parent != NONE and vtree.node_left[parent] == v)

    def _mark(self, kind: Kind, label: str, x: float, y: float) -> int:
        self.kind.append(kind)
        self.label.append(label)
        self.x.append(x)
        self.y.append(y)
        return len(self.kind) - 1

    def _use_children(self, edge: int, product: int) -> None:
        for child in (self.circuit.edge_left[edge], self.circuit.edge_right[edge]):
            self.uses[child].append((product, edge, np.nan))

    def _join_parents(self, node: int, mark: int) -> None:
        """Draw the lines from `node` to everything that uses it so far."""
        self.lines += [(mark, parent, edge, theta) for parent, edge, theta in self.uses[node]]
        self.uses[node] = []

    def _by_parents(self, nodes: list[int]) -> list[int]:
        """Nodes that something uses, by the mean height of their parents to avoid crossings."""
        used = [node for node in nodes if self.uses[node] or node == self.circuit.root]
        return sorted(used, key=lambda node: (self._mean_parent_y(node), node))

    def _mean_parent_y(self, node: int) -> float:
        return float(np.mean([self.y[parent] for parent, _, _ in self.uses[node]] or [0.0]))


def literal_name(circuit: Circuit, literal: int) -> str:
    """The variable's name, with a sign in front where its value is 0."""
    var, value = divmod(literal, 2)
    return f"{'' if value else '¬'}{names_of(circuit.n_vars, circuit.feature_names)[var]}"


def _band_sizes(circuit: Circuit, vtree_sums: list[list[int]]) -> FloatArray:
    """Rows every vtree node needs: its fullest column, or the bands of its children together."""
    vtree = circuit.vtree
    width = np.diff(circuit.node_edges)
    is_direct = np.zeros(vtree.n_nodes, dtype=bool)  # a literal stands next to the leaf's sums
    is_direct[circuit.node_vtree[circuit.root]] = True
    for side in (circuit.edge_left, circuit.edge_right):
        children = side[circuit.edge_right != NONE]
        is_direct[circuit.node_vtree[children[children < 2 * circuit.n_vars]]] = True
    size = np.zeros(vtree.n_nodes)
    for v in range(vtree.n_nodes):
        n_sums = len(vtree_sums[v])
        if vtree.node_var[v] != NONE:
            size[v] = max(2 * is_direct[v] + (max(n_sums, 2) if n_sums else 0), 2)
        else:
            n_products = sum(int(width[node]) for node in vtree_sums[v] if width[node] > 1)
            below = size[vtree.node_left[v]] + size[vtree.node_right[v]]
            size[v] = max(n_sums, n_products, below)
    return size


def _spread(count: int, top: float, height: float) -> FloatArray:
    """Heights for `count` marks in the middle of a band, at most two rows apart."""
    step = min(height / max(count, 1), 2.0)
    steps = np.arange(count, dtype=np.float64) - (count - 1) / 2
    spread: FloatArray = top + height / 2 + steps * step
    return spread
