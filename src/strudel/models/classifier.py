"""The estimator of classes: a mixture per class, one joint mixture, or a logistic one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy  # which loads its parts when they are used

from strudel._estimator import Classifier, clone
from strudel._names import did_you_mean
from strudel._numba import use_threads
from strudel._types import AnyArray, FloatArray, IntArray
from strudel.data.argument_checks import (
    BYTES_OF_A_SPLIT,
    check_choice,
    check_common_options,
    check_count,
    check_fits,
    check_size,
    seed_from,
)
from strudel.data.lazy import by_block
from strudel.data.validation import check_sample_weight
from strudel.explorer.page import ExplorerPage, explore
from strudel.learning.class_models import (
    ClassRows,
    ClassSearch,
    ClassTrial,
    Setting,
    Structures,
    class_column,
    code_with_class,
    complete_rows,
    fold_of_rows,
)
from strudel.learning.options import METHODS as MIXTURE_METHODS
from strudel.learning.options import Method
from strudel.learning.progress import Reporter
from strudel.models.base import as_labels, target_name
from strudel.models.strudel import Strudel, StrudelOptions
from strudel.queries.likelihood import joint_logs
from strudel.tables.column import label_texts
from strudel.tables.column_codes import as_column_codes
from strudel.tables.columns import RawColumn, RawTable, read_columns
from strudel.tables.encoder import (
    InputTable,
    TableEncoder,
    evidence_like,
    keep_features,
    look_at_table,
    new_encoder,
    text_names,
)
from strudel.tables.table_code import code_of_bits

METHODS = ("per_class", "joint", "logistic")
OTHER_METHODS = tuple(name for name in MIXTURE_METHODS if name != "auto")  # of `Strudel`
# Options of `Strudel` that the classifier's own models have also.
OF_BOTH = {"n_components", "method", "init", "max_splits", "pseudocount", "columns"} | {
    *("random_state", "n_jobs", "verbose")
}
INITS = ("tree", "independent")
COMPONENTS = (1, 4, 16)  # of a class
SPLITS = (0, 40)
CLASS_STRENGTHS = (1.0, 5.0, 30.0, 200.0)  # virtual rows that draw a class to all rows
STRENGTHS = (1.0, 3.0, 10.0)  # virtual rows that draw a component to its class
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # of logistic models
LOGISTIC_STRENGTH = 2.0  # virtual rows that draw a component of theirs to all rows
LOGISTIC_COMPONENTS = 10
BINS = (5, 8)  # cells of a column of numbers
LOGISTIC_BINS = 16  # steps between cells are penalised: 8 lose more than 32 would win
# What is tried for a table that is encoded: method, init, splits, components. Chosen from a grid of
# 52 on nine tables of 400 to 4,900 rows.
OF_TABLES = (
    ("per_class", "independent", 0, 1),
    ("per_class", "independent", 0, 16),
    ("joint", "tree", 0, 16),
    ("joint", "independent", 0, 4),
    ("per_class", "tree", 0, 1),
    ("per_class", "tree", 0, 16),
    ("per_class", "tree", 40, 16),
)
CLASS_STRENGTHS_OF_TABLES = (30.0, 200.0)
STRENGTHS_OF_TABLES = (1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass(eq=False, repr=False)
class StrudelClassifier(StrudelOptions, Classifier):
    """A classifier that also models its inputs, so that some of them may be missing.

    Every class has a mixture of circuits, all on one structure; or one mixture describes inputs and
    class together; or a logistic regression becomes a mixture that agrees with it. The probability
    of a class is exact by Bayes' rule whichever inputs are known: the others are summed out, not
    filled in.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Components of every class, fewer if a class has few rows; in a joint mixture, on average.
    estimator : Strudel, optional
        What learns the joint distribution of inputs and class, not fitted; nothing is then chosen
        by cross-validation. So are `preset`, `search`, `vtree`, `max_components`, `max_seconds`,
        `patience`, `smoothing`, `validation_fraction`, `constraint`, `device` and a `method` of
        `Strudel`: with any of these the class is one more column of `Strudel`.
    method : {"auto", "per_class", "joint", "logistic"}, or one of `Strudel`; default="auto"
        A mixture per class; one mixture in which the class is a variable like all others; or the
        mixture that fits the inputs best among those that agree with a logistic regression on
        complete rows. "auto" tries the last one only for tables that are encoded.
    init : {"tree", "independent"}, optional
        The structure before the first split: the best tree within the classes (in a joint mixture,
        the Chow-Liu tree), or all inputs independent.
    max_splits : int, optional
        Splits of the structure, found as in `Strudel` on the rows of all classes.
    pseudocount, class_pseudocount : float or "auto", default="auto"
        How strongly the parameters of a component are smoothed towards those of its class, and
        those of a class towards those of all rows, in virtual rows per sum node. In a logistic
        model, the second one is the penalty of the regression.
    columns : dict, optional
        What an input is, where it cannot be seen, as in `Strudel`.
    class_weight : dict, "balanced" or None, default=None
        How much rows of each class count, besides their `sample_weight`; "balanced" lets all
        classes count alike. Classes that a dict does not name count 1. The probabilities are those
        of such rows.
    scoring : {"log_loss", "brier", "accuracy"}, default="log_loss"
        The score by which everything that is "auto" is chosen.
    n_folds : int, default=3
        Folds of the cross-validation in which it is chosen; the winner is fitted to all rows.
    random_state : int, RandomState or None
        For the folds, the starts of EM, and draws of unknown values in training rows.
    n_jobs : int or None
        Threads; all cores by default. The result does not depend on it.
    verbose : bool or "auto", default="auto"
        Whether to tell on stderr what is tried, as in `Strudel`.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    target_name_ : str
        The name of the class: that of `y` if it has one, else "class".
    circuit_ : Circuit
        The distribution of the inputs and the class together; the class is the last column, which
        has the name `target_name_`, or a longer one if an input has that.
    chosen_ : dict
        What was chosen, or given, with its scores on held-out rows, which are NaN if nothing had
        to be chosen.
    trials_ : list of ClassTrial
        All that was tried.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import StrudelClassifier
    >>> X = np.random.default_rng(0).integers(0, 2, size=(200, 4))
    >>> y = np.where(X[:, 0] == X[:, 1], "same", "different")
    >>> model = StrudelClassifier(max_splits=0, random_state=0).fit(X, y)
    >>> model.predict([[1, 1, 0, 0], [1, 0, 0, 0]])
    array(['same', 'different'], dtype='<U9')
    >>> model.predict([[1, 1, np.nan, np.nan]])  # unknown values do not matter here
    array(['same'], dtype='<U9')
    """

    n_components: Any = "auto"
    estimator: Any = field(default=None, kw_only=True)
    class_pseudocount: float | str = field(default="auto", kw_only=True)
    class_weight: Any = field(default=None, kw_only=True)
    scoring: str = field(default="log_loss", kw_only=True)
    n_folds: int = field(default=3, kw_only=True)

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> StrudelClassifier:
        """Learn from rows whose class is known; inputs may be missing.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Numbers, NaN where a value is unknown; or a pandas, polars or pyarrow frame, also with
            categories, booleans and dates.
        y : array-like of shape (n_rows,)
            The classes: numbers or text, all known. The name of a series is kept.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        StrudelClassifier
            Itself.
        """
        self._check_options()
        name = target_name(y, "class")
        text_names(X)  # refuses what are no names, before anything is learned
        labels = as_labels(y, self)
        table = look_at_table(X, self.columns, (*BINS, LOGISTIC_BINS))
        if len(labels) != table.n_rows:
            raise ValueError(
                f"y must hold one class per row, but X has {table.n_rows} rows and y "
                f"{len(labels)} values."
            )
        if not len(labels):
            raise ValueError("X must have at least one row, but has none.")
        weight = np.ones(len(labels))
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, len(labels))
        if not (weight > 0.0).all():  # not even the order of the others may depend on the rest
            table, labels = table.take(weight > 0.0), labels[weight > 0.0]
            weight = weight[weight > 0.0]
        if self.class_weight is not None:
            weight = weight * self._class_weights(labels, weight)
        classes, label = np.unique(labels, return_inverse=True)
        learner = self._learner()
        if learner is not None:
            target = RawColumn(name, "text", np.array([f"{k:09d}" for k in label], dtype=object))
            return self._fit_together(learner, X, read_columns(table.X), target, classes, weight)
        if self.n_components != "auto":
            check_fits(
                "n_components", int(self.n_components), len(classes) * (64 + 8 * len(labels))
            )
        if self.max_splits is not None:
            check_fits("max_splits", int(self.max_splits), BYTES_OF_A_SPLIT)
        numbers: IntArray = label.astype(np.int32)
        seed = seed_from(self.random_state)

        def rows_of(encoder: TableEncoder | None) -> ClassRows:
            if encoder is None:
                return ClassRows(table.rows(None), numbers, weight)
            columns = [column for column in encoder.code_.columns if column.stop > column.start]
            middles = [None if column.density is None else column.cell_means for column in columns]
            codes = as_column_codes(columns)
            return ClassRows(table.rows(encoder), numbers, weight, codes, tuple(middles))

        def encoded(e: int, train: AnyArray) -> ClassRows:
            return rows_of(table.fitted_on(e, train, labels))

        with use_threads(self.n_jobs):
            chosen, trials = self._choose(table, numbers, encoded, seed)
            rng = np.random.default_rng([seed, 0])
            encoder = table.fitted(chosen.setting.encoder, labels)
            rows = rows_of(encoder)
            strengths = chosen.class_pseudocount, chosen.pseudocount
            fit = Structures(complete_rows(rows, rng)).fit(chosen.setting, rng)
            model = fit.refined(rows, *strengths).model(*strengths)
        names = text_names(X)
        keep_features(self, names, rows.X.shape[1] if encoder is None else encoder.n_features_in_)
        if encoder is not None:
            code = encoder.code_
        elif names is not None:
            code = code_of_bits(names, "pandas")
        else:
            code = code_of_bits([f"x{v}" for v in range(self.n_features_in_)], "numpy")
        self.classes_: AnyArray = classes
        self.target_name_: str = name
        self.circuit_ = model.over_columns(code_with_class(code, classes.tolist(), name))
        self.chosen_: dict[str, Any] = chosen.describe()
        self.trials_: list[ClassTrial] = trials
        return self

    def _learner(self) -> Strudel | None:
        """What learns inputs and class together: what was given, or options that only it has."""
        given = self.given_options()
        if self.method in METHODS:
            del given["method"]
        if self.estimator is None and "method" not in given and given.keys() <= OF_BOTH:
            return None
        if not isinstance(self.estimator, Strudel | None):
            raise TypeError(
                f"estimator must be a Strudel that is not fitted, or None, but is "
                f"{type(self.estimator).__name__}."
            )
        learner: Strudel = Strudel() if self.estimator is None else clone(self.estimator)
        return learner.set_params(**given)

    def _fit_together(
        self,
        learner: Strudel,
        X: Any,
        table: RawTable,
        target: RawColumn,
        classes: AnyArray,
        weight: FloatArray,
    ) -> StrudelClassifier:
        """Learn the class as one more column of the table."""
        encoder = new_encoder(learner.columns)
        encoder.max_categories = max(encoder.max_categories, len(classes) + 1)
        learner.set_params(columns=encoder, random_state=self.random_state)
        weights = None if np.all(weight == 1.0) else weight
        self._learn_with(learner, X, table, target, "category", weights)
        columns = self.circuit_.columns
        own = [classes.tolist()[int(text)] for text in columns[-1].values]
        of_class = class_column(own, self.target_name_, columns.names[:-1])
        self.circuit_ = self.circuit_.with_columns(
            replace(columns, columns=(*columns.columns[:-1], of_class))
        )
        self.classes_ = classes
        self.chosen_ = learner.chosen_
        self.trials_ = []
        return self

    def _class_weights(self, labels: AnyArray, weight: FloatArray) -> FloatArray:
        """How much each row counts for its class."""
        classes, label = np.unique(labels, return_inverse=True)
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.array([weight[label == c].sum() for c in range(len(classes))])
            of_class: FloatArray = (totals.sum() / len(classes)) / totals
            return of_class[label]
        if not isinstance(self.class_weight, dict):
            raise ValueError(
                "class_weight must be None, 'balanced' or a dict of a weight for every class, but "
                f"is {self.class_weight!r}."
            )
        known = classes.tolist()
        for name, value in self.class_weight.items():
            if name not in known:
                raise ValueError(
                    f"class_weight names {name!r}, which is not a class. "
                    f"{did_you_mean(name, [str(one) for one in known])}"
                )
            if not (np.isfinite(value) and value > 0.0):
                raise ValueError(f"class_weight must be positive, but is {value!r} for {name!r}.")
        return np.array([float(self.class_weight.get(c, 1.0)) for c in known])[label]

    def _choose(
        self, table: InputTable, label: IntArray, encoded: Any, seed: int
    ) -> tuple[ClassTrial, list[ClassTrial]]:
        """Cross-validate all settings that the options leave open."""
        settings = self._settings(table)
        is_encoded = table.encoders[0] is not None
        of_classes: Sequence[float] = CLASS_STRENGTHS_OF_TABLES if is_encoded else CLASS_STRENGTHS
        strengths: Sequence[float] = STRENGTHS_OF_TABLES if is_encoded else STRENGTHS
        penalties: Sequence[float] = PENALTIES
        of_logistic: Sequence[float] = (LOGISTIC_STRENGTH,)
        if self.class_pseudocount != "auto":
            of_classes = penalties = (float(self.class_pseudocount),)
        if self.pseudocount != "auto":
            strengths = of_logistic = (float(self.pseudocount),)
        pairs = [(a, b) for a in of_classes for b in strengths]
        logistic_pairs = [(a, b) for a in penalties for b in of_logistic]
        fold = fold_of_rows(label, self.n_folds, np.random.default_rng(seed))
        is_logistic = settings[0].method == "logistic"
        n_first = len(logistic_pairs if is_logistic else pairs)
        if fold.max() < 0 or len(settings) * n_first == 1:  # nothing to choose, or to choose by
            both = (penalties, of_logistic) if is_logistic else (of_classes, strengths)
            a, b = (values[len(values) // 2] for values in both)
            return ClassTrial(settings[0], a, b, np.nan, np.nan, np.nan, 0), []
        search = ClassSearch(settings, pairs, logistic_pairs, self.scoring, seed)
        with Reporter(verbose=self.verbose) as report:
            return search.run(encoded, fold, lambda words: report.say("choice", words))

    def _settings(self, table: InputTable) -> list[Setting]:
        """All that the options leave open."""
        methods = ("per_class", "joint") if self.method == "auto" else (self.method,)
        inits = INITS if self.init is None else (self.init,)
        sizes = COMPONENTS if self.n_components == "auto" else (int(self.n_components),)
        splits = SPLITS if self.max_splits is None else (int(self.max_splits),)
        size = LOGISTIC_COMPONENTS if self.n_components == "auto" else sizes[0]
        logistic = Setting(len(table.encoders) - 1, "logistic", "independent", 0, size)
        if self.method == "logistic":
            return [logistic]
        if table.encoders[0] is None:
            return [
                Setting(0, method, init, n_splits, size)
                for method in methods
                for init in inits
                for n_splits in splits
                for size in sizes
                if not self._is_left_out(method, init, n_splits, size)
            ]
        of_tables = [
            Setting(0, method, init, n_splits, size)
            for method, init, n_splits, size in OF_TABLES
            if method in methods and init in inits
        ]
        if self.max_splits is not None:
            of_tables = [setting._replace(n_splits=splits[0]) for setting in of_tables]
        if self.n_components != "auto":
            of_tables = [setting._replace(n_components=sizes[0]) for setting in of_tables]
        if not of_tables:  # a method and an init that are not tried together
            of_tables = [Setting(0, methods[0], inits[0], splits[0], sizes[-1])]
        n_encoders = min(len(table.encoders), len(BINS))
        some = dict.fromkeys(of_tables)
        settings = [one._replace(encoder=e) for e in range(n_encoders) for one in some]
        is_open = self.method == "auto" and "independent" in inits and 0 in splits
        return [logistic, *settings] if is_open else settings

    def _is_left_out(self, method: str, init: str, n_splits: int, size: int) -> bool:
        """Some settings have never won where all options are "auto"."""
        if init == "independent" and self.init is None:
            return n_splits > 0 or method == "joint"
        if method == "joint" and self.method == "auto":
            is_other_size = self.n_components == "auto" and size != COMPONENTS[-1]
            return is_other_size or (self.max_splits is None and n_splits > 0)
        return False

    def _joint_logs(self, X: Any) -> FloatArray:
        """Log-probability of what is known of each row together with each class."""
        circuit = self._fitted()
        columns = circuit.columns
        evidence = evidence_like(self, columns.some(slice(-1)), X).among(columns)
        with use_threads(self.n_jobs):
            logs = joint_logs(circuit, evidence, len(columns) - 1)
        return logs[:, np.array([columns[-1].place_of(name) for name in self.classes_.tolist()])]

    def explore(
        self, path: Any = None, *, target: str | None = None, title: str | None = None
    ) -> ExplorerPage:
        """A page on which people set values, and see the class and every other column move."""
        return explore(self, path, target=target, title=title)

    @by_block("X")
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of `predict_proba`."""
        return np.asarray(scipy.special.log_softmax(self._joint_logs(X), axis=1))

    @by_block("X")
    def score_samples(self, X: Any) -> FloatArray:
        """Log-probability of what is known of each row, whatever its class.

        Unusual rows have low values; rows with more unknown values have higher ones.
        """
        return np.asarray(scipy.special.logsumexp(self._joint_logs(X), axis=1))

    @by_block("X")
    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of every class `(n_rows, n_classes)`, given what is known of each row.

        The columns are those of `fit`; NaN, where a value is unknown, is summed out.
        """
        return np.exp(self.predict_log_proba(X))

    @by_block("X")
    def predict(self, X: Any) -> AnyArray:
        """The most probable class `(n_rows,)`, given what is known of each row."""
        place = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[place])

    def _check_options(self) -> None:
        """Refuse options that make no sense."""
        check_common_options(self)
        if not isinstance(self.method, Method) and self.method not in OTHER_METHODS:
            check_choice("method", self.method, ("auto", *METHODS))
        if self.init is not None:
            check_choice("init", self.init, INITS)
        check_choice("scoring", self.scoring, ("brier", "log_loss", "accuracy"))
        check_count("n_components", self.n_components, may_be_auto=True)
        check_count("max_splits", self.max_splits, 0, may_be_none=True)
        check_count("n_folds", self.n_folds, 2)
        if self.method == "logistic" and (self.init == "tree" or self.max_splits):
            raise ValueError(
                "method='logistic' has a structure of its own, but init or max_splits is given. "
                "Leave them out, or take another method."
            )
        for name in ("pseudocount", "class_pseudocount"):
            check_size(name, getattr(self, name), may_be_zero=False, may_be_auto=True)


def class_scores(classes: AnyArray, chances: FloatArray, y: Any) -> dict[str, float]:
    """How often the most probable class is right, and the mean log-loss in nats.

    Classes in `y` may be of another type than at fit, as where "1" was read as a number.
    """
    place = {text: k for k, value in enumerate(classes.tolist()) for text in label_texts(value)}
    texts = [[text for text in label_texts(value) if text in place] for value in list(y)]
    right = np.array([place[known[0]] if known else -1 for known in texts])
    with np.errstate(divide="ignore"):
        loss = np.where(right < 0, np.inf, -np.log(chances[np.arange(len(right)), right]))
    accuracy = (chances.argmax(axis=1) == right).mean()
    return {"accuracy": float(accuracy), "log_loss": float(loss.mean())}
