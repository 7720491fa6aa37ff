"""What is known of the columns of a circuit, as codes: a cell, or weights of all cells.

In:  a `Circuit`, and the weights that evidence about it has.
Out: `CellCodes`: codes as `Evidence` has them, which grow with every set of cells that a column is
     split by; and tables that have an entry for every code.

A row of codes is all that predictions know of a row, so rows with the same codes share their
answers. The questions about it, in a search or at the leaves of a tree, are rows of codes, too.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

import numpy as np

from strudel._numba import run_blocks
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.passes import are_moderate
from strudel.circuits.walks import LeafRows, component_logs_of, leaf_rows
from strudel.data.validation import slices
from strudel.predictions.shared_walks import Parameters, Structure, answer_rows
from strudel.queries.given import component_posterior, log_mean
from strudel.tables.evidence import Evidence

BLOCK_LOGS = 2**22  # of rows or questions and components, made at a time
BLOCK_ROWS = 32  # that one thread takes, so that all have work
MANY_ROWS = 2**10  # with their components: side by side they are quicker

T = TypeVar("T")


class CellCodes:
    """The codes that rows of evidence and questions about them have."""

    def __init__(self, circuit: Circuit, evidence: Evidence) -> None:
        self.circuit = circuit
        self.n_cells = np.array([column.n_cells for column in circuit.columns], dtype=np.int32)
        self._weights = [list(own) for own in evidence.weights]
        self._number = [
            {weights.tobytes(): n_cells + j for j, weights in reversed(list(enumerate(own)))}
            for own, n_cells in zip(self._weights, self.n_cells.tolist(), strict=True)
        ]
        self._split: dict[tuple[int, int, bytes], tuple[int, int]] = {}
        self._tables: dict[Any, Any] = {}
        self._kept: dict[Any, Any] = {}
        self._n_made = [0]  # codes so far
        self._n_seen = 0  # when the tables were made

    def of_circuit(self, circuit: Circuit) -> CellCodes:
        """The same codes for another circuit over the same cells."""
        other = copy(self)
        other.circuit, other._tables, other._kept = circuit, {}, {}
        return other

    def nothing(self, n_rows: int = 1) -> AnyArray:
        """Rows that know nothing."""
        return np.tile(self.n_cells, (n_rows, 1))

    def evidence(self, codes: AnyArray) -> Evidence:
        """Rows of codes as evidence."""
        weights = tuple(map(np.array, self._weights))
        return Evidence(self.circuit.columns, codes, weights, {}, {})

    def component_logs(self, codes: AnyArray) -> FloatArray:
        """The log-probability of every row of codes under every component."""
        if len(codes) * self.circuit.n_components > MANY_ROWS:
            return component_logs_of(self.circuit, self.rows, codes)
        return self._answers(codes, np.zeros(len(codes) + 1, dtype=np.int64), codes[:0])[0]

    def log_probabilities(self, codes: AnyArray) -> FloatArray:
        """The log-probability of every row of codes."""
        found = np.empty(len(codes))
        for part in slices(len(codes), max(1, BLOCK_LOGS // self.circuit.n_components)):
            found[part] = log_mean(self.circuit, self.component_logs(codes[part]))
        return found

    def answers(
        self, codes: AnyArray, asked_row: IntArray, asked: AnyArray
    ) -> tuple[FloatArray, FloatArray]:
        """Log-probability of each row, and the probability of each question given its row.

        `asked_row` does not decrease. Rows of probability zero get NaN.
        """
        log_p = np.empty(len(codes))
        chance = np.empty(len(asked))
        start = np.searchsorted(asked_row, np.arange(len(codes) + 1)).astype(np.int64)
        most = max(1, BLOCK_LOGS // self.circuit.n_components)
        first = 0
        while first < len(codes):
            last = first + 1
            while last < len(codes) and start[last + 1] - start[first] + last - first < most:
                last += 1
            part = slice(start[first], start[last])
            own_start = start[first : last + 1] - start[first]
            logs, asked_logs = self._answers(codes[first:last], own_start, asked[part])
            row = np.repeat(np.arange(last - first), np.diff(own_start))
            # Each component answers for itself: their logs may be far apart, but not those of one.
            with np.errstate(invalid="ignore"):
                ratio = np.exp(asked_logs - logs[row])
            ratio[np.isnan(ratio)] = 0.0  # the component makes the row impossible
            weight = component_posterior(self.circuit, logs)
            log_p[first:last] = log_mean(self.circuit, logs)
            chance[part] = np.einsum("qc,qc->q", weight[row], ratio)
            first = last
        return log_p, chance

    def _answers(
        self, codes: AnyArray, asked_start: AnyArray, asked: AnyArray
    ) -> tuple[FloatArray, FloatArray]:
        """The logs of rows and questions under every component."""
        k = self.circuit.n_components
        logs, asked_logs = np.empty((len(codes), k)), np.empty((len(asked), k))
        lost = np.ones(logs.shape, dtype=np.bool_)
        asked_lost = np.ones(asked_logs.shape, dtype=np.bool_)
        codes, asked = np.ascontiguousarray(codes), np.ascontiguousarray(asked)
        p, (theta, table, is_moderate) = self.structure, self.parameters

        def run(part: slice) -> None:
            start = asked_start[part.start : part.stop + 1]
            found = logs[part], asked_logs, lost[part], asked_lost
            answer_rows(codes[part], start, asked, p, table, theta, *found)

        run_blocks(run, len(codes), BLOCK_ROWS)
        for own, is_lost, rows in ((logs, lost, codes), (asked_logs, asked_lost, asked)):
            again = np.flatnonzero((is_lost | ~is_moderate).any(axis=1))
            if len(again):
                own[again] = component_logs_of(self.circuit, self.rows, rows[again])
        return logs, asked_logs

    @property
    def structure(self) -> Structure:
        """The circuit laid out in arrays that may be written to, as those of a part of it are.

        The compiler takes them for another type than those of the circuit itself.
        """

        def make() -> Structure:
            c, vtree = self.circuit, self.circuit.vtree
            arrays = [vtree.node_left, vtree.node_right, vtree.node_var, c.column_leaves]
            arrays += [self.rows.first, c.vtree_sums, c.sum_edges, c.edge_left, c.edge_right]
            return Structure(*map(np.array, arrays))

        return self.table("structure", make)

    @property
    def parameters(self) -> Parameters:
        """The parameters laid out by component."""

        def make() -> Parameters:
            own = self.circuit.edge_log_theta, self.rows.log_value
            with np.errstate(over="ignore"):  # such components are left to logs
                theta, table = (np.ascontiguousarray(np.exp(logs).T) for logs in own)
            return Parameters(theta, table, are_moderate(own[0]) & are_moderate(own[1]))

        return self.table("parameters", make)

    # Splits

    def split(self, place: int, code: int, cells: AnyArray) -> tuple[int, int]:
        """The codes of a column that also lies in some cells, and that lies in none of them.

        NONE where that cannot be.
        """
        key = place, code, cells.tobytes()
        if key not in self._split:
            weights = self.weights(place)[code]
            both = (self._code(place, weights * side) for side in (cells, ~cells))
            inside, outside = both
            self._split[key] = inside, outside
        return self._split[key]

    def _code(self, place: int, weights: FloatArray) -> int:
        possible = np.flatnonzero(weights)
        if not len(possible):
            return NONE
        if len(possible) == 1 and weights[possible[0]] == 1.0:
            return int(possible[0])
        key, own = weights.tobytes(), self._number[place]
        if key not in own:
            own[key] = int(self.n_cells[place]) + len(self._weights[place])
            self._weights[place].append(weights)
            self._n_made[0] += 1
        return own[key]

    # Tables of all codes

    def table(self, key: Any, make: Callable[[], T]) -> T:
        """What is made for all codes, and made again when there are more."""
        if self._n_seen != self._n_made[0]:
            self._tables.clear()
            self._n_seen = self._n_made[0]
        if key not in self._tables:
            self._tables[key] = make()
        found: T = self._tables[key]
        return found

    def kept(self, key: Any, make: Callable[[], T]) -> T:
        """What is made once, whatever codes there will be."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    @property
    def rows(self) -> LeafRows:
        """The tables of the leaves, with a row for every code."""
        return self.table(
            "rows", lambda: leaf_rows(self.circuit, tuple(map(np.array, self._weights)))
        )

    def weights(self, place: int) -> FloatArray:
        """What each cell of a column weighs in every code, `(n_codes, n_cells)`."""
        return self.table(
            ("weights", place),
            lambda: np.concatenate([np.eye(self.n_cells[place]), np.array(self._weights[place])]),
        )

    @property
    def first(self) -> AnyArray:
        """Code j of column c is entry ``first[c] + j`` of the tables below."""

        def make() -> AnyArray:
            n_codes = self.n_cells + [len(own) for own in self._weights]
            return np.concatenate([[0], np.cumsum(n_codes)])

        return self.table("first", make)

    @property
    def n_possible(self) -> AnyArray:
        """How many cells each code leaves possible."""
        return self.table("n_possible", lambda: self.concatenated(lambda w: (w > 0.0).sum(axis=1)))

    def concatenated(self, make: Callable[[FloatArray], AnyArray]) -> AnyArray:
        """An array over the codes of all columns, of which each is made of its weights."""
        places = range(len(self.circuit.columns))
        return np.concatenate([make(self.weights(place)) for place in places])

    def is_settled(self, codes: AnyArray) -> AnyArray:
        """Whether only one cell is possible, `(n_rows, n_columns)`."""
        return np.asarray(self.n_possible[self.first[:-1] + codes] == 1)

    def cells_of(self, codes: AnyArray) -> AnyArray:
        """The first cell that is possible, `(n_rows, n_columns)`."""
        cells = self.table("cells", lambda: self.concatenated(lambda w: (w > 0.0).argmax(axis=1)))
        return np.asarray(cells[self.first[:-1] + codes])
