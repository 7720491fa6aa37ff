"""The estimator that fills unknown values."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from strudel._numba import use_threads
from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.walks import raise_if_impossible
from strudel.data.argument_checks import (
    check_choice,
    check_common_options,
    check_count,
    generator_from,
    shown,
)
from strudel.data.lazy import is_lazy, lazy_as_it_is
from strudel.data.validation import as_frame, check_evidence, check_shared_names
from strudel.errors import LeftEmptyWarning, outer_stack_level
from strudel.learning.fill_in import FillRegressions, learn_fill_regressions, numbers_of
from strudel.learning.options import EM
from strudel.models.base import keep_encoder
from strudel.models.classifier import StrudelClassifier
from strudel.models.strudel import Strudel, StrudelOptions
from strudel.queries.by_block import lazily, possible_row
from strudel.queries.columns.value_probabilities import value_probabilities
from strudel.queries.marginals import marginal_probabilities
from strudel.queries.model import Model, model_of
from strudel.queries.most_probable import most_probable_state
from strudel.queries.sampling import sample
from strudel.tables.coded_column import CodedColumn
from strudel.tables.column import BIT
from strudel.tables.columns import read_columns
from strudel.tables.encoder import (
    InputTable,
    TableEncoder,
    dense,
    fitted_encoder,
    keep_features,
    look_at_table,
    rows_like,
    text_names,
)
from strudel.tables.filled_table import (
    ValuesOf,
    fill_columns,
    fill_variables,
    nearest_values,
    with_room,
)
from strudel.tables.table_code import TableCode

STRATEGIES = ("auto", "map", "mean", "sample")
ROWS_PER_COMPONENT = 50
OF_TABLES = 6  # components for a table that is encoded; ten fill no better
# Enough for what a regression corrects: the last digits of EM fill no better.
QUICK = EM(max_rounds=1, max_iter=50, patience=3, tol=1e-3)
MOST_COMPONENTS = 100  # of one run


@dataclass(eq=False, repr=False)
class StrudelImputer(StrudelOptions, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fills unknown values with a density model, given all known values of a row.

    Parameters
    ----------
    estimator : density estimator, StrudelClassifier, Circuit or Mixture, optional
        A `Strudel` by default: of up to 20 components for "map", whose search takes longer
        with more components; of up to 6 for columns of a table, and the average of several for a
        table of 0 and 1. An estimator that is not fitted is copied and fitted; a fitted one, a
        circuit or a mixture is used as it is. A fitted classifier fills its inputs and its class,
        which is the last column, or the one with its name. In cross-validation, give
        ``model.circuit_``, not the fitted estimator: scikit-learn copies estimators without what
        they learned.
    strategy : {"auto", "map", "mean", "sample"}, default="auto"
        What to fill in. "auto": the best guess of every column on its own: the mean of numbers and
        dates, the most probable value of all else. Where the imputer learns from columns of a
        table, ridge regressions on the row as the model completes it correct what the model
        expects, for a model in cells knows no slope. "mean": exactly the means and most probable
        values under the model; in a table of 0 and 1 the probability of 1. "map": the unknown
        values of a row that are most probable together. "sample": values drawn from their joint
        distribution.
    fill_structural : bool, default=False
        Whether to fill values that are missing by a rule of the table, such as pregnancies of men
        (see `missing_`). They stay empty by default, and a warning says how many.
    n_components, preset, method, search, init, vtree, max_splits, max_components, max_seconds
        Options of `Strudel`; those that are given replace those of the estimator.
    patience, pseudocount, smoothing, validation_fraction, constraint, columns, device
        The same.
    random_state, n_jobs, verbose
        The same; the first also for the values that are drawn.

    Attributes
    ----------
    circuit_ : Circuit or Mixture
        The distribution of the columns, or of the variables that stand for them.
    encoder_ : TableEncoder
        The fitted encoder, if the table was not of 0 and 1.
    missing_ : list of MissingRule
        On which columns it depends whether values are missing, if there is an encoder.
    regressions_ : FillRegressions or None
        What corrects the model for the strategy "auto", if the model was learned here and the
        table has no more than a few hundred columns.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import StrudelImputer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(300, 1)).repeat(4, axis=1) ^ (rng.random((300, 4)) < 0.1)
    >>> imputer = StrudelImputer(random_state=0).fit(X)
    >>> imputer.transform([[1, 1, np.nan, 1], [0, np.nan, 0, 0]])
    array([[1., 1., 1., 1.],
           [0., 0., 0., 0.]])
    """

    estimator: Any = None
    strategy: str = field(default="auto", kw_only=True)
    fill_structural: bool = field(default=False, kw_only=True)

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> StrudelImputer:
        """Learn how the columns are distributed.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Numbers, NaN where a value is unknown; or a pandas, polars or pyarrow frame, also with
            categories, booleans and dates.
        y : ignored
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        StrudelImputer
            Itself.
        """
        check_common_options(self)
        check_choice("strategy", self.strategy, STRATEGIES)
        text_names(X)  # refuses what are no names, before anything is learned
        if is_fitted_model(self.estimator):
            encoder, model, X = self._use(X)
        else:
            encoder, model = self._learn(X, sample_weight)
        keep_features(self, X, model.n_vars)
        keep_encoder(self, encoder)
        code = None if encoder is None else encoder.code_
        self.circuit_: Model = model if model.table_code is code else model.with_table_code(code)
        self.regressions_: FillRegressions | None = None
        if code is not None and self.strategy == "auto" and not is_fitted_model(self.estimator):
            rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
            of_variables = self.circuit_.with_table_code(None)
            with use_threads(self.n_jobs):
                self.regressions_ = learn_fill_regressions(
                    of_variables, code, dense(X), sample_weight, rng
                )
        return self

    def _use(self, X: Any) -> tuple[TableEncoder | None, Model, Any]:
        """The model that was given, with the encoder that it was learned with; its columns of X."""
        if isinstance(self.estimator, StrudelClassifier):
            model: Model = self.estimator.joint_mixture()
        else:
            model = model_of(self.estimator)
        if self.columns is not None:
            raise ValueError(
                "The model that was given is fitted and knows its columns: leave out columns, or "
                "give a model that is not fitted."
            )
        code = model.table_code
        if code is None:
            X = _model_columns(X, model.feature_names)
            _check_variables(X, model)
            return None, model, X
        encoder = fitted_encoder(getattr(self.estimator, "encoder_", None), code)
        names = text_names(X)
        if names is not None:
            shared = [name for name in names if name in code.names]
            X = _model_columns(X, dict.fromkeys((*shared, *code.names)))
            encoder.feature_names_in_ = np.array(text_names(X), dtype=object)
            encoder.n_features_in_ = len(code.columns)
        else:
            code.match(read_columns(dense(X)))  # refuses another number of columns
        return encoder, model, X

    def _learn(self, X: Any, sample_weight: Any) -> tuple[TableEncoder | None, Model]:
        """Fit a density model to the rows, under its own encoder if it has one."""
        own = getattr(self.estimator, "columns", None)
        table = look_at_table(X, own if self.columns is None else self.columns)
        encoder = table.encoders[0]
        seed = int(check_random_state(self.random_state).randint(2**31))
        if self.estimator is None:
            own = {"random_state": seed, "n_jobs": self.n_jobs}
            estimator = self._default(table).set_params(**self.given_options() | own)
        elif not hasattr(self.estimator, "get_params"):
            raise ValueError(
                "estimator must be a density model of this library, fitted or not, or None, but is "
                f"{shown(self.estimator)}."
            )
        else:
            own = {name: None for name in ("columns", "random_state", "n_jobs", "verbose")}
            given = {name: value for name, value in self.given_options().items() if name not in own}
            estimator = clone(self.estimator).set_params(**given)
        if encoder is None:
            return None, model_of(estimator.fit(table.evidence, sample_weight=sample_weight))
        # It encodes the table itself, and so learns which variables are of one column.
        estimator.set_params(columns=clone(encoder))
        estimator.fit(table.X, sample_weight=sample_weight)
        return estimator.encoder_, model_of(estimator)

    def _default(self, table: InputTable) -> Strudel:
        """The best mixture that is still quick for the strategy."""
        if self.preset is not None or self.n_components != "auto":
            return Strudel()
        size = int(np.clip(table.n_rows // ROWS_PER_COMPONENT, 2, MOST_COMPONENTS))
        if self.strategy == "map":  # its search takes longer with more components
            return Strudel(min(size, 20), max_splits=0)
        if table.evidence is None:  # larger ones fill hardly better
            return Strudel(min(size, OF_TABLES), method=QUICK, max_splits=0)
        # The average of many runs: on jester hidden values have a log-loss of 0.503, not 0.512.
        n_runs = 4 if np.isnan(table.evidence).any() else 32
        return Strudel(size, method=EM(n_runs=n_runs), max_splits=0, validation_fraction=0.05)

    def transform(self, X: Any) -> Any:
        """The table with all unknown values filled; known ones stay as they are.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            The columns of `fit`, NaN where a value is unknown; other columns of a frame stay as
            they are. A Dask array or frame is filled lazily, block by block; the values drawn for
            a seed depend on its blocks.

        Returns
        -------
        ndarray of shape (n_rows, n_columns), or a frame for a frame
            See also `set_output`.
        """
        check_choice("strategy", self.strategy, STRATEGIES)
        return self._filled_tables(X, 1, self.strategy)[0]

    def impute(self, X: Any, n_imputations: int = 5) -> list[Any]:
        """Several tables, each with its own draw of the unknown values, for multiple imputation.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            The columns of `fit`, NaN where a value is unknown.
        n_imputations : int
            Number of tables. All are drawn, whatever the `strategy`.

        Returns
        -------
        list of tables
        """
        check_count("n_imputations", n_imputations)
        return self._filled_tables(X, int(n_imputations), "sample")

    def _filled_tables(self, X: Any, n: int, strategy: str) -> list[Any]:
        check_is_fitted(self, "circuit_")
        is_drawn = strategy == "sample"
        seed = int(check_random_state(self.random_state).randint(2**31)) if is_drawn else None
        if is_lazy(X) and hasattr(X, "columns"):
            code = self.encoder_.code_ if hasattr(self, "encoder_") else None
            X = with_room(X, possible_row(self, X), code, strategy)
        return self._tables(X, n, strategy, seed)

    @lazily("X")
    def _tables(self, X: Any, n: int, strategy: str, random_state: Any) -> list[Any]:
        whole, names = dense(X), getattr(self, "feature_names_in_", None)
        if hasattr(self, "encoder_") and names is not None:
            names = [name for name in names if name in self.encoder_.code_.names]
        X = _model_columns(whole, names)
        tables = self._tables_of_known(X, n, strategy, random_state)
        return [self._put_back(whole, table) for table in tables]

    def _put_back(self, X: Any, filled: Any) -> Any:
        """A frame with the columns of the model filled; all others stay."""
        own, names = text_names(X), text_names(filled)
        if own is None or names is None or set(own) <= set(names):
            return filled
        import narwhals as nw

        part = nw.from_native(filled, eager_only=True)
        frame = as_frame(X).with_columns(*part.iter_columns())
        at_fit = getattr(self, "feature_names_in_", np.array([])).tolist()
        in_order = set(at_fit) == set(frame.columns)
        return (frame.select(at_fit) if in_order else frame).to_native()

    def _tables_of_known(self, X: Any, n: int, strategy: str, random_state: Any) -> list[Any]:
        rows = rows_like(self, X)
        code = self.encoder_.code_ if hasattr(self, "encoder_") else None
        empty = {} if code is None or self.fill_structural else _left_empty(X, code)
        model = self.circuit_.with_table_code(None)  # in variables, not columns
        rng = generator_from(random_state) if strategy == "sample" else None
        with use_threads(self.n_jobs):
            if code is not None and strategy in ("auto", "mean"):
                if strategy == "auto" and self.regressions_ is not None:
                    values = _corrected_values(model, code, rows, X, self.regressions_)
                else:
                    values = _expected_values(model, code, rows, with_means=strategy == "mean")
                return [fill_columns(X, code, values, empty)]
            filled = self._filled(model, rows, n, strategy, rng)
        if code is None:
            return [fill_variables(X, rows, every) for every in filled]
        return [fill_columns(X, code, _values_of(every, rng), empty) for every in filled]

    def _filled(
        self, model: Model, rows: FloatArray, n: int, strategy: str, random_state: Any
    ) -> list[FloatArray]:
        """The variables of all rows, `n` times, with values where they are unknown."""
        tables = [rows.copy() for _ in range(n)]
        is_open = np.isnan(rows).any(axis=1)
        if not is_open.any():
            return tables
        part = rows[is_open]
        if strategy == "map":
            tables[0][is_open] = most_probable_state(model, part)[0]
        elif strategy == "mean":
            tables[0][is_open] = marginal_probabilities(model, part)
        elif strategy == "auto":
            tables[0][is_open] = marginal_probabilities(model, part) >= 0.5
        else:
            drawn = sample(model, n, given=part, random_state=random_state)
            for i, table in enumerate(tables):
                table[is_open] = drawn[:, i]
        return tables


# `set_output` would load lazy tables, which are of the kind that was given.
StrudelImputer.transform = lazy_as_it_is(StrudelImputer.transform)  # type: ignore[method-assign]


def is_fitted_model(model: Any) -> bool:
    """Whether something is a circuit or a mixture, or holds one."""
    return any(
        isinstance(held, Circuit | Mixture) for held in (model, getattr(model, "circuit_", None))
    )


def _check_variables(X: Any, model: Model) -> None:
    """Refuse rows whose columns are not the variables of a fitted model."""
    rows = check_evidence(dense(X))
    if model.n_vars != rows.shape[1]:
        raise ValueError(
            f"X has {rows.shape[1]} columns of 0 and 1, but the model that was given has "
            f"{model.n_vars} variables."
        )


def _model_columns(X: Any, names: Any) -> Any:
    """The columns of the model, in this order; those that a frame lacks are missing in all rows."""
    own = text_names(X)
    if names is None or own is None or own == list(names):
        return X
    check_shared_names(own, names, "X", keeps_others=True)
    import narwhals as nw

    frame = as_frame(X)
    unknown = [nw.lit(None).alias(name) for name in names if name not in own]
    return frame.with_columns(*unknown).select(list(names)).to_native()


def _left_empty(X: Any, code: TableCode) -> dict[str, AnyArray]:
    """Per column the rows in which a value is missing by rule; a warning says how many."""
    raws = dict(zip(code.names, code.match(read_columns(X)), strict=True))
    found = code.missingness.missing_by_rule(raws, code.columns)
    n_values = sum(int(rows.sum()) for rows in found.values())
    if n_values:
        rules = [rule for rule in code.missingness.rules if rule.is_structural]
        said = "; ".join(str(rule) for rule in rules if rule.column in found)
        warnings.warn(
            LeftEmptyWarning(
                f"Left {n_values:,} values empty that are missing by rule: {said}.",
                "fill_structural=True fills them.",
                n_values=n_values,
            ),
            stacklevel=outer_stack_level(),
        )
    return found


def _corrected_values(
    model: Model, code: TableCode, rows: FloatArray, X: Any, regressions: FillRegressions
) -> ValuesOf:
    """The mean or the best value of columns by their regressions: one pass for all gaps."""
    is_open, place, shares = _shares(model, code.columns, rows)
    numbers = numbers_of(code, code.match(read_columns(X)))
    of_open = [None if known is None else known[is_open] for known in numbers]
    filled = regressions.fill(code.columns, of_open, rows[is_open], shares)
    found = {column.name: own for column, own in zip(code.columns, filled, strict=True)}

    def values(column: CodedColumn, gaps: AnyArray) -> list[Any]:
        own = found[column.name][place[gaps]]
        if column.is_numeric:
            return list(own.tolist())
        return [column.values[value] for value in own.argmax(axis=1)]

    return values


def _shares(
    model: Model, columns: Sequence[CodedColumn], rows: FloatArray
) -> tuple[AnyArray, AnyArray, list[FloatArray]]:
    """Which rows have gaps, the place of each among those, and their values' probabilities."""
    is_open = np.asarray(np.isnan(rows).any(axis=1))
    log_p, shares = value_probabilities(model, columns, rows[is_open], "impute")
    impossible = np.zeros(len(is_open))
    impossible[is_open] = log_p
    raise_if_impossible(impossible)
    return is_open, np.cumsum(is_open) - 1, shares


def _expected_values(
    model: Model, code: TableCode, rows: FloatArray, *, with_means: bool
) -> ValuesOf:
    """The mean or the most probable value of columns: one pass for all gaps of the rows.

    A column that is a 0/1 variable has a mean if that is wanted.
    """
    has_gap = np.asarray(np.isnan(rows).any(axis=0))
    wanted = [column for column in code.columns if has_gap[column.start : column.stop].any()]
    _, place, found = _shares(model, wanted, rows)
    shares = {column.name: share for column, share in zip(wanted, found, strict=True)}

    def values(column: CodedColumn, gaps: AnyArray) -> list[Any]:
        found = shares[column.name][place[gaps]]
        if column.kind == BIT and not with_means:
            return [column.values[value] for value in found.argmax(axis=1)]
        return expected_values(column, found)

    return values


def _values_of(filled: FloatArray, rng: np.random.Generator | None) -> ValuesOf:
    """The values of columns that the bits of their variables stand for.

    With a generator, numbers and dates are drawn within their cells.
    """

    def values(column: CodedColumn, rows: AnyArray) -> list[Any]:
        bits = filled[rows, column.start : column.stop]
        return nearest_values(column, bits) if rng is None else column.drawn_bits(bits, rng)

    return values


def expected_values(column: CodedColumn, shares: FloatArray) -> list[Any]:
    """The mean of a number or a date, and the most probable value of all else."""
    if column.kind in ("number", "date", BIT) and None not in column.values:
        means = np.einsum("rv,v->r", shares, _values_to_average(column))  # the same for any rows
        return list(means.tolist())
    return [column.values[place] for place in shares.argmax(axis=1)]


def _values_to_average(column: CodedColumn) -> FloatArray:
    """The mean of every cell of numbers or dates; the values of a column of 0 and 1."""
    return column.cell_means if column.is_numeric else np.array(column.values, dtype=np.float64)
