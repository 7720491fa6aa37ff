"""Why a predictor says what it says: sufficient explanations, and Shapley values.

In:  a model, a predictor, and rows.
Out: `SufficientExplanation`, the smallest set of a row's values given which alone the decision is
     kept with high probability; `ShapValues`: how much each known value moves the expected output,
     from knowing nothing to the whole row.

What explains are players, the columns that a row knows something of.

Sets are tried by size, so that the first sufficient one is smallest. Features are in an order, a
set is extended by later ones only, and is given up if not even all later ones could help:

    P(other decision | S) = P(other decision, S) / P(S) >= P(other decision, S and all later) / P(S)

holds for all sets between. Past a limit on the number of sets, a beam search continues with the
most promising ones. Probabilistic sufficient explanations are due to Wang, Khosravi and Van den
Broeck (2021).

In the game of Shapley a set S is worth v(S) = E[f(X) | x_S], the conditional expectation under the
model, with all other features summed out. The features are dependent: one that the predictor does
not use can have a value, because it says something about others that it uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from strudel._display import plotting
from strudel._names import quote
from strudel._types import AnyArray, FloatArray
from strudel.data.argument_checks import (
    RandomState,
    check_choice,
    check_count,
    check_limits,
    generator_from,
)
from strudel.data.validation import slices
from strudel.predictions.asked import Asked, ask_about
from strudel.predictions.decision import Decision, PredictorDecider, decision_of
from strudel.predictions.forms import Form, LinearForm
from strudel.predictions.moments import expected_outputs
from strudel.predictions.same_decision import Agreement, as_python, search_agreement
from strudel.queries.by_block import lazily
from strudel.queries.column_posterior import as_value
from strudel.queries.given import ask
from strudel.tables.column import Column, bound_text, either
from strudel.tables.evidence import Evidence

MAX_SETS = 10_000
BEAM_WIDTH = 8
EXPLANATION = "sufficient_explanation"
PRUNING_NODES = 100  # splits for a bound that may rule out many sets
SLACK = 1e-12  # of probabilities that should be equal
ROWS_AT_ONCE = 2**15

Places: TypeAlias = tuple[int, ...]  # of players, in order


@dataclass(frozen=True)
class SufficientExplanation:
    """The values that are sufficient for a decision."""

    features: dict[str, Any]  # their names and values; of a table, columns
    decision: Any  # a class of the classifier, else 0 or 1
    probability: float  # that the decision is kept, given the features alone
    lower_bound: float  # differs from it where a limit stopped the search
    upper_bound: float
    expected: float  # the output that is expected, given the features alone
    expected_with_all: float  # and given everything that is known of the row
    delta: float
    criterion: str
    is_sufficient: bool  # False if all known values of the row together are not enough
    is_smallest: bool  # whether it is proven that no smaller set is sufficient
    n_sets: int  # sets that were looked at

    def __repr__(self) -> str:
        values = ", ".join(f"{name} = {value}" for name, value in self.features.items())
        chance = f"{self.probability:.4g}"
        ends = f"{self.lower_bound:.4g}", f"{self.upper_bound:.4g}"
        if ends[0] != ends[1]:
            chance = f"{ends[0]} to {ends[1]}"
        if not self.is_sufficient:
            size = "not sufficient, although it is all that is known"
        else:
            size = "proven to be smallest" if self.is_smallest else "no smaller set was found"
        return (
            f"SufficientExplanation(decision {self.decision!r}\n"
            f"    because {values or 'of no feature in particular'}\n"
            f"    kept with probability {chance}, expected {self.expected:.4g} "
            f"(with all that is known: {self.expected_with_all:.4g})\n"
            f"    {size}; {self.n_sets} sets looked at)"
        )


def sufficient_explanation(
    model: Any,
    predictor: Any,
    given: Any,
    delta: float = 0.9,
    *,
    criterion: Literal["probability", "expectation"] = "probability",
    threshold: float = 0.5,
    max_sets: int | None = MAX_SETS,
    beam_width: int = BEAM_WIDTH,
    max_nodes: int | None = 10_000,
) -> SufficientExplanation:
    """The smallest set of a row's values that is enough for its decision.

    Parameters
    ----------
    model : Circuit or fitted estimator
    predictor : name or number of a column of 0 and 1, event, or predictor
        What decides, as in `same_decision_probability`. A column that is decided about is never
        part of its own explanation.
    given : evidence in any form, as in `probability`, of one row
        For example 0, 1, or NaN where the value is unknown; or values of the columns of a table.
        The columns are what explains. The decision is that of the expected output. An event about
        several columns is known from the start.
    delta : float
        How probable it must be, given the chosen values alone, that the decision about the complete
        row is the same. More than 0, at most 1.
    criterion : {"probability", "expectation"}
        With "expectation" the expected output given the chosen values, not `delta`, must lead to
        the same decision.
    threshold : float
        Threshold of the probability, or of the value if the predictor gives one.
    max_sets : int or None
        Limit on the sets to look at for a proof that a set is smallest. After that a beam of
        `beam_width` sets grows by one feature at a time, and what is not needed is removed.
    max_nodes : int or None
        Limit on the splits of the search for the probability of one set.

    Returns
    -------
    SufficientExplanation
        If several sets are smallest, the one that keeps the decision with the highest probability,
        or the one with the clearest expectation. If all known values together are not enough,
        `is_sufficient` is False and all of them are returned.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> sufficient_explanation(figure_1_circuit(), "X1 & X3", [0, 1, 1, 0])
    SufficientExplanation(decision 0
        because X1 = 0
        kept with probability 1, expected 0 (with all that is known: 0)
        proven to be smallest; 5 sets looked at)
    """
    if not (isinstance(delta, int | float | np.number) and 0.0 < delta <= 1.0):
        raise ValueError(f"delta must be above 0 and at most 1, but is {delta!r}.")
    check_choice("criterion", criterion, ("probability", "expectation"))
    check_count("beam_width", beam_width)
    limit = np.inf if max_sets is None else max_sets
    nodes = check_limits(None, max_nodes)[1]
    [asked] = ask_about(model, [predictor], given, are_decisions=True)
    if len(asked.place) != 1:
        raise ValueError(
            f"given must be one row, but there are {len(asked.place)}. Explain one at a time."
        )
    asked.raise_if_impossible()
    sets = _Sets(decision_of(asked, threshold), float(delta), criterion, nodes)
    chosen, is_smallest = _smallest_set(sets, limit)
    if chosen is not None:
        return sets.explain(chosen, True, is_smallest)
    if is_smallest:  # no set is enough
        return sets.explain(tuple(range(sets.n_players)), False, False)
    return sets.explain(*_beam(sets, beam_width), False)


class _Players:
    """The columns that a row of evidence knows something of; sets of them are rows of booleans."""

    def __init__(self, asked: Asked, row: int, query: str) -> None:
        self._asked, self._row, self._query = asked, row, query
        self.places = np.flatnonzero(asked.codes[row] != asked.known.nothing()[0])

    def rows(self, is_in: AnyArray) -> AnyArray:
        """Rows of codes that know only what the players in each set say."""
        rows = self._asked.known.nothing(len(is_in))
        codes = self._asked.codes[self._row, self.places]
        rows[:, self.places] = np.where(is_in, codes, rows[:, self.places])
        return rows

    def shifts(self, is_in: AnyArray) -> FloatArray:
        """What the numbers of the players in each set add to the outputs."""
        chosen = np.zeros((len(is_in), self._asked.codes.shape[1]))
        chosen[:, self.places] = is_in
        lines = [line.place for line in self._asked.form.lines]
        return np.asarray(chosen[:, lines] @ self._asked.shift[self._row])

    def expected(self, is_in: AnyArray) -> FloatArray:
        """The expected outputs given each set."""
        form, known = self._asked.form, self._asked.known
        found = [
            expected_outputs(form, known, self.rows(is_in[part]), self._query)
            for part in slices(len(is_in), ROWS_AT_ONCE)
        ]
        return np.concatenate(found) + self.shifts(is_in)


class _Sets:
    """Sets of the places of known values in a row, and whether they are enough."""

    def __init__(self, decision: Decision, delta: float, criterion: str, max_nodes: float) -> None:
        asked = self._asked = decision.asked
        self._decision, self._delta, self._criterion = decision, delta, criterion
        self._max_nodes = max_nodes
        self._players = _Players(asked, 0, EXPLANATION)
        self._output = self._players.expected(np.ones((1, self.n_players), dtype=bool))
        self._label = int(decision.labels_of(self._output)[0])
        if isinstance(asked.form, LinearForm) and asked.form.is_decided:
            self._players.places = np.setdiff1d(self._players.places, asked.form.places)
        if self.n_players:
            alone = self._merit(self._expected([(at,) for at in range(self.n_players)]))
            # The strongest first, so that what is left of the weak ones is soon ruled out.
            order = np.argsort(-alone, kind="stable")
            self._players.places = self._players.places[order]
        self.n_sets = 0

    @property
    def n_players(self) -> int:
        """How many values there are."""
        return len(self._players.places)

    def judge(self, sets: list[Places]) -> tuple[list[Places], bool]:
        """The sets that are enough, and whether a limit left one open, which does not count."""
        self.n_sets += len(sets)
        is_open = np.zeros(len(sets), dtype=np.bool_)
        if self._criterion == "expectation":
            is_enough = self._decision.labels_of(self._expected(sets)) == self._label
        else:
            found = self._kept(sets, self._max_nodes, enough=self._delta)
            is_enough = found.lower_bound >= self._delta - SLACK
            is_open = ~is_enough & (found.upper_bound >= self._delta - SLACK)
        return list(compress(sets, is_enough)), bool(is_open.any())

    def merits(self, sets: list[Places]) -> FloatArray:
        """How far the expected output given each set is on the decision's side."""
        self.n_sets += len(sets)
        return self._merit(self._expected(sets))

    def best(self, sets: list[Places]) -> Places:
        """The set by which the decision is clearest; of equal ones the first.

        By probability, sets that cannot be best are ruled out before the others are looked at
        closely.
        """
        if self._criterion == "expectation":
            merit = self._merit(self._expected(sets))
            return sets[int(np.argmax(merit >= merit.max() - SLACK))]
        for max_nodes in (100, 1_000, self._max_nodes):
            found = self._kept(sets, min(max_nodes, self._max_nodes))
            is_left = found.upper_bound >= found.lower_bound.max() - SLACK
            sets = list(compress(sets, is_left))
            if len(sets) == 1:
                return sets[0]
        kept = found.probability[is_left]
        return sets[int(np.argmax(kept >= kept.max() - SLACK))]

    def that_can_grow(self, sets: list[Places]) -> list[Places]:
        """The sets that might be enough together with some features after their last."""
        sets = [chosen for chosen in sets if _after(chosen) < self.n_players]
        if self._criterion == "expectation" or not sets:
            return sets
        full = [(*chosen, *range(_after(chosen), self.n_players)) for chosen in sets]
        rows, full_rows = (self._players.rows(self._is_in(some)) for some in (sets, full))
        log_p, log_full = map(self._asked.known.log_probabilities, (rows, full_rows))
        other = 1.0 - self._kept(full, PRUNING_NODES).upper_bound
        other *= np.exp(log_full - log_p)
        return list(compress(sets, other <= 1.0 - self._delta + SLACK))

    def explain(
        self, chosen: Places, is_sufficient: bool, is_smallest: bool
    ) -> SufficientExplanation:
        """What the user gets."""
        found = self._kept([chosen], self._max_nodes)
        part = -1 if self._decision.n_labels == 2 else self._label
        columns, evidence = self._asked.circuit.columns, self._asked.evidence
        places = np.sort(self._players.places[list(chosen)]).tolist()
        return SufficientExplanation(
            features={columns.names[place]: value_of(evidence, 0, place) for place in places},
            decision=self._decision.name(self._label),
            probability=float(found.probability[0]),
            lower_bound=float(found.lower_bound[0]),
            upper_bound=float(found.upper_bound[0]),
            expected=float(self._expected([chosen])[0, part]),
            expected_with_all=float(self._output[0, part]),
            delta=self._delta,
            criterion=self._criterion,
            is_sufficient=is_sufficient,
            is_smallest=is_smallest,
            n_sets=self.n_sets,
        )

    def _is_in(self, sets: list[Places]) -> AnyArray:
        """Which players are in each set."""
        is_in = np.zeros((len(sets), self.n_players), dtype=np.bool_)
        for row, chosen in zip(is_in, sets, strict=True):
            row[list(chosen)] = True
        return is_in

    def _expected(self, sets: list[Places]) -> FloatArray:
        return self._players.expected(self._is_in(sets))

    def _kept(self, sets: list[Places], max_nodes: float, enough: float | None = None) -> Agreement:
        """How probable it is that a complete row is decided as the row in question."""
        is_in = self._is_in(sets)
        rows, shifts = self._players.rows(is_in), self._players.shifts(is_in)
        decider = PredictorDecider(self._decision, range(rows.shape[1]), rows, shifts, EXPLANATION)
        label = np.full(len(rows), self._label, dtype=np.int32)
        known, limits = self._asked.known, (math.inf, max_nodes)
        return search_agreement(known, rows, [decider], limits, fixed=label, enough=enough)

    def _merit(self, output: FloatArray) -> FloatArray:
        """By how much the decision wins against the closest other."""
        margin = output @ self._decision.matrix - self._decision.cut
        if self._decision.n_labels == 2:
            return margin[:, 0] if self._label == 1 else -margin[:, 0]
        mine = output[:, self._label]
        return np.asarray(mine - np.delete(output, self._label, axis=1).max(axis=1))


def _after(chosen: Places) -> int:
    """The first feature after those of a set."""
    return chosen[-1] + 1 if chosen else 0


def _smallest_set(sets: _Sets, limit: float) -> tuple[Places | None, bool]:
    """The best of the smallest sets that are enough, and whether that is proven.

    None, and not proven, if a limit came first; None, and proven, if no set is enough.
    """
    level: list[Places] = [()]
    is_proven = True
    while level:
        if sets.n_sets + len(level) > limit:
            return None, False
        enough, is_open = sets.judge(level)
        if enough:
            return sets.best(enough), is_proven
        is_proven = is_proven and not is_open
        level = [
            (*chosen, place)
            for chosen in sets.that_can_grow(level)
            for place in range(_after(chosen), sets.n_players)
        ]
    return None, is_proven


def _beam(sets: _Sets, width: int) -> tuple[Places, bool]:
    """A set that is enough and from which nothing can be taken, and whether there is one."""
    everything = tuple(range(sets.n_players))
    level: list[Places] = [()]
    enough: list[Places] = []
    while not enough and len(level[0]) < sets.n_players:
        wider = {
            tuple(sorted((*kept, place)))
            for kept in level
            for place in everything
            if place not in kept
        }
        candidates = sorted(wider)
        best = np.argsort(-sets.merits(candidates), kind="stable")[:width]
        level = [candidates[i] for i in best]
        enough, _ = sets.judge(level)
    if not enough:
        return everything, bool(sets.judge([everything])[0])
    chosen: Places = ()
    while enough:  # take out features one by one for as long as the rest is enough
        chosen = sets.best(enough)
        smaller = [chosen[:i] + chosen[i + 1 :] for i in range(len(chosen))]
        enough = sets.judge(smaller)[0] if chosen else []
    return chosen, True


def value_of(evidence: Evidence, row: int, place: int) -> Any:
    """What a row knows of a column, as people have it: a value, or several in words."""
    column = evidence.columns[place]
    if not column.is_numeric:
        possible = np.flatnonzero(evidence.cell_weights(row, place)).tolist()
        if len(possible) == 1:
            return column.values[possible[0]]
        return either([column.labels[cell] for cell in possible])
    numbers = evidence.numbers.get(place)
    if numbers is not None and not np.isnan(numbers[row]):
        return as_value(column, column.own_value(float(numbers[row])))
    return " or ".join(_interval_text(column, *ends) for ends in evidence.regions[row, place])


def _interval_text(column: Column, low: float, high: float) -> str:
    """An interval, or a single number, in words."""
    if high == math.nextafter(low, math.inf):
        return bound_text(column, low)
    if low == -math.inf:
        return f"below {bound_text(column, high)}"
    if high == math.inf:
        return f"{bound_text(column, low)} or more"
    return f"from {bound_text(column, low)} to below {bound_text(column, high)}"


def values_of_row(model: Any, row: Any) -> list[Any]:
    """What one row knows of every column of a model, None where it knows nothing."""
    evidence = ask(model, row).evidence
    known = evidence.is_known()[0]
    return [value_of(evidence, 0, p) if known[p] else None for p in range(len(known))]


MAX_EXACT = 12  # players: 4,096 sets
MOST_EXACT = 20
N_PERMUTATIONS = 200
QUERY = "shap_values"

Worth: TypeAlias = Callable[[AnyArray], FloatArray]


class ShapValues(NamedTuple):
    """Shapley values; without the first axis for a single row."""

    values: FloatArray  # (n_rows, n_features) 0 for features that a row does not know
    standard_error: FloatArray  # (n_rows, n_features) 0 where exact
    base_value: float  # the expected output when nothing is known
    prediction: Any  # (n_rows,) the expected output given the row
    is_exact: Any  # (n_rows,)

    def plot(self, model: Any, row: Any, ax: Any = None) -> Any:
        """Draw the values of one row as a waterfall; see `strudel.plotting.plot_shap_values`."""
        return plotting("marginals").plot_shap_values(self, model, row, ax=ax)


@lazily("given")
def shap_values(
    model: Any,
    predictor: Any,
    given: Any,
    *,
    target: Any = None,
    max_exact: int = MAX_EXACT,
    n_permutations: int = N_PERMUTATIONS,
    random_state: RandomState = None,
) -> ShapValues:
    """How much each known value of a row moves the expected output of a predictor.

    The Shapley values of the game v(S) = E[f(X) | x_S], with conditional expectations under the
    model. ``values.sum() == prediction - base_value``, even if they are sampled.

    Parameters
    ----------
    model : Circuit or fitted estimator
    predictor : name or number of a column of 0 and 1, event, or predictor
        As in `expected_prediction`; with two classes the output is that of the second one. What
        gives log-odds is explained in log-odds.
    given : evidence in any form, as in `probability`
        For example rows of 0, 1, or NaN where the value is unknown; or values of the columns of a
        table. Unknown features take no part, and an event about several columns is known from the
        start.
    target : class of the classifier, optional
        Whose output is explained; needed with more than two classes.
    max_exact : int
        Rows with at most this many known values are exact, from all their subsets; at most 20.
        Others are sampled.
    n_permutations : int
        Number of feature orders to sample, in pairs of an order and its reverse; at least four.
    random_state : int, numpy Generator, RandomState or None
        Seed of the orders. None means 0, so that values are repeatable.

    Returns
    -------
    ShapValues
        `values`, `standard_error`, `base_value`, `prediction` and `is_exact`. The features are the
        columns of the table that the model was learned from, in their order.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> found = shap_values(figure_1_circuit(), "X1", {"X3": 1, "X4": 0})
    >>> found.values.round(4)  # all that X4 says about X1, it says about X3
    array([ 0.  ,  0.  , -0.09, -0.03])
    >>> round(found.base_value, 4), round(found.prediction, 4)
    (0.52, 0.4)
    """
    [asked] = ask_about(model, [predictor], given, are_decisions=True)
    column = _column(asked.form, target)
    check_count("max_exact", max_exact, 0, MOST_EXACT)
    check_count("n_permutations", n_permutations, 4)
    asked.raise_if_impossible()
    generator = generator_from(0 if random_state is None else random_state)
    values, errors = np.zeros(asked.codes.shape), np.zeros(asked.codes.shape)
    is_exact = np.zeros(len(values), dtype=np.bool_)
    for row in range(len(values)):
        players = _Players(asked, row, QUERY)
        own, n_players = players.places, len(players.places)

        def worth(is_in: AnyArray, players: _Players = players) -> FloatArray:
            return players.expected(is_in)[:, column]

        is_exact[row] = n_players <= max_exact
        if is_exact[row]:
            values[row, own] = _exact(worth, n_players)
        else:
            values[row, own], errors[row, own] = _sampled(
                worth, n_players, n_permutations, generator
            )
    nothing = expected_outputs(asked.form, asked.known, asked.known.nothing(), QUERY)
    base = float(nothing[0, column])
    prediction = expected_outputs(asked.form, asked.known, asked.codes, QUERY) + asked.shifts
    place = 0 if asked.is_single else asked.place
    return ShapValues(
        values[place],
        errors[place],
        base,
        as_python(prediction[place, column]),
        as_python(is_exact[place]),
    )


def _exact(worth_of: Worth, m: int) -> FloatArray:
    """The Shapley values from the worth of all subsets; player i is bit i of a subset's number."""
    subset = np.arange(2**m)
    is_in = (subset[:, np.newaxis] >> np.arange(m) & 1) == 1
    worth = worth_of(is_in)
    size = is_in.sum(axis=1)
    share = np.array([1.0 / (m * math.comb(m - 1, k)) for k in range(m)])
    values = np.empty(m)
    for i in range(m):
        without = subset[~is_in[:, i]]
        values[i] = math.fsum(share[size[without]] * (worth[without | 1 << i] - worth[without]))
    return values


def _sampled(
    worth_of: Worth, m: int, n_permutations: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Means over sampled orders, each with its reverse, and their standard errors."""
    n_pairs = n_permutations // 2
    order = np.array([rng.permutation(m) for _ in range(n_pairs)])
    rank = np.argsort(order, axis=1)
    # Prefixes of every order and of its reverse: the players of a rank below, or at least, k.
    is_in = rank[:, np.newaxis] < np.arange(m + 1)[:, np.newaxis]
    is_in = np.stack([is_in, ~is_in], axis=1)  # (n_pairs, 2, m + 1, m)
    worth = worth_of(is_in.reshape(-1, m)).reshape(n_pairs, 2, m + 1)
    forward, backward = np.diff(worth[:, 0]), -np.diff(worth[:, 1])
    gains = np.empty((n_pairs, m))
    np.put_along_axis(gains, order, 0.5 * (forward + backward), axis=1)
    return gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(n_pairs)


def _column(form: Form, target: Any) -> int:
    """The output that is explained."""
    n_outputs = len(form.bias)
    if target is None:
        if n_outputs > 2:
            raise ValueError(
                f"The predictor has {n_outputs} classes. Set target to the class whose "
                "output to explain."
            )
        return n_outputs - 1
    classes = list(range(n_outputs)) if form.said.classes is None else form.said.classes.tolist()
    mine = classes[-n_outputs:]  # one output of two classes is that of the second
    if target not in mine:
        known = quote([str(one) for one in mine])
        raise ValueError(
            f"target must be a class that has an output, one of {known}, but is {target!r}."
        )
    return mine.index(target)
