"""Whether a decision would stay the same if hidden columns were known; how often two agree.

In:  a model, what decides (a column of 0 and 1, an event, a classifier, any predictor), what is
     known, and which of the unknown columns could become known; or two classifiers.
Out: the probability that the decision stays as it is, or that both decide alike: exact, or in an
     interval.

The same-decision probability is due to Choi, Xue and Darwiche (2012), its expectation after some
observation to Chen, Choi and Darwiche (2015).

Two formulas agree where one holds if and only if the other does, which is an event. All others are
searched, best first: a *decider* gives a label to a partly known row if all its completions have
that label; otherwise it names a column and cells to split it by. The search splits the most
probable open row and adds up the rows for which both labels are known, so that two decision trees
cost no more than their pairs of leaves.
"""

from __future__ import annotations

import heapq
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from strudel._compiling import now
from strudel._names import quote
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.data.argument_checks import check_limits
from strudel.errors import MissingDependencyError, SearchLimitWarning, outer_stack_level
from strudel.predictions.asked import Asked, ask_about
from strudel.predictions.cell_codes import CellCodes
from strudel.predictions.decision import OPEN, Decision, PredictorDecider, decision_of
from strudel.predictions.forms import EventForm, LinearForm
from strudel.predictions.moments import event_logs, expected_outputs
from strudel.predictions.posterior_bounds import split_posteriors
from strudel.queries.by_block import lazily
from strudel.queries.given import find_columns

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


@lazily("given")
def same_decision_probability(
    model: Any,
    decision: Any,
    given: Any = None,
    *,
    hidden: Any = None,
    threshold: float = 0.5,
    max_nodes: int | None = MAX_NODES,
    max_seconds: float | None = None,
    details: bool = False,
) -> Any:
    """The probability that a decision stays the same once the hidden columns are known.

    The decision is made by what is expected now, E[f | x] >= threshold, and would be made by
    E[f | x, h] if the hidden columns had the values h; the answer is the probability, given x, of
    those h for which both are the same. All other unknown columns are summed out.

    Exact: in one pass if the vtree keeps the hidden columns apart from those of a sum, otherwise
    by branch and bound over their values, the most probable first.

    Parameters
    ----------
    model : Circuit or fitted estimator
    decision : name or number of a column of 0 and 1, event, or predictor
        A column D of 0 and 1 stands for P(D = 1 | x) >= threshold. A predictor is whatever
        `expected_prediction` takes: a classifier of scikit-learn decides as it does itself, by the
        largest averaged probability, with ties to the first class. One that gives log-odds, as a
        logistic regression does, decides by the expected log-odds.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    hidden : name or number of a column, or several, optional
        Those that could become known. Values that a row knows are not hidden in it. By default all
        except the column that is decided about.
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
    open_places = case.hidden(hidden)
    limits = check_limits(max_seconds, max_nodes)
    found = _from_one_pass(case, open_places)
    if found is None:
        decider = PredictorDecider(case.decision, open_places, case.codes, case.shifts, case.query)
        found = search_agreement(case.known, case.codes, [decider], limits, fixed=case.label)
    return case.report(found, details)


@lazily("given")
def expected_same_decision_probability(
    model: Any,
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
    """How sure a decision will be, on average, once some columns have been observed.

    For every outcome of the observation a decision is made, which has a same-decision probability
    over what is hidden then; the answer is its expectation. It says which observation is worth
    most: the one after which what is still hidden matters least.

    Exact, by branch and bound over the values of what is observed and of what is hidden.

    Parameters
    ----------
    model, decision, given, threshold, max_nodes, max_seconds, details
        As in `same_decision_probability`. In a `SameDecision`, `decision` is what is decided now,
        before anything is observed.
    observe : name or number of a column, or several
        What will be observed; values that a row knows already add nothing.
    hidden : name or number of a column, or several, optional
        What could become known later. What is observed is no longer hidden. By default all unknown
        columns except the one that is decided about.

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
    seen = case.places(observe, "observe")
    either = sorted({*seen, *case.hidden(hidden)})
    limits = check_limits(max_seconds, max_nodes)
    deciders = [
        PredictorDecider(case.decision, places, case.codes, case.shifts, case.query)
        for places in (seen, either)
    ]
    found = search_agreement(case.known, case.codes, deciders, limits)
    return case.report(found, details)


class _Case:
    """What both queries ask about: a decision, and rows with what is decided now."""

    def __init__(self, model: Any, decision: Any, given: Any, threshold: float, query: str) -> None:
        self.query = query
        [asked] = ask_about(model, [decision], given, are_decisions=True)
        asked.raise_if_impossible()
        self.asked: Asked = asked
        self.decision: Decision = decision_of(asked, threshold)
        self.known, self.codes, self.shifts = asked.known, asked.codes, asked.shifts
        self.output = expected_outputs(asked.form, self.known, self.codes, query) + self.shifts
        self.label: IntArray = self.decision.labels_of(self.output)
        # The one column that the decision is about, if it is one.
        is_column = isinstance(asked.form, LinearForm) and asked.form.is_decided
        self._decided = asked.form.places if is_column else []

    def hidden(self, hidden: Any) -> list[int]:
        """The hidden columns; by default all but the one that is decided about."""
        if hidden is None:
            places = range(len(self.asked.circuit.columns))
            return [place for place in places if place not in self._decided]
        if not isinstance(hidden, str) and np.ndim(hidden) == 1 and len(hidden) == 0:
            return []
        return sorted(self.places(hidden, "hidden"))

    def places(self, names: Any, who: str) -> list[int]:
        """The places of columns; the one that is decided about cannot become known."""
        places = find_columns(self.asked.circuit, names, who)
        if set(places) & set(self._decided):
            raise ValueError(
                f"{who} must not name the variable that the decision is about: once it is known, "
                "nothing is left to decide."
            )
        return places

    def report(self, found: Agreement, details: bool) -> Any:
        """What the user gets, in the order of the rows of `given`."""
        names, score = self.decision.names(self.label), self.decision.score(self.output)
        every = SameDecision(*found[:4], names, score, found.n_nodes)
        return _reported(every, self.asked, self.query, details)


def _reported(found: Any, asked: Asked, query: str, details: bool) -> Any:
    """What is known of distinct rows, in the order of the rows of `given`; numbers of one row."""
    found = type(found)(*(field[asked.place] for field in found))
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
            stacklevel=outer_stack_level(),
        )
    if asked.is_single:
        found = type(found)(*(as_python(field[0]) for field in found))
    return found if details else found.probability


def as_python(value: Any) -> Any:
    """A number as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def _from_one_pass(case: _Case, open_places: list[int]) -> Agreement | None:
    """The answer for all rows where there are few different posteriors, else None."""
    form, decision = case.decision.margins, case.decision
    if not isinstance(form, LinearForm) or decision.n_labels > 2:
        return None
    weight = [own[:, 0] for own in form.weight]
    found = split_posteriors(case.known, weight, open_places, case.codes)
    if found is None:
        return None
    same = np.zeros(len(case.codes))
    for row, (mass, expected) in enumerate(found):
        shift = case.shifts[row] @ decision.matrix
        margin = expected[:, np.newaxis] + form.bias + shift
        label = decision.labels(margin, margin)
        same[row] = mass[label == case.label[row]].sum() / mass.sum()
    return _exactly(same)


def _exactly(same: FloatArray) -> Agreement:
    """Probabilities that are known without a search."""
    exact = np.ones(len(same), dtype=np.bool_)
    return Agreement(same, same, same, exact, np.zeros(len(same), dtype=np.int64))


@lazily("given")
def classifier_agreement(
    model: Any,
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
    the columns that the classifiers look at, with bounds on what they can still say.

    Parameters
    ----------
    model : Circuit or fitted estimator
    f, g : event, classifier, or predictor
        An event says 1 where it holds. Trees, forests and other classifiers of scikit-learn decide
        as they do themselves: by the largest averaged probability, with ties to the first class.
        Classes are compared by their names; an event's 0 and 1 stand for the first and the second
        of two classes. A predictor of values says 1 where its value is at least `threshold`.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    threshold, max_nodes, max_seconds
        As in `same_decision_probability`.
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
    limits = check_limits(max_seconds, max_nodes)
    both = ask_about(model, (f, g), given, are_decisions=True)
    both[0].raise_if_impossible()
    decisions = [decision_of(asked, threshold) for asked in both]
    known, codes = both[0].known, both[0].codes
    found = _as_event(known, decisions, codes)
    if found is None:
        everything = range(len(known.circuit.columns))
        deciders = [
            PredictorDecider(decision, everything, codes, asked.shifts, query, number)
            for decision, asked, number in zip(
                decisions, both, _common_labels(decisions), strict=True
            )
        ]
        found = search_agreement(known, codes, deciders, limits)
    return _reported(found, both[0], query, details)


def _as_event(known: CellCodes, decisions: list[Decision], codes: AnyArray) -> Agreement | None:
    """The answer for two formulas; None for others, or if they need a missing compiler."""
    f, g = (decision.asked.form for decision in decisions)
    is_plain = all(0.0 < decision.cut <= 1.0 for decision in decisions)
    if not (isinstance(f, EventForm) and isinstance(g, EventForm) and is_plain):
        return None
    try:
        both = event_logs(EventForm(f.event == g.event, f.columns), known, codes)
    except MissingDependencyError:
        return None
    return _exactly(np.exp(both - known.log_probabilities(codes)))


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


N_TAKEN = 256  # open rows looked at together
ROUNDING = 1e-11  # by which an interval is widened


class Agreement(NamedTuple):
    """How probable it is that two decisions agree; arrays where there are several rows."""

    probability: Any  # the middle of the interval where it is not exact
    lower_bound: Any
    upper_bound: Any
    is_exact: Any  # whether the search ended before any limit
    n_nodes: Any  # partial assignments that had to be split


def search_agreement(
    known: CellCodes,
    codes: AnyArray,
    deciders: Sequence[PredictorDecider],
    limits: tuple[float, float],
    *,
    fixed: IntArray | None = None,
    enough: float | None = None,
) -> Agreement:
    """The probability, given each row of codes, that two deciders agree, or one and `fixed` labels.

    The rows must be possible. `limits` are the seconds for all rows and the splits of each. With
    `enough`, a row is done as soon as its probability is known to be at least that, or less.
    """
    max_seconds, max_nodes = limits
    search = _Search(known, codes, deciders, fixed, max_nodes, enough)
    search.run(now() + max_seconds)
    return search.report()


class _Search:
    """Best-first: the heap holds open rows, the most probable one first."""

    def __init__(
        self,
        known: CellCodes,
        codes: AnyArray,
        deciders: Sequence[PredictorDecider],
        fixed: IntArray | None,
        max_nodes: float,
        enough: float | None,
    ) -> None:
        self._known, self._codes = known, codes
        self._deciders, self._fixed = deciders, fixed
        self._max_nodes, self._enough = max_nodes, enough
        n_rows = len(codes)
        self._log_start = known.log_probabilities(codes)
        # Minus its mass, a number, its owner, its codes, and which decider is open.
        self._heap: list[tuple[float, int, int, bytes, int]] = []
        self._n_pushed = 0
        self._agreed: list[list[float]] = [[] for _ in range(n_rows)]
        self._differed: list[list[float]] = [[] for _ in range(n_rows)]
        self._left = np.zeros(n_rows)  # mass that is open, because of a limit
        self._sum = np.zeros((n_rows, 2))  # rough sums of the lists above
        self._n_nodes = np.zeros(n_rows, dtype=np.int64)
        self._settle(codes, np.arange(n_rows), np.ones(n_rows))

    def run(self, deadline: float) -> None:
        """Split open rows until none is left, or a limit is reached: others stay as they are."""
        while self._heap:
            is_late = now() >= deadline
            taken: list[tuple[bytes, int, int]] = []
            while self._heap and len(taken) < N_TAKEN:
                minus_mass, _, owner, row, asks = heapq.heappop(self._heap)
                if is_late or self._n_nodes[owner] >= self._max_nodes or self._is_done(owner):
                    self._left[owner] -= minus_mass
                    continue
                self._n_nodes[owner] += 1
                taken.append((row, owner, asks))
            if taken:
                rows, owners, asking = zip(*taken, strict=True)
                codes = np.frombuffer(b"".join(rows), dtype=self._codes.dtype)
                self._split(codes.reshape(len(rows), -1), np.array(owners), np.array(asking))

    def _is_done(self, owner: int) -> bool:
        if self._enough is None:
            return False
        agreed, differed = self._sum[owner]
        return bool(agreed >= self._enough + ROUNDING or 1.0 - differed < self._enough - ROUNDING)

    def _split(self, codes: AnyArray, owner: AnyArray, asking: AnyArray) -> None:
        """Each row with the cells that an open decider asks for, and with the others."""
        children = np.repeat(codes, 2, axis=0)
        for number, decider in enumerate(self._deciders):
            rows = np.flatnonzero(asking == number)
            if not len(rows):
                continue
            places, cells = decider.next_splits(codes[rows], owner[rows])
            assert np.all(places != NONE)
            for row, place, own in zip(rows.tolist(), places.tolist(), cells, strict=True):
                inside, outside = self._known.split(place, int(codes[row, place]), own)
                children[2 * row, place], children[2 * row + 1, place] = outside, inside
        owner = np.repeat(owner, 2)
        log_p = self._known.log_probabilities(children)
        is_possible = log_p > -np.inf
        children, owner = children[is_possible], owner[is_possible]
        self._settle(children, owner, np.exp(log_p[is_possible] - self._log_start[owner]))

    def _settle(self, codes: AnyArray, owner: AnyArray, mass: FloatArray) -> None:
        """Count the rows that are decided, and keep the others."""
        if len(codes) == 0:
            return
        labels = [decider.labels(codes, owner) for decider in self._deciders]
        is_open: AnyArray = np.any([own == OPEN for own in labels], axis=0)
        same = labels[-1] == (labels[0] if self._fixed is None else self._fixed[owner])
        for row in np.flatnonzero(~is_open):
            kept = self._agreed if same[row] else self._differed
            kept[owner[row]].append(float(mass[row]))
            self._sum[owner[row], 0 if same[row] else 1] += mass[row]
        for row in np.flatnonzero(is_open):
            key = -float(mass[row]), self._n_pushed  # of equal masses the first comes first
            asks = int(labels[0][row] != OPEN)  # the first that is open
            heapq.heappush(self._heap, (*key, int(owner[row]), codes[row].tobytes(), asks))
            self._n_pushed += 1

    def report(self) -> Agreement:
        """The sums; where nothing is left open, relative to what was found in all."""
        agreed = np.array([math.fsum(parts) for parts in self._agreed])
        differed = np.array([math.fsum(parts) for parts in self._differed])
        is_exact = self._left == 0.0
        whole = np.where(is_exact, agreed + differed, 1.0)
        low = agreed / whole
        high = np.where(is_exact, low, np.minimum(agreed + self._left, 1.0 - differed))
        low = np.where(is_exact, low, np.maximum(low - ROUNDING, 0.0))
        high = np.where(is_exact, high, np.clip(high + ROUNDING, low, 1.0))
        middle = np.where(is_exact, low, 0.5 * (low + high))
        return Agreement(middle, low, high, is_exact, self._n_nodes)
