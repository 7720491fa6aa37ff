"""What the page shows as columns, and the circuit on the page.

In:  a model over 0/1 variables, and the code of its table if it has one.
Out: `PageColumn`s, as people see them; `Slot`s, the 0/1 variables that the page takes together; and
     `PagePart`, arrays of nodes and entries: sums of products as they are, and below them leaves
     over slots. A leaf has an entry per value, a sum one per product.

The bits of a column usually are one subtree of the vtree. Then they are one slot, with a value for
each codeword. Where they are scattered, each piece that is a subtree of its own is a slot, and a
value of the column is one value in each of its slots.

A sum at the vtree node of a slot becomes a leaf: the probability of each value is that of its bits,
found by one pass up the nodes below. What other bits than the slot's patterns have is an entry of
its own if it is more than rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.normalization import normalized_columns
from strudel.circuits.scopes import reached_nodes
from strudel.queries.model import Model
from strudel.tables.coded_column import CodedColumn
from strudel.tables.column import BIT, has_one_value_per_cell
from strudel.tables.columns import date_text, duration_text, number_text
from strudel.tables.filled_table import has_mean
from strudel.tables.table_code import code_of_bits
from strudel.trees.vtree import Vtree

# Columns


@dataclass(frozen=True)
class PageColumn:
    """One column as the page shows it."""

    name: str
    kind: str  # "bit", "boolean", "category", "ordinal", "number" or "date"
    labels: tuple[str, ...]  # (n_values,) as Python calls the values
    texts: tuple[str, ...]  # (n_values,) as the page calls them
    numbers: tuple[float, ...]  # (n_values,) what stands for each cell in a mean; or none
    dtype: str
    slots: tuple[int, ...]  # none where the components decide, as the class of a classifier
    codes: tuple[tuple[int, ...], ...]  # (n_values, n_slots) the value in each slot

    @property
    def n_values(self) -> int:
        """Number of values or cells."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Slot:
    """One variable of the circuit on the page: the variables of a vtree node."""

    vtree_node: int
    variables: tuple[int, ...]
    patterns: ByteArray  # (n_values, n_variables) the bits of each value
    share: FloatArray  # (n_values,) how probable each is given its bits, where several share them


def columns_and_slots(
    model: Model, *, is_by_vtree: bool
) -> tuple[tuple[PageColumn, ...], tuple[Slot, ...]]:
    """The columns of the table, or the variables, and the slots that their bits become.

    Only a model whose nodes lie at the nodes of its vtree can take variables together.
    """
    code = model.table_code
    if code is None:
        code = code_of_bits(names_of(model.n_vars, model.feature_names), "numpy")
    slots: list[Slot] = []
    columns = []
    for column in code.columns:
        first = len(slots)
        words = []
        is_rare = np.bincount(column.value_cell)[column.value_cell] > 1  # shares its cell
        for v in _pieces(model.vtree, column.variables, is_by_vtree):
            variables = tuple(sorted(model.vtree.scope(v)))
            bits = column.cell_words[:, np.array(variables) - column.start]
            _, again, count = np.unique(bits, axis=0, return_inverse=True, return_counts=True)
            # Rare values are told apart in the first slot that tells their cell from all others.
            is_own = is_rare & (count[again.ravel()] == 1)[column.value_cell]
            is_rare &= ~is_own
            own = np.where(is_own, 1 + np.arange(column.n_values), 0)
            keys = np.column_stack([bits[column.value_cell], own])
            patterns = np.unique(keys, axis=0)
            if len(patterns) == len(keys):  # in the order of the column's values
                patterns = keys
            share = np.where(patterns[:, -1] > 0, column.value_share[patterns[:, -1] - 1], 1.0)
            slots.append(Slot(v, variables, patterns[:, :-1].astype(np.uint8), share))
            words.append([_place(key, patterns) for key in keys])
        codes = tuple(zip(*words, strict=True))
        columns.append(_page_column(column, tuple(range(first, len(slots))), codes))
    return tuple(columns), tuple(slots)


def class_column(name: str, classes: Sequence[object], taken: Sequence[str]) -> PageColumn:
    """The class of a classifier whose components each belong to one class."""
    while name in taken:
        name += "_"
    labels = tuple(map(str, classes))
    return PageColumn(name, "category", labels, labels, (), "object", (), ())


def _pieces(vtree: Vtree, variables: Sequence[int], is_by_vtree: bool) -> list[int]:
    """The highest vtree nodes that hold nothing but some of these variables."""
    own = np.zeros(vtree.n_vars, dtype=bool)
    own[list(variables)] = True
    if not is_by_vtree:
        return [int(vtree.var_leaf[var]) for var in variables]
    first, last = vtree.node_span
    pieces = []
    for var in variables:
        v, up = NONE, int(vtree.var_leaf[var])
        while up != NONE and last[up] - first[up] <= len(variables):
            if not own[vtree.order[first[up] : last[up]]].all():
                break
            v, up = up, int(vtree.node_parent[up])
        if v not in pieces:
            pieces.append(v)
    return pieces


def _place(key: AnyArray, patterns: AnyArray) -> int:
    return int(np.flatnonzero((patterns == key).all(axis=1))[0])


def _page_column(
    column: CodedColumn, slots: tuple[int, ...], codes: tuple[tuple[int, ...], ...]
) -> PageColumn:
    numbers: tuple[float, ...] = ()
    if has_mean(column) and column.kind != BIT:
        numbers = tuple(column.cell_means.tolist())
        if not all(map(math.isfinite, numbers)):
            numbers = ()
    return PageColumn(
        column.name,
        column.kind,
        column.labels,
        _texts(column),
        numbers,
        column.dtype,
        slots,
        codes,
    )


def _texts(column: CodedColumn) -> tuple[str, ...]:
    """What the page calls the values: cells of numbers and dates, and booleans, in words.

    Examples
    --------
    >>> from strudel.tables.columns import RawColumn
    >>> from strudel.tables.learn_code import CodeOptions, learn_column
    >>> ages = RawColumn("age", "integer", np.arange(100.0))
    >>> _texts(learn_column(ages, 0, options=CodeOptions(n_bins=4)))
    ('24 or less', '25 to 49', '50 to 74', '75 or more')
    >>> heights = RawColumn("height", "float", np.arange(100.0) / 2)
    >>> _texts(learn_column(heights, 0, options=CodeOptions(n_bins=4)))
    ('under 12.5', '12.5 to 25', '25 to 37.5', '37.5 or more')
    >>> incomes = RawColumn("income", "integer", 1000 * np.arange(100.0))
    >>> _texts(learn_column(incomes, 0, options=CodeOptions(n_bins=4)))[1]
    '25,000 to 49,999'
    """
    is_date = column.kind == "date"
    if column.labels == ("False", "True"):
        return ("no", "yes")
    if column.kind not in ("number", "date") or not column.edges:
        return column.labels
    if has_one_value_per_cell(column.values, column.edges, column.ranges):
        return column.labels
    if column.dtype == "integer":
        return tuple(map(_grouped, _whole_numbers(column)))
    if is_date:
        ends = [date_text(edge) for edge in column.edges]
    elif column.dtype == "duration":
        ends = [duration_text(edge) for edge in column.edges]
    else:
        ends = [_grouped(number_text(edge)) for edge in column.edges]
    below, above = ("before {}", "from {} on") if is_date else ("under {}", "{} or more")
    inner = [f"{a} to {b}" for a, b in pairwise(ends)]
    return (below.format(ends[0]), *inner, above.format(ends[-1]))


def _grouped(text: str) -> str:
    """A text with commas in its numbers, where these are 10,000 or more."""
    return re.sub(r"(?<![\d.])\d{5,}", lambda found: f"{int(found[0]):,}", text)


def _whole_numbers(column: CodedColumn) -> tuple[str, ...]:
    """Cells of whole numbers by the first and the last that is in them, so that none is in two."""
    first = [math.ceil(edge) for edge in column.edges]
    inner = [str(a) if b - a == 1 else f"{a} to {b - 1}" for a, b in pairwise(first)]
    (low, lowest), (low_of_last, high) = column.ranges[0], column.ranges[-1]
    below = number_text(low) if low == lowest else f"{first[0] - 1} or less"
    above = number_text(high) if low_of_last == high else f"{first[-1]} or more"
    return (below, *inner, above)


# The circuit


ROUNDING = 1e-9  # of what sums add up to


@dataclass(frozen=True, eq=False)
class PagePart:
    """The components on their structure; children come before parents, the root is last."""

    node_slot: IntArray  # (n_nodes,) the slot of a leaf, NONE for a sum
    node_entries: IntArray  # (n_nodes + 1,) entries of n are node_entries[n]:node_entries[n + 1]
    entry_left: IntArray  # (n_entries,) left child; in a leaf the value of the slot
    entry_right: IntArray  # (n_entries,) right child, NONE if there is none, and in a leaf
    entry_log_theta: FloatArray  # (n_entries, n_components)
    log_total: FloatArray  # (n_components,) what the components added up to

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.entry_log_theta.shape[1]


def collapse(
    circuit: Circuit, log_theta: FloatArray, slots: Sequence[Slot], *, is_by_vtree: bool
) -> tuple[PagePart, list[bool]]:
    """The circuit over the slots, and for each slot whether other bits than its patterns occur.

    Log-parameters are `(n_edges, n_components)`. Where nodes do not lie at the nodes of the vtree,
    slots are single variables and only literals become leaves.
    """
    collapsing = _Collapsing(circuit, log_theta, slots, is_by_vtree)
    has_other = [bool(theta[:, -1].max(initial=0.0) > ROUNDING) for theta in collapsing.leaf_theta]
    return collapsing.finish(has_other), has_other


class _Collapsing:
    """A structure and its parameters, while its lower sums become leaves."""

    def __init__(
        self, circuit: Circuit, log_theta: FloatArray, slots: Sequence[Slot], is_by_vtree: bool
    ) -> None:
        self.circuit = circuit
        self.log_theta, self.log_total = _normalised(circuit, log_theta)
        self.n_components = log_theta.shape[1]
        self.is_by_vtree = is_by_vtree
        self.is_kept = reached_nodes(circuit)
        self.leaf_nodes: list[IntArray] = []  # per slot, their numbers in the circuit
        self.leaf_theta: list[FloatArray] = []  # (n_leaves, n_patterns + 1, n_components)
        for slot in slots:
            nodes, theta = self._leaves(slot)
            is_used = self.is_kept[nodes]
            self.leaf_nodes.append(nodes[is_used])
            self.leaf_theta.append(theta[is_used])

    def _leaves(self, slot: Slot) -> tuple[IntArray, FloatArray]:
        """The nodes at the slot's vtree node: the probability of every pattern, and of no pattern.

        Sums below are not kept.
        """
        vtree, top = self.circuit.vtree, slot.vtree_node
        first, last = vtree.node_span
        below = np.flatnonzero((first >= first[top]) & (last <= last[top])).tolist()
        found: dict[int, tuple[IntArray, FloatArray]] = {}  # nodes, (n_nodes, n_patterns, ...)
        for v in below:  # children first
            found[v] = self._literals(v, slot)
            sums = self._sums_at(v)
            if len(sums):
                nodes, values = found[v]
                values = np.concatenate([values, self._sum_values(v, sums, found)])
                found[v] = np.concatenate([nodes, sums]), values
            if v != top:
                self.is_kept[found[v][0]] = False
        nodes, values = found[top]
        values = values * slot.share[:, np.newaxis]
        other = np.zeros((len(nodes), 1, self.n_components))
        if len(np.unique(slot.patterns, axis=0)) < 2 ** len(slot.variables):
            other = np.maximum(1.0 - values.sum(axis=1, keepdims=True), 0.0)
        return nodes, np.concatenate([values, other], axis=1)

    def _sums_at(self, v: int) -> IntArray:
        if not self.is_by_vtree:
            return np.zeros(0, dtype=np.int32)
        first, sums = self.circuit.sums_by_vtree
        return sums[first[v] : first[v + 1]]

    def _literals(self, v: int, slot: Slot) -> tuple[IntArray, FloatArray]:
        """The two literals at a vtree leaf; nothing at an inner node."""
        var = int(self.circuit.vtree.node_var[v])
        shape = (len(slot.patterns), self.n_components)
        if var == NONE:
            return np.zeros(0, dtype=np.int32), np.zeros((0, *shape))
        bit = slot.patterns[:, slot.variables.index(var), np.newaxis]
        values = np.stack([np.broadcast_to(bit == value, shape) for value in (0, 1)])
        return np.array([2 * var, 2 * var + 1], dtype=np.int32), values.astype(np.float64)

    def _sum_values(
        self, v: int, sums: IntArray, found: dict[int, tuple[IntArray, FloatArray]]
    ) -> FloatArray:
        """The values `(n_sums, n_patterns, n_components)` of the sums at a vtree node."""
        circuit, vtree = self.circuit, self.circuit.vtree
        edges = circuit.vtree_edges(v)  # those of one sum side by side
        if vtree.node_var[v] != NONE:
            product = found[v][1][circuit.edge_left[edges] % 2]
        else:
            left = _values_of(circuit.edge_left[edges], *found[int(vtree.node_left[v])])
            right = _values_of(circuit.edge_right[edges], *found[int(vtree.node_right[v])])
            product = left * right
        terms = np.exp(self.log_theta[edges])[:, np.newaxis, :] * product
        width = circuit.node_edges[sums + 1] - circuit.node_edges[sums]
        values: FloatArray = np.add.reduceat(terms, np.cumsum(width) - width, axis=0)
        return values

    def finish(self, has_other: Sequence[bool]) -> PagePart:
        """The arrays: all leaves, then the sums above in their order."""
        circuit = self.circuit
        lefts, thetas, widths, slot_of = [], [], [], []
        number = np.full(circuit.n_nodes + 1, NONE, dtype=np.int32)  # NONE stays NONE
        n_leaves = 0
        for s, (nodes, theta) in enumerate(zip(self.leaf_nodes, self.leaf_theta, strict=True)):
            number[nodes] = np.arange(n_leaves, n_leaves + len(nodes))
            n_leaves += len(nodes)
            self.is_kept[nodes] = False
            theta = theta if has_other[s] else theta[:, :-1]
            is_possible = (theta > 0.0).any(axis=2)
            leaf, value = np.nonzero(is_possible)
            lefts.append(value.astype(np.int32))
            thetas.append(theta[leaf, value])
            widths.append(is_possible.sum(axis=1))
            slot_of.append(np.full(len(nodes), s, dtype=np.int32))
        sums = np.flatnonzero(self.is_kept)
        number[sums] = np.arange(n_leaves, n_leaves + len(sums))
        edges = np.flatnonzero(self.is_kept[circuit.edge_parent])
        with np.errstate(divide="ignore"):
            log_leaf_theta = np.log(np.concatenate(thetas))
        n_leaf_entries = len(log_leaf_theta)
        width = np.concatenate([*widths, np.diff(circuit.node_edges)[sums]])
        nothing = np.full(n_leaf_entries, NONE, dtype=np.int32)
        return PagePart(
            np.concatenate([*slot_of, np.full(len(sums), NONE, dtype=np.int32)]),
            np.concatenate([[0], np.cumsum(width)]).astype(np.int32),
            np.concatenate([*lefts, number[circuit.edge_left[edges]]]),
            np.concatenate([nothing, number[circuit.edge_right[edges]]]),
            np.concatenate([log_leaf_theta, self.log_theta[edges]]),
            self.log_total,
        )


def _values_of(ends: IntArray, nodes: IntArray, values: FloatArray) -> AnyArray:
    """The values of some nodes, which are all among `nodes`."""
    order = np.argsort(nodes)
    return values[order[np.searchsorted(nodes[order], ends)]]


def _normalised(circuit: Circuit, log_theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Parameters that add up to one in every sum, and the logs of what the components gave."""
    n_components = log_theta.shape[1]
    if circuit.n_edges == 0:  # a single variable that is known
        return log_theta, np.zeros(n_components)
    first = circuit.node_edges[2 * circuit.n_vars : -1]
    with np.errstate(over="ignore"):
        totals = np.add.reduceat(np.exp(log_theta), first, axis=0)
    if np.all(np.abs(totals - 1.0) <= ROUNDING):
        return log_theta, np.zeros(n_components)
    return normalized_columns(circuit.edges, log_theta, circuit.n_vars)
