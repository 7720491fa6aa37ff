"""Fits of tables in parts: what `fit` does with a Dask array or frame.

In:  an estimator, and lazy tables.
Out: what the estimator keeps, learned where the rows are.

Held-out rows, the sample for the search (`structure_rows`) and the rows that k-means looks at are
drawn by the number of a row, so they are the same for any parts and any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from strudel._types import ByteArray
from strudel.algebra.divergences import kl_divergence
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.data.bits import pack_columns
from strudel.learning.history import History
from strudel.learning.mixture_history import MixtureHistory
from strudel.learning.options import MixtureOptions, SearchOptions
from strudel.learning.structure import learn_structure
from strudel.scale.engines import find_engine
from strudel.scale.mixture import CLUSTERED_ROWS, fit_spread_mixture
from strudel.scale.structure import fit_spread_parameters, grow_spread, learn_spread_structure
from strudel.scale.tables import SpreadRows, SpreadTable, spread_table

CHOSEN_ON = 50_000  # rows on which numbers of splits and components are chosen


@dataclass(frozen=True, eq=False)
class SpreadLearning:
    """Rows in parts to learn from and to stop by."""

    table: SpreadTable
    train: SpreadRows
    valid: SpreadRows | None
    seed: int
    rng: np.random.Generator
    features: Any  # a table with the names of the columns

    def keep(self, estimator: Any) -> None:
        """Let the estimator know its features, once nothing can be refused any more."""
        validate_data(estimator, self.features, reset=True, skip_check_array=True)
        n_rows, n_vars = self.table.n_rows, self.table.n_vars
        estimator.data_ = {"rows": n_rows, "columns": n_vars, "sha256": None}

    def sample(self, n_rows: int) -> ByteArray:
        """About so many rows of the table, in memory."""
        return self.table.sample(n_rows, self.seed)[0]


def spread_rows(estimator: Any, X: Any, X_valid: Any, sample_weight: Any) -> SpreadLearning:
    """Check and pack the tables of a fit, and hold rows out if there are none to stop by."""
    if estimator.constraint is not None:
        raise ValueError(
            "A constraint needs all rows in one place: take a sample of the rows, or none."
        )
    engine = find_engine()
    table = spread_table(X, engine, sample_weight=sample_weight)
    random_state = check_random_state(estimator.random_state)
    seed = int(random_state.randint(2**31))
    valid: SpreadRows | None = None
    if X_valid is not None:
        valid_table = spread_table(X_valid, engine, name="X_valid")
        if valid_table.n_vars != table.n_vars:
            raise ValueError(
                f"X_valid has {valid_table.n_vars} features, but X has {table.n_vars}."
            )
        train, valid = table.rows(), valid_table.rows()
    elif estimator.validation_fraction is None:
        train = table.rows()
    else:
        train, valid = table.split(estimator.validation_fraction, seed)
    features = X._meta if hasattr(X, "columns") else np.zeros((1, table.n_vars))
    rng = np.random.default_rng(random_state.randint(2**31))
    return SpreadLearning(table, train, valid, seed, rng, features)


def fit_spread_circuit(
    learning: SpreadLearning,
    search: SearchOptions,
    structure_rows: int | None,
    on_split: Callable[[History], None] | None,
) -> tuple[Circuit, History]:
    """Learn a circuit where the rows are, or its structure from a sample of them here."""
    if structure_rows is None or structure_rows >= learning.table.n_rows:
        return learn_spread_structure(
            learning.train, learning.valid, search=search, rng=learning.rng, on_split=on_split
        )
    circuit, history = learn_structure(
        *_halves(learning, structure_rows),
        search=search,
        rng=learning.rng,
        on_split=on_split,
        divergence=kl_divergence,
    )
    return fit_spread_parameters(circuit, learning.train, search.pseudocount), history


def _halves(learning: SpreadLearning, n_rows: int) -> tuple[Any, Any]:
    """A sample to grow a structure on, and a tenth of it to stop by."""
    sample = learning.sample(n_rows)
    if learning.valid is None:
        return pack_columns(sample), None
    n_valid = max(1, len(sample) // 10)
    order = learning.rng.permutation(len(sample))
    return pack_columns(sample[np.sort(order[n_valid:])]), pack_columns(sample[order[:n_valid]])


def fit_spread_components(
    learning: SpreadLearning,
    search: SearchOptions,
    options: MixtureOptions,
    n_splits: int,
    on_iteration: Callable[[MixtureHistory], None] | None,
) -> tuple[Mixture, MixtureHistory, int]:
    """Grow a structure by so many splits, then fit a mixture to all rows."""
    search = replace(search, max_splits=n_splits, patience=max(1, n_splits))
    run = grow_spread(learning.train, learning.valid, search=search, rng=learning.rng)
    last = len(run.history) - 1  # fewer if nothing was left to split
    structure = run.growing.snapshot(last)
    del run  # the flows of the search make room for those of EM
    mixture, history = fit_spread_mixture(
        structure,
        learning.train,
        learning.valid,
        options=options,
        sample=learning.sample(CLUSTERED_ROWS),
        rng=learning.rng,
        on_iteration=on_iteration,
    )
    return mixture, history, last
