"""What a predictor that was fitted on raw columns does with each of them.

In:  a fitted scikit-learn predictor or pipeline, and the columns of a table.
Out: `PredictorColumns`: the features that every column becomes; where its tests cut numbers. And
     `FittedTree`s of a decision tree, forest or gradient boosting, whose values add up to its
     output.

Nothing is known about the steps of a pipeline but what they do: one column at a time is varied, and
the features that change are its own. A feature of several columns is refused. Where the test of a
tree changes between two numbers, halving finds the number at which it does, so that scaling,
rounding and any other step are as exact as the predictor itself.

Nothing is imported from scikit-learn: models are recognised by the names of their classes. The
trees of gradient boosting on histograms are in a private attribute.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from strudel._names import did_you_mean, names_of, quote
from strudel._types import NONE, AnyArray, FloatArray
from strudel.tables.column import BIT, Column
from strudel.tables.columns import make_frame
from strudel.tables.schema import Columns

_TREE = frozenset({"DecisionTreeRegressor", "DecisionTreeClassifier"})
_FOREST = frozenset(
    {
        "RandomForestRegressor",
        "RandomForestClassifier",
        "ExtraTreesRegressor",
        "ExtraTreesClassifier",
    }
)
_ONE_BY_ONE = frozenset({"GradientBoostingRegressor", "GradientBoostingClassifier"})
_HISTOGRAMS = frozenset({"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"})
BOOSTING = _ONE_BY_ONE | _HISTOGRAMS
WITH_TREES = _TREE | _FOREST | BOOSTING


class FittedTree(NamedTuple):
    """A tree as arrays: a row goes left where its feature is at most the threshold.

    A feature of categories goes left where its bit is set, and NaN where the node says so.
    """

    left: AnyArray  # NONE at a leaf
    right: AnyArray
    feature: AnyArray
    threshold: AnyArray
    value: FloatArray  # (n_nodes, n_outputs)
    categories: dict[int, AnyArray]  # node -> 256 booleans, of a test of categories
    nan_left: AnyArray  # where NaN goes left, and a category that the tree does not know


def kinds_of(predictor: Any) -> set[str]:
    """The names of the scikit-learn classes that something is of."""
    classes = type(predictor).__mro__
    return {kind.__name__ for kind in classes if kind.__module__.split(".")[0] == "sklearn"}


def fitted_trees(model: Any, classes: AnyArray | None) -> Iterator[FittedTree]:
    """The trees, their values weighted so that they add up to the model's output."""
    kinds = kinds_of(model)
    if kinds & _HISTOGRAMS:
        yield from _histogram_trees(model)
        return
    if kinds & _ONE_BY_ONE:
        n_outputs = model.estimators_.shape[1]
        for stage in model.estimators_:
            for column, one in enumerate(stage):
                weight = np.zeros((1, n_outputs))
                weight[0, column] = model.learning_rate * scale_of(model)
                yield _tree(one.tree_, one.tree_.value[:, :, 0] * weight)
        return
    trees = [model] if kinds & _TREE else model.estimators_
    for one in trees:
        value = one.tree_.value[:, :, 0] if classes is None else one.tree_.value[:, 0]
        if classes is not None:
            value = value / value.sum(axis=1, keepdims=True)
        yield _tree(one.tree_, value / len(trees))


def compares_in_single(model: Any) -> bool:
    """Whether the trees of a model round features to 32 bits; those on histograms do not."""
    return not kinds_of(model) & _HISTOGRAMS


def scale_of(model: Any) -> float:
    """How many times its decision function the log-odds of a boosted model are."""
    return 2.0 if getattr(model, "loss", None) == "exponential" else 1.0


def _tree(tree: Any, value: FloatArray) -> FittedTree:
    return FittedTree(
        tree.children_left,
        tree.children_right,
        tree.feature,
        tree.threshold,
        value,
        {},
        tree.missing_go_to_left.astype(bool),
    )


def _histogram_trees(model: Any) -> Iterator[FittedTree]:
    """The same for gradient boosting on histograms, whose trees have no public name."""
    if getattr(model, "loss", None) in ("poisson", "gamma"):
        raise ValueError(
            f"This {type(model).__name__} with loss={model.loss!r} predicts the exponential of a "
            "sum of trees, whose expectation is not exact. Use loss='squared_error'."
        )
    try:
        for stage in model._predictors:
            for column, one in enumerate(stage):
                nodes = one.nodes
                value = np.zeros((len(nodes), len(stage)))
                value[:, column] = nodes["value"]
                is_leaf = nodes["is_leaf"].astype(bool)
                bits = np.unpackbits(
                    np.ascontiguousarray(one.raw_left_cat_bitsets).astype("<u4").view(np.uint8),
                    axis=1,
                    bitorder="little",
                ).astype(bool)
                asks = np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf)
                yield FittedTree(
                    np.where(is_leaf, NONE, nodes["left"].astype(np.int64)),
                    np.where(is_leaf, NONE, nodes["right"].astype(np.int64)),
                    nodes["feature_idx"],
                    nodes["num_threshold"],
                    value,
                    {int(node): bits[nodes["bitset_idx"][node]] for node in asks},
                    nodes["missing_go_to_left"].astype(bool),
                )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"The trees of this {type(model).__name__} cannot be read with this version of "
            "scikit-learn. Use GradientBoostingRegressor or GradientBoostingClassifier."
        ) from error


N_PROBES = 256  # numbers of a column, besides those where its density changes
MOST_WHOLE = 4096  # whole numbers that are all tried
MOST_HALVINGS = 80
N_CHECKED = 32  # rows by which the features of several columns together are checked
BLOCK_CELLS = 2**24  # tests of numbers at once
STEPS = (
    "Only steps that take one column at a time can be used: encoders, scalers, imputers and "
    "passthrough, in a Pipeline or a ColumnTransformer."
)


@dataclass(frozen=True, eq=False)
class Tests:
    """The tests of trees, each once: whether a feature is at most a threshold, or in a set."""

    feature: AnyArray  # (n_tests,)
    threshold: FloatArray  # (n_tests,)
    categories: dict[int, AnyArray]  # test -> 256 booleans
    is_single: bool  # whether features are rounded to 32 bits
    nan_left: AnyArray  # (n_tests,) whether NaN passes

    def go_left(self, values: FloatArray, tests: AnyArray) -> AnyArray:
        """Whether values `(..., n_tests)` of the tests' own features pass these tests."""
        with np.errstate(over="ignore", invalid="ignore"):
            own = values.astype(np.float32) if self.is_single else values
            found = np.asarray(own <= self.threshold[tests])
        for place in np.flatnonzero(np.isin(tests, list(self.categories))):
            code = np.nan_to_num(values[..., place], nan=-1.0).astype(np.int64)
            known = (code >= 0) & (code < 256)
            bits = self.categories[int(tests[place])]
            is_in = bits[np.where(known, code, 0)]
            found[..., place] = np.where(known, is_in, self.nan_left[tests[place]])
        return np.where(np.isnan(values), self.nan_left[tests], found)


def tests_of(trees: Sequence[FittedTree], is_single: bool) -> tuple[Tests, list[AnyArray]]:
    """All tests of some trees, and for every tree the test of each node, NONE at a leaf."""
    number: dict[tuple[int, float, bytes, bool], int] = {}
    categories: dict[int, AnyArray] = {}
    node_test = []
    for tree in trees:
        own = np.full(len(tree.left), NONE, dtype=np.int64)
        features, thresholds = tree.feature.tolist(), tree.threshold.tolist()
        nan_left = tree.nan_left.tolist()
        for node in np.flatnonzero(tree.left != NONE).tolist():
            bits = tree.categories.get(node)
            asks = (thresholds[node], b"") if bits is None else (0.0, bits.tobytes())
            key = features[node], *asks, nan_left[node]
            own[node] = number.setdefault(key, len(number))
            if bits is not None:
                categories[int(own[node])] = bits
        node_test.append(own)
    feature = np.array([key[0] for key in number], dtype=np.int64)
    threshold = np.array([key[1] for key in number], dtype=np.float64)
    nan_passes = np.array([key[3] for key in number], dtype=bool)
    return Tests(feature, threshold, categories, is_single, nan_passes), node_test


class PredictorColumns:
    """The columns that a predictor takes, and what its steps make of them."""

    def __init__(self, predictor: Any, table: Columns) -> None:
        self.predictor = predictor
        self._steps, self.last = _steps_before(predictor), last_step(predictor)
        self.places = _places_of(predictor, table)
        self.columns = [table[place] for place in self.places]
        names = getattr(predictor, "feature_names_in_", None)
        frames = "polars" if table.container == "polars" else "pandas"
        self._container = frames if names is not None else "numpy"
        self._own_names = list(names) if names is not None else None
        self._usual = {column.name: _usual_value(column) for column in self.columns}
        self._probes = {column.name: probes_of(column) for column in self.columns}
        # Without steps, features are the numbers of columns as they are.
        self._is_plain = not self._steps and all(map(_is_plain, self.columns))
        try:
            self._find_owners()
        except ValueError:  # some steps know only values that were seen
            self._probes = {column.name: probes_of(column, True) for column in self.columns}
            self._find_owners()

    def _find_owners(self) -> None:
        """The column of every feature; NONE if none changes it."""
        base = self.features({name: [value] for name, value in self._usual.items()})[0]
        self.base = base  # (n_features,) of usual values
        self.owner = np.full(len(base), NONE, dtype=np.int64)
        self._probed: list[FloatArray] = []
        for place, column in enumerate(self.columns):
            found = self.features_of(place, self._probes[column.name])
            self._probed.append(found)
            if self._is_plain:
                self.owner[place] = place
                continue
            own = np.flatnonzero(~_same(found, base).all(axis=0))
            shared = own[self.owner[own] != NONE]
            if len(shared):
                other = self.columns[self.owner[shared[0]]].name
                raise TypeError(self._several(other, column.name))
            self.owner[own] = place
        if not self._is_plain:
            self._check_together()

    def _check_together(self) -> None:
        """Refuse steps by which columns together are more than each of them alone."""
        rng = np.random.default_rng(0)
        rows: dict[str, list[Any]] = {}
        expected = np.tile(self.base, (N_CHECKED, 1))
        for place, column in enumerate(self.columns):
            probes = self._probes[column.name]
            chosen = rng.integers(len(probes), size=N_CHECKED)
            rows[column.name] = [probes[i] for i in chosen]
            own = np.flatnonzero(self.owner == place)
            expected[:, own] = self._probed[place][np.ix_(chosen, own)]
        found = self.features(rows)
        is_other = ~_same(found, expected)
        if is_other.any():
            row, feature = np.argwhere(is_other)[0]
            one = {name: values[row] for name, values in rows.items()}
            without = [one | {name: usual} for name, usual in self._usual.items()]
            changed = self.features({name: [own[name] for own in without] for name in one})
            matters = ~_same(changed[:, feature], found[row, feature])
            names = [c.name for c, own in zip(self.columns, matters, strict=True) if own]
            raise TypeError(self._several(*names))

    def _several(self, *names: str) -> str:
        steps = quote([type(step).__name__ for step in self._steps])
        return (
            f"The predictor makes a feature of several columns, such as {quote(names)} (its steps "
            f"are {steps}), so it cannot be read column by column. {STEPS}"
        )

    def features(self, rows: Mapping[str, Sequence[Any]]) -> FloatArray:
        """The features `(n_rows, n_features)` that the last step gets for rows of raw values."""
        if self._is_plain:
            return np.array([rows[column.name] for column in self.columns], dtype=np.float64).T
        table = self.frame(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of categories that an encoder does not know
            try:
                for step in self._steps:
                    table = step.transform(table)
                table = table.toarray() if hasattr(table, "toarray") else table
                return np.asarray(table, dtype=np.float64)
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"The predictor cannot take values that the model holds possible: {error} "
                    "Encoders may ignore what they do not know (handle_unknown='ignore')."
                ) from error

    def frame(self, rows: Mapping[str, Sequence[Any]]) -> Any:
        """Rows of raw values, as the predictor takes them."""
        names = self._own_names or [column.name for column in self.columns]
        pairs = zip(names, self.columns, strict=True)
        columns = {name: (list(rows[column.name]), column) for name, column in pairs}
        return make_frame(columns, self._container)

    def features_of(self, place: int, values: Sequence[Any]) -> FloatArray:
        """The features of rows with these values of one column and usual ones of all others."""
        if self._is_plain:
            found = np.tile(self.base, (len(values), 1))
            found[:, place] = values
            return found
        rows = {name: [usual] * len(values) for name, usual in self._usual.items()}
        return self.features(rows | {self.columns[place].name: list(values)})

    def probed(self, place: int) -> tuple[list[Any], FloatArray]:
        """The values of a column that were tried, and the features they gave."""
        return self._probes[self.columns[place].name], self._probed[place]

    def where_they_change(self, asked: Sequence[Halving]) -> dict[str, list[float]]:
        """For columns of numbers, the numbers from which on an answer is different.

        All columns are halved together, because a call of the steps costs far more than a row.
        """
        for _ in range(MOST_HALVINGS):
            values = [one.middles() for one in asked]
            if not any(values):
                break
            rows: dict[str, list[Any]] = {
                name: [usual] * sum(map(len, values)) for name, usual in self._usual.items()
            }
            at = 0
            for one, own in zip(asked, values, strict=True):
                rows[one.column.name][at : at + len(own)] = own
                at += len(own)
            features = self.features(rows)
            ends = np.cumsum([len(own) for own in values])[:-1]
            for one, part in zip(asked, np.split(features, ends), strict=True):
                one.tell(part)
        cuts: dict[str, list[float]] = {}
        for one in asked:
            found = {*cuts.get(one.column.name, ()), *one.high.tolist()}
            cuts[one.column.name] = sorted(found)
        return cuts

    def cuts(self, tests: Tests) -> dict[str, list[float]]:
        """For each column of numbers, the numbers from which on some test is different."""
        asked = []
        for place, column in enumerate(self.columns):
            own = np.flatnonzero(self.owner[tests.feature] == place)
            if not column.is_numeric or not len(own):
                continue
            values, found = self.probed(place)
            for part in np.array_split(own, 1 + len(own) * len(found) // BLOCK_CELLS):
                answers = tests.go_left(found[:, tests.feature[part]], part)
                asked.append(Halving(column, values, answers, _asks(tests, part)))
        return self.where_they_change(asked)


class Halving:
    """Where answers about the numbers of a column change, between two numbers that come closer.

    `answers` is what is asked of each number that was tried, `(n_probes, n_questions)`; `ask`
    answers one question for each row of features.
    """

    def __init__(
        self,
        column: Column,
        probes: Sequence[float],
        answers: AnyArray,
        ask: Callable[[FloatArray, AnyArray], AnyArray],
    ) -> None:
        self.column, self._ask, self._step = column, ask, step_of(column)
        numbers = np.array(probes, dtype=np.float64)
        at, self._question = np.nonzero(~_same(answers[1:], answers[:-1]))
        self._before = answers[at, self._question]
        self._low, self.high = numbers[at], numbers[at + 1]
        self._open = self._which = np.zeros(0, dtype=np.int64)

    def middles(self) -> list[Any]:
        """The numbers to ask about next; none if all changes are found."""
        self._middle = self._low / 2.0 + self.high / 2.0
        if self._step:
            self._middle = np.floor(self._middle / self._step) * self._step
        is_open = (self._middle > self._low) & (self._middle < self.high)
        self._open = np.flatnonzero(is_open)
        some, self._which = np.unique(self._middle[self._open], return_inverse=True)
        return [_raw_value(self.column, number) for number in some.tolist()]

    def tell(self, features: FloatArray) -> None:
        """The features of the numbers that `middles` gave."""
        here, middle = self._open, self._middle[self._open]
        found = self._ask(features[self._which], self._question[here])
        same = _same(found, self._before[here])
        self._low[here[same]], self.high[here[~same]] = middle[same], middle[~same]


def _asks(tests: Tests, part: AnyArray) -> Any:
    """A function that answers tests for features, one test per row."""

    def ask(features: FloatArray, question: AnyArray) -> AnyArray:
        chosen = part[question]
        values = features[np.arange(len(features)), tests.feature[chosen]]
        if not tests.categories:
            return tests.go_left(values, chosen)
        found = [tests.go_left(values[i : i + 1], chosen[i : i + 1]) for i in range(len(chosen))]
        return np.array(found, dtype=bool).reshape(len(chosen))

    return ask


def predictor_cuts(predictor: Any, table: Columns) -> dict[str, list[float]]:
    """Where the trees of a predictor cut the columns of numbers of a table."""
    columns = PredictorColumns(predictor, table)
    if not kinds_of(columns.last) & WITH_TREES:
        raise TypeError(
            f"edges takes the thresholds of trees, but the predictor is a "
            f"{type(columns.last).__name__}. Give a tree, a forest or gradient boosting of "
            "scikit-learn, or a pipeline that ends with one."
        )
    trees = list(fitted_trees(columns.last, getattr(columns.last, "classes_", None)))
    return columns.cuts(tests_of(trees, compares_in_single(columns.last))[0])


def last_step(predictor: Any) -> Any:
    """The predictor itself, or the last step of its pipelines."""
    while "Pipeline" in kinds_of(predictor):
        predictor = predictor.steps[-1][1]
    return predictor


def _steps_before(predictor: Any) -> list[Any]:
    """What makes features of a table: all steps but the last."""
    steps: list[Any] = []
    while "Pipeline" in kinds_of(predictor):
        steps += [step for _, step in predictor.steps[:-1] if hasattr(step, "transform")]
        predictor = predictor.steps[-1][1]
    if not hasattr(predictor, "n_features_in_"):
        raise ValueError(f"This {type(predictor).__name__} is not fitted yet: call fit first.")
    own = getattr(predictor, "_preprocessor", None)  # of boosting on histograms: its categories
    return steps if own is None else [*steps, own]


def _places_of(predictor: Any, table: Columns) -> list[int]:
    """The places of the columns that a predictor takes, in its order."""
    names = getattr(predictor, "feature_names_in_", None)
    n_features = getattr(predictor, "n_features_in_", len(table))
    missing = [] if names is None else [str(name) for name in names if name not in table.names]
    is_nameless = table.are_bits and table.names == names_of(len(table), None)
    if missing and not (is_nameless and n_features == len(table)):
        raise ValueError(
            f"The predictor was fitted on the columns {quote(missing)}, which the model does not "
            f"have. {did_you_mean(missing[0], table.names)}"
        )
    if names is not None and not missing:
        return [table.place(name) for name in names]
    if n_features != len(table):
        raise ValueError(
            f"The predictor was fitted on {n_features} columns without names, but the model "
            f"has {len(table)}: {quote(table.names)}. Fit it on a frame with their names."
        )
    return list(range(len(table)))


def _is_plain(column: Column) -> bool:
    """Whether a frame holds the numbers of a column as they are."""
    is_number = column.kind == "number" and column.dtype != "duration"
    return is_number or column.kind in (BIT, "boolean")


def step_of(column: Column) -> float:
    """The distance of the values that a column can have; 0 if any number is possible."""
    if column.dtype in ("integer", "duration") or column.kind == "date":
        return 1.0
    density = column.cells.density
    steps = {part.step for part in density.parts}
    if len(steps) != 1 or 0.0 in steps:
        return 0.0
    (step,) = steps
    is_on = np.all(np.rint(density.point / step) * step == density.point)
    return float(step) if is_on else 0.0


def probes_of(column: Column, only_seen: bool = False) -> list[Any]:
    """Values of a column that a predictor is tried on: all, or enough of many numbers."""
    if not column.is_numeric:
        return list(column.values)
    density, step = column.cells.density, step_of(column)
    low, high = density.seen
    span = (high - low) or 1.0
    ends = [low, high] if only_seen else [low - 2.0 * span, low, high, high + 2.0 * span]
    numbers = np.concatenate(
        [
            np.linspace(low, high, N_PROBES),
            np.linspace(ends[0], ends[-1], N_PROBES),
            density.bounds(),
            column.edges,
            np.nextafter(column.edges, -np.inf),
            ends,
        ]
    )
    if step:
        first, last = np.floor(ends[0] / step), np.ceil(ends[-1] / step)
        numbers = np.rint(numbers / step) * step
        if last - first < MOST_WHOLE:
            numbers = np.concatenate([numbers, np.arange(first, last + 1) * step])
    numbers = numbers[(numbers >= ends[0]) & (numbers <= ends[-1])]
    return [_raw_value(column, number) for number in np.unique(numbers).tolist()]


def _raw_value(column: Column, number: float) -> Any:
    is_whole = column.dtype in ("integer", "duration") or column.kind == "date"
    return int(number) if is_whole and number.is_integer() else number


def _usual_value(column: Column) -> Any:
    """The most frequent value or cell of a column."""
    return column.values[int(np.argmax(column.counts))]


def _same(a: AnyArray, b: AnyArray) -> AnyArray:
    """Where two arrays are equal, NaN included."""
    return np.asarray((a == b) | ((a != a) & (b != b)))
