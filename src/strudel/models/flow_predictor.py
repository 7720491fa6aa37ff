"""What `RegressionCircuit` and `LogisticCircuit` share: checks, held-out rows, and the fit.

In:  0/1 rows with a target, and optionally a density model.
Out: a `PredictorCircuit` on the vtree of the density model, so that its expectation under that
     model is exact.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from strudel._numba import use_threads
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.properties import check_properties, why_not_deterministic
from strudel.data.argument_checks import check_common_options, check_count, check_size
from strudel.data.bits import pack_columns
from strudel.data.lazy import by_block as by_block_like
from strudel.data.validation import check_binary, check_sample_weight
from strudel.errors import CircuitPropertyError
from strudel.learning.flow_predictors import (
    Loss,
    PredictorSearch,
    Rows,
    StructureTrial,
    fit_circuit,
)
from strudel.learning.mixtures.choose import prefixes_of
from strudel.learning.options import SearchOptions
from strudel.learning.parameters import fit_parameters
from strudel.learning.prepared_rows import check_fraction
from strudel.learning.search.learn_structure import grow, impossible_rows
from strudel.models.base import check_rows
from strudel.queries.by_block import possible_row
from strudel.queries.model import Model, model_of, structure_of

by_block = partial(by_block_like, example=lambda self, table: possible_row(self.density_, table))


@dataclass(eq=False, repr=False)
class FlowPredictor(BaseEstimator):  # type: ignore[misc]
    """A linear model of the edges that rows take through a circuit."""

    _loss: ClassVar[Loss]

    density: Any = None
    _: KW_ONLY
    alpha: float | str = "auto"
    n_splits: int | str = "auto"
    target_splits: int | str = "auto"
    validation_fraction: float | None = 0.1
    random_state: Any = None
    n_jobs: int | None = None

    def fit(
        self, X: Any, y: Any, *, X_valid: Any = None, y_valid: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from complete rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1; numpy, lists, scipy sparse, pandas, polars.
        y : array-like of shape (n_rows,)
            What to predict: finite numbers, or at least two classes.
        X_valid, y_valid : array-like, optional
            Rows to choose on; by default a part of `X`, with every class, is held out.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        self
        """
        self._check_options(X_valid is not None)
        table, names = check_binary(X)
        if (X_valid is None) != (y_valid is None):
            raise ValueError("X_valid and y_valid belong together: give both, or neither.")
        weight = np.ones(len(table))
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, len(table))
        counts = weight > 0.0  # rows of weight 0 must not change the order of the others
        values = self._target_values(y, "y")
        _check_lengths(table, values, "X", "y")
        classes = self._classes_of(values[counts])
        target = self._columns(values[counts], classes)
        everything = train = Rows(table[counts], target, weight[counts])
        valid = None
        if y_valid is not None:
            values = self._target_values(y_valid, "y_valid")
            valid_table, _ = check_binary(X_valid, n_vars=table.shape[1], name="X_valid")
            _check_lengths(valid_table, values, "X_valid", "y_valid")
            valid = Rows(valid_table, self._columns(values, classes), np.ones(len(values)))
        random_state = check_random_state(self.random_state)
        if valid is None and self.validation_fraction is not None:
            train, valid = self._hold_out(everything, random_state)
        given = None if self.density is None else model_of(self.density)
        if given is not None:
            _check_structure(structure_of(given), everything.X, names)
            if valid is not None:
                _check_structure(structure_of(given), valid.X, names)
        check_rows(self, X, reset=True)

        alpha = None if self.alpha == "auto" else float(self.alpha)
        most = None if self.target_splits == "auto" else int(self.target_splits)
        # Libraries add numbers in another order with more threads: here they get one.
        with use_threads(self.n_jobs), threadpool_limits(1):
            density, starts = self._starts(given, train, valid, random_state)
            search = PredictorSearch(self._loss, train, valid, alpha)
            n_splits, start = starts[search.choose_start(starts)]
            structure, n_target_splits = search.split(start, n_splits, most)
            structure = structure.with_names(self._names())
            self.alpha_: float = search.choose_alpha(structure)
            self.predictor_: PredictorCircuit = fit_circuit(
                structure, everything, self._loss, self.alpha_
            )
        self.density_: Model = density
        self.n_splits_: int = n_splits
        self.n_target_splits_: int = n_target_splits
        self.trials_: list[StructureTrial] = search.trials
        if classes is not None:
            self.classes_: AnyArray = classes
        return self

    def _target_values(self, y: Any, name: str) -> AnyArray:
        """One checked value per row: a number, or a class."""
        raise NotImplementedError

    def _classes_of(self, values: AnyArray) -> AnyArray | None:
        """The classes, sorted; None for numbers."""
        return None

    def _columns(self, values: AnyArray, classes: AnyArray | None) -> FloatArray:
        """What the circuit should give for each row `(n_rows, n_outputs)`."""
        return values[:, np.newaxis]

    def _starts(
        self, given: Model | None, train: Rows, valid: Rows | None, random_state: Any
    ) -> tuple[Model, list[tuple[int, Circuit]]]:
        """The density model, and the circuits from which to choose, with their splits."""
        if given is not None:
            return given, [(0, structure_of(given))]
        bits = pack_columns(train.X, train.weight)
        is_chosen = self.n_splits == "auto"
        grown = grow(
            bits,
            None if valid is None else pack_columns(valid.X, valid.weight),
            search=SearchOptions(
                max_splits=None if is_chosen else int(self.n_splits),
                patience=100 if is_chosen else max(1, int(self.n_splits)),
            ),
            rng=np.random.default_rng(random_state.randint(2**31)),
        )
        growing, history = grown.growing, grown.history
        density = fit_parameters(growing.snapshot(history.best), bits).with_names(self._names())
        lengths = prefixes_of(history.best) if is_chosen else [len(history) - 1]
        return density, [(n, growing.snapshot(n)) for n in lengths]

    def _hold_out(self, rows: Rows, random_state: np.random.RandomState) -> tuple[Rows, Rows]:
        """Training rows and validation rows, the same share of every group."""
        assert self.validation_fraction is not None
        held = []
        for group in self._groups(rows.target):
            n_held = min(round(self.validation_fraction * len(group)), len(group) - 1)
            held.append(random_state.permutation(group)[:n_held])
        is_held = np.zeros(len(rows.X), dtype=bool)
        is_held[np.concatenate(held)] = True
        if not is_held.any():  # too few rows to hold any out
            return rows, rows
        return rows.take(~is_held), rows.take(is_held)

    def _groups(self, target: FloatArray) -> list[Any]:
        """Groups of which some rows must stay; here all rows are one group."""
        return [np.arange(len(target))]

    def _check_options(self, has_valid: bool) -> None:
        """Refuse options that are not valid, or that cannot be chosen."""
        check_common_options(self)
        check_fraction(self.validation_fraction)
        check_size("alpha", self.alpha, may_be_zero=False, may_be_auto=True)
        check_count("n_splits", self.n_splits, 0, may_be_auto=True)
        check_count("target_splits", self.target_splits, 0, may_be_auto=True)
        asked: dict[str, Any] = {"alpha": self.alpha, "target_splits": self.target_splits}
        if self.density is None:
            asked["n_splits"] = self.n_splits
        chosen = [name for name, value in asked.items() if value == "auto"]
        if chosen and not has_valid and self.validation_fraction is None:
            raise ValueError(
                f"{' and '.join(chosen)} must be chosen on validation rows, but there are none. "
                "Give numbers, X_valid and y_valid, or a validation_fraction."
            )

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    def _output(self, X: Any) -> FloatArray:
        """What the circuit adds up to for complete rows `(n_rows, n_outputs)`."""
        check_is_fitted(self, "predictor_")
        return self.predictor_.evaluate(check_rows(self, X, reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _check_lengths(table: ByteArray, target: AnyArray, name: str, target_name: str) -> None:
    """Refuse a target with more or fewer values than there are rows."""
    if len(table) != len(target):
        raise ValueError(
            f"{target_name} must hold one value per row, but {name} has {len(table)} rows and "
            f"{target_name} {len(target)} values."
        )


def _check_structure(structure: Circuit, table: ByteArray, names: tuple[str, ...] | None) -> None:
    """Refuse a density model whose structure does not fit the rows."""
    if structure.n_vars != table.shape[1]:
        raise ValueError(
            f"X has {table.shape[1]} features, but the density model is expecting "
            f"{structure.n_vars} features as input."
        )
    mine = structure.feature_names
    if mine is not None and names is not None and mine != names:
        var = next(var for var in range(len(mine)) if mine[var] != names[var])
        raise ValueError(
            "X and the density model must have the same columns in the same order, but column "
            f"{var} is {names[var]!r} in X and {mine[var]!r} in the model."
        )
    check_properties(structure, "A predictor circuit", "in_normal_form")
    if not structure.is_deterministic:
        raise CircuitPropertyError(
            "A predictor circuit needs the structure of a deterministic circuit, but "
            f"{why_not_deterministic(structure)}."
        )
    impossible = impossible_rows(structure, pack_columns(table))
    if len(impossible):
        raise ValueError(
            "Every row must be possible under the density model, but its structure excludes row "
            f"{impossible[0]}."
        )
