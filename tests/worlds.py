"""Random predictors and decisions by enumeration, for the tests of decisions and explanations."""

from __future__ import annotations

import itertools
import math

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from strudel.predictions.forms import LeafForm, LinearForm

TIE = 1e-11  # outputs this close to a threshold are taken to reach it


def labelled(n_vars, rng, n_classes=2, n_rows=60):
    """Random 0/1 rows with labels that depend on them; every class occurs."""
    X = rng.integers(0, 2, (n_rows, n_vars))
    y = (X @ rng.normal(size=n_vars) + 0.3 * rng.normal(size=n_rows) > 0).astype(int)
    if n_classes > 2:
        y = rng.integers(0, n_classes, n_rows)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def tree(n_vars, rng, n_classes=2, depth=3):
    X, y = labelled(n_vars, rng, n_classes)
    return DecisionTreeClassifier(max_depth=depth, random_state=int(rng.integers(99))).fit(X, y)


def regression_tree(n_vars, rng, depth=3):
    X, _ = labelled(n_vars, rng)
    y = np.round(rng.random(len(X)), 2)
    return DecisionTreeRegressor(max_depth=depth, random_state=0).fit(X, y)


def forest(n_vars, rng, n_classes=2, n_trees=5, depth=3):
    X, y = labelled(n_vars, rng, n_classes)
    made = RandomForestClassifier(n_trees, max_depth=depth, random_state=int(rng.integers(99)))
    return made.fit(X, y)


def logistic(n_vars, rng, n_classes=2):
    return LogisticRegression().fit(*labelled(n_vars, rng, n_classes))


def linear(n_vars, rng):
    return sum_of(rng.normal(size=n_vars), rng.normal() * 0.1)


def sum_of(weight, bias=0.0):
    """A weighted sum of 0/1 variables."""
    return LinearForm(tuple(np.array([[0.0], [w]]) for w in weight), np.array([bias]))


PREDICTORS = {
    "tree": tree,
    "regression tree": regression_tree,
    "forest": forest,
    "logistic": logistic,
    "linear": linear,
}


def outputs(predictor, states):
    """What a predictor says about complete rows, `(n_rows, n_outputs)`; as log-odds if it can."""
    if isinstance(predictor, LinearForm | LeafForm):
        return predictor.evaluate(states)
    if isinstance(predictor, LogisticRegression):
        return predictor.decision_function(states).reshape(len(states), -1)
    if hasattr(predictor, "predict_proba"):
        return predictor.predict_proba(states)
    if hasattr(predictor, "predict"):
        return predictor.predict(states).reshape(len(states), -1)
    return np.asarray(predictor, dtype=float)[:, np.newaxis]  # one value per state


def label(output, predictor, threshold=0.5):
    """What is decided, from an (expected) output."""
    is_classifier = hasattr(predictor, "classes_")
    if len(output) > 2:
        return int(np.argmax(output > output.max() - TIE))
    score = output[-1]
    if isinstance(predictor, LogisticRegression):
        threshold = math.log(threshold / (1 - threshold))
    return int(score > threshold + TIE) if is_classifier else int(score >= threshold - TIE)


class World:
    """A model's table with the outputs of one predictor."""

    def __init__(self, joint, predictor, threshold=0.5):
        self.joint, self.predictor, self.threshold = joint, predictor, threshold
        self.output = outputs(predictor, joint.states)

    def expected(self, row):
        p = self.joint.given(row)
        return p @ self.output

    def decide(self, row):
        return label(self.expected(row), self.predictor, self.threshold)

    def same_decision(self, row, hidden):
        now = self.decide(row)
        return math.fsum(p for full, p in self.completions(row, hidden) if self.decide(full) == now)

    def expected_same_decision(self, row, observe, hidden):
        return math.fsum(
            p * self.same_decision(full, hidden) for full, p in self.completions(row, observe)
        )

    def completions(self, row, variables):
        """All possible states of the unknown ones of some variables, with their probabilities."""
        row = np.array(row, dtype=float)
        unknown = [var for var in variables if np.isnan(row[var])]
        whole = self.joint.probability(row)
        for values in itertools.product((0.0, 1.0), repeat=len(unknown)):
            full = row.copy()
            full[unknown] = values
            p = self.joint.probability(full)
            if p > 0:
                yield full, p / whole

    def decided_like(self, row, decision):
        """P(the decision about the complete row is `decision` | row)."""
        p = self.joint.given(row)
        labels = [label(output, self.predictor, self.threshold) for output in self.output]
        return math.fsum(p[np.array(labels) == decision])
