"""What is known of the columns of a circuit, as codes: a cell, or weights of all cells.

In:  a `ColumnCircuit`, and the weights that evidence about it has.
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

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.column_circuit import ColumnCircuit
from strudel.circuits.walks import LeafRows, component_logs_of, leaf_rows
from strudel.data.validation import slices
from strudel.queries.given import log_mean
from strudel.tables.evidence import Evidence

BLOCK_LOGS = 2**22  # of rows and components, made at a time

T = TypeVar("T")


class CellCodes:
    """The codes that rows of evidence and questions about them have."""

    def __init__(self, circuit: ColumnCircuit, evidence: Evidence) -> None:
        self.circuit = circuit
        self.n_cells = np.array([column.n_cells for column in circuit.columns], dtype=np.int32)
        self._weights = [list(own) for own in evidence.weights]
        self._number = [
            {weights.tobytes(): n_cells + j for j, weights in reversed(list(enumerate(own)))}
            for own, n_cells in zip(self._weights, self.n_cells.tolist(), strict=True)
        ]
        self._split: dict[tuple[int, int, bytes], tuple[int, int]] = {}
        self._tables: dict[Any, Any] = {}
        self._n_made = [0]  # codes so far
        self._n_seen = 0  # when the tables were made

    def of_circuit(self, circuit: ColumnCircuit) -> CellCodes:
        """The same codes for another circuit over the same cells."""
        other = copy(self)
        other.circuit, other._tables = circuit, {}
        return other

    def nothing(self, n_rows: int = 1) -> AnyArray:
        """Rows that know nothing."""
        return np.tile(self.n_cells, (n_rows, 1))

    def component_logs(self, codes: AnyArray) -> FloatArray:
        """The log-probability of every row of codes under every component."""
        return component_logs_of(self.circuit, self.rows, codes)

    def log_probabilities(self, codes: AnyArray) -> FloatArray:
        """The log-probability of every row of codes."""
        found = np.empty(len(codes))
        for part in slices(len(codes), max(1, BLOCK_LOGS // self.circuit.n_components)):
            found[part] = log_mean(self.circuit, self.component_logs(codes[part]))
        return found

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

    @property
    def rows(self) -> LeafRows:
        """The tables of the leaves, with a row for every code."""
        weights = tuple(map(np.array, self._weights))
        return self.table("rows", lambda: leaf_rows(self.circuit, weights))

    def weights(self, place: int) -> FloatArray:
        """What each cell of a column weighs in every code, `(n_codes, n_cells)`."""
        return self.table(
            ("weights", place),
            lambda: np.concatenate([np.eye(self.n_cells[place]), np.array(self._weights[place])]),
        )

    @property
    def first(self) -> AnyArray:
        """Code j of column c is entry ``first[c] + j`` of the tables below."""
        n_weights = [len(own) for own in self._weights]
        ends = np.cumsum(self.n_cells + n_weights)
        return self.table("first", lambda: np.concatenate([[0], ends]))

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
