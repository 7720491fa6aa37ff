"""Encoders: tables of numbers, text, dates and missing values -> 0/1 variables.

In:  a frame, an array or a list of rows, and the option `columns`.
Out: `TableEncoder`, a transformer with a `TableCode`; `InputTable`: the 0/1 rows of a table, under
     each of the encoders that are worth a try.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strudel._estimator import Transformer, as_set, clone, not_fitted
from strudel._names import did_you_mean, quote
from strudel._types import AnyArray, FloatArray
from strudel.data.argument_checks import check_choice, check_count
from strudel.data.lazy import by_block, is_lazy
from strudel.data.validation import (
    as_frame,
    check_evidence,
    check_shape,
    is_single_row,
    read_values,
)
from strudel.errors import (
    EmptyColumnWarning,
    IdentifierWarning,
    ManyCategoriesWarning,
    MissingForAReasonWarning,
    outer_stack_level,
)
from strudel.tables.choose_cells import (
    USUAL,
    find_identifiers,
    most_even,
    numbers_of_cells,
    telling_cuts,
)
from strudel.tables.column import Column
from strudel.tables.columns import RawTable, read_columns
from strudel.tables.evidence import Evidence, evidence_of_rows
from strudel.tables.learn_code import (
    CodeOptions,
    code_of_columns,
    learn_column,
    looks_like,
    shortest_of,
    with_fine_cells,
)
from strudel.tables.missingness import learn_missingness
from strudel.tables.predictor_columns import predictor_cuts
from strudel.tables.schema import Columns
from strudel.tables.table_code import UNKNOWN, TableCode

_METHODS = ("quantile", "uniform", "supervised")


@dataclass(kw_only=True, eq=False, repr=False)
class TableEncoder(Transformer):
    """Turns a table of numbers, text, dates and missing values into 0/1 variables.

    Parameters
    ----------
    kinds : dict, optional
        The kind of a column, if it is not what its type says: "boolean", "category", "ordinal",
        "number" or "date"; or a list of its values in their order, for an ordinal; or "ignore",
        which leaves it out. A column with names that looks like an identifier is left out with a
        warning, unless its kind is given here. By default
        booleans and columns of only 0 and 1 are "boolean", text and categories "category", ordered
        categories of pandas and enums of polars "ordinal", other numbers "number".
    n_bins : int or "auto", default="auto"
        The maximum number of cells of a column of numbers or dates. A column with at most that many
        values has one cell per value. "auto" is 8, or 4 with fewer than 480 rows; and more, up to
        32, where finer cells of 25 rows or more tell so much more about another column that they
        pay for their parameters (by description length). From 480 rows on, the outer cells of
        numbers are halved down to 30 rows, so that answers keep moving in the tails. These cells
        are what a search splits on and what people see; with "auto" they are groups of finer ones,
        of some 75 rows each, for learners that have a table of cells.
    edges : {"quantile", "uniform", "supervised"}, dict, or fitted predictor, default="quantile"
        Where the cells meet: each holds equally many rows, or is equally wide; or where a small
        decision tree cuts the column to predict `y`. A dict maps columns to a method or to their
        edges; other columns use quantiles. A tree, a forest, gradient boosting or a pipeline of
        scikit-learn that was fitted on the same columns gives its thresholds, so that
        `expected_prediction` needs no density inside cells: all of them, or with a number as
        `n_bins` those that part the rows most evenly. Columns that it does not cut use quantiles.
    code : {"thermometer", "one_hot"}, default="thermometer"
        Whether ordinals, numbers and dates have one variable ``value >= edge`` per edge, or one
        per cell. Categories always have one per value, or a single one if there are two.
    max_categories : int, default=128
        How many cells a category has at most. Of one with more values, or with more than 32 of
        which some have fewer than 10 rows, the rarest share a cell, in which each is as probable as
        it is frequent; all of them can be asked for, and are drawn.
    unknown : {"warn", "missing", "error"}, default="warn"
        What to do with categories that were not seen at fit: take them as missing, with or without
        a warning, or refuse them.

    Attributes
    ----------
    code_ : TableCode
        The variables and codewords of every column.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import pandas as pd
    >>> from strudel.tables import TableEncoder
    >>> people = pd.DataFrame({"age": [20, 40, None, 60], "smoker": ["no", "yes", "no", None]})
    >>> encoder = TableEncoder().set_output(transform="pandas").fit(people)
    >>> encoder.transform(people)
       age>=40  age>=60  smoker=yes
    0      0.0      0.0         0.0
    1      1.0      0.0         1.0
    2      NaN      NaN         0.0
    3      1.0      1.0         NaN
    """

    kinds: dict[str, Any] | None = None
    n_bins: Any = "auto"
    edges: Any = "quantile"
    code: str = "thermometer"
    max_categories: int = 128
    unknown: str = "warn"

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn the categories and cells of every column.

        Parameters
        ----------
        X : frame or array of shape (n_rows, n_columns)
            pandas, polars, pyarrow, numpy or a list of rows; None, NaN, NaT or `pandas.NA` where a
            value is missing.
        y : array-like of shape (n_rows,), optional
            Classes or numbers, for ``edges="supervised"``.
        """
        whole = read_columns(X)
        options = self._options()
        kinds = _by_column(self.kinds or {}, whole.names, "kinds")
        left_out = [name for name in whole.names if _is_ignored(kinds.get(name))]
        if not _is_predictor(self.edges):  # which has the columns that it was fitted on
            left_out += _warn_of_identifiers(whole, kinds)
        if len(left_out) == len(whole.columns):
            raise ValueError(
                f"There is nothing to learn from: all columns, {quote(left_out)}, are to be "
                "ignored or look like identifiers. "
                f"columns={{{left_out[0]!r}: 'category'}} keeps one."
            )
        kept = tuple(raw for raw in whole.columns if raw.name not in left_out)
        table = replace(whole, columns=kept)
        edges = self.edges if isinstance(self.edges, dict) else {}
        edges = _by_column(edges, table.names, "edges")
        target = self._target(y, table, edges)
        n_cells = [options.n_bins] * len(table.columns)
        if not isinstance(self.n_bins, int | np.integer):
            n_cells = numbers_of_cells(table.columns)
        columns: list[Column] = []
        for raw, n_bins in zip(table.columns, n_cells, strict=True):
            own = replace(options, n_bins=n_bins, has_tails=isinstance(self.n_bins, str))
            if isinstance(self.edges, dict):
                own = replace(own, edges=edges.get(raw.name, "quantile"))
            columns.append(learn_column(raw, kinds.get(raw.name), own, target))
        if self.n_bins == "auto" and self.edges == "quantile":
            columns = _cut_further(table, columns, kinds, options)
        if _is_predictor(self.edges):
            columns = self._cut_by(self.edges, table, columns, kinds, options)
        keep_features(self, text_names(whole), len(whole.columns))
        missingness = learn_missingness(table.columns, columns)
        if self.n_bins == "auto" and (edges or self.edges == "quantile"):
            columns = [
                with_fine_cells(raw, column)
                if column.is_numeric and edges.get(raw.name, "quantile") == "quantile"
                else column
                for raw, column in zip(table.columns, columns, strict=True)
            ]
        found = Columns(tuple(columns), table.container, self.unknown, tuple(left_out), missingness)
        self.code_ = code_of_columns(found, is_one_hot=self.code == "one_hot")
        if missingness.rules:
            warnings.warn(missingness.warning(), stacklevel=outer_stack_level())
        empty = [raw.name for raw in table.columns if raw.is_missing().all()]
        if empty:
            warnings.warn(
                f"All values of {quote(empty)} are missing, and stay missing when decoded. Drop "
                "such columns, unless later rows have values there.",
                EmptyColumnWarning,
                stacklevel=2,
            )
        return self

    @by_block("X")
    @as_set
    def transform(self, X: Any) -> FloatArray:
        """Rows of 0 and 1, NaN where a value is missing.

        Parameters
        ----------
        X : frame or array of shape (n_rows, n_columns)
            The columns of `fit`; those of a frame in any order. A Dask array or frame is encoded
            lazily, block by block.

        Returns
        -------
        float64 ndarray of shape (n_rows, n_vars)
            Or a frame, see `set_output`.
        """
        return self._fitted().encode(X)

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """The names of the variables, such as ``smoker=yes`` or ``age>=40``."""
        super().get_feature_names_out(input_features)  # refuses those of another table
        return np.array(self.code_.variable_names, dtype=object)

    def _fitted(self) -> TableCode:
        if not hasattr(self, "code_"):
            raise not_fitted(self)
        return self.code_

    def _cut_by(
        self,
        predictor: Any,
        table: RawTable,
        columns: list[Column],
        kinds: dict[str, Any],
        options: CodeOptions,
    ) -> list[Column]:
        """The columns again, with the thresholds of a predictor as edges."""
        cuts = predictor_cuts(predictor, Columns(tuple(columns), table.container, self.unknown))
        made = list(columns)
        for place, raw in enumerate(table.columns):
            if edges := cuts.get(raw.name):
                if not isinstance(self.n_bins, str):
                    edges = most_even(edges, raw.known().astype(np.float64), options.n_bins)
                own = replace(options, edges=edges)
                made[place] = learn_column(raw, kinds.get(raw.name), own)
        return made

    def __sklearn_clone__(self) -> TableEncoder:
        """A clone keeps the predictor that gives the edges as it is: fitted."""
        made = super().__sklearn_clone__()
        return made.set_params(edges=self.edges) if _is_predictor(self.edges) else made

    def _options(self) -> CodeOptions:
        """The options, checked."""
        is_auto = isinstance(self.n_bins, str) and self.n_bins == "auto"
        if not is_auto:
            check_count("n_bins", self.n_bins, 2)
        check_count("max_categories", self.max_categories, 2)
        check_choice("code", self.code, ("thermometer", "one_hot"))
        check_choice("unknown", self.unknown, UNKNOWN)
        if not isinstance(self.edges, dict):
            if not _is_predictor(self.edges):
                check_choice("edges", self.edges, _METHODS)
        else:
            for name, own in self.edges.items():
                if isinstance(own, str):
                    check_choice(f"edges[{name!r}]", own, _METHODS)
        n_bins = USUAL if is_auto else int(self.n_bins)
        edges = "quantile" if _is_predictor(self.edges) else self.edges
        return CodeOptions(n_bins, edges, int(self.max_categories))

    def _target(self, y: Any, table: RawTable, edges: dict[str, Any]) -> AnyArray | None:
        """The target of supervised edges, if there are any."""
        methods = [self.edges] if isinstance(self.edges, str) else list(edges.values())
        if not any(isinstance(method, str) and method == "supervised" for method in methods):
            return None
        if y is None:
            raise ValueError(
                "edges='supervised' requires y to be passed, but the target y is None: call "
                "fit(X, y) with the classes or numbers to predict, or use edges='quantile'."
            )
        from sklearn.utils.validation import column_or_1d

        target: AnyArray = column_or_1d(y)
        if len(target) != table.n_rows:
            raise ValueError(f"X has {table.n_rows} rows, but y has {len(target)}.")
        return target

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.target_tags.required = isinstance(self.edges, str) and self.edges == "supervised"
        return tags


def _cut_further(
    table: RawTable, columns: list[Column], kinds: dict[str, Any], options: CodeOptions
) -> list[Column]:
    """The columns with cells that are cut once more where another column changes."""
    made = list(columns)
    cuts = telling_cuts(table.columns, [column.edges for column in columns])
    for place, (raw, column) in enumerate(zip(table.columns, columns, strict=True)):
        if cuts[place]:
            shortest = shortest_of(column.kind, column.dtype)
            edges = sorted({*column.edges, *(shortest(*cut) for cut in cuts[place])})
            own = replace(options, edges=edges)
            made[place] = learn_column(raw, kinds.get(raw.name), own)
    return made


def _is_predictor(edges: Any) -> bool:
    return hasattr(edges, "predict")


def _by_column(given: dict[str, Any], names: list[str], what: str) -> dict[str, Any]:
    """An option by column, whose columns must exist."""
    for name in given:
        if name not in names:
            raise ValueError(
                f"{what} names {name!r}, which is not a column. {did_you_mean(name, names)}"
            )
    return given


def _is_ignored(kind: Any) -> bool:
    return isinstance(kind, str) and kind == "ignore"


def _warn_of_identifiers(table: RawTable, kinds: dict[str, Any]) -> list[str]:
    """Columns that look like identifiers, of those whose kind nobody said."""
    if not table.has_names:  # by place alone, nobody would see that one is gone
        return []
    ignored = {name for name, kind in kinds.items() if _is_ignored(kind)}
    found = find_identifiers([raw for raw in table.columns if raw.name not in ignored], set(kinds))
    for raw in table.columns:
        if raw.name not in found:
            continue
        n_distinct, n_known = found[raw.name]
        kind = "number" if raw.dtype == "integer" else "category"
        text = "" if kind == "number" else looks_like(sorted(set(map(str, raw.known()))))
        warnings.warn(
            IdentifierWarning(
                f"Column {raw.name!r} looks like an identifier ({n_distinct:,} of {n_known:,} "
                f"values are distinct) and is left out.{text}",
                f"columns={{{raw.name!r}: {kind!r}}} keeps it.",
                column=raw.name,
            ),
            stacklevel=outer_stack_level(),
        )
    return list(found)


def new_encoder(columns: Any) -> TableEncoder:
    """The encoder that the option `columns` of an estimator stands for, not fitted yet."""
    if isinstance(columns, TableEncoder):
        made: TableEncoder = clone(columns)
        return made
    if columns is not None and not isinstance(columns, dict):
        raise TypeError(
            "columns must be None, or a dict that says what a column is, such as "
            f"{{'zip': 'category'}}, but is {columns!r}."
        )
    return TableEncoder(kinds=columns or None)


def encoder_with(columns: Any, name: str, value: Any) -> TableEncoder:
    """The encoder of the option `columns` with another option, or another kind of a column."""
    made = new_encoder(columns)
    if name not in made.get_params():
        name, value = "kinds", (made.kinds or {}) | {name: value}
    set_: TableEncoder = made.set_params(**{name: value})
    return set_


def fitted_encoder(option: Any, code: TableCode) -> TableEncoder:
    """An encoder with this code, as `fit` would have left it."""
    made = clone(option) if isinstance(option, TableEncoder) else TableEncoder()
    made.code_ = code
    names = None if code.container == "numpy" else code.names + code.left_out
    keep_features(made, names, code.n_columns_in)
    return made


# What an estimator gets


FIRST_ROWS = 1000  # of the first block of a lazy table


@dataclass(frozen=True, eq=False)
class InputTable:
    """A table, and what may turn it into 0 and 1."""

    X: Any
    n_rows: int
    evidence: FloatArray | None  # the rows, if they are of 0, 1 and NaN already
    encoders: tuple[TableEncoder | None, ...]  # not fitted; (None,) if there is nothing to encode

    def take(self, rows: AnyArray) -> InputTable:
        """Some of the rows."""
        if self.evidence is not None:
            part = self.evidence[rows]
            return replace(self, X=part, n_rows=len(part), evidence=part)
        part = take_rows(self.X, np.flatnonzero(rows))
        return replace(self, X=part, n_rows=int(np.sum(rows)))

    def fitted_on(self, e: int, train: AnyArray, y: AnyArray) -> TableEncoder | None:
        """An encoder that has seen only some rows; what is new to it is unknown."""
        encoder = self.encoders[e]
        if encoder is None:
            return None
        encoder = clone(encoder).set_params(unknown="missing")
        with warnings.catch_warnings():
            for said_of_all_rows in (
                EmptyColumnWarning,
                IdentifierWarning,
                ManyCategoriesWarning,
                MissingForAReasonWarning,
            ):
                warnings.simplefilter("ignore", said_of_all_rows)
            fitted: TableEncoder = encoder.fit(take_rows(self.X, np.flatnonzero(train)), y[train])
        return fitted

    def fitted(self, e: int, y: AnyArray | None = None) -> TableEncoder | None:
        """An encoder, fitted on all rows."""
        encoder = self.encoders[e]
        return None if encoder is None else clone(encoder).fit(self.X, y)

    def rows(self, encoder: TableEncoder | None) -> FloatArray:
        """All rows under a fitted encoder."""
        if encoder is not None:
            return encoder.code_.encode(self.X)
        assert self.evidence is not None
        return self.evidence


def look_at_table(X: Any, columns: Any, n_bins: Sequence[Any] = ("auto",)) -> InputTable:
    """Look at a table; one that is not 0/1 gets encoders with these numbers of cells."""
    encoder = new_encoder(columns)
    if is_lazy(X) and hasattr(X, "columns"):
        raise ValueError(
            "X must be a frame in memory to learn from here, but is lazy. Take a sample of "
            "the rows, and call its compute()."
        )
    X = dense(X)
    if isinstance(columns, TableEncoder):
        return InputTable(X, n_rows_of(X), None, (encoder,))
    if columns is None and is_binary(X):
        evidence = check_evidence(X)
        return InputTable(X, len(evidence), evidence, (None,))
    # A column of numbers with two values at fit may have others later.
    encoders = tuple(clone(encoder).set_params(n_bins=n) for n in n_bins)
    return InputTable(X, n_rows_of(X), None, encoders)


def dense(X: Any) -> Any:
    """A sparse matrix as an array; any other table as it is."""
    return X.toarray() if hasattr(X, "toarray") else X


def is_binary(X: Any) -> bool:
    """Whether a table is of 0, 1 and unknown values; of a lazy one, its first block."""
    if is_lazy(X):
        parts = X.partitions if hasattr(X, "partitions") else X.blocks
        first = (parts[place].compute() for place in range(X.npartitions))
        X = next((rows[:FIRST_ROWS] for rows in first if len(rows)), [])
    if hasattr(X, "toarray"):
        X = X.data[np.newaxis] if hasattr(X, "data") else X.toarray()
    elif is_single_row(X):  # no table at all, as the encoder will say
        return False
    try:
        check_evidence(X)
    except Exception:  # whatever a library says of its own types
        return False
    return True


def n_rows_of(X: Any) -> int:
    """Number of rows of any table; whether it is one is up to the encoder."""
    shape = getattr(X, "shape", None) or read_values(X, "X")[0].shape
    return int(shape[0]) if shape else 0


def take_rows(X: Any, rows: AnyArray) -> Any:
    """Some rows of a frame, an array or a list of rows, in their own kind."""
    if isinstance(X, RawTable):
        columns = tuple(replace(raw, values=raw.values[rows]) for raw in X.columns)
        return replace(X, columns=columns, n_rows=len(columns[0].values))
    frame = as_frame(X)
    return read_values(X, "X")[0][rows] if frame is None else frame[rows.tolist()].to_native()


def keep_features(estimator: Any, names: Any, n_features: int) -> None:
    """Remember the names of the columns, if they have any, and their number."""
    estimator.n_features_in_ = n_features
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    else:
        vars(estimator).pop("feature_names_in_", None)


def text_names(X: Any) -> list[str] | None:
    """The names of the columns, if they are text; those of several types are refused."""
    if isinstance(X, RawTable):
        return X.names if X.has_names else None
    frame = None if is_lazy(X) else as_frame(X)
    names = [] if frame is None else list(frame.columns)
    kinds = sorted({type(name).__name__ for name in names})
    if "str" in kinds and len(kinds) > 1:  # in scikit-learn's words
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {kinds} as feature name / column name types: convert them all to strings, "
            "by using X.columns = X.columns.astype(str)."
        )
    return names if kinds == ["str"] else None


def names_to_match(estimator: Any, X: Any) -> tuple[str, ...] | None:
    """The columns of fit by which those of a table are found, if both have names.

    If only one of them has, they are found by their place, and a warning in scikit-learn's words
    says so.
    """
    own, names = getattr(estimator, "feature_names_in_", None), text_names(X)
    if own is not None and names is not None:
        return tuple(own)
    kind = type(estimator).__name__
    if own is not None:
        said = f"X does not have valid feature names, but {kind} was fitted with feature names"
        warnings.warn(said, stacklevel=outer_stack_level())
    if names is not None:
        said = f"X has feature names, but {kind} was fitted without feature names"
        warnings.warn(said, stacklevel=outer_stack_level())
    return None


def evidence_like(estimator: Any, columns: Columns, X: Any) -> Evidence:
    """What is known of each row of a table with the columns that an estimator was fitted on.

    Frames are read by names if both have them, else by places.
    """
    names = names_to_match(estimator, X)
    X = dense(X)
    if is_single_row(X):
        check_shape(read_values(X, "X")[0].shape, "X")
    if names is None and columns.are_bits:
        X = check_evidence(X, n_vars=len(columns))
    return evidence_of_rows(columns, X)
