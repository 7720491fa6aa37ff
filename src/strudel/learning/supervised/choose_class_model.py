"""Choose a class model by cross-validation: its structure, its components and its smoothing.

In:  rows with classes, under each of the encoders to be compared.
Out: the best `Setting` with its smoothing, and every trial; the `ClassModel` fitted to all rows.

All settings are tried on the first fold, and on large tables only the better half of them on each
further one. Smoothing is read off the counts of a fit, so all strengths cost one fit.

Where a logistic model is among them, which has little to choose, another is taken only if it is
better by two standard errors: the best of a hundred is better than one by chance alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, logsumexp

from strudel._compiling import NO_LIMIT, Clock
from strudel._types import AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.data.bits import BitMatrix, merge_equal_rows, pack_columns
from strudel.learning.incomplete import expected_flows
from strudel.learning.search.learn_structure import grow
from strudel.learning.search_options import SearchOptions
from strudel.learning.supervised.class_code import class_codewords
from strudel.learning.supervised.class_mixtures import (
    ClassCounts,
    ClassRows,
    complete_rows,
    count_classes,
    first_structure,
)
from strudel.learning.supervised.class_model import ClassModel
from strudel.learning.supervised.logistic_mixture import LogisticFit, LogisticScorer
from strudel.tables.column_codes import ColumnCode

MANY_CELLS = 50_000  # with more, half of the settings are dropped after every fold
LEAST_KEPT = 3
SCORES = ("log_loss", "brier", "accuracy")
CERTAIN = 2.0  # standard errors by which a setting must be better than a logistic model
REFINEMENTS = 10  # steps of EM on rows with unknown values, once all is chosen


class Setting(NamedTuple):
    """What is chosen, except the smoothing."""

    encoder: int  # which of the encoders
    method: str  # "per_class", "joint" or "logistic"
    init: str  # "tree" or "independent"
    n_splits: int
    n_components: int  # of every class; of a joint model on average; shared in a logistic one
    of_columns: bool = True  # whether the structure is over whole columns, if there are any


class ClassTrial(NamedTuple):
    """How a setting did with its best smoothing on rows it had not seen."""

    setting: Setting
    class_pseudocount: float
    pseudocount: float
    log_loss: float
    brier: float  # mean squared difference of the class probabilities from 0 and 1, over classes
    accuracy: float
    n_folds: int  # on which it was tried

    def describe(self) -> dict[str, Any]:
        """The same as plain values by name."""
        facts = self._asdict()
        return {**facts.pop("setting")._asdict(), **facts}


@dataclass(frozen=True, eq=False)
class ClassFit:
    """Counts, from which the model is read off for any smoothing."""

    counts: ClassCounts
    codewords: ByteArray | None  # of a joint model

    def model(self, class_pseudocount: float, pseudocount: float) -> ClassModel:
        """The model with this smoothing."""
        mixture = self.counts.mixture(class_pseudocount, pseudocount)
        own = self.counts.component_class if self.codewords is None else None
        return ClassModel(mixture, own, self.codewords)

    def scorer(self, class_pseudocount: float, pseudocount: float) -> ClassModel:
        """What predicts held-out rows."""
        return self.model(class_pseudocount, pseudocount)

    def refined(self, rows: ClassRows, class_pseudocount: float, pseudocount: float) -> ClassFit:
        """EM on the rows as they are, with unknown values, instead of the completed ones."""
        if rows.is_complete:
            return self
        groups = [(rows.X[own], rows.weight[own]) for own in rows.members()]
        if self.codewords is not None:
            table = np.hstack([rows.X, self.codewords[rows.label].astype(np.float64)])
            groups = [(table, rows.weight)]
        counts = self.counts
        for _ in range(REFINEMENTS):
            counts = _expected_counts(
                counts, counts.mixture(class_pseudocount, pseudocount), groups
            )
        return replace(self, counts=counts)


def _expected_counts(
    counts: ClassCounts, mixture: Mixture, groups: list[tuple[FloatArray, FloatArray]]
) -> ClassCounts:
    """The counts that the rows of every class have on average."""
    edge_count, total = counts.edge_count.copy(), counts.total.copy()
    for c, (table, weight) in enumerate(groups):
        own = counts.component_class == c
        log_weight = mixture.log_weight[own] - logsumexp(mixture.log_weight[own])
        part = Mixture(mixture.structure, mixture.edge_log_theta[:, own], log_weight)
        flows = expected_flows(part, table, sample_weight=weight)
        edge_count[:, own], total[own] = flows.edge_count, flows.component_weight
    return replace(counts, edge_count=edge_count, total=total)


class Structures:
    """The structures on some complete rows, each made once."""

    def __init__(self, rows: ClassRows) -> None:
        self.rows = rows
        self.codewords = class_codewords(rows.n_classes)
        self._classes = rows.by_class()
        self._made: dict[tuple[str, str, int, bool], Circuit] = {}

    def fit(self, setting: Setting, rng: np.random.Generator) -> ClassFit | LogisticFit:
        """Fit a setting to the rows."""
        if setting.method == "logistic":
            circuit = self._circuit("per_class", "independent", 0, True)
            seed = int(rng.integers(2**31))
            return LogisticFit(circuit, self.rows, self.rows, setting.n_components, seed)
        key = setting.method, setting.init, setting.n_splits, setting.of_columns
        circuit = self._circuit(*key)
        if setting.method == "per_class":
            return ClassFit(
                count_classes(circuit, self._classes, setting.n_components, rng=rng), None
            )
        n_components = setting.n_components * self.rows.n_classes
        counts = count_classes(circuit, [self._joint_rows()], n_components, rng=rng)
        return ClassFit(counts, self.codewords)

    def _circuit(self, method: str, init: str, n_splits: int, of_columns: bool) -> Circuit:
        key = (method, init, n_splits, of_columns)
        if key not in self._made:
            make = self._grown if n_splits else self._first
            self._made[key] = make(*key)
        return self._made[key]

    def _first(self, method: str, init: str, n_splits: int, of_columns: bool) -> Circuit:
        is_independent = init == "independent"
        columns = self.rows.columns if of_columns else None
        if method == "per_class":
            return first_structure(self._classes, columns, is_independent=is_independent)
        rows = self._joint_rows()
        if columns is not None:
            columns = (*columns, ColumnCode(self.rows.X.shape[1], self.codewords))
        return first_structure([rows], columns, is_independent=is_independent, alpha=1.0)

    def _grown(self, method: str, init: str, n_splits: int, of_columns: bool) -> Circuit:
        """Splits that the search makes on all rows together."""
        joint = self._joint_rows()
        bits = joint
        if method == "per_class":  # without the variables of the class
            words = joint.words[: -self.codewords.shape[1]]
            bits = merge_equal_rows(BitMatrix(words, joint.n_rows, joint.row_weight))[0]
        search = SearchOptions(max_splits=n_splits, patience=n_splits)
        start = self._circuit(method, init, 0, of_columns)
        grown = grow(bits, None, search=search, start=start, rng=0)
        return grown.growing.snapshot()

    def _joint_rows(self) -> BitMatrix:
        """All rows, with their class in the last variables."""
        table = np.hstack([self.rows.X.astype(np.uint8), self.codewords[self.rows.label]])
        return merge_equal_rows(pack_columns(table, self.rows.weight))[0]


@dataclass(frozen=True, eq=False)
class ClassSearch:
    """What is to be compared, and how."""

    settings: Sequence[Setting]
    strengths: Sequence[tuple[float, float]]  # of the smoothing: for classes, for components
    penalties: Sequence[tuple[float, float]]  # the same of logistic models
    scoring: str  # "brier", "log_loss" or "accuracy"
    seed: int

    def run(
        self,
        encoded: Callable[[int, AnyArray], ClassRows],
        fold: IntArray,
        on_trial: Callable[[str], None],
        clock: Clock = NO_LIMIT,
    ) -> tuple[ClassTrial, list[ClassTrial]]:
        """The best trial, and all that there was time for.

        `encoded(e, train)` gives all rows as encoder e codes them, when it is fitted on the rows
        `train`.
        """
        sums = {
            setting: np.zeros((len(self._strengths_of(setting)), 5)) for setting in self.settings
        }
        alive, trials = list(self.settings), []
        n_folds = int(fold.max()) + 1
        for f in range(n_folds):
            held = fold == f
            made: dict[int, tuple[Structures, ClassRows]] = {}
            against: FloatArray | None = None  # losses of the rows under the logistic model
            for setting in alive:
                if f == 0 and made and clock.is_up:  # the others are not compared
                    alive = alive[: alive.index(setting)]
                    break
                if setting.encoder not in made:
                    rows = encoded(setting.encoder, ~held)
                    rng = np.random.default_rng([self.seed, f])
                    train = complete_rows(rows.take(~held), rng, n_rounds=1)
                    made[setting.encoder] = Structures(train), rows.take(held)
                structures, valid = made[setting.encoder]
                fit = structures.fit(setting, np.random.default_rng([self.seed, f]))
                own = [
                    _scores(fit.scorer(*strengths), valid)
                    for strengths in self._strengths_of(setting)
                ]
                for i, scores in enumerate(own):
                    sums[setting][i, :4] += scores @ valid.weight
                    if against is not None:
                        apart = valid.weight * (self._losses(scores) - against)
                        sums[setting][i, 4] += apart @ apart
                if setting.method == "logistic":
                    best_one = np.argmin([valid.weight @ self._losses(scores) for scores in own])
                    against = self._losses(own[best_one])
                on_trial(f"fold {f + 1} of {n_folds}, {_words(self._trial(setting, sums, f + 1))}")
            latest = [self._trial(setting, sums, f + 1) for setting in alive]
            trials += latest
            if clock.is_up:
                break
            if f + 1 < n_folds and (against is not None or valid.X.size * n_folds > MANY_CELLS):
                alive = self._kept(latest, sums)
        # A logistic model is the first, so that it wins a tie.
        return min(latest, key=lambda trial: self._with_error(trial, sums, CERTAIN)), trials

    def _kept(self, latest: Sequence[ClassTrial], sums: dict[Setting, FloatArray]) -> list[Setting]:
        """The better half; and if there is a logistic model, it and what may be better."""
        order = np.argsort([self._loss(trial) for trial in latest], kind="stable")
        better = set(order[: max(LEAST_KEPT, -(-len(latest) // 2))].tolist())
        if latest[0].setting.method == "logistic":
            bound = self._loss(latest[0])
            better = {i for i in better if self._with_error(latest[i], sums, -1.0) < bound} | {0}
        return [trial.setting for i, trial in enumerate(latest) if i in better]

    def _with_error(
        self, trial: ClassTrial, sums: dict[Setting, FloatArray], n_errors: float
    ) -> float:
        """The loss, with standard errors of its difference from that of the logistic model."""
        strengths = self._strengths_of(trial.setting)
        place = strengths.index((trial.class_pseudocount, trial.pseudocount))
        _, _, _, weight, apart = sums[trial.setting][place]
        return self._loss(trial) + n_errors * float(np.sqrt(apart)) / float(weight)

    def _strengths_of(self, setting: Setting) -> list[tuple[float, float]]:
        """All that make a difference: a class of one component needs no smoothing towards itself.

        A joint mixture is one class.
        """
        if setting.method == "logistic":
            return list(self.penalties)
        classes, components = (
            list(dict.fromkeys(one)) for one in zip(*self.strengths, strict=True)
        )
        if setting.method == "joint":
            classes = classes[:1]
        elif setting.n_components == 1:
            components = components[:1]
        return [(a, b) for a in classes for b in components]

    def _trial(self, setting: Setting, sums: dict[Setting, FloatArray], n_folds: int) -> ClassTrial:
        """What a setting reached with the best smoothing so far."""
        means = sums[setting][:, :3] / sums[setting][:, 3:4]
        found = [
            ClassTrial(setting, a, b, log_loss, brier, accuracy, n_folds)
            for (a, b), (log_loss, brier, accuracy) in zip(
                self._strengths_of(setting), means.tolist(), strict=True
            )
        ]
        return min(found, key=self._loss)

    def _loss(self, trial: ClassTrial) -> float:
        score = float(getattr(trial, self.scoring))
        return -score if self.scoring == "accuracy" else score

    def _losses(self, scores: FloatArray) -> FloatArray:
        """What every row loses."""
        of_rows = scores[SCORES.index(self.scoring)]
        return -of_rows if self.scoring == "accuracy" else of_rows


def _scores(model: ClassModel | LogisticScorer, valid: ClassRows) -> FloatArray:
    """Of every row its log-loss, its Brier score, whether the answer is right, and 1."""
    log_p = log_softmax(model.joint_logs(valid.X), axis=1)
    wanted = valid.label[:, np.newaxis] == np.arange(log_p.shape[1])
    return np.stack(
        [
            -log_p[wanted],
            np.square(np.exp(log_p) - wanted).sum(axis=1),
            log_p.argmax(axis=1) == valid.label,
            np.ones(len(log_p)),
        ]
    )


def _words(trial: ClassTrial) -> str:
    _, method, init, n_splits, n_components, of_columns = trial.setting
    over = "" if of_columns else " over 0/1 variables"
    return (
        f"{method}, {init}{over}, {n_splits} splits, {n_components} components: "
        f"log-loss {trial.log_loss:.4f}, accuracy {trial.accuracy:.4f}"
    )
