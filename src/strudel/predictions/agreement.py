"""How often two classifiers agree under a model.

In:  a model, and two classifiers: events, decision trees, forests, or any other predictors.
Out: the probability that both decide alike, exact or in an interval.

Two formulas agree where one holds if and only if the other does, which is an event. All others are
searched: a row is split on what a classifier asks for next until both have decided, so that two
decision trees cost no more than their pairs of leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._names import quote
from strudel._types import AnyArray, ByteArray, FloatArray, IntArray
from strudel.algebra.event_probability import event_log_probabilities
from strudel.errors import MissingDependencyError
from strudel.predictions.agreement_search import OPEN, Agreement, search_agreement
from strudel.predictions.decision import Decision, PredictorDecider, decisions_of
from strudel.predictions.predictor_arguments import possible_evidence
from strudel.predictions.predictor_forms import EventForm
from strudel.predictions.same_decision import MAX_NODES, as_python, warn_if_stopped
from strudel.queries.arguments import check_limits
from strudel.queries.by_block import by_block
from strudel.queries.model import Model, model_of
from strudel.queries.passes import decode


@by_block("given")
def classifier_agreement(
    model: Model,
    f: Any,
    g: Any,
    given: Any = None,
    *,
    threshold: float = 0.5,
    max_nodes: int | None = MAX_NODES,
    max_seconds: float | None = None,
    details: bool = False,
) -> Any:
    """The probability that two classifiers decide alike.

    Exact. Two events are compared as one event, by `probability`; everything else by a search over
    the variables that the classifiers look at, with bounds on what they can still say.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        In normal form.
    f, g : event, classifier, or predictor
        An event says 1 where it holds. Trees, forests and other classifiers of scikit-learn decide
        as they do themselves: by the largest averaged probability, with ties to the first class.
        Classes are compared by their names; an event's 0 and 1 stand for the first and the second
        of two classes. A predictor of values says 1 where its value is at least `threshold`.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    threshold : float
        Threshold of probabilities and values.
    max_nodes, max_seconds : optional
        Limits on the splits per row and on the seconds in all. If one is reached, the answer is the
        middle of an interval that contains the truth, and a `SearchLimitWarning` says so.
    details : bool
        Whether to return an `Agreement`: `probability`, `lower_bound`, `upper_bound`, `is_exact`
        and `n_nodes`.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` is a table; or Agreement

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> X = [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]]
    >>> both = DecisionTreeClassifier(random_state=0).fit(X, [0, 0, 0, 1])
    >>> round(classifier_agreement(circuit, both, "X1"), 4)  # unless X1 and not X2
    0.836
    >>> round(classifier_agreement(circuit, both, "X1 & X2"), 4)
    1.0
    """
    query = "classifier_agreement"
    model = model_of(model)
    limits = check_limits(max_seconds, max_nodes)
    decisions = decisions_of(model, (f, g), threshold, query)
    model = decisions[0].asked.model
    both = [possible_evidence(decision.asked, given, "given", query) for decision in decisions]
    codes, place, is_single = both[0][:3]
    shifts = [known.shifts for known in both]
    if any(decision.asked.lines for decision in decisions):  # rows may differ in numbers only
        codes, place = codes[place], np.arange(len(place), dtype=np.int32)
        shifts = [known.shifts[known.place] for known in both]
    found = _as_event(model, decisions, decode(codes))
    if found is None:
        numbers = _common_labels(decisions)
        everything = np.arange(model.n_vars)
        first, second = (
            _Renamed(PredictorDecider(decision, everything, codes, shift, query), number)
            for decision, shift, number in zip(decisions, shifts, numbers, strict=True)
        )
        found = search_agreement(model, codes, (first, second), query, limits)
    found = Agreement(*(field[place] for field in found))
    warn_if_stopped(found, query)
    if details:
        return Agreement(*(as_python(field[0]) for field in found)) if is_single else found
    return float(found.probability[0]) if is_single else found.probability


def _as_event(model: Model, decisions: list[Decision], rows: FloatArray) -> Agreement | None:
    """The answer for two formulas; None for others, or if they need a missing compiler."""
    f, g = (decision.form for decision in decisions)
    is_plain = all(0.0 < decision.cut <= 1.0 for decision in decisions)
    if not (isinstance(f, EventForm) and isinstance(g, EventForm) and is_plain):
        return None
    try:
        same = np.exp(event_log_probabilities(model, f.event == g.event, rows))
    except MissingDependencyError:
        return None
    is_exact = np.ones(len(same), dtype=np.bool_)
    return Agreement(same, same, same, is_exact, np.zeros(len(same), dtype=np.int64))


def _common_labels(decisions: list[Decision]) -> list[IntArray]:
    """For each of two decisions, common numbers for its labels 0, 1, ..."""
    first, second = (decision.classes for decision in decisions)
    if first is None or second is None:
        n_labels = [decision.n_labels for decision in decisions]
        if n_labels[0] != n_labels[1]:
            raise ValueError(
                f"One classifier decides between {n_labels[0]} classes and the other between "
                f"{n_labels[1]}, and at least one does not name them. Give classifiers with the "
                "same classes."
            )
        return [np.arange(n_labels[0], dtype=np.int32)] * 2
    names = [list(map(_key, classes.tolist())) for classes in (first, second)]
    if not set(names[0]) & set(names[1]):
        raise ValueError(
            f"The classifiers never agree: one decides between {quote(names[0])}, the other "
            f"between {quote(names[1])}. Give classifiers with the same class names."
        )
    number = {name: i for i, name in enumerate(dict.fromkeys(names[0] + names[1]))}
    return [np.array([number[name] for name in one], dtype=np.int32) for one in names]


def _key(name: Any) -> str:
    """A class by which classes are compared: 1, 1.0 and True are one."""
    is_whole = isinstance(name, bool | int | float) and float(name).is_integer()
    return str(int(name)) if is_whole else str(name)


class _Renamed:
    """A decider with other numbers for its labels."""

    def __init__(self, decider: PredictorDecider, number: IntArray) -> None:
        self._decider, self._number = decider, number

    def labels(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        label = self._decider.labels(codes, owner)
        return np.where(label == OPEN, np.int32(OPEN), self._number[label])

    def next_variables(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        return self._decider.next_variables(codes, owner)
