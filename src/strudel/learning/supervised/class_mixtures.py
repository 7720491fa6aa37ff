"""Rows with classes, and one mixture per class on one structure.

In:  0/1 rows, NaN where a value is unknown, and the class of each; a deterministic `Circuit`.
Out: `ClassRows`, folds of them and completions; `ClassCounts`, from which the mixture of all
     classes is read off for any smoothing.

The components of all classes stand side by side in one `Mixture`, whose weights hold the share of
each class. The probability of a class given a row, complete or not, is then the responsibility of
its components.

Parameters are smoothed in two steps: those of a component towards those of its class, and those of
a class towards those of all rows. So a class with few rows borrows from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import compile_chow_liu, compile_column_tree, compile_factorized
from strudel.circuits.mixture import Mixture
from strudel.data.bits import BitMatrix, merge_equal_rows, pack_columns
from strudel.learning.mixture_methods import MixtureOptions
from strudel.learning.mixtures.em import MixtureData, Runs, train_runs
from strudel.queries.sampling import sample
from strudel.tables.column_codes import ColumnCode, column_values, complete_columns
from strudel.trees.chow_liu import learn_class_tree
from strudel.trees.column_tree import learn_class_column_tree
from strudel.trees.vtree import vtree_from_chow_liu

MOST_STEPS = 30  # of EM: smoothing, chosen afterwards, matters more than the last of the likelihood
LEAST_GAIN = 1e-3  # nats per row of a step that is not the last
ROWS_PER_COMPONENT = 2  # a class with fewer rows has fewer components
POOLED = 1.0  # virtual rows per sum node that draw the parameters of all rows to even shares
COMPLETIONS = 3  # rounds of drawing unknown values from a tree and learning the tree again
STRENGTHS = (5.0, 3.0)  # of the smoothing in these rounds


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How much weight every component sends through every edge."""

    circuit: Circuit
    edge_count: FloatArray  # (n_edges, n_components)
    total: FloatArray  # (n_components,) weight of all rows of a component
    component_class: IntArray  # (n_components,) the class of each component, from 0 and in order

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.component_class[-1]) + 1

    def mixture(self, class_strength: float, strength: float) -> Mixture:
        """The mixture of all classes.

        The strengths are virtual rows per sum node that draw a class to all rows, and a component
        to its class.
        """
        width = np.diff(self.circuit.node_edges)[self.circuit.edge_parent]
        of_class = np.arange(self.n_classes)[:, np.newaxis] == self.component_class
        class_count = self.edge_count @ of_class.T
        count = class_count.sum(axis=1, keepdims=True)
        everywhere = self._shares(count, 1.0 / width[:, np.newaxis], POOLED)
        by_class = self._shares(class_count, everywhere, class_strength)
        theta = self._shares(self.edge_count, by_class[:, self.component_class], strength)
        class_total = of_class @ self.total
        prior = class_total / class_total.sum()
        # One virtual row per class keeps every weight above zero.
        size = of_class.sum(axis=1)[self.component_class]
        weight = (self.total + 1.0 / size) / (class_total[self.component_class] + 1.0)
        with np.errstate(divide="ignore"):
            return Mixture(
                self.circuit, np.log(theta), np.log(weight * prior[self.component_class])
            )

    def _shares(self, count: FloatArray, mean: FloatArray, strength: float) -> FloatArray:
        """The share of every edge in its sum, with virtual rows that are divided as in `mean`."""
        node_edges = self.circuit.node_edges
        first = node_edges[:-1][np.diff(node_edges) > 0]
        total = np.add.reduceat(count, first, axis=0)
        below = np.repeat(total, np.diff(first, append=len(count)), axis=0) + strength
        share = np.broadcast_to(mean, count.shape).copy()
        np.divide(count + strength * mean, below, out=share, where=below > 0.0)
        return share


def count_classes(
    circuit: Circuit,
    classes: Sequence[BitMatrix],
    n_components: int,
    *,
    rng: np.random.Generator | int | None = None,
) -> ClassCounts:
    """Fit a mixture to the fully observed rows of every class by EM.

    Every class has `n_components`, fewer where it has few rows. The parameters of the circuit,
    which is deterministic, do not matter.
    """
    rng = np.random.default_rng(rng)
    counts, totals, component_class = [], [], []
    for c, rows in enumerate(classes):
        size = max(1, min(n_components, rows.n_rows // ROWS_PER_COMPONENT))
        options = MixtureOptions(
            n_components=size,
            init_params="kmeans" if size > 1 else "random",  # which is the same, and quick
            smoothing="single",
            pseudocount=2.0,
            max_iter=MOST_STEPS,
            tol=LEAST_GAIN,
        )
        runs = train_runs(MixtureData.of(circuit, rows, None, options), options, rng)
        counts.append(_edge_counts(circuit, runs))
        totals.append(runs.counts.total)
        component_class.append(np.full(len(runs.counts.total), c, dtype=np.int32))
    return ClassCounts(
        circuit,
        np.hstack(counts),
        np.concatenate(totals),
        np.concatenate(component_class),
    )


def _edge_counts(circuit: Circuit, runs: Runs) -> FloatArray:
    """The weight through all edges, also those that no row takes."""
    count, total = runs.counts.arrays()
    counts = np.zeros((circuit.n_edges, len(total)))
    counts[runs.choices.edge] = count[: len(runs.choices.edge)]
    return counts


class ClassRows(NamedTuple):
    """Rows, the class of each, and how often it counts."""

    X: FloatArray  # (n_rows, n_vars) 0, 1 or NaN
    label: IntArray  # (n_rows,) number of the class
    weight: FloatArray  # (n_rows,) positive
    columns: tuple[ColumnCode, ...] | None = None  # of a table, whose codes are respected
    middles: tuple[FloatArray | None, ...] | None = None  # the mean of every cell, of numbers

    @property
    def n_classes(self) -> int:
        """Number of classes, all of which have rows."""
        return int(self.label.max()) + 1

    @property
    def is_complete(self) -> bool:
        """Whether everything is known."""
        return not np.isnan(self.X).any()

    def take(self, rows: AnyArray) -> ClassRows:
        """Some of the rows."""
        return self._replace(X=self.X[rows], label=self.label[rows], weight=self.weight[rows])

    def members(self) -> list[AnyArray]:
        """Which rows each class has."""
        return [self.label == c for c in range(self.n_classes)]

    def by_class(self) -> list[BitMatrix]:
        """The complete rows of every class, equal ones merged."""
        classes = [self.take(own) for own in self.members()]
        return [
            merge_equal_rows(pack_columns(rows.X.astype(np.uint8), rows.weight))[0]
            for rows in classes
        ]


def first_structure(
    classes: Sequence[BitMatrix],
    columns: tuple[ColumnCode, ...] | None,
    *,
    is_independent: bool = False,
    alpha: float = 0.5,
) -> Circuit:
    """The best tree within the classes, or all columns independent, as a circuit."""
    if columns is not None:
        return compile_column_tree(
            *learn_class_column_tree(classes, columns, is_independent=is_independent, alpha=alpha)
        )
    tree = learn_class_tree(classes, alpha=alpha)
    vtree = vtree_from_chow_liu(tree)
    return compile_factorized(vtree) if is_independent else compile_chow_liu(tree, vtree)


def fold_of_rows(label: IntArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """The fold in which each row is held out, evenly for every class; -1 for never.

    The only row of a class is always learned from.
    """
    fold = np.full(len(label), -1, dtype=np.int32)
    for c in np.unique(label):
        rows = rng.permutation(np.flatnonzero(label == c))
        if len(rows) > 1:
            fold[rows] = np.arange(len(rows)) % n_folds
    return fold


def complete_rows(
    rows: ClassRows, rng: np.random.Generator, n_rounds: int = COMPLETIONS
) -> ClassRows:
    """Draw what is unknown, given what is known and the class.

    The draws are exact under a tree per class, which is learned from the completed rows in turn.
    Unlike the most probable values, drawn ones leave the dependence of the columns as it is.
    """
    if rows.is_complete:
        return rows
    columns = complete_columns(rows.columns or (), rows.X.shape[1])
    values = column_values(rows.X, columns)
    table = np.empty(rows.X.shape, dtype=np.uint8)
    for column, value in zip(columns, values, strict=True):
        is_value = value[:, np.newaxis] == np.arange(column.n_values)
        count = rows.weight[:, np.newaxis] * is_value
        everywhere = (count.sum(axis=0) + 1.0) / (count.sum() + column.n_values)
        for c in range(rows.n_classes):
            own = rows.label == c
            share = np.cumsum(count[own].sum(axis=0) + everywhere)
            number = rng.random(int(own.sum())) * share[-1]
            drawn = np.searchsorted(share[:-1], number, side="right")
            place = np.where(value[own] == NONE, drawn, value[own])
            table[own, column.start : column.stop] = column.codewords[place]
    for _ in range(n_rounds):
        _redraw(rows, table, rng)
    return rows._replace(X=table.astype(np.float64))


def _redraw(rows: ClassRows, table: ByteArray, rng: np.random.Generator) -> None:
    """Learn a tree per class from the completed rows, and complete them again."""
    classes = rows._replace(X=table.astype(np.float64)).by_class()
    circuit = first_structure(classes, rows.columns)
    mixture = count_classes(circuit, classes, 1, rng=rng).mixture(*STRENGTHS)
    for c in range(rows.n_classes):
        own = rows.label == c
        table[own] = sample(mixture.component(c), given=rows.X[own], random_state=rng)[:, 0]
