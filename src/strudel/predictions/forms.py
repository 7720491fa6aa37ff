"""Predictors as flat arrays, whatever library they come from, and what they can still say.

In:  the parameters of a predictor over the cells of columns.
Out: `LinearForm`, `LeafForm`, `CircuitForm` or `EventForm`. Each has its output for complete rows
     (`evaluate`), and for rows of codes, which are only partly known, the least and the largest
     output over all completions, even impossible ones (`bounds`); `next_splits` says which column
     to ask for to narrow them most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.predictor import PredictorCircuit
from strudel.logic.column_classes import region_of
from strudel.logic.events import Bounds, Event, bounds_from_leaves, children_first
from strudel.predictions.cell_codes import CellCodes
from strudel.tables.column import Column
from strudel.tables.schema import Columns

Output: TypeAlias = Literal["value", "logit", "probability"]
Link: TypeAlias = Literal["identity", "sigmoid", "softmax"]
Ends: TypeAlias = tuple[FloatArray, FloatArray]  # the least and the largest, `(n_rows, n_outputs)`
Gains: TypeAlias = tuple[FloatArray, Callable[[int, int], AnyArray]]


class Said(NamedTuple):
    """What the outputs of a predictor are."""

    output: Output = "value"
    link: Link = "identity"
    classes: AnyArray | None = None

    def probabilities(self, output: FloatArray) -> FloatArray:
        """Probabilities `(..., n_classes)` from outputs `(..., n_outputs)`.

        Probabilities and values come back as they are. The log-odds of two known classes give two
        columns, in the order of `classes`; without classes, one.
        """
        if self.link == "identity":
            return output
        from scipy.special import expit, softmax

        if self.link == "softmax":
            return np.asarray(softmax(output, axis=-1))
        if self.classes is not None and len(self.classes) == 2:
            return np.concatenate([expit(-output), expit(output)], axis=-1)
        return np.asarray(expit(output))


VALUE, PROBABILITY = Said(), Said("probability")


class Line(NamedTuple):
    """A column of numbers of a linear model: what a number adds to the mean of its cell."""

    place: int
    column: Column
    slope: FloatArray  # (n_outputs,)

    def shifts(self, numbers: FloatArray) -> FloatArray:
        """What known numbers add, `(n_rows, n_outputs)`; nothing where they are NaN."""
        edges = np.array(self.column.edges)
        cell = np.searchsorted(edges, np.nan_to_num(numbers), side="right")
        away = np.nan_to_num(numbers - self.column.cell_means[cell])
        return away[:, np.newaxis] * self.slope

    def variances(self) -> FloatArray:
        """The variance that the numbers of every cell have, `(n_cells, n_outputs)`."""
        within = np.nan_to_num(self.column.cells.moments()[1])
        return np.asarray(within[:, np.newaxis] * self.slope**2)

    def draws(self, cells: IntArray, rng: np.random.Generator) -> FloatArray:
        """What numbers drawn from cells add."""
        numbers = self.column.drawn(cells, rng, beyond_seen=True)
        return self.shifts(np.array(numbers, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class LinearForm:
    """A sum of a weight for the cell of every column."""

    weight: tuple[FloatArray, ...]  # per column (n_cells, n_outputs)
    bias: FloatArray  # (n_outputs,)
    said: Said = VALUE
    lines: tuple[Line, ...] = ()  # columns whose numbers add more than the weight of their cell
    is_decided: bool = False  # whether it says no more than the value of one column

    def evaluate(self, cells: AnyArray) -> FloatArray:
        """The output `(n_rows, n_outputs)` for rows of cells."""
        parts = (own[cells[:, place]] for place, own in enumerate(self.weight))
        return np.asarray(sum(parts, start=np.tile(self.bias, (len(cells), 1))))

    def with_columns(self, matrix: FloatArray) -> LinearForm:
        """The same with outputs ``output @ matrix``."""
        return LinearForm(tuple(own @ matrix for own in self.weight), self.bias @ matrix)

    @cached_property
    def places(self) -> list[int]:
        """The columns that it looks at."""
        spread = (np.ptp(own, axis=0).max(initial=0.0) for own in self.weight)
        return [place for place, width in enumerate(spread) if width > 0.0]

    def bounds(self, known: CellCodes, codes: AnyArray) -> Ends:
        """The least and the largest output of each row."""
        at = known.first[:-1] + codes
        low, high = (end[at].sum(axis=1) + self.bias for end in self._ends(known))
        return low, high

    def gains(self, known: CellCodes, codes: AnyArray) -> Gains:
        """How far apart the weights of each column are, and the cells above their middle."""

        def cells(row: int, place: int) -> AnyArray:
            code = int(codes[row, place])
            return known.table(
                ("above", self, place, code), lambda: self._above_middle(place, known, code)
            )

        low, high = self._ends(known)
        spread = known.table(("spread", self), lambda: (high - low).max(axis=1, initial=0.0))
        gain = spread[known.first[:-1] + codes]
        return np.where(gain > 0.0, gain, -1.0), cells

    def _ends(self, known: CellCodes) -> Ends:
        """For every code the least and the largest weight."""

        def make() -> Ends:
            ends = [extremes(known.weights(p) > 0.0, own) for p, own in enumerate(self.weight)]
            low, high = map(np.concatenate, zip(*ends, strict=True))
            return low, high

        return known.table(("ends", self), make)

    def _above_middle(self, place: int, known: CellCodes, code: int) -> AnyArray:
        possible = known.weights(place)[code] > 0.0
        weight = self.weight[place]
        weight = weight[:, int(np.argmax(np.ptp(weight[possible], axis=0)))]
        own = weight[possible]
        above = weight > 0.5 * (own.min() + own.max())
        return above if (possible & above).any() else weight >= own.max()


OUTSIDE, INSIDE, MAYBE = 0, 1, 2


class Leaves(NamedTuple):
    """The leaves of trees as kernels take them."""

    place: IntArray  # (n_sets,)
    first: AnyArray  # (n_sets,) where the codes of a set start
    relation: AnyArray  # of all sets and codes: OUTSIDE, INSIDE or MAYBE
    start: IntArray
    set_of: IntArray
    tree: IntArray
    value: FloatArray


@dataclass(frozen=True, eq=False)
class LeafForm:
    """A sum over trees of the value at the leaf that a row reaches.

    A leaf is a conjunction of sets of cells, no column twice, in the order from the root of its
    tree. The leaves of one tree exclude each other and are complete.
    """

    n_columns: int
    set_place: IntArray  # (n_sets,) the column of each set of cells
    set_cells: tuple[AnyArray, ...]  # whether each cell of the column is in it
    leaf_start: IntArray  # (n_leaves + 1,) sets of leaf l: leaf_start[l]:leaf_start[l + 1]
    leaf_set: IntArray
    leaf_tree: IntArray  # (n_leaves,) not decreasing
    leaf_value: FloatArray  # (n_leaves, n_outputs), weighted: trees are simply added up
    bias: FloatArray  # (n_outputs,)
    said: Said = VALUE
    lines: tuple[Line, ...] = ()

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return len(self.leaf_tree)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.leaf_tree[-1]) + 1 if len(self.leaf_tree) else 0

    def evaluate(self, cells: AnyArray) -> FloatArray:
        """The output `(n_rows, n_outputs)` for rows of cells."""
        return self._ranges(self._leaves(self.set_cells), cells)[0]  # INSIDE is 1, OUTSIDE 0

    def with_columns(self, matrix: FloatArray) -> LeafForm:
        """The same with outputs ``output @ matrix``."""
        return replace(
            self, leaf_value=self.leaf_value @ matrix, bias=self.bias @ matrix, said=VALUE
        )

    @cached_property
    def places(self) -> list[int]:
        """The columns that it looks at."""
        return sorted(set(self.set_place[self.leaf_set].tolist()))

    def leaves(self, known: CellCodes) -> Leaves:
        """The leaves, with how every code relates to their sets."""

        def make() -> Leaves:
            relation = []
            for place, cells in zip(self.set_place.tolist(), self.set_cells, strict=True):
                is_possible = known.weights(place) > 0.0
                some, others = (is_possible[:, own].any(axis=1) for own in (cells, ~cells))
                relation.append(np.where(some, np.where(others, MAYBE, INSIDE), OUTSIDE))
            return self._leaves(relation)

        return known.table(("leaves", self), make)

    def _leaves(self, relation: Sequence[AnyArray]) -> Leaves:
        first = np.cumsum([0, *map(len, relation)])[:-1]
        every = np.concatenate([np.zeros(0, dtype=np.int8), *relation]).astype(np.int8)
        leaves = self.leaf_start, self.leaf_set, self.leaf_tree, self.leaf_value
        return Leaves(self.set_place, first, every, *leaves)

    def bounds(self, known: CellCodes, codes: AnyArray) -> Ends:
        """The least and the largest output of each row."""
        low, high, _, _ = self._ranges(self.leaves(known), codes)
        return low, high

    def gains(self, known: CellCodes, codes: AnyArray) -> Gains:
        """How much each column would narrow the output, and the set that its trees ask for.

        For a tree it is the first unknown one on the path, so that a search visits no more rows
        than the tree has nodes.
        """
        _, _, gain, asked = self._ranges(self.leaves(known), codes)
        return gain, lambda row, place: self.set_cells[asked[row, place]]

    def _ranges(
        self, leaves: Leaves, codes: AnyArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        low, high = (np.tile(self.bias, (len(codes), 1)) for _ in range(2))
        gain = np.full((len(codes), self.n_columns), -1.0)
        asked = np.full((len(codes), self.n_columns), NONE, dtype=np.int32)
        _leaf_ranges(codes, leaves, low, high, gain, asked)
        return low, high, gain, asked


@dataclass(frozen=True, eq=False)
class CircuitForm:
    """A regression or logistic circuit."""

    circuit: PredictorCircuit
    classes: AnyArray | None = None
    lines: tuple[Line, ...] = ()

    @property
    def said(self) -> Said:
        """A value, or the log-odds of each class against all others."""
        is_value = self.circuit.kind == "regression"
        how: tuple[Output, Link] = ("value", "identity") if is_value else ("logit", "sigmoid")
        return Said(*how, self.classes)

    @property
    def bias(self) -> FloatArray:
        """The constant part of the outputs."""
        return self.circuit.bias

    def evaluate(self, cells: AnyArray) -> FloatArray:
        """The output `(n_rows, n_outputs)` for rows of cells."""
        return self.circuit.outputs(cells)

    def with_columns(self, matrix: FloatArray) -> CircuitForm:
        """The same with outputs ``output @ matrix``."""
        return CircuitForm(self.circuit.with_outputs(matrix))

    @property
    def places(self) -> list[int]:
        """The columns that it looks at."""
        return list(range(len(self.circuit.structure.columns)))

    def bounds(self, known: CellCodes, codes: AnyArray) -> Ends:
        """The least and the largest output of each row.

        The least sum of weights is the largest of their opposites.
        """
        circuit = self.circuit.structure
        first, weight, edge_weight = known.table(("circuit", self), lambda: self._both_ways(known))
        value = np.empty((circuit.n_nodes, edge_weight.shape[1]))
        found = np.empty((len(codes), edge_weight.shape[1]))
        _largest_sums(
            codes,
            circuit.leaf_column,
            first,
            weight,
            circuit.sum_edges,
            circuit.edge_left,
            circuit.edge_right,
            edge_weight,
            value,
            found,
        )
        found[found[:, 0] == -np.inf] = 0.0  # what no completion satisfies
        if self.circuit.misses_rows:
            is_open = ~np.all(known.is_settled(codes), axis=1)
            found[is_open] = np.maximum(found[is_open], 0.0)
        most, opposite = np.split(found, 2, axis=1)
        return self.bias - opposite, self.bias + most

    def gains(self, known: CellCodes, codes: AnyArray) -> Gains:
        """How much weight lies on each column, and half of its cells."""
        gain = np.tile(self.circuit.weight_by_column, (len(codes), 1))
        return gain, lambda row, place: half_of(known.weights(place)[codes[row, place]] > 0.0)

    def _both_ways(self, known: CellCodes) -> tuple[IntArray, FloatArray, FloatArray]:
        """Where the codes of every leaf start, largest weights and opposites; those of edges."""
        circuit, edge_weight = self.circuit.weights, self.circuit.edge_weight
        rows, widths = [], []
        for place in range(len(circuit.columns)):
            table, of_codes = circuit.leaf_table(place), known.weights(place) > 0.0
            is_possible = of_codes & (table[:, np.newaxis, :, 0] > -np.inf)
            low, high = extremes(is_possible, table[:, np.newaxis])
            rows.append(np.concatenate([high, -low], axis=2).reshape(-1, 2 * len(self.bias)))
            widths += [len(of_codes)] * len(table)
        first = np.cumsum([0, *widths[:-1]]).astype(np.int32)
        return first, np.concatenate(rows), np.hstack([edge_weight, -edge_weight])


@kernel
def _largest_sums(
    codes: AnyArray,
    leaf_column: IntArray,
    leaf_first: IntArray,
    leaf_weight: FloatArray,
    sum_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    edge_weight: FloatArray,
    value: FloatArray,
    found: FloatArray,
) -> None:
    """The largest sums of weights that completions of rows take; -inf if there is none."""
    n_leaves, n_sums = len(leaf_column), len(sum_edges) - 1
    for s in range(len(codes)):
        for l in range(n_leaves):
            value[l] = leaf_weight[leaf_first[l] + codes[s, leaf_column[l]]]
        for i in range(n_sums):
            mine = value[n_leaves + i]
            mine[:] = -np.inf
            for e in range(sum_edges[i], sum_edges[i + 1]):
                left, right, weight = value[edge_left[e]], value[edge_right[e]], edge_weight[e]
                for j in range(len(mine)):
                    mine[j] = max(mine[j], left[j] + right[j] + weight[j])
        found[s] = value[n_leaves + n_sums - 1]


@dataclass(frozen=True, eq=False)
class EventForm:
    """A logical event: 1 where it holds, 0 where it does not."""

    event: Event
    columns: Columns  # whose cells meet at all its bounds
    said: Said = PROBABILITY
    lines: tuple[Line, ...] = ()

    @property
    def bias(self) -> FloatArray:
        """Nothing, of one output."""
        return np.zeros(1)

    @cached_property
    def leaf_cells(self) -> dict[int, tuple[int, AnyArray]]:
        """By the id of a leaf: its column, and the cells in which it holds."""
        found = {}
        for part, _ in children_first(self.event):
            if part.kind in ("in", "variable"):
                place = self.columns.place(part.var, "The event")
                found[id(part)] = place, self.columns[place].weights(region_of(part)) > 0.5
        return found

    def evaluate(self, cells: AnyArray) -> FloatArray:
        """1 or 0, `(n_rows, 1)`, for rows of cells."""

        def of_cells(place: int, own: AnyArray) -> Bounds:
            return own[cells[:, place]], own[cells[:, place]]

        low, _ = self._bounds_by_part(of_cells, cells)[id(self.event)]
        return low.astype(np.float64)[:, np.newaxis]

    def bounds(self, known: CellCodes, codes: AnyArray) -> Ends:
        """The least and the largest output of each row."""
        ends = self._bounds_of_codes(known, codes)[id(self.event)]
        low, high = (end.astype(np.float64)[:, np.newaxis] for end in ends)
        return low, high

    def gains(self, known: CellCodes, codes: AnyArray) -> Gains:
        """How many parts that still matter are about each column, and the cells that one asks for.

        A part matters if it is open, and so are all above it.
        """
        bounds = self._bounds_of_codes(known, codes)
        is_open = {key: low != high for key, (low, high) in bounds.items()}
        matters = {key: np.zeros(len(codes), dtype=np.bool_) for key in bounds}
        gain = np.zeros(codes.shape)
        matters[id(self.event)] = is_open[id(self.event)]
        for part, operands in reversed(list(children_first(self.event))):
            here = matters[id(part)]
            for child in operands:
                matters[id(child)] |= here & is_open[id(child)]
            if id(part) in self.leaf_cells:
                gain[:, self.leaf_cells[id(part)][0]] += here
            elif part.sdd is not None:
                gain += here[:, np.newaxis]

        def cells(row: int, place: int) -> AnyArray:
            possible = known.weights(place)[codes[row, place]] > 0.0
            for own, cells in self.leaf_cells.values():
                if own == place and (possible & cells).any() and (possible & ~cells).any():
                    return cells
            return half_of(possible)

        return gain, cells

    def _bounds_of_codes(self, known: CellCodes, codes: AnyArray) -> dict[int, Bounds]:
        def of_cells(place: int, cells: AnyArray) -> Bounds:
            is_possible = known.weights(place)[codes[:, place]] > 0.0
            inside: AnyArray = np.any(is_possible[:, cells], axis=1)
            outside: AnyArray = np.any(is_possible[:, ~cells], axis=1)
            return ~outside, inside

        return self._bounds_by_part(of_cells, codes)

    def _bounds_by_part(
        self, of_cells: Callable[[int, AnyArray], Bounds], codes: AnyArray
    ) -> dict[int, Bounds]:
        """Whether every part must and may hold, by its id.

        ``of_cells(place, cells)`` says where a column surely and possibly is in some cells.
        """

        def of_leaf(leaf: Event) -> Bounds:
            if leaf.sdd is not None:
                return leaf.sdd.bounds(codes.astype(np.uint8))
            return of_cells(*self.leaf_cells[id(leaf)])

        return bounds_from_leaves(self.event, of_leaf, len(codes))

    def with_columns(self, matrix: FloatArray) -> EventForm:
        """Itself: it has one output."""
        return self

    @cached_property
    def places(self) -> list[int]:
        """The columns that it looks at."""
        if any(part.sdd is not None for part, _ in children_first(self.event)):
            return list(range(len(self.columns)))
        return sorted({place for place, _ in self.leaf_cells.values()})


Form: TypeAlias = LinearForm | LeafForm | CircuitForm | EventForm


def form_of_leaves(
    n_cells: Sequence[int], trees: Iterable[Iterable[tuple[dict[int, int], FloatArray]]], said: Said
) -> LeafForm:
    """The form of trees, of which each is its leaves: by place cells, as bits, and a value."""
    number: dict[tuple[int, int], int] = {}
    every = [(1 << n) - 1 for n in n_cells]
    start, sets, tree_of, values = [0], [], [], []
    for tree, leaves in enumerate(trees):
        for path, value in leaves:
            for key in path.items():
                if key[1] != every[key[0]]:
                    sets.append(number.setdefault(key, len(number)))
            start.append(len(sets))
            tree_of.append(tree)
            values.append(value)
    cells = [
        np.array([bits >> cell & 1 for cell in range(n_cells[place])], dtype=bool)
        for place, bits in number
    ]
    return LeafForm(
        len(n_cells),
        np.array([place for place, _ in number], dtype=np.int32),
        tuple(cells),
        np.array(start, dtype=np.int32),
        np.array(sets, dtype=np.int32),
        np.array(tree_of, dtype=np.int32),
        np.array(values, dtype=np.float64),
        np.zeros(len(values[0])),
        said,
    )


# What partly known rows can still be


def next_splits(form: Form, known: CellCodes, codes: AnyArray) -> tuple[IntArray, list[AnyArray]]:
    """For each row the column that narrows the output most, and cells to split it by.

    NONE where no column that is left matters.
    """
    gain, cells_of = form.gains(known, codes)
    is_left = ~known.is_settled(codes)
    is_left[:, np.setdiff1d(np.arange(codes.shape[1]), form.places)] = False
    gain = np.where(is_left, gain, -1.0)
    best = gain.argmax(axis=1)
    is_open = gain[np.arange(len(codes)), best] >= 0.0
    places = np.where(is_open, best, NONE).astype(np.int32)
    nothing = np.zeros(0, dtype=bool)
    cells = [
        cells_of(row, place) if place != NONE else nothing
        for row, place in enumerate(places.tolist())
    ]
    return places, cells


def extremes(is_possible: AnyArray, weight: FloatArray) -> Ends:
    """The least and the largest weight of the cells `(..., n_cells)` that are possible."""
    is_there = is_possible[..., np.newaxis]
    low = np.where(is_there, weight, np.inf).min(axis=-2)
    return low, np.where(is_there, weight, -np.inf).max(axis=-2)


def half_of(possible: AnyArray) -> AnyArray:
    """The later half of some cells."""
    cells = np.zeros(len(possible), dtype=bool)
    chosen = np.flatnonzero(possible)
    cells[chosen[len(chosen) // 2 :]] = True
    return cells


@kernel
def _leaf_ranges(
    codes: AnyArray, p: Leaves, low: FloatArray, high: FloatArray, gain: FloatArray, asked: IntArray
) -> None:
    """Add up, over the trees, the extremes of the leaves that a row may still reach.

    The range of a tree is added to the `gain` of the column that it asks for next, which `asked`
    says by which set.
    """
    n_leaves, n_outputs = p.value.shape
    least = np.empty(n_outputs)
    most = np.empty(n_outputs)
    for s in range(len(codes)):
        least[:] = np.inf
        most[:] = -np.inf
        first = NONE  # of the sets that the tree asks for
        for l in range(n_leaves):
            is_possible = True
            maybe = NONE
            for i in range(p.start[l], p.start[l + 1]):
                t = p.set_of[i]
                found = p.relation[p.first[t] + codes[s, p.place[t]]]
                if found == OUTSIDE:
                    is_possible = False
                    break
                if found == MAYBE and maybe == NONE:
                    maybe = t
            if is_possible:
                for j in range(n_outputs):
                    least[j] = min(least[j], p.value[l, j])
                    most[j] = max(most[j], p.value[l, j])
                if first == NONE:
                    first = maybe
            if l + 1 == n_leaves or p.tree[l + 1] != p.tree[l]:
                low[s] += least
                high[s] += most
                if first != NONE:
                    place = p.place[first]
                    if asked[s, place] == NONE:
                        asked[s, place] = first
                        gain[s, place] = 0.0
                    for j in range(n_outputs):
                        gain[s, place] += most[j] - least[j]
                least[:] = np.inf
                most[:] = -np.inf
                first = NONE


def questions_of_leaves(
    form: LeafForm, known: CellCodes, codes: AnyArray
) -> tuple[IntArray, AnyArray, AnyArray]:
    """What rows are asked at the leaves that they may reach.

    Returns the question of each row and leaf: NONE where the row cannot reach the leaf, the row's
    number where it surely does, else the number of rows and the place among the questions; the row
    of every question; and its codes.
    """
    leaves = form.leaves(known)
    after = np.zeros(len(leaves.relation), dtype=np.int32)
    for place in form.places:
        present = np.unique(codes[:, place])
        for i in np.flatnonzero(form.set_place == place).tolist():
            at = leaves.first[i] + present
            for code in present[leaves.relation[at] == MAYBE].tolist():
                after[leaves.first[i] + code] = known.split(place, code, form.set_cells[i])[0]
    questions = np.empty((len(codes), form.n_leaves), dtype=np.int32)
    asked_row = np.empty(questions.size, dtype=np.int32)
    asked = np.empty((questions.size, codes.shape[1]), dtype=np.int32)  # memory when written
    n_asked = _find_questions(codes, leaves, after, questions, asked_row, asked)
    return questions, asked_row[:n_asked], asked[:n_asked].copy()


@kernel
def _find_questions(
    codes: AnyArray,
    p: Leaves,
    after: IntArray,
    questions: IntArray,
    asked_row: IntArray,
    asked: AnyArray,
) -> int:
    """Fill the question of each row and leaf; returns how many there are besides the rows.

    Leaves that ask for the same codes share a question, found by a table of what they ask.
    """
    set_place, set_first, relation, start, set_of = p.place, p.first, p.relation, p.start, p.set_of
    n_rows, n_leaves = questions.shape
    n_slots = 8
    while n_slots < 2 * n_leaves:
        n_slots *= 2
    table = np.empty(n_slots, dtype=np.int32)
    n_new = np.empty(len(asked), dtype=np.int32)  # codes that a question has and its row has not
    n_asked = 0
    for s in range(n_rows):
        row = codes[s]
        table[:] = NONE
        for l in range(n_leaves):
            sets = set_of[start[l] : start[l + 1]]
            mixed, n_open, is_possible = np.int64(0), 0, True
            for t in sets:
                at = set_first[t] + row[set_place[t]]
                if relation[at] == MAYBE:
                    n_open += 1
                    own = (np.int64(set_place[t]) << 16) + after[at] + 1
                    own = own * 2654435761 & 0x7FFFFFFF
                    mixed += (own ^ own >> 13) * 1597334677 & 0x7FFFFFFF  # in any order
                elif relation[at] == OUTSIDE:
                    is_possible = False
                    break
            if not is_possible or n_open == 0:
                questions[s, l] = s if is_possible else NONE
                continue
            slot = (mixed ^ (mixed >> 17)) & (n_slots - 1)
            while table[slot] != NONE:
                other, is_same = table[slot], n_new[table[slot]] == n_open
                for t in sets:
                    at = set_first[t] + row[set_place[t]]
                    if relation[at] == MAYBE:
                        is_same &= asked[other, set_place[t]] == after[at]
                if is_same:
                    break
                slot = (slot + 1) & (n_slots - 1)
            if table[slot] == NONE:
                table[slot] = n_asked
                asked_row[n_asked], n_new[n_asked] = s, n_open
                asked[n_asked] = row
                for t in sets:
                    at = set_first[t] + row[set_place[t]]
                    if relation[at] == MAYBE:
                        asked[n_asked, set_place[t]] = after[at]
                n_asked += 1
            questions[s, l] = n_rows + table[slot]
    return n_asked
