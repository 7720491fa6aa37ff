"""Rows with classes: parts of them, folds, and completions of partly known ones.

In:  0/1 rows with NaN where a value is unknown, and the class of each.
Out: `ClassRows`; folds that leave every class rows to learn from; complete rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._types import AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.compile import compile_chow_liu
from strudel.data.bits import BitMatrix, merge_equal_rows, pack_columns
from strudel.learning.supervised.class_mixtures import count_classes
from strudel.queries.sampling import sample
from strudel.trees.class_tree import learn_class_tree
from strudel.trees.vtree import vtree_from_chow_liu

COMPLETIONS = 3  # rounds of drawing unknown values from a tree and learning the tree again
STRENGTHS = (5.0, 3.0)  # of the smoothing in these rounds


class ClassRows(NamedTuple):
    """Rows, the class of each, and how often it counts."""

    X: FloatArray  # (n_rows, n_vars) 0, 1 or NaN
    label: IntArray  # (n_rows,) number of the class
    weight: FloatArray  # (n_rows,) positive

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
        return ClassRows(self.X[rows], self.label[rows], self.weight[rows])

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


def fold_of_rows(label: IntArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """The fold in which each row is held out, evenly for every class; -1 for never.

    The only row of a class is always learned from.

    Examples
    --------
    >>> fold_of_rows(np.array([0, 0, 1, 0, 0]), 2, np.random.default_rng(0))
    array([ 1,  0, -1,  0,  1], dtype=int32)
    """
    fold = np.full(len(label), -1, dtype=np.int32)
    for c in np.unique(label):
        rows = rng.permutation(np.flatnonzero(label == c))
        if len(rows) > 1:
            fold[rows] = np.arange(len(rows)) % n_folds
    return fold


def complete_rows(rows: ClassRows, rng: np.random.Generator) -> ClassRows:
    """Draw what is unknown, given what is known and the class.

    The draws are exact under a tree per class, which is learned from the completed rows in turn.
    Unlike the most probable values, drawn ones leave the dependence of the columns as it is.
    """
    if rows.is_complete:
        return rows
    known = ~np.isnan(rows.X)
    weight = rows.weight[:, np.newaxis]
    table = np.empty(rows.X.shape, dtype=np.uint8)
    ones, total = np.where(known, rows.X, 0.0) * weight, known * weight
    everywhere = (ones.sum(axis=0) + 1.0) / (total.sum(axis=0) + 2.0)
    for c in range(rows.n_classes):
        own = rows.label == c
        share = (ones[own].sum(axis=0) + everywhere) / (total[own].sum(axis=0) + 1.0)
        drawn = rng.random((int(own.sum()), rows.X.shape[1])) < share
        table[own] = np.where(known[own], rows.X[own], drawn)
    for _ in range(COMPLETIONS):
        _redraw(rows, table, rng)
    return rows._replace(X=table.astype(np.float64))


def _redraw(rows: ClassRows, table: ByteArray, rng: np.random.Generator) -> None:
    """Learn a tree per class from the completed rows, and complete them again."""
    classes = rows._replace(X=table.astype(np.float64)).by_class()
    tree = learn_class_tree(classes)
    circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    mixture = count_classes(circuit, classes, 1, rng=rng).mixture(*STRENGTHS)
    for c in range(rows.n_classes):
        own = rows.label == c
        table[own] = sample(mixture.component(c), given=rows.X[own], random_state=rng)[:, 0]
