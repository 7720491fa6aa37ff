"""Whether a decision would stay the same if the hidden variables were known.

In:  a model, what decides (a variable of the model, an event, a classifier, any predictor), what is
     known, and which of the unknown variables could become known.
Out: the probability that the decision stays as it is, exact or in an interval.

The same-decision probability is due to Choi, Xue and Darwiche (2012), its expectation after some
observation to Chen, Choi and Darwiche (2015).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from strudel._types import AnyArray, FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.errors import SearchLimitWarning
from strudel.predictions.agreement_search import Agreement, SameLabels, search_agreement
from strudel.predictions.decision import Decision, PredictorDecider, decision_of
from strudel.predictions.expected import expected_outputs
from strudel.predictions.posterior_bounds import split_posteriors
from strudel.predictions.predictor_arguments import possible_evidence
from strudel.predictions.predictor_forms import LinearForm
from strudel.predictions.ranges import mentioned_variables
from strudel.queries.arguments import check_limits
from strudel.queries.by_block import by_block
from strudel.queries.model import Model, model_of
from strudel.queries.passes import decode

MAX_NODES = 100_000


class SameDecision(NamedTuple):
    """How sure a decision is; arrays where there are several rows."""

    probability: Any  # that it stays the same; the middle of the interval where it is not exact
    lower_bound: Any
    upper_bound: Any
    is_exact: Any  # whether the search ended before any limit
    decision: Any  # what is decided now: a class of the classifier, else 0 or 1
    expected: Any  # the output that is expected now: a probability, log-odds or a value
    n_nodes: Any  # partial assignments the search had to split; 0 if none


@by_block("given")
def same_decision_probability(
    model: Model,
    decision: Any,
    given: Any = None,
    *,
    hidden: Any = None,
    threshold: float = 0.5,
    max_nodes: int | None = MAX_NODES,
    max_seconds: float | None = None,
    details: bool = False,
) -> Any:
    """The probability that a decision stays the same once the hidden variables are known.

    The decision is made by what is expected now, E[f | x] >= threshold, and would be made by
    E[f | x, h] if the hidden variables had the values h; the answer is the probability, given x, of
    those h for which both are the same. All other unknown variables are summed out.

    Exact: in one pass if the vtree keeps the hidden variables apart from those of a sum, otherwise
    by branch and bound over their values, the most probable first.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        In normal form.
    decision : name or number of a variable, event, or predictor
        A variable D of the model stands for P(D = 1 | x) >= threshold. A predictor is whatever
        `expected_prediction` takes: a classifier of scikit-learn decides as it does itself, by the
        largest averaged probability, with ties to the first class. One that gives log-odds, as a
        logistic regression does, decides by the expected log-odds.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    hidden : name or number of a variable, or several, optional
        Those that could become known. Values that a row knows are not hidden in it. By default all
        except the variable that is decided about.
    threshold : float
        Threshold of the probability, or of the value if the predictor gives one.
    max_nodes, max_seconds : optional
        Limits on the splits per row and on the seconds in all. If one is reached, the answer is the
        middle of an interval that contains the truth, and a `SearchLimitWarning` says so.
    details : bool
        Whether to return a `SameDecision`, with the interval and the decision.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` is a table; or SameDecision

    Raises
    ------
    ValueError
        If a row of `given` has probability zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> round(same_decision_probability(circuit, "X1", hidden=["X3"]), 4)  # 0.4 or 0.7, by X3
    0.4
    >>> found = same_decision_probability(circuit, "X1", {"X4": 1}, hidden=["X3"], details=True)
    >>> found.decision, round(found.expected, 4), round(found.probability, 4)
    (1, 0.61, 0.7)
    """
    case = _Case(model, decision, given, threshold, "same_decision_probability")
    open_vars = case.hidden(hidden)
    limits = check_limits(max_seconds, max_nodes)
    found = _from_one_pass(case, open_vars)
    if found is None:
        decider = PredictorDecider(case.decision, open_vars, case.codes, case.shifts, case.query)
        deciders = SameLabels(case.label), decider
        found = search_agreement(case.model, case.codes, deciders, case.query, limits)
    return case.report(found, details)


@by_block("given")
def expected_same_decision_probability(
    model: Model,
    decision: Any,
    given: Any = None,
    *,
    observe: Any,
    hidden: Any = None,
    threshold: float = 0.5,
    max_nodes: int | None = MAX_NODES,
    max_seconds: float | None = None,
    details: bool = False,
) -> Any:
    """How sure a decision will be, on average, once some variables have been observed.

    For every outcome of the observation a decision is made, which has a same-decision probability
    over what is hidden then; the answer is its expectation. It says which observation is worth
    most: the one after which what is still hidden matters least.

    Exact, by branch and bound over the values of what is observed and of what is hidden.

    Parameters
    ----------
    model, decision, given, threshold, max_nodes, max_seconds, details
        As in `same_decision_probability`. In a `SameDecision`, `decision` is what is decided now,
        before anything is observed.
    observe : name or number of a variable, or several
        What will be observed; values that a row knows already add nothing.
    hidden : name or number of a variable, or several, optional
        What could become known later. What is observed is no longer hidden. By default all unknown
        variables except the one that is decided about.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` is a table; or SameDecision

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> hidden = ["X2", "X3", "X4"]
    >>> for name in hidden:  # X1 depends on X3 alone
    ...     gain = expected_same_decision_probability(circuit, "X1", observe=name, hidden=hidden)
    ...     print(name, round(gain, 4))
    X2 0.74
    X3 1.0
    X4 0.76
    """
    case = _Case(model, decision, given, threshold, "expected_same_decision_probability")
    seen = case.decision.asked.indices(observe, "observe")
    case.refuse_decided(seen, "observe")
    either = np.union1d(seen, case.hidden(hidden))
    limits = check_limits(max_seconds, max_nodes)
    first, second = (
        PredictorDecider(case.decision, variables, case.codes, case.shifts, case.query)
        for variables in (seen, either)
    )
    found = search_agreement(case.model, case.codes, (first, second), case.query, limits)
    return case.report(found, details)


class _Case:
    """What both queries ask about: a model, a decision, and rows with what is decided now."""

    def __init__(self, model: Any, decision: Any, given: Any, threshold: float, query: str) -> None:
        self.query = query
        self.decision: Decision = decision_of(model_of(model), decision, threshold, query)
        self.model = self.decision.asked.model
        known = possible_evidence(self.decision.asked, given, "given", query)
        self.codes, self._place, self.is_single = known.codes, known.place, known.is_single
        self.shifts = known.shifts
        expected = expected_outputs(self.model, self.decision.form, decode(self.codes))
        self.output: FloatArray = expected + self.shifts
        self.label: IntArray = self.decision.labels_of(self.output)
        # The one variable that the decision is about, if it is one.
        form = self.decision.form
        is_variable = isinstance(form, LinearForm) and form.output == "probability"
        self._decided = mentioned_variables(form) if is_variable else np.empty(0, dtype=np.int64)

    def hidden(self, hidden: Any) -> AnyArray:
        """The hidden variables; by default all but the one that is decided about."""
        if hidden is None:
            return np.setdiff1d(np.arange(self.model.n_vars), self._decided)
        if not isinstance(hidden, str) and np.ndim(hidden) == 1 and len(hidden) == 0:
            return np.empty(0, dtype=np.int64)
        variables = self.decision.asked.indices(hidden, "hidden")
        self.refuse_decided(variables, "hidden")
        return np.sort(variables)

    def refuse_decided(self, variables: AnyArray, name: str) -> None:
        """The variable that is decided about cannot be among what would be known."""
        if len(np.intersect1d(variables, self._decided)):
            raise ValueError(
                f"{name} must not name the variable that the decision is about: once it is known, "
                "nothing is left to decide."
            )

    def report(self, found: Agreement, details: bool) -> Any:
        """What the user gets, in the order of the rows of `given`."""
        found = Agreement(*(field[self._place] for field in found))
        warn_if_stopped(found, self.query, stacklevel=5)
        if not details:
            return float(found.probability[0]) if self.is_single else found.probability
        everything = (
            *found[:4],
            self.decision.names(self.label)[self._place],
            self.decision.score(self.output)[self._place],
            found.n_nodes,
        )
        if self.is_single:
            everything = tuple(as_python(field[0]) for field in everything)
        return SameDecision(*everything)


def as_python(value: Any) -> Any:
    """A number as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def warn_if_stopped(found: Agreement, query: str, stacklevel: int = 4) -> None:
    """Say in which interval a probability lies where a limit stopped the search."""
    stopped = np.flatnonzero(~found.is_exact)
    if len(stopped):
        row = int(stopped[0])
        warnings.warn(
            SearchLimitWarning(
                f"The search of {query} stopped at a limit for {len(stopped)} of "
                f"{len(found.is_exact)} rows. For row {row}, the probability lies between "
                f"{found.lower_bound[row]:.6g} and {found.upper_bound[row]:.6g}. Allow more with "
                "max_nodes or max_seconds.",
                found.upper_bound,
            ),
            stacklevel=stacklevel,
        )


def _from_one_pass(case: _Case, open_vars: AnyArray) -> Agreement | None:
    """The answer for all rows where there are few different posteriors, else None."""
    form, decision = case.decision.margins, case.decision
    if not isinstance(form, LinearForm) or decision.n_labels > 2:
        return None
    model = case.model.to_circuit() if isinstance(case.model, Mixture) else case.model
    if not model.is_in_normal_form or model.root < 2 * model.n_vars:
        return None
    same = np.zeros(len(case.codes))
    for row, codes in enumerate(case.codes):
        found = split_posteriors(model, form.weight[:, 0], open_vars, codes, case.query)
        if found is None:
            return None
        mass, expected = found
        shift = case.shifts[row] @ decision.matrix
        label = decision.labels(*2 * (expected[:, np.newaxis] + form.bias + shift,))
        same[row] = mass[label == case.label[row]].sum() / mass.sum()
    exact = np.ones(len(same), dtype=np.bool_)
    return Agreement(same, same, same, exact, np.zeros(len(same), dtype=np.int64))
