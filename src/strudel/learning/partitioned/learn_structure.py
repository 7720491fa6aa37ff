"""Algorithm 2 on rows in partitions: the same search, split for split, as on one table in memory.

In:  packed parts of the training and validation rows, on an engine.
Out: the best circuit with its parameters, and the `History` of the search.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from strudel._compiling import now
from strudel._types import CountArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import compile_chow_liu, compile_column_tree, compile_factorized
from strudel.circuits.flows import compute_flows
from strudel.data.bits import BitMatrix
from strudel.errors import NotPartitionedError
from strudel.learning.options import BestFirst, Greedy, SearchOptions, VariableScore
from strudel.learning.parameters import log_parameters
from strudel.learning.partitioned.gains import PartitionedGains
from strudel.learning.partitioned.growing_circuit import PartitionedCircuit, pick_place
from strudel.learning.partitioned.partitioned_table import PartitionedRows
from strudel.learning.progress import History
from strudel.learning.search.best_first import Gains
from strudel.learning.search.learn_structure import Run
from strudel.tables.column_codes import complete_columns
from strudel.trees.chow_liu import chow_liu_tree_from_counts
from strudel.trees.column_tree import column_tree_from_counts
from strudel.trees.mutual_information import value_counts
from strudel.trees.vtree import vtree_from_chow_liu


def grow_partitioned(
    train: PartitionedRows,
    valid: PartitionedRows | None,
    *,
    search: SearchOptions,
    rng: np.random.Generator | int | None = None,
    on_split: Callable[[History], None] | None = None,
) -> PartitionedRun:
    """The search itself."""
    _check(search)
    search.check_ends(has_valid=valid is not None)
    started = now()
    first = first_partitioned_circuit(train, search)
    kind = search.search
    asks_pairs = isinstance(kind, Greedy) and kind.variable_score == "mutual_information"

    def make() -> PartitionedCircuit:
        return PartitionedCircuit(
            first,
            train.engine,
            train.parts,
            [] if valid is None else valid.parts,
            (train.total_weight, 0.0 if valid is None else valid.total_weight),
            pseudocount=search.pseudocount,
            asks_pairs=asks_pairs,
        )

    run = PartitionedRun(make, search, np.random.default_rng(rng), started)
    run.train = train
    run.continue_until(search, on_split)
    return run


class PartitionedRun(Run):
    """A greedy or best-first search that asks the parts for what it needs to know."""

    train: PartitionedRows

    def best(self) -> tuple[Circuit, History]:
        """The best circuit with its parameters, and the history that led there."""
        best = self.growing.snapshot(self.history.best)
        return fit_partitioned_parameters(best, self.train, self.search.pseudocount), self.history

    def _gains(self) -> Gains:
        assert isinstance(self.growing, PartitionedCircuit)
        return PartitionedGains(self.growing)

    def _place_picker(self, score: VariableScore) -> Callable[[int], int]:
        assert isinstance(self.growing, PartitionedCircuit)
        if score == "random":
            return super()._place_picker(score)
        if score == "gain":
            return self._gains().best_place
        return partial(pick_place, self.growing, alpha=self.search.alpha)


def first_partitioned_circuit(train: PartitionedRows, search: SearchOptions) -> Circuit:
    """The Chow-Liu tree of all rows, compiled; or independent variables on its vtree."""
    is_independent = search.init == "independent"
    columns = complete_columns(search.columns or (), train.n_vars)
    if not all(column.is_bit for column in columns):
        counts = train.engine.total(value_counts, train.parts, columns)
        found = column_tree_from_counts(
            counts, columns, train.total_weight, is_independent=is_independent, alpha=search.alpha
        )
        return compile_column_tree(*found)
    tree = chow_liu_tree_from_counts(train.pair_counts, train.total_weight, alpha=search.alpha)
    vtree = vtree_from_chow_liu(tree)
    return compile_factorized(vtree) if is_independent else compile_chow_liu(tree, vtree)


def fit_partitioned_parameters(
    circuit: Circuit, rows: PartitionedRows, pseudocount: float
) -> Circuit:
    """Parameters in closed form from all rows."""
    count = rows.engine.total(edge_counts, rows.parts, circuit)
    return circuit.with_parameters(log_parameters(circuit, count, pseudocount))


def edge_counts(rows: BitMatrix, circuit: Circuit) -> CountArray:
    """Weight of the rows of one part through every edge."""
    return compute_flows(circuit, rows).edge_count


def _check(search: SearchOptions) -> None:
    """Refuse what needs all rows in memory."""
    kind = search.search
    copy_depth = getattr(kind, "copy_depth", 1)
    wrong = [
        f"{name}={value!r}"
        for name, value, is_fine in (
            ("search", type(kind).__name__, type(kind) in (Greedy, BestFirst)),
            ("smoothing", search.smoothing, search.smoothing == "uniform"),
            ("vtree", search.vtree, search.vtree == "chow_liu"),
            ("copy_depth", copy_depth, copy_depth <= 1),
        )
        if not is_fine
    ]
    if wrong:
        raise NotPartitionedError(
            f"Partitioned rows need a greedy or best-first search, without {', '.join(wrong)}.",
            "Give structure_rows to the search, which then takes a sample of the rows in memory; "
            "the parameters will still see all of them.",
        )
