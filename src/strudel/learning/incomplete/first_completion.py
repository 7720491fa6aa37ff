"""Rows with unknown values, checked, and the model that completes them at first.

In:  tables of 0, 1 and NaN, split into training and validation rows; the circuit that a constraint
     makes the search start from.
Out: `Incomplete`: the rows as structural EM takes them, and a first completion of them; a mixture
     of a few circuits on one small structure, fitted to what is known.

First the Chow-Liu tree of available cases, with parameters by EM. Its completions are enough to
tell components apart; EM on them, and then on the rows with their unknown values, gives a mixture.
A mixture on the tree is quick to fit and completes rows much better than the tree does: of what
20 % unknown values cost the circuit learned from one completion of nltcs, it takes away nine
tenths.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from strudel._compiling import Clock
from strudel._names import names_of
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import compile_chow_liu, compile_column_tree
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.data.bits import BitMatrix
from strudel.errors import NothingKnownWarning
from strudel.learning.history import MixtureHistory
from strudel.learning.incomplete.completions import IncompleteRows
from strudel.learning.incomplete.em import EmLimits, climb
from strudel.learning.incomplete.expected_flows import Passes
from strudel.learning.mixture_methods import MixtureOptions
from strudel.learning.mixtures.em import TRAINING_STRENGTH, fit_mixture
from strudel.learning.mixtures.em_steps import Prior, uniform_prior
from strudel.queries.passes import UNKNOWN, decode, encode
from strudel.tables.column_codes import ColumnCode, complete_columns
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.column_tree import learn_column_tree
from strudel.trees.vtree import vtree_from_chow_liu

N_COMPONENTS = 20
COMPLETED = {"smoothing": "single", "pseudocount": TRAINING_STRENGTH, "max_iter": 30}
# Steps on the rows themselves: the last digits of a model that only fills gaps are not worth more.
LIMITS = EmLimits(max_iter=10, tol=1e-3, patience=1)
PSEUDOCOUNT = 1.0
SHOWN = 8  # columns that a warning names


def first_tree(rows: IncompleteRows, columns: Sequence[ColumnCode] | None) -> Circuit:
    """The Chow-Liu tree of available cases as a circuit, its parameters by EM.

    Where the codes of columns are known, completions must be codes: a tree over columns.
    """
    partly_known, weight = decode(rows.train), rows.train_weight
    if columns is not None:
        every = complete_columns(columns, rows.train.shape[1])
        coded = learn_column_tree(partly_known, every, sample_weight=weight)
        return fit_first(compile_column_tree(*coded), rows)
    tree = learn_chow_liu_tree(partly_known, sample_weight=weight)
    return fit_first(compile_chow_liu(tree, vtree_from_chow_liu(tree)), rows)


def fit_first(circuit: Circuit, rows: IncompleteRows) -> Circuit:
    """A first circuit with parameters by EM."""
    passes = Passes.of(circuit, "fit")
    prior = uniform_prior(circuit, PSEUDOCOUNT)
    found = climb(passes, as_mixture(circuit), rows.train_rows, rows.valid_rows, prior, LIMITS)
    return found.model.component(0)


def first_mixture(
    circuit: Circuit, rows: IncompleteRows, rng: np.random.Generator, clock: Clock
) -> Mixture:
    """A mixture on the structure of a circuit that can complete the rows."""
    train, valid = rows.completed(circuit, 1, rng)
    k = min(N_COMPONENTS, len(rows.train))
    options = MixtureOptions(**COMPLETED, max_seconds=clock.part(0.5).left())  # type: ignore[arg-type]
    steps: list[MixtureHistory] = []
    mixture = fit_mixture(
        circuit, train, k, X_valid=valid, options=options, rng=rng, on_iteration=steps.append
    )
    if steps and steps[-1].stopped_because == "interrupted":
        raise KeyboardInterrupt
    passes = Passes.of(mixture, "fit")
    prior = Prior(TRAINING_STRENGTH, circuit.theta)
    limits = replace(LIMITS, clock=clock)
    return climb(passes, mixture, rows.train_rows, rows.valid_rows, prior, limits).model


def as_codes(
    table: ByteArray | FloatArray, names: tuple[str, ...] | None
) -> tuple[ByteArray, tuple[str, ...] | None]:
    """A table as codes 0, 1 and UNKNOWN; a complete one as it is."""
    codes: ByteArray = table if table.dtype == np.uint8 else encode(table)  # type: ignore[assignment,arg-type]
    return codes, names


def has_unknown(*tables: ByteArray | None) -> bool:
    """Whether any value is unknown."""
    return any(table is not None and bool(np.any(table == UNKNOWN)) for table in tables)


@dataclass(eq=False)
class Incomplete:
    """Rows that know something, of columns of which something is known."""

    rows: IncompleteRows
    of_all_columns: IncompleteRows  # the same rows, with columns of which nothing is known
    is_known: AnyArray  # (n_vars,) columns that the rows still have
    tree: Circuit | None = None  # the model that completed them first

    @classmethod
    def of(
        cls,
        train: ByteArray,
        weight: FloatArray | None,
        valid: ByteArray | None,
        valid_weight: FloatArray | None,
        names: Sequence[str] | None,
        can_drop: bool,
    ) -> Incomplete:
        """Leave out rows and, if `can_drop`, columns of which nothing is known, and say so."""
        train, weight = _rows_that_count(train, weight, "Training")
        if valid is not None:
            valid, valid_weight = _rows_that_count(valid, valid_weight, "Validation")
        if len(train) == 0:
            raise ValueError(
                "Learning needs at least one known value, but every value of the training rows is "
                "NaN."
            )
        if valid is not None and len(valid) == 0:  # there are no other rows to check against
            valid, valid_weight = train, weight
        is_known = np.any(train != UNKNOWN, axis=0)
        if not is_known.all():
            _warn_of_columns(np.flatnonzero(~is_known), names_of(train.shape[1], names))
        if not can_drop:
            is_known = np.ones_like(is_known)
        rows = IncompleteRows(train, weight, valid, valid_weight)
        return cls(rows if is_known.all() else rows.columns(is_known), rows, is_known)

    def completed(
        self,
        start: Circuit | None,
        rng: np.random.Generator,
        columns: Sequence[ColumnCode] | None = None,
    ) -> tuple[BitMatrix, BitMatrix | None]:
        """A first completion, by the circuit to continue from or by a tree."""
        if start is None:
            self.tree = first_tree(self.rows, columns)
        model = start or self.tree
        assert model is not None
        return self.rows.completed(model, 1, rng)


def _rows_that_count(
    table: ByteArray, weight: FloatArray | None, name: str
) -> tuple[ByteArray, FloatArray | None]:
    """The rows of positive weight that know something."""
    counts = np.ones(len(table), dtype=np.bool_) if weight is None else weight > 0.0
    knows = np.any(table != UNKNOWN, axis=1)
    n_left_out = int(np.count_nonzero(counts & ~knows))
    if n_left_out:
        warnings.warn(
            f"{name} rows without a known value are left out: {n_left_out} of {len(table)}.",
            NothingKnownWarning,
            stacklevel=6,
        )
    kept = counts & knows
    return table[kept], None if weight is None else weight[kept]


def _warn_of_columns(columns: AnyArray, names: Sequence[str]) -> None:
    shown = ", ".join(repr(names[column]) for column in columns[:SHOWN])
    shown += ", ..." if len(columns) > SHOWN else ""
    words = "column" if len(columns) == 1 else "columns"
    warnings.warn(
        f"The training rows have no known value in {words} {shown}: in the model each is a fair "
        "coin, independent of all others.",
        NothingKnownWarning,
        stacklevel=6,
    )
