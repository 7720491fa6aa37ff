"""Where the parts of a small circuit go in a drawing.

In:  a `Circuit`.
Out: `DrawnCircuit`, the circuit as pictures show it: a leaf of a 0/1 variable is a literal, or a
     sum of both as in the paper; that of another column is a box. `CircuitLayout`: the marks
     (inputs, sums, products) and the lines between, root on the right.

Every vtree node owns a horizontal band inside the band of its parent, and one column per depth.
Children of a product lie one step down the vtree, so every line joins neighbouring columns and
never runs past a mark. A sum with a single edge makes no choice; it is drawn as its product alone,
as in the paper.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.walks import down, edge_shares, edges_at, up
from strudel.tables.column import BIT, Column
from strudel.trees.vtree import Vtree

Kind: TypeAlias = Literal["input", "sum", "product"]
LOST = 1e6  # nats of what a row takes although it is impossible


class Taken(NamedTuple):
    """What a row takes of a circuit of one component."""

    edges: AnyArray  # (n_edges,)
    cells: AnyArray  # (n_leaf_cells,)


def taken_by(circuit: Circuit, cells: IntArray) -> Taken:
    """The edges and the cells of leaves that a row of cells passes; impossible edges as well."""
    circuit = replace(circuit, edge_log_theta=np.maximum(circuit.edge_log_theta, -LOST))
    rows = circuit.leaf_first[:-1] + cells[circuit.leaf_column]
    logs = circuit.leaf_log_p[rows][:, np.newaxis]
    ends = circuit.column_leaves.tolist()
    values = up(circuit, [logs[first:last] for first, last in pairwise(ends)])
    flows = down(circuit, values)
    is_edge = np.zeros(circuit.n_edges, dtype=bool)
    for v in np.flatnonzero(circuit.vtree.node_var == NONE).tolist():
        edges, _ = edges_at(circuit, v)
        owner = circuit.edge_sum[edges] - circuit.vtree_sums[v]
        is_edge[edges] = (edge_shares(circuit, v, values) * flows[v][owner])[:, 0, 0] > 0.0
    is_cell = np.zeros(len(circuit.leaf_log_p), dtype=bool)
    is_cell[rows] = np.concatenate([flows[v] for v in circuit.vtree.var_leaf])[:, 0, 0] > 0.0
    return Taken(is_edge, is_cell)


class DrawnCircuit(NamedTuple):
    """Nodes are inputs, then sums; children come before parents."""

    vtree: Vtree
    label: tuple[str, ...]  # (n_inputs,)
    node_vtree: IntArray  # (n_nodes,)
    node_edges: IntArray  # (n_nodes + 1,) edges of node n; inputs have none
    edge_left: IntArray
    edge_right: IntArray  # NONE at a sum of literals
    theta: FloatArray  # (n_edges,) of the first component
    is_cell: AnyArray  # (n_edges,) whether it is a cell of a leaf
    number: IntArray  # (n_edges,) of the cell or the edge in the circuit
    root: int

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return len(self.label)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.edge_left)

    @property
    def edge_parent(self) -> IntArray:
        """The sum that every edge leaves."""
        return np.repeat(np.arange(len(self.node_vtree)), np.diff(self.node_edges))

    def is_taken(self, taken: Taken) -> AnyArray:
        """Which edges a row takes, `(n_edges,)`."""
        found = np.zeros(self.n_edges, dtype=bool)
        found[self.is_cell] = taken.cells[self.number[self.is_cell]]
        found[~self.is_cell] = taken.edges[self.number[~self.is_cell]]
        return found


def drawn_circuit(circuit: Circuit) -> DrawnCircuit:
    """A circuit with the literals and the sums that its leaves of 0/1 variables are."""
    labels: list[str] = []
    places: list[int] = []
    of_leaf: list[tuple[int, ...]] = []  # the inputs of every leaf
    literals: dict[tuple[int, int], int] = {}
    for leaf, place in enumerate(circuit.leaf_column.tolist()):
        rows = slice(*circuit.leaf_first[leaf : leaf + 2])
        cells = np.flatnonzero(np.any(circuit.leaf_log_p[rows] > -np.inf, axis=1))
        column = circuit.columns[place]
        if column.kind != BIT or not len(cells):
            of_leaf.append((len(labels),))
            labels.append(leaf_name(column, cells))
            places.append(place)
            continue
        for cell in cells.tolist():
            if (place, cell) not in literals:
                literals[place, cell] = len(labels)
                labels.append(leaf_name(column, np.array([cell])))
                places.append(place)
        of_leaf.append(tuple(literals[place, cell] for cell in cells.tolist()))
    is_sum = np.array([len(own) > 1 for own in of_leaf])
    leaves = np.flatnonzero(is_sum)
    sums = np.append(leaves, np.arange(circuit.n_leaves, circuit.n_nodes))
    number = np.zeros(circuit.n_nodes, dtype=np.int32)
    number[: circuit.n_leaves] = [own[0] for own in of_leaf]
    number[sums] = len(labels) + np.arange(len(sums))
    below = np.array([of_leaf[leaf] for leaf in leaves], dtype=np.int32).ravel()
    rows_below = (circuit.leaf_first[leaves][:, np.newaxis] + [0, 1]).ravel()
    width = np.concatenate(
        [np.zeros(len(labels)), np.full(len(leaves), 2), np.diff(circuit.sum_edges)]
    )
    theta = np.append(circuit.leaf_log_p[rows_below, 0], circuit.edge_log_theta[:, 0])
    return DrawnCircuit(
        circuit.vtree,
        tuple(labels),
        np.concatenate([circuit.vtree.var_leaf[places], circuit.node_vtree[sums]]),
        np.append(0, np.cumsum(width)).astype(np.int32),
        np.append(below, number[circuit.edge_left]),
        np.append(np.full(len(below), NONE), number[circuit.edge_right]),
        np.exp(theta),
        np.arange(len(theta)) < len(below),
        np.append(rows_below, np.arange(circuit.n_edges)).astype(np.int32),
        int(number[circuit.root]),
    )


def leaf_name(column: Column, cells: AnyArray) -> str:
    """A literal, with a sign in front where its value is 0; or a column and how many cells."""
    if column.kind == BIT and len(cells) == 1:
        return f"{'' if cells[0] else '¬'}{column.name}"
    if len(cells) == 1:
        return f"{column.name}: {column.labels[int(cells[0])]}"
    some = "" if len(cells) == column.n_cells else f" of {column.n_cells}"
    return f"{column.name}: {len(cells)}{some} values"


class CircuitLayout(NamedTuple):
    """Marks and lines of a drawing; x grows towards the root, y upwards, neighbours are 1 apart."""

    mark_kind: tuple[Kind, ...]
    mark_label: tuple[str, ...]  # of an input; empty at sums and products
    mark_x: FloatArray  # (n_marks,)
    mark_y: FloatArray  # (n_marks,)
    line_start: IntArray  # (n_lines,) mark on the input side
    line_end: IntArray  # (n_lines,) mark on the output side
    line_edge: IntArray  # (n_lines,) the edge of the drawn circuit a line belongs to
    line_theta: FloatArray  # (n_lines,) the parameter to write on the line, NaN for none

    @property
    def width(self) -> float:
        """Distance between the first and the last column."""
        return float(np.ptp(self.mark_x))

    @property
    def height(self) -> float:
        """Distance between the lowest and the highest mark."""
        return float(np.ptp(self.mark_y))


def layout_circuit(circuit: DrawnCircuit) -> CircuitLayout:
    """Place every part of a circuit."""
    return _Layout(circuit).finish()


class _Layout:
    """The growing layout, filled from the root's vtree node down."""

    def __init__(self, circuit: DrawnCircuit) -> None:
        self.circuit = circuit
        self.marks: list[tuple[Kind, str, float, float]] = []  # kind, label, x, y
        self.lines: list[tuple[int, int, int, float]] = []
        # uses[node]: the marks of its parents, with the edge and the parameter to write on it.
        self.uses: list[list[tuple[int, int, float]]] = [[] for _ in circuit.node_vtree]
        nodes: list[list[int]] = [[] for _ in range(2 * circuit.vtree.n_nodes)]
        for node, v in enumerate(circuit.node_vtree.tolist()):
            nodes[2 * v + (node >= circuit.n_inputs)].append(node)
        for own in nodes[::2]:  # the value 1 of a variable before 0
            own.sort(key=lambda node: circuit.label[node].startswith("¬"))
        self.vtree_inputs, self.vtree_sums = nodes[::2], nodes[1::2]
        self.band_size = _band_sizes(circuit, self.vtree_inputs, self.vtree_sums)

    def finish(self) -> CircuitLayout:
        """Place all bands and freeze."""
        vtree = self.circuit.vtree
        top, height = np.zeros((2, vtree.n_nodes))
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
        kinds, labels, x, y = zip(*self.marks, strict=True)
        lines = np.array([line[:3] for line in self.lines], dtype=np.int32).reshape(-1, 3)
        theta = np.array([line[3] for line in self.lines])
        start, end, edge = lines.T
        return CircuitLayout(kinds, labels, np.array(x), -np.array(y), start, end, edge, theta)

    def _place_inner(self, v: int, top: float, height: float) -> None:
        column = -2.0 * float(self.circuit.vtree.node_depth[v])
        nodes = self._by_parents(self.vtree_sums[v])
        choices: list[tuple[int, int]] = []  # the mark of a sum, and one of its edges
        for node, y in zip(nodes, _spread(len(nodes), top, height), strict=True):
            first, last = self.circuit.node_edges[node : node + 2]
            has_choice = last - first > 1
            mark = self._mark("sum" if has_choice else "product", node, column, y)
            if has_choice:
                choices += [(mark, edge) for edge in range(first, last)]
            else:
                self._use_children(first, mark)
        for (mark, edge), y in zip(choices, _spread(len(choices), top, height), strict=True):
            product = self._mark("product", NONE, column - 1.0, y)
            self.lines.append((product, mark, edge, float(self.circuit.theta[edge])))
            self._use_children(edge, product)

    def _place_leaf(self, v: int, top: float, height: float) -> None:
        vtree, inputs = self.circuit.vtree, self.vtree_inputs[v]
        column = -2.0 * float(vtree.node_depth[v])
        direct = [node for node in inputs if self._is_used(node)]
        sums = self._by_parents(self.vtree_sums[v])
        share = len(direct) / (len(direct) + max(len(sums), 2)) if sums else 1.0  # of the band
        parent = vtree.node_parent[v]
        is_left = bool(parent != NONE and vtree.node_left[parent] == v)
        for node, y in zip(direct, _spread(len(direct), top, height * share), strict=True):
            # Its lines run to the middle of the parent's band and must clear its twin.
            is_behind = len(direct) == 2 and node == direct[is_left]
            self._mark("input", node, column - 0.4 * is_behind, y)
        top, height = top + height * share, height * (1 - share)
        for node, y in zip(sums, _spread(len(sums), top, height), strict=True):
            mark = self._mark("sum", node, column, y)
            for edge in range(*self.circuit.node_edges[node : node + 2]):
                literal = self.circuit.edge_left[edge]
                self.uses[literal].append((mark, edge, float(self.circuit.theta[edge])))
        below = [node for node in inputs if self.uses[node]]
        for node, y in zip(below, _spread(len(below), top, height), strict=True):
            self._mark("input", node, column - 1.0, y)

    def _mark(self, kind: Kind, node: int, x: float, y: float) -> int:
        """Add a mark, and the lines to everything that uses its node so far; NONE for no node."""
        mark = len(self.marks)
        label = self.circuit.label[node] if kind == "input" else ""
        self.marks.append((kind, label, x, y))
        if node != NONE:
            self.lines += [(mark, parent, edge, theta) for parent, edge, theta in self.uses[node]]
            self.uses[node] = []
        return mark

    def _use_children(self, edge: int, product: int) -> None:
        for child in (self.circuit.edge_left[edge], self.circuit.edge_right[edge]):
            self.uses[child].append((product, edge, np.nan))

    def _is_used(self, node: int) -> bool:
        return bool(self.uses[node]) or node == self.circuit.root

    def _by_parents(self, nodes: list[int]) -> list[int]:
        """Nodes that something uses, by the mean height of their parents to avoid crossings."""

        def height(node: int) -> float:
            return float(
                np.mean([self.marks[parent][3] for parent, *_ in self.uses[node]] or [0.0])
            )

        return sorted(filter(self._is_used, nodes), key=lambda node: (height(node), node))


def _band_sizes(
    circuit: DrawnCircuit, vtree_inputs: list[list[int]], vtree_sums: list[list[int]]
) -> FloatArray:
    """Rows every vtree node needs: its fullest column, or the bands of its children together."""
    vtree = circuit.vtree
    width = np.diff(circuit.node_edges)
    is_direct = np.zeros(len(circuit.node_vtree), dtype=bool)  # next to the sums of a leaf
    is_direct[circuit.root] = True
    for side in (circuit.edge_left, circuit.edge_right):
        is_direct[side[circuit.edge_right != NONE]] = True
    size = np.zeros(vtree.n_nodes)
    for v in range(vtree.n_nodes):
        n_sums = len(vtree_sums[v])
        if vtree.node_var[v] != NONE:
            n_direct = int(is_direct[vtree_inputs[v]].sum())
            size[v] = max(max(n_direct, 2 * (n_direct > 0)) + (max(n_sums, 2) if n_sums else 0), 2)
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
