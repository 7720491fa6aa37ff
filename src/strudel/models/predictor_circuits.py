"""Regression circuits and logistic circuits: predictors whose expectation under a model is exact.

In:  0/1 rows with a target, and optionally a density model.
Out: a `PredictorCircuit` on the vtree of the density model.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

from strudel._estimator import Classifier, Estimator, Regressor, not_fitted
from strudel._names import names_of
from strudel._numba import use_threads
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import flow_log_likelihood
from strudel.circuits.predictor import PredictorCircuit, even_structure
from strudel.circuits.properties import why_no_deterministic_components
from strudel.data.argument_checks import (
    check_common_options,
    check_count,
    check_size,
    random_state_from,
)
from strudel.data.bits import pack_columns
from strudel.data.lazy import by_block as by_block_like
from strudel.data.validation import check_binary, check_sample_weight
from strudel.errors import CircuitPropertyError
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.fold import over_columns, unfold
from strudel.learning.flow_predictors import (
    LogLoss,
    Loss,
    PredictorSearch,
    Rows,
    SquaredLoss,
    StructureTrial,
    fit_circuit,
)
from strudel.learning.mixtures.choose import prefixes_of
from strudel.learning.options import SearchOptions
from strudel.learning.parameters import closed_form
from strudel.learning.prepared_rows import check_fraction
from strudel.learning.search.learn_structure import grow
from strudel.models.base import as_labels, as_target, check_rows
from strudel.queries.by_block import possible_row
from strudel.queries.given import circuit_of
from strudel.tables.column import BIT
from strudel.tables.schema import bit_columns

by_block = partial(by_block_like, example=lambda self, table: possible_row(self.density_, table))


@dataclass(eq=False, repr=False)
class FlowPredictor(Estimator):
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
        values = self._target_values(y, "y", len(table))
        classes = self._classes_of(values[counts])
        target = self._columns(values[counts], classes)
        everything = train = Rows(table[counts], target, weight[counts])
        valid = None
        if y_valid is not None:
            valid_table, _ = check_binary(X_valid, n_vars=table.shape[1], name="X_valid")
            values = self._target_values(y_valid, "y_valid", len(valid_table))
            valid = Rows(valid_table, self._columns(values, classes), np.ones(len(values)))
        random_state = random_state_from(self.random_state)
        if valid is None and self.validation_fraction is not None:
            train, valid = self._hold_out(everything, random_state)
        given = None if self.density is None else circuit_of(self.density)
        if given is not None:
            for rows in (everything, valid):
                if rows is not None:
                    _check_density(given, rows.cells, names)
        check_rows(self, X, reset=True)

        alpha = None if self.alpha == "auto" else float(self.alpha)
        most = None if self.target_splits == "auto" else int(self.target_splits)
        # Libraries add numbers in another order with more threads: here they get one.
        with use_threads(self.n_jobs), threadpool_limits(1):
            density, starts = self._starts(given, train, valid, random_state)
            search = PredictorSearch(self._loss, train, valid, alpha)
            n_splits, start = starts[search.choose_start(starts)]
            bits, n_target_splits = search.split(start, n_splits, most)
            structure = even_structure(over_columns(bits, density.columns, None))
            self.alpha_: float = search.choose_alpha(structure)
            self.predictor_: PredictorCircuit = fit_circuit(
                structure, everything, self._loss, self.alpha_
            )
        self.density_: Circuit = density
        self.n_splits_: int = n_splits
        self.n_target_splits_: int = n_target_splits
        self.trials_: list[StructureTrial] = search.trials
        if classes is not None:
            self.classes_: AnyArray = classes
        return self

    def _target_values(self, y: Any, name: str, n_rows: int) -> AnyArray:
        """One checked value per row: a number, or a class."""
        values = self._checked(y, name)
        if len(values) != n_rows:
            rows = name.replace("y", "X", 1)
            raise ValueError(
                f"{name} must hold one value per row, but {rows} has {n_rows} rows and {name} "
                f"{len(values)} values."
            )
        return values

    def _checked(self, y: Any, name: str) -> AnyArray:
        raise NotImplementedError

    def _classes_of(self, values: AnyArray) -> AnyArray | None:
        """The classes, sorted; None for numbers."""
        return None

    def _columns(self, values: AnyArray, classes: AnyArray | None) -> FloatArray:
        """What the circuit should give for each row `(n_rows, n_outputs)`."""
        return values[:, np.newaxis]

    def _starts(
        self, given: Circuit | None, train: Rows, valid: Rows | None, random_state: Any
    ) -> tuple[Circuit, list[tuple[int, BitCircuit]]]:
        """The density model, and the circuits from which to choose, with their splits."""
        if given is not None:
            return given, [(0, unfold(even_structure(given), None).structure)]
        bits = pack_columns(train.cells, train.weight)
        is_chosen = self.n_splits == "auto"
        grown = grow(
            bits,
            None if valid is None else pack_columns(valid.cells, valid.weight),
            search=SearchOptions(
                max_splits=None if is_chosen else int(self.n_splits),
                patience=100 if is_chosen else max(1, int(self.n_splits)),
            ),
            rng=np.random.default_rng(random_state.randint(2**31)),
        )
        growing, history = grown.growing, grown.history
        fitted = closed_form(growing.snapshot(history.best), bits)
        names = names_of(bits.n_vars, self._names())
        density = over_columns(fitted, bit_columns(names, "pandas"), None)
        lengths = prefixes_of(history.best) if is_chosen else [len(history) - 1]
        return density, [(n, growing.snapshot(n)) for n in lengths]

    def _hold_out(self, rows: Rows, random_state: np.random.RandomState) -> tuple[Rows, Rows]:
        """Training rows and validation rows, the same share of every group."""
        assert self.validation_fraction is not None
        held = []
        for group in self._groups(rows.target):
            n_held = min(round(self.validation_fraction * len(group)), len(group) - 1)
            held.append(random_state.permutation(group)[:n_held])
        is_held = np.zeros(len(rows.cells), dtype=bool)
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
        if not hasattr(self, "predictor_"):
            raise not_fitted(self)
        return self.predictor_.evaluate(check_rows(self, X, reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _check_density(density: Circuit, table: ByteArray, names: tuple[str, ...] | None) -> None:
    """Refuse a density model that does not fit the rows."""
    columns = density.columns
    if not columns.are_bits:
        column = next(column for column in columns if column.kind != BIT)
        raise ValueError(
            f"A predictor circuit is over columns of 0 and 1, but column {column.name!r} of the "
            f"density model is of kind {column.kind!r}."
        )
    if len(columns) != table.shape[1]:
        raise ValueError(
            f"X has {table.shape[1]} features, but the density model is expecting "
            f"{len(columns)} features as input."
        )
    mine, places = columns.names, range(len(columns))
    if names not in (None, mine) and mine != names_of(len(mine), None):
        var = next(var for var in places if mine[var] != names[var])
        raise ValueError(
            "X and the density model must have the same columns in the same order, but column "
            f"{var} is {names[var]!r} in X and {mine[var]!r} in the model."
        )
    reason = why_no_deterministic_components(density)
    if reason is not None:
        raise CircuitPropertyError(
            f"A predictor circuit needs the structure of a deterministic circuit, but {reason}."
        )
    impossible = np.flatnonzero(flow_log_likelihood(even_structure(density), table) == -np.inf)
    if len(impossible):
        raise ValueError(
            "Every row must be possible under the density model, but its structure excludes row "
            f"{impossible[0]}."
        )


class RegressionCircuit(FlowPredictor, Regressor):
    """A regression on the edges that a row takes through a circuit.

    The predictor has the vtree of a density model, so `expected_prediction` is exact: what it would
    predict on average if the missing values were known. Weights are found by ridge regression on
    flow features: whether a row takes an edge, for every edge, and the variables themselves.

    Parameters
    ----------
    density : Circuit, Mixture or fitted estimator, optional
        The model whose structure and vtree to use; its circuit must be deterministic. Without it, a
        circuit is learned from `X` and kept as `density_`. In cross-validation give
        ``model.circuit_`` rather than the estimator: scikit-learn copies estimators without what
        they learned.
    alpha : float or "auto", default="auto"
        Penalty on squared weights; "auto" chooses it on the validation rows.
    n_splits : int or "auto", default="auto"
        Splits of the density search after which its structure is taken, if `density` is not given.
        "auto" chooses among the circuits of the search.
    target_splits : int or "auto", default="auto"
        Further splits, chosen where the predictor still errs; with "auto", as many as help on the
        validation rows. They do not change the density model.
    validation_fraction : float or None, default=0.1
        Rows held out to choose on, if `fit` gets no `X_valid`; the weights are then found on all
        rows. With None, all of the above must be numbers.
    random_state : int, RandomState or None
        For the held-out rows.
    n_jobs : int or None
        Threads; all cores by default. The result does not depend on it.

    Attributes
    ----------
    predictor_ : PredictorCircuit
        The function that was learned.
    density_ : Circuit or Mixture
        The density model on the same vtree.
    alpha_, n_splits_, n_target_splits_
        What was chosen, or given.
    trials_ : list of StructureTrial
        Structures that were tried, with their mean squared error on the validation rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel.models import RegressionCircuit
    >>> X = np.random.default_rng(0).integers(0, 2, size=(60, 3))
    >>> y = 3.0 * X[:, 0] - X[:, 1] * X[:, 2]
    >>> model = RegressionCircuit(alpha=0.1, n_splits=0, target_splits=4, validation_fraction=None)
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    >>> model.predictor_.vtree == model.density_.vtree
    True
    """

    _loss = SquaredLoss()

    @by_block("X")
    def predict(self, X: Any) -> FloatArray:
        """The prediction `(n_rows,)` for complete 0/1 rows.

        `expected_prediction` takes rows with missing values.
        """
        return self._output(X)[:, 0]

    def _checked(self, y: Any, name: str) -> AnyArray:
        values = as_target(y, self)
        try:
            target = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must hold numbers, but holds {values.tolist()[0]!r}."
            ) from None
        bad = np.flatnonzero(~np.isfinite(target))
        if len(bad):
            raise ValueError(
                f"{name} must not hold NaN or infinity, but holds {target[bad[0]]} at row {bad[0]}."
            )
        return target


class LogisticCircuit(FlowPredictor, Classifier):
    """A classifier by logistic regression on the edges that a row takes through a circuit.

    The classifier has the vtree of a density model, so the expectation of its log-odds under that
    model is exact when values are missing. With more than two classes there is one log-odds for
    each, against all others.

    Parameters
    ----------
    density, alpha, n_splits, target_splits, validation_fraction, random_state, n_jobs
        As in `RegressionCircuit`; `alpha` is the inverse of scikit-learn's `C`.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    predictor_, density_, alpha_, n_splits_, n_target_splits_, trials_
        As in `RegressionCircuit`; trials have the mean log-loss on the validation rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel.models import LogisticCircuit
    >>> X = np.random.default_rng(0).integers(0, 2, size=(60, 3))
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> model = LogisticCircuit(alpha=0.1, n_splits=0, target_splits=4, validation_fraction=None)
    >>> model.fit(X, y).predict([[1, 0, 0], [1, 1, 0]])
    array(['yes', 'no'], dtype='<U3')
    """

    _loss = LogLoss()

    def _checked(self, y: Any, name: str) -> AnyArray:
        return as_labels(y, self)

    def _classes_of(self, values: AnyArray) -> AnyArray:
        classes = np.unique(values)
        if len(classes) < 2:
            raise ValueError(
                f"y must hold at least two classes, but holds only 1 class, {classes.tolist()[0]!r}"
            )
        return classes

    def _columns(self, values: AnyArray, classes: AnyArray | None) -> FloatArray:
        """One 0/1 column for two classes, one for each class of more."""
        assert classes is not None
        unseen = np.setdiff1d(values, classes)
        if len(unseen):
            raise ValueError(f"y_valid holds {unseen.tolist()[0]!r}, a class that y does not have.")
        wanted = classes[1:] if len(classes) == 2 else classes
        return (values[:, np.newaxis] == wanted).astype(np.float64)

    def _groups(self, target: FloatArray) -> list[Any]:
        """The rows of every class: no class may be held out completely."""
        _, group = np.unique(target, axis=0, return_inverse=True)
        return [np.flatnonzero(group.ravel() == k) for k in range(int(group.max()) + 1)]

    @by_block("X")
    def decision_function(self, X: Any) -> FloatArray:
        """The log-odds of complete 0/1 rows.

        Those of the second class `(n_rows,)`; with more than two classes, those of every class
        against all others `(n_rows, n_classes)`.
        """
        output = self._output(X)
        return output[:, 0] if len(self.classes_) == 2 else output

    @by_block("X")
    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of every class `(n_rows, n_classes)` for complete 0/1 rows.

        With more than two classes, scaled to add up to one.
        """
        output = self._output(X)
        if len(self.classes_) == 2:
            return np.hstack([expit(-output), expit(output)])
        # Logs, so that a row that is improbable in all classes does not give 0 / 0.
        log_share = -np.logaddexp(0.0, -output)
        share = np.exp(log_share - log_share.max(axis=1, keepdims=True))
        return np.asarray(share / share.sum(axis=1, keepdims=True))

    @by_block("X")
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    @by_block("X")
    def predict(self, X: Any) -> AnyArray:
        """The most probable class `(n_rows,)` for complete 0/1 rows."""
        output = self._output(X)
        place = (output[:, 0] > 0).astype(int) if len(self.classes_) == 2 else output.argmax(axis=1)
        return np.asarray(self.classes_[place])
