"""Predictors as flat arrays, whatever library they come from, and what they can still say.

In:  the parameters of a predictor over the cells of columns.
Out: `LinearForm`, `LeafForm`, `CircuitForm` or `EventForm`; `Ranges`: the least and the largest
     output over all completions of rows that are only partly known, even impossible ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.predictor import PredictorCircuit
from strudel.logic.column_classes import Classes, classes_of, region_of
from strudel.logic.events import Bounds, Event, bounds_from_leaves, children_first
from strudel.predictions.cell_codes import CellCodes
from strudel.tables.column import Column
from strudel.tables.schema import Columns

Output: TypeAlias = Literal["value", "logit", "probability"]
Link: TypeAlias = Literal["identity", "sigmoid", "softmax"]


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


class CellSets(NamedTuple):
    """Sets of cells of columns, each once."""

    place: IntArray  # (n_sets,)
    cells: tuple[AnyArray, ...]  # whether each cell of the column is in it

    def relations(self, known: CellCodes) -> tuple[AnyArray, AnyArray]:
        """For code c of the column of set i, at ``first[i] + c``: OUTSIDE, INSIDE or MAYBE."""
        first, parts, total = np.zeros(len(self.place), dtype=np.int64), [], 0
        for i, (place, cells) in enumerate(zip(self.place.tolist(), self.cells, strict=True)):
            is_possible = known.weights(place) > 0.0
            some, others = is_possible[:, cells].any(axis=1), is_possible[:, ~cells].any(axis=1)
            parts.append(np.where(some, np.where(others, MAYBE, INSIDE), OUTSIDE))
            first[i] = total
            total += len(is_possible)
        return first, np.concatenate([np.zeros(0, dtype=np.int8), *parts]).astype(np.int8)


OUTSIDE, INSIDE, MAYBE = 0, 1, 2


@dataclass(frozen=True, eq=False)
class LeafForm:
    """A sum over trees of the value at the leaf that a row reaches.

    A leaf is a conjunction of sets of cells, no column twice, in the order from the root of its
    tree. The leaves of one tree exclude each other and are complete.
    """

    n_columns: int
    sets: CellSets
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
        output = np.tile(self.bias, (len(cells), 1))
        sets = zip(self.sets.place.tolist(), self.sets.cells, strict=True)
        holds = np.array([own[cells[:, place]] for place, own in sets], dtype=bool)
        holds = holds.reshape(len(self.sets.place), len(cells))
        _add_leaves(holds, self.leaf_start, self.leaf_set, self.leaf_value, output)
        return output

    def with_columns(self, matrix: FloatArray) -> LeafForm:
        """The same with outputs ``output @ matrix``."""
        return replace(
            self, leaf_value=self.leaf_value @ matrix, bias=self.bias @ matrix, said=VALUE
        )

    @cached_property
    def places(self) -> list[int]:
        """The columns that it looks at."""
        return sorted(set(self.sets.place[self.leaf_set].tolist()))


@kernel
def _add_leaves(
    holds: AnyArray,
    leaf_start: IntArray,
    leaf_set: IntArray,
    leaf_value: FloatArray,
    output: FloatArray,
) -> None:
    """Add the values of the leaves that rows reach; `holds` is `(n_sets, n_rows)`."""
    for s in range(len(output)):
        for l in range(len(leaf_value)):
            is_there = True
            for i in range(leaf_start[l], leaf_start[l + 1]):
                is_there &= holds[leaf_set[i], s]
            if is_there:
                output[s] += leaf_value[l]


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
    def classes(self) -> Classes:
        """The classes of values that it can tell apart."""
        return classes_of(self.event, self.columns)

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
        low, _ = self.bounds(lambda place, own: own[cells[:, place]], lambda place: cells[:, place])
        return low.astype(np.float64)[:, np.newaxis]

    def bounds(self, of_cells: Any, bits: Any) -> Bounds:
        """Whether the event must and may hold; see `bounds_by_part`."""
        return self.bounds_by_part(of_cells, bits)[id(self.event)]

    def bounds_by_part(self, of_cells: Any, bits: Any) -> dict[int, Bounds]:
        """Whether every part must and may hold, by its id.

        ``of_cells(place, cells)`` says where a column surely is in some cells, or a pair of where
        it surely and where it possibly is; ``bits(place)`` are codes of 0/1 variables.
        """

        def of_leaf(leaf: Event) -> Bounds:
            if leaf.sdd is not None:
                places = range(len(self.columns))
                return leaf.sdd.bounds(np.column_stack([bits(place) for place in places]))
            found = of_cells(*self.leaf_cells[id(leaf)])
            return found if isinstance(found, tuple) else (found, found)

        n_rows = len(bits(0))
        return bounds_from_leaves(self.event, of_leaf, n_rows)

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
    n_cells: Sequence[int],
    trees: Iterable[Iterable[tuple[dict[int, int], FloatArray]]],
    said: Said,
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
        CellSets(np.array([place for place, _ in number], dtype=np.int32), tuple(cells)),
        np.array(start, dtype=np.int32),
        np.array(sets, dtype=np.int32),
        np.array(tree_of, dtype=np.int32),
        np.array(values, dtype=np.float64),
        np.zeros(len(values[0])),
        said,
    )


# What partly known rows can still be


class Ranges:
    """The outputs that completions of rows of codes can have."""

    def __init__(self, form: Form, known: CellCodes) -> None:
        self.form, self.known = form, known
        self.places = form.places

    def bounds(self, codes: AnyArray) -> tuple[FloatArray, FloatArray]:
        """The least and the largest output of each row, `(n_rows, n_outputs)` each."""
        form = self.form
        if isinstance(form, LinearForm):
            low, high, _ = self.known.table(("linear", form), self._linear_tables)
            at = self.known.first[:-1] + codes
            return low[at].sum(axis=1) + form.bias, high[at].sum(axis=1) + form.bias
        if isinstance(form, EventForm):
            ends = form.bounds(*self._of_codes(codes))
            low, high = (end.astype(np.float64)[:, np.newaxis] for end in ends)
            return low, high
        if isinstance(form, LeafForm):
            return self._of_leaves(codes)[:2]
        return self._of_circuit(codes)

    def next_splits(self, codes: AnyArray) -> tuple[IntArray, list[AnyArray]]:
        """For each row the column that narrows the output most, and cells to split it by.

        NONE where no column that is left matters. For a tree it is the first unknown one on the
        path, so that a search visits no more rows than the tree has nodes.
        """
        form, known = self.form, self.known
        asked = np.zeros((0, 0), dtype=np.int32)
        if isinstance(form, LeafForm):
            _, _, gain, asked = self._of_leaves(codes)
        elif isinstance(form, EventForm):
            gain = self._event_gains(codes)
        elif isinstance(form, LinearForm):
            gain = known.table(("linear", form), self._linear_tables)[2][known.first[:-1] + codes]
        else:
            gain = np.tile(form.circuit.weight_by_column, (len(codes), 1))
        if not isinstance(form, LinearForm | LeafForm):
            gain = np.where(known.is_settled(codes), -1.0, gain)
            gain[:, np.setdiff1d(np.arange(gain.shape[1]), self.places)] = -1.0
        best = gain.argmax(axis=1)
        is_open = gain[np.arange(len(codes)), best] >= 0.0
        places = np.where(is_open, best, NONE).astype(np.int32)
        cells = [
            self._cells(row, place, codes, asked) if place != NONE else np.zeros(0, dtype=bool)
            for row, place in enumerate(places.tolist())
        ]
        return places, cells

    def _cells(self, row: int, place: int, codes: AnyArray, asked: IntArray) -> AnyArray:
        """Cells of a column, some of which a row may have and some not."""
        form, code = self.form, int(codes[row, place])
        if isinstance(form, LeafForm):
            return form.sets.cells[asked[row, place]]
        if isinstance(form, LinearForm):
            return self.known.table(
                ("above", form, place, code), lambda: self._above_middle(place, code)
            )
        possible = self.known.weights(place)[code] > 0.0
        if isinstance(form, EventForm):
            for own, cells in form.leaf_cells.values():
                if own == place and (possible & cells).any() and (possible & ~cells).any():
                    return cells
        return half_of(possible)

    def _linear_tables(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For every code the least and largest weight, and how far they are apart; -1 for none."""
        form, known = self.form, self.known
        assert isinstance(form, LinearForm)
        ends = []
        for place, own in enumerate(form.weight):
            is_possible = (known.weights(place) > 0.0)[:, :, np.newaxis]
            least = np.where(is_possible, own, np.inf).min(axis=1)
            most = np.where(is_possible, own, -np.inf).max(axis=1)
            ends.append((least, most))
        low, high = (np.concatenate(side) for side in zip(*ends, strict=True))
        gain = (high - low).max(axis=1, initial=0.0)
        return low, high, np.where(gain > 0.0, gain, -1.0)

    def _above_middle(self, place: int, code: int) -> AnyArray:
        form = self.form
        assert isinstance(form, LinearForm)
        possible = self.known.weights(place)[code] > 0.0
        weight = form.weight[place]
        own = weight[possible]
        output = int(np.argmax(np.ptp(own, axis=0)))
        middle = 0.5 * (own[:, output].min() + own[:, output].max())
        above = weight[:, output] > middle
        return above if (possible & above).any() else weight[:, output] >= own[:, output].max()

    def _of_leaves(self, codes: AnyArray) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Least and largest outputs, how much each column would narrow them, and by which set."""
        form = self.form
        assert isinstance(form, LeafForm)
        low, high = np.tile(form.bias, (len(codes), 1)), np.tile(form.bias, (len(codes), 1))
        gain = np.full((len(codes), form.n_columns), -1.0)
        asked = np.full((len(codes), form.n_columns), NONE, dtype=np.int32)
        relation = self.known.table(("relations", form), lambda: form.sets.relations(self.known))
        _leaf_ranges(
            codes,
            form.sets.place,
            *relation,
            form.leaf_start,
            form.leaf_set,
            form.leaf_tree,
            form.leaf_value,
            low,
            high,
            gain,
            asked,
        )
        return low, high, gain, asked

    def _of_codes(self, codes: AnyArray) -> tuple[Any, Any]:
        """What `bounds_by_part` asks of codes."""

        def of_cells(place: int, cells: AnyArray) -> Bounds:
            is_possible = self.known.weights(place)[codes[:, place]] > 0.0
            inside: AnyArray = np.any(is_possible[:, cells], axis=1)
            outside: AnyArray = np.any(is_possible[:, ~cells], axis=1)
            return ~outside, inside

        return of_cells, lambda place: codes[:, place].astype(np.uint8)

    def _event_gains(self, codes: AnyArray) -> FloatArray:
        """For each column, how many parts of the event that still matter are about it."""
        form = self.form
        assert isinstance(form, EventForm)
        bounds = form.bounds_by_part(*self._of_codes(codes))
        is_open = {key: low != high for key, (low, high) in bounds.items()}
        matters = {key: np.zeros(len(codes), dtype=np.bool_) for key in bounds}
        gain = np.zeros(codes.shape)
        matters[id(form.event)] = is_open[id(form.event)]
        for part, operands in reversed(list(children_first(form.event))):
            here = matters[id(part)]
            for child in operands:
                matters[id(child)] |= here & is_open[id(child)]
            if id(part) in form.leaf_cells:
                gain[:, form.leaf_cells[id(part)][0]] += here
            elif part.sdd is not None:
                gain += here[:, np.newaxis]
        return gain

    def _of_circuit(self, codes: AnyArray) -> tuple[FloatArray, FloatArray]:
        form, known = self.form, self.known
        assert isinstance(form, CircuitForm)
        own = form.circuit
        circuit, n_outputs = own.structure, len(own.bias)
        first, least, most = known.table(("circuit", form), self._leaf_tables)
        is_complete: AnyArray = np.all(known.is_settled(codes), axis=1)
        low, high = np.tile(own.bias, (len(codes), 1)), np.tile(own.bias, (len(codes), 1))
        _circuit_bounds(
            codes,
            is_complete,
            circuit.leaf_column,
            circuit.sum_edges,
            circuit.edge_left,
            circuit.edge_right,
            first,
            least,
            most,
            np.ascontiguousarray(own.edge_weight),
            own.misses_rows,
            np.empty((2, circuit.n_nodes, n_outputs)),
            low,
            high,
        )
        return low, high

    def _leaf_tables(self) -> tuple[AnyArray, FloatArray, FloatArray]:
        """The least and the largest weight of every leaf and code, from ``first[leaf]`` on."""
        form, known = self.form, self.known
        assert isinstance(form, CircuitForm)
        circuit = form.circuit.structure
        first, least, most = [], [], []
        total = 0
        for place in range(len(circuit.columns)):
            leaves = range(*circuit.column_leaves[place : place + 2].tolist())
            weights = known.weights(place) > 0.0
            for leaf in leaves:
                cells = slice(*circuit.leaf_first[leaf : leaf + 2])
                is_possible = (weights & (circuit.leaf_log_p[cells, 0] > -np.inf))[:, :, np.newaxis]
                weight = form.circuit.cell_weight[cells]
                least.append(np.where(is_possible, weight, np.inf).min(axis=1))
                most.append(np.where(is_possible, weight, -np.inf).max(axis=1))
                first.append(total)
                total += len(weights)
        return np.array(first), np.concatenate(least), np.concatenate(most)


def half_of(possible: AnyArray) -> AnyArray:
    """The later half of some cells."""
    cells = np.zeros(len(possible), dtype=bool)
    chosen = np.flatnonzero(possible)
    cells[chosen[len(chosen) // 2 :]] = True
    return cells


@kernel
def _leaf_ranges(
    codes: AnyArray,
    set_place: IntArray,
    set_first: AnyArray,
    relation: AnyArray,
    leaf_start: IntArray,
    leaf_set: IntArray,
    leaf_tree: IntArray,
    leaf_value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    gain: FloatArray,
    asked: IntArray,
) -> None:
    """Add up, over the trees, the extremes of the leaves that a row may still reach.

    The range of a tree is added to the `gain` of the column that it asks for next, which `asked`
    says by which set.
    """
    n_leaves, n_outputs = leaf_value.shape
    least = np.empty(n_outputs)
    most = np.empty(n_outputs)
    for s in range(len(codes)):
        least[:] = np.inf
        most[:] = -np.inf
        first = NONE  # of the sets that the tree asks for
        for l in range(n_leaves):
            is_possible = True
            maybe = NONE
            for i in range(leaf_start[l], leaf_start[l + 1]):
                t = leaf_set[i]
                found = relation[set_first[t] + codes[s, set_place[t]]]
                if found == OUTSIDE:
                    is_possible = False
                    break
                if found == MAYBE and maybe == NONE:
                    maybe = t
            if is_possible:
                for j in range(n_outputs):
                    least[j] = min(least[j], leaf_value[l, j])
                    most[j] = max(most[j], leaf_value[l, j])
                if first == NONE:
                    first = maybe
            if l + 1 == n_leaves or leaf_tree[l + 1] != leaf_tree[l]:
                low[s] += least
                high[s] += most
                if first != NONE:
                    place = set_place[first]
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
    sets = form.sets
    first, relation = known.table(("relations", form), lambda: sets.relations(known))
    after = np.zeros(len(relation), dtype=np.int32)
    for place in form.places:
        present = np.unique(codes[:, place])
        for i in np.flatnonzero(sets.place == place).tolist():
            for code in present[relation[first[i] + present] == MAYBE].tolist():
                after[first[i] + code] = known.split(place, code, sets.cells[i])[0]
    questions = np.empty((len(codes), form.n_leaves), dtype=np.int32)
    asked_row = np.empty(questions.size, dtype=np.int32)
    asked_leaf = np.empty(questions.size, dtype=np.int32)
    arrays = sets.place, first, relation, after, form.leaf_start, form.leaf_set
    n_asked = _find_questions(codes, *arrays, questions, asked_row, asked_leaf)
    asked = codes[asked_row[:n_asked]]
    _add_sets(asked, asked_leaf, *arrays)
    return questions, asked_row[:n_asked], asked


@kernel
def _find_questions(
    codes: AnyArray,
    set_place: IntArray,
    set_first: AnyArray,
    relation: AnyArray,
    after: IntArray,
    leaf_start: IntArray,
    leaf_set: IntArray,
    questions: IntArray,
    asked_row: IntArray,
    asked_leaf: IntArray,
) -> int:
    """Fill the question of each row and leaf; returns how many there are besides the rows.

    Leaves that ask for the same codes share a question, found by a table of what they ask.
    """
    n_rows, n_leaves = questions.shape
    n_slots = 8
    while n_slots < 2 * n_leaves:
        n_slots *= 2
    table = np.empty(n_slots, dtype=np.int32)
    n_asked = 0
    for s in range(n_rows):
        row = codes[s]
        table[:] = NONE
        for l in range(n_leaves):
            mixed = np.int64(0)
            n_open = 0
            is_possible = True
            for i in range(leaf_start[l], leaf_start[l + 1]):
                t = np.int64(leaf_set[i])
                at = set_first[t] + row[set_place[t]]
                if relation[at] == MAYBE:
                    n_open += 1
                    own = (np.int64(set_place[t]) << 16) + after[at] + 1
                    own = own * 2654435761 & 0x7FFFFFFF
                    mixed += (own ^ own >> 13) * 1597334677 & 0x7FFFFFFF  # in any order
                elif relation[at] == OUTSIDE:
                    is_possible = False
                    break
            if not is_possible:
                questions[s, l] = NONE
                continue
            if n_open == 0:
                questions[s, l] = s
                continue
            slot = (mixed ^ (mixed >> 17)) & (n_slots - 1)
            while table[slot] != NONE:
                # Whether the leaf of this slot asks for the same codes.
                n_same = n_other = 0
                other = asked_leaf[table[slot]]
                for i in range(leaf_start[other], leaf_start[other + 1]):
                    t = leaf_set[i]
                    at = set_first[t] + row[set_place[t]]
                    if relation[at] != MAYBE:
                        continue
                    n_other += 1
                    for j in range(leaf_start[l], leaf_start[l + 1]):
                        mine = leaf_set[j]
                        if set_place[mine] == set_place[t]:
                            n_same += after[set_first[mine] + row[set_place[t]]] == after[at]
                if n_same == n_other == n_open:
                    break
                slot = (slot + 1) & (n_slots - 1)
            if table[slot] == NONE:
                table[slot] = n_asked
                asked_row[n_asked], asked_leaf[n_asked] = s, l
                n_asked += 1
            questions[s, l] = n_rows + table[slot]
    return n_asked


@kernel
def _add_sets(
    asked: AnyArray,
    asked_leaf: IntArray,
    set_place: IntArray,
    set_first: AnyArray,
    relation: AnyArray,
    after: IntArray,
    leaf_start: IntArray,
    leaf_set: IntArray,
) -> None:
    """Put the sets of its leaf into every row of codes."""
    for s in range(len(asked)):
        l = asked_leaf[s]
        for i in range(leaf_start[l], leaf_start[l + 1]):
            t = leaf_set[i]
            place = set_place[t]
            at = set_first[t] + asked[s, place]
            if relation[at] == MAYBE:
                asked[s, place] = after[at]


@kernel
def _circuit_bounds(
    codes: AnyArray,
    is_complete: AnyArray,
    leaf_column: IntArray,
    sum_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    leaf_row: AnyArray,
    leaf_least: FloatArray,
    leaf_most: FloatArray,
    edge_weight: FloatArray,
    misses_rows: bool,
    ends: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """One pass up per row: a product adds the ranges of its children, a sum joins its edges'.

    A node that no completion satisfies has the empty range, from inf to -inf.
    """
    n_leaves, n_outputs = len(leaf_column), low.shape[1]
    least, most = ends[0], ends[1]
    root = len(least) - 1
    for s in range(len(codes)):
        for l in range(n_leaves):
            row = leaf_row[l] + codes[s, leaf_column[l]]
            least[l] = leaf_least[row]
            most[l] = leaf_most[row]
        for i in range(len(sum_edges) - 1):
            n = n_leaves + i
            least[n] = np.inf
            most[n] = -np.inf
            for e in range(sum_edges[i], sum_edges[i + 1]):
                for j in range(n_outputs):
                    down = least[edge_left[e], j] + edge_weight[e, j] + least[edge_right[e], j]
                    up = most[edge_left[e], j] + edge_weight[e, j] + most[edge_right[e], j]
                    least[n, j] = min(least[n, j], down)
                    most[n, j] = max(most[n, j], up)
        for j in range(n_outputs):
            down, up = least[root, j], most[root, j]
            if down > up:
                down, up = 0.0, 0.0
            elif misses_rows and not is_complete[s]:
                down, up = min(down, 0.0), max(up, 0.0)
            low[s, j] += down
            high[s, j] += up
