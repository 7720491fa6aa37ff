"""Decisions: which class a predictor chooses, once its output is known well enough.

In:  what decides (a variable of the model, an event, a classifier, any predictor) and a threshold.
Out: `Decision`: the predictor's margins, and labels from intervals of them; `PredictorDecider`,
     what it decides about rows that are only partly known; `PosteriorBounds` on conditional
     expectations, over all states of variables that may still become known.

With two labels the margin is the output itself, and label 1 means that it reaches the threshold.
Classifiers of scikit-learn give ties to the first class, so their label 1 means that the output
exceeds the threshold. With more classes every two of them have a margin, the difference of their
outputs, and the label is the class that wins all of its margins.

Bounds: one pass up keeps two intervals per node: of its value, and of the expectation below it.
Those of the two sides of a product add up (for a conjunction: multiply). At a sum the expectation
is a weighted mean of those of its edges, and the weights are the values; within their intervals
they are chosen for the largest mean, which takes all that is above it at its most and the rest at
its least. A node may need an open variable to have one value, and then its intervals are over the
states with that value only. Edges of a sum that need different values never go together: the sum is
split into cases, by the states of a few such variables, and the intervals of the cases are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from strudel._numba import in_threads, kernel, lowest_bit
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.determinism import edge_needs, find_needs
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import UNKNOWN, Plan, decode, plan
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.properties import check_properties
from strudel.predictions.expected import expected_outputs
from strudel.predictions.predictor_arguments import Asked, ask
from strudel.predictions.predictor_forms import CircuitForm, Form, LeafForm, LinearForm, Ranges
from strudel.queries.conditional_parameters import conditional_parameters
from strudel.queries.maximum.relaxation import find_decided
from strudel.queries.model import Model, structure_of
from strudel.queries.probabilities import log_probabilities

OPEN = -1  # the label of a row that is not decided yet
TIE = 1e-12  # margins this small, relative to the largest output, count as zero
MOST_LEAVES = 64  # of a predictor whose leaves are bounded one by one


@dataclass(frozen=True, eq=False)
class Decision:
    """A predictor and how it decides."""

    asked: Asked
    margins: Form  # the same predictor, with one output for each comparison
    matrix: FloatArray  # (n_outputs, n_margins) from outputs to margins
    cut: float  # what a margin is compared with
    classes: AnyArray | None  # what the labels 0, 1, ... are called
    n_labels: int
    is_strict: bool  # whether a tie is label 0
    tie: float

    @property
    def form(self) -> Form:
        """The form of the predictor."""
        return self.asked.form

    def labels(self, low: FloatArray, high: FloatArray) -> IntArray:
        """The label of each row with margins between `low` and `high`, or OPEN."""
        label = np.full(len(low), OPEN, dtype=np.int32)
        if self.n_labels == 2:
            label[self._reaches(low[:, 0])] = 1
            label[~self._reaches(high[:, 0])] = 0
            return label
        for mine in range(self.n_labels):
            wins = np.ones(len(low), dtype=np.bool_)
            for column, (a, b) in enumerate(_pairs(self.n_labels)):
                if b == mine:
                    wins &= low[:, column] > self.tie
                elif a == mine:
                    wins &= high[:, column] <= self.tie
            label[wins] = mine
        return label

    def _reaches(self, margin: FloatArray) -> AnyArray:
        less = margin - self.cut
        return less > self.tie if self.is_strict else less >= -self.tie

    def labels_of(self, output: FloatArray) -> IntArray:
        """The label of each row with these outputs `(n_rows, n_outputs)` of the predictor."""
        margin = output @ self.matrix
        return self.labels(margin, margin)

    def score(self, output: FloatArray) -> FloatArray:
        """The outputs as users expect them: with two labels, that of label 1 alone."""
        return output[:, -1] if self.n_labels == 2 else output

    def name(self, label: int) -> Any:
        """What a label is called: a class, or the number itself."""
        return label if self.classes is None else self.classes.tolist()[label]

    def names(self, labels: IntArray) -> AnyArray:
        """What several labels are called."""
        return labels if self.classes is None else self.classes[labels]


def decision_of(
    model: Model, decision: Any, threshold: float = 0.5, query: str = "decision"
) -> Decision:
    """The decision that a variable, an event or a predictor makes."""
    return decisions_of(model, [decision], threshold, query)[0]


def decisions_of(
    model: Model, decisions: Sequence[Any], threshold: float, query: str
) -> list[Decision]:
    """The decisions of several, all over the variables of one model: that of their `asked`."""
    found = ask(model, *decisions, query=query, are_decisions=True)
    return [_decision(asked, threshold) for asked in found]


def _decision(asked: Asked, threshold: float) -> Decision:
    form = asked.form
    n_outputs = form.n_outputs
    cut = _cut(form, threshold)
    if cut is not None:
        matrix = np.zeros((n_outputs, 1))
        matrix[-1] = 1.0
    else:
        pairs = _pairs(n_outputs)
        matrix = np.zeros((n_outputs, len(pairs)))
        for column, (a, b) in enumerate(pairs):
            matrix[a, column], matrix[b, column] = -1.0, 1.0
    margins = _with_columns(form, matrix)
    nothing = np.full((1, form.n_vars), UNKNOWN, dtype=np.uint8)
    ends = Ranges(margins).bounds(nothing)
    scale = max(float(np.abs(end).max(initial=0.0)) for end in (*ends, np.array([cut or 0.0])))
    return Decision(
        asked=asked,
        margins=margins,
        matrix=matrix,
        cut=0.0 if cut is None else cut,
        classes=None if form.classes is None else np.asarray(form.classes),
        n_labels=2 if cut is not None else n_outputs,
        is_strict=form.classes is not None,
        tie=TIE * scale,
    )


def _cut(form: Form, threshold: float) -> float | None:
    """What the output must reach; None where classes compete."""
    is_number = isinstance(threshold, int | float | np.number) and np.isfinite(threshold)
    if not is_number:
        raise ValueError(f"threshold must be a number, but is {threshold!r}.")
    if form.n_outputs > 2 or (form.n_outputs == 2 and form.output != "probability"):
        if threshold != 0.5:
            raise ValueError(
                f"With {form.n_outputs} classes the most probable one is chosen and no threshold "
                f"applies, but threshold is {threshold!r}. Leave it out."
            )
        return None
    if form.output == "value":
        return float(threshold)
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(
            f"threshold must be a probability from 0 to 1, but is {threshold!r}: the probability "
            "of the decision has to reach it."
        )
    if form.output == "probability":
        return float(threshold)
    if threshold in (0.0, 1.0):
        raise ValueError(
            f"threshold must be above 0 and below 1 for a predictor of log-odds, but is "
            f"{threshold!r}, which no log-odds reach."
        )
    return float(logit(threshold))


def _with_columns(form: Form, matrix: FloatArray) -> Form:
    """The same predictor with outputs ``output @ matrix``."""
    if isinstance(form, LinearForm):
        return LinearForm(
            form.weight @ matrix, form.bias @ matrix, feature_names=form.feature_names
        )
    if isinstance(form, LeafForm):
        return replace(
            form,
            leaf_value=form.leaf_value @ matrix,
            bias=form.bias @ matrix,
            output="value",
            link="identity",
            classes=None,
        )
    if isinstance(form, CircuitForm):
        circuit = form.circuit
        return CircuitForm(
            PredictorCircuit(
                circuit.structure,
                circuit.literal_weight @ matrix,
                circuit.edge_weight @ matrix,
                circuit.bias @ matrix,
                "regression",
            )
        )
    return form


def _pairs(n_labels: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(n_labels) for b in range(a + 1, n_labels)]


class PredictorDecider:
    """The label of a predictor's expected output given the *open* variables, as far as it is known.

    Open variables may become known; all others that are unknown are summed out. Where the open ones
    are all that the predictor looks at, the range of its output over the completions of a row
    decides. Otherwise the circuit bounds what can be expected (`posterior_bounds`).
    """

    def __init__(
        self,
        decision: Decision,
        open_vars: AnyArray,
        codes: ByteArray,
        shifts: FloatArray,
        query: str,
        number: IntArray | None = None,
    ) -> None:
        model = decision.asked.model
        self._number = number  # what the labels 0, 1, ... are called instead
        self._model, self._decision, self._query = model, decision, query
        self._open_vars = open_vars
        self._shifts = shifts  # (n_rows, n_outputs) what known numbers add to the outputs
        self._margin_shifts = shifts @ decision.matrix
        self._start = codes  # the rows of evidence
        self._ranges = Ranges(decision.margins)
        rest = np.setdiff1d(self._ranges.variables, open_vars)
        self._is_complete = bool(np.all(codes[:, rest] != UNKNOWN))
        self._order: dict[int, IntArray] = {}
        self._bounds: PosteriorBounds | None = None
        form = decision.margins
        is_small = isinstance(form, LeafForm) and form.n_leaves <= MOST_LEAVES
        if not self._is_complete and (isinstance(form, LinearForm) or is_small):
            circuit = model.to_circuit() if isinstance(model, Mixture) else model
            check_properties(structure_of(model), query, "in_normal_form")
            self._bounds = PosteriorBounds(circuit, open_vars)

    def labels(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        """The label of each row, or OPEN; `owner` says which row of evidence it completes."""
        label = self._labels(codes, owner)
        if self._number is not None:
            label = np.where(label == OPEN, np.int32(OPEN), self._number[label])
        return label

    def _labels(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        codes = self._as_seen(codes, owner)
        low, high = self._ranges.bounds(codes)
        shift = self._margin_shifts[owner]
        low, high = low + shift, high + shift
        label = self._decision.labels(low, high)
        if self._is_complete:
            return label
        todo = np.flatnonzero(label == OPEN)
        is_known = (codes[todo][:, self._open_vars] != UNKNOWN).all(axis=1)
        known, unknown = todo[is_known], todo[~is_known]
        if len(known):
            output = expected_outputs(self._model, self._decision.form, decode(codes[known]))
            label[known] = self._decision.labels_of(output + self._shifts[owner[known]])
        if len(unknown) and self._bounds is not None:
            tighter = self._model_bounds(codes[unknown])
            label[unknown] = self._decision.labels(
                np.maximum(low[unknown], tighter[0] + shift[unknown]),
                np.minimum(high[unknown], tighter[1] + shift[unknown]),
            )
        return label

    def _as_seen(self, codes: ByteArray, owner: AnyArray) -> ByteArray:
        """Evidence and open variables only, without what the other decider asked for."""
        seen = self._start[owner]
        seen[:, self._open_vars] = codes[:, self._open_vars]
        return seen

    def _model_bounds(self, codes: ByteArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the expected margins that the circuit gives."""
        assert self._bounds is not None
        form = self._decision.margins
        if isinstance(form, LinearForm):
            ends = [self._bounds.of_sum(weight, codes) for weight in form.weight.T]
            low, high = (np.column_stack(side) for side in zip(*ends, strict=True))
            return low + form.bias, high + form.bias
        assert isinstance(form, LeafForm)
        return _leaf_expectations(form, self._bounds, codes)

    def next_variables(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        """Of each row, the open and unknown variable that moves the expected output most."""
        codes = self._as_seen(codes, owner)
        if self._is_complete:
            return self._ranges.next_variables(codes)
        found = np.full(len(codes), NONE, dtype=np.int32)
        for mine in np.unique(owner):
            order = self._influence(int(mine))
            rows = np.flatnonzero(owner == mine)
            is_unknown = codes[np.ix_(rows, order)] == UNKNOWN
            found[rows] = np.where(is_unknown.any(axis=1), order[is_unknown.argmax(axis=1)], NONE)
        return found

    def _influence(self, owner: int) -> IntArray:
        """The open variables of a row of evidence, the one that moves the output most first."""
        if owner not in self._order:
            start = self._start[owner]
            variables = self._open_vars[start[self._open_vars] == UNKNOWN]
            rows = np.repeat(start[np.newaxis], 2 * len(variables), axis=0)
            rows[np.arange(len(rows)), np.repeat(variables, 2)] = np.arange(len(rows)) % 2
            log_p = log_probabilities(self._model, decode(rows), self._query)
            is_possible = log_p > -np.inf
            margin = np.zeros((len(rows), self._decision.matrix.shape[1]))
            if is_possible.any():
                output = expected_outputs(
                    self._model, self._decision.form, decode(rows[is_possible])
                )
                margin[is_possible] = output @ self._decision.matrix
            both = is_possible.reshape(-1, 2).all(axis=1)
            share = np.exp(
                log_p.reshape(-1, 2) - np.logaddexp.reduce(log_p.reshape(-1, 2), 1)[:, None]
            )
            moved = np.abs(np.diff(margin.reshape(len(variables), 2, -1), axis=1)[:, 0]).max(axis=1)
            moved *= np.sqrt(share.prod(axis=1)) * both
            self._order[owner] = variables[np.argsort(-moved, kind="stable")].astype(np.int32)
        return self._order[owner]


def _leaf_expectations(
    form: LeafForm, bounds: PosteriorBounds, codes: ByteArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds on the sum over trees of the expected value at the leaf that is reached.

    The probabilities of a tree's leaves add up to one, so only what is above its least value
    counts, or below its largest.
    """
    shape = len(codes), form.n_outputs
    low, high = np.tile(form.bias, (len(codes), 1)), np.tile(form.bias, (len(codes), 1))
    for tree in range(form.n_trees):
        leaves = np.flatnonzero(form.leaf_tree == tree)
        value = form.leaf_value[leaves]
        most_p = np.empty((len(codes), len(leaves)))
        for i, leaf in enumerate(leaves):
            literals = form.leaf_literal[form.leaf_start[leaf] : form.leaf_start[leaf + 1]]
            most_p[:, i] = bounds.of_conjunction(literals, codes)[1]
        least, most = value.min(axis=0), value.max(axis=0)
        low += np.maximum(most - most_p @ (most - value), least)
        high += np.minimum(least + most_p @ (value - least), most)
    assert low.shape == high.shape == shape
    return low, high


SMALLEST = 1e-120  # upper ends of values are raised to it, which keeps them upper ends
N_KEPT = 8  # open variables remembered per node
N_CHOSEN = 3  # of which this many that a row leaves open are split on: eight cases
SMALLEST_THETA = 1e-60  # and those of parameters to this, so that products do not vanish


class _Question(NamedTuple):
    """What the pass needs besides a row: which variables are open, and what is expected."""

    edge_theta: FloatArray  # (n_edges, 2) the parameters, and upper ends of them
    is_open: AnyArray  # (n_vars,)
    place: AnyArray  # (n_vars,) of a variable in the words of `one` and `zero`
    one: WordArray  # (n_nodes, n_words) open variables that a node needs to be 1
    zero: WordArray  # (n_nodes, n_words) and to be 0
    node_splits: IntArray  # (n_nodes, N_KEPT) places by which to tell cases apart
    literal: FloatArray  # (2 * n_vars,) the expectation below every literal
    is_product: bool  # of a conjunction


class PosteriorBounds:
    """Intervals of conditional expectations under one circuit."""

    def __init__(self, circuit: Circuit, open_vars: AnyArray) -> None:
        self._circuit = circuit
        self._plan = plan(circuit)
        theta = circuit.theta
        most = np.where(theta > 0.0, np.maximum(theta, SMALLEST_THETA), 0.0)
        self._theta = np.column_stack([theta, most])
        self._is_open = np.zeros(circuit.n_vars, dtype=np.bool_)
        self._is_open[open_vars] = True
        is_live = circuit.edge_log_theta > -np.inf
        needs = find_needs(circuit, variables=np.asarray(open_vars), is_live=is_live)
        self._one, self._zero = needs.node_one, needs.node_zero
        self._place = circuit.vtree.node_span[0][circuit.vtree.var_leaf].astype(np.int64)
        self._node_splits = np.full((circuit.n_nodes, N_KEPT), NONE, dtype=np.int32)
        _fill_splits(circuit.edges, self._one, self._zero, self._node_splits)

    def of_sum(self, weight: FloatArray, codes: ByteArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the expectation of the variables weighted by `weight`."""
        literal = np.zeros(2 * self._circuit.n_vars)
        literal[1::2] = weight
        return self._run(literal, codes, is_product=False)

    def of_conjunction(self, literals: AnyArray, codes: ByteArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the probability of a conjunction of literals."""
        literal = np.ones(2 * self._circuit.n_vars)
        literal[np.asarray(literals) ^ 1] = 0.0
        return self._run(literal, codes, is_product=True)

    def _run(
        self, literal: FloatArray, codes: ByteArray, is_product: bool
    ) -> tuple[FloatArray, FloatArray]:
        low, high = np.empty(len(codes)), np.empty(len(codes))
        question = _Question(
            self._theta,
            self._is_open,
            self._place,
            self._one,
            self._zero,
            self._node_splits,
            literal,
            is_product,
        )
        rows = np.ascontiguousarray(codes)
        in_threads(_posterior_bounds, len(rows), rows, self._plan, question, low, high)
        return low, high


@kernel
def _fill_splits(edges: Edges, one: WordArray, zero: WordArray, splits: IntArray) -> None:
    """Fill `splits` (n_nodes, N_KEPT): the places of variables that its edges need differently.

    Those that most edges need come first.
    """
    n_needs = np.empty(64 * one.shape[1], dtype=np.int64)
    for n in range(len(splits)):
        n_needs[:] = 0
        for e in range(edges.node_edges[n], edges.node_edges[n + 1]):
            for w in range(one.shape[1]):
                edge_one, edge_zero = edge_needs(e, w, edges, one, zero)
                some = (edge_one & ~one[n, w]) | (edge_zero & ~zero[n, w])
                while some != np.uint64(0):
                    n_needs[64 * w + lowest_bit(some)] += 1
                    some &= some - np.uint64(1)
        for i in range(N_KEPT):
            best = np.argmax(n_needs)
            if n_needs[best] == 0:
                break
            splits[n, i] = best
            n_needs[best] = 0


@kernel
def _posterior_bounds(
    first: int,
    last: int,
    codes: ByteArray,
    p: Plan,
    question: _Question,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """One pass up per row; what a row has in common with the one before it is kept."""
    n_nodes = len(p.node_edges) - 1
    widest = 1
    for n in range(n_nodes):
        widest = max(widest, p.node_edges[n + 1] - p.node_edges[n])
    # Least and most of a node's value, least and most of the expectation below it.
    state = np.zeros((n_nodes, 4))
    items = np.empty((widest, 4))
    words = np.empty((3, question.one.shape[1]), dtype=np.uint64)
    is_new = np.ones(len(p.vtree_var), dtype=np.bool_)
    for s in range(first, last):
        if s > first:
            _find_new(codes[s - 1], codes[s], p, is_new)
        _pass_up(codes[s], is_new, p, question, state, items, words)
        low[s], high[s] = state[n_nodes - 1, 2], state[n_nodes - 1, 3]


@kernel
def _find_new(before: ByteArray, codes: ByteArray, p: Plan, is_new: AnyArray) -> None:
    """Mark the vtree nodes below which two rows differ."""
    for v in range(len(is_new)):
        var = p.vtree_var[v]
        if var != NONE:
            is_new[v] = codes[var] != before[var]
        else:
            is_new[v] = is_new[p.vtree_left[v]] or is_new[p.vtree_right[v]]


@kernel
def _pass_up(
    codes: ByteArray,
    is_new: AnyArray,
    p: Plan,
    question: _Question,
    state: FloatArray,
    items: FloatArray,
    words: WordArray,
) -> None:
    """Fill `state` (n_nodes, 4); values of one vtree node share a scale: only ratios count."""
    edge_theta, is_open, place, one, zero, node_splits, literal, is_product = question
    part = np.empty(4)
    chosen = np.empty(N_CHOSEN, dtype=np.int64)
    free, is_one, is_zero = words[0], words[1], words[2]  # free: open and unknown in this row
    free[:] = np.uint64(0)
    for var in range(len(codes)):
        if codes[var] == UNKNOWN and is_open[var]:
            free[place[var] // 64] |= np.uint64(1) << np.uint64(place[var] % 64)
    for v in range(len(p.vtree_var)):
        if not is_new[v]:
            continue
        var = p.vtree_var[v]
        if var != NONE:
            for x in range(2):
                mine = state[2 * var + x]
                mine[0] = mine[1] = 1.0 if codes[var] == UNKNOWN or codes[var] == x else 0.0
                mine[2] = mine[3] = literal[2 * var + x]
        top = 0.0
        for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
            n = p.sums[k]
            n_chosen = 0
            for i in range(N_KEPT):
                at = node_splits[n, i]
                if at == NONE or n_chosen == N_CHOSEN:
                    break
                if free[at // 64] >> np.uint64(at % 64) & np.uint64(1):
                    chosen[n_chosen] = at
                    n_chosen += 1
            mine = state[n]
            mine[0], mine[1], mine[2], mine[3] = np.inf, 0.0, np.inf, -np.inf
            for case in range(1 << n_chosen):
                is_one[:] = np.uint64(0)
                is_zero[:] = np.uint64(0)
                for i in range(n_chosen):
                    bit = np.uint64(1) << np.uint64(chosen[i] % 64)
                    if case >> i & 1:
                        is_one[chosen[i] // 64] |= bit
                    else:
                        is_zero[chosen[i] // 64] |= bit
                size = _edges_of_case(n, p, edge_theta, one, zero, words, is_product, state, items)
                _mean(items, size, part)
                mine[0] = min(mine[0], part[0])
                mine[1] = max(mine[1], part[1])
                if size > 0:
                    mine[2] = min(mine[2], part[2])
                    mine[3] = max(mine[3], part[3])
            if mine[1] == 0.0:  # impossible: there is no expectation
                mine[:] = 0.0
            top = max(top, mine[1])
        if var == NONE and top > 0.0:  # literals stand beside the sums of a leaf
            for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
                n = p.sums[k]
                state[n, 0] /= top
                if state[n, 1] > 0.0:
                    state[n, 1] = max(state[n, 1] / top, SMALLEST)


@kernel
def _edges_of_case(
    n: int,
    p: Plan,
    edge_theta: FloatArray,
    one: WordArray,
    zero: WordArray,
    words: WordArray,
    is_product: bool,
    state: FloatArray,
    items: FloatArray,
) -> int:
    """Fill `items` with the edges that a case leaves possible; returns how many.

    An edge that needs more than its node and the case say may have the value zero.
    """
    size = 0
    for e in range(p.node_edges[n], p.node_edges[n + 1]):
        is_possible = is_sure = True
        for w in range(one.shape[1]):
            edge_one, edge_zero = edge_needs(e, w, p, one, zero)
            if (edge_one & words[2, w]) | (edge_zero & words[1, w]):
                is_possible = False
            more = (edge_one & ~one[n, w] & ~words[1, w]) | (edge_zero & ~zero[n, w] & ~words[2, w])
            if more & words[0, w]:
                is_sure = False
        if not is_possible:
            continue
        left, item = state[p.edge_left[e]], items[size]
        if p.edge_right[e] == NONE:
            item[0] = edge_theta[e, 0] * left[0]
            item[1] = edge_theta[e, 1] * left[1]
            item[2], item[3] = left[2], left[3]
        else:
            _join(edge_theta[e], left, state[p.edge_right[e]], is_product, item)
        if not is_sure:
            item[0] = 0.0
        size += item[1] > 0.0
    return size


@kernel
def _join(
    theta: FloatArray, left: FloatArray, right: FloatArray, is_product: bool, item: FloatArray
) -> None:
    """One product: values multiply; expectations add up, or multiply where none is negative."""
    item[0] = theta[0] * left[0] * right[0]
    item[1] = theta[1] * left[1] * right[1]
    if is_product:
        item[2], item[3] = left[2] * right[2], left[3] * right[3]
    else:
        item[2], item[3] = left[2] + right[2], left[3] + right[3]


@kernel
def _mean(items: FloatArray, size: int, result: FloatArray) -> None:
    """The intervals of a weighted sum and of the weighted mean of `size` items."""
    result[0] = result[1] = 0.0
    if size == 0:
        result[2] = result[3] = 0.0
        return
    for i in range(size):
        result[0] += items[i, 0]
        result[1] += items[i, 1]
    result[3] = _largest_mean(items, size, 3, 1.0)
    result[2] = -_largest_mean(items, size, 2, -1.0)


@kernel
def _largest_mean(items: FloatArray, size: int, column: int, sign: float) -> float:
    """The largest mean of ``sign * items[:, column]`` with weights between columns 0 and 1."""
    for i in range(1, size):  # sort, the largest first
        j = i
        while j > 0 and sign * items[j, column] > sign * items[j - 1, column]:
            for c in range(4):
                items[j, c], items[j - 1, c] = items[j - 1, c], items[j, c]
            j -= 1
    weight = total = 0.0
    for i in range(size):
        weight += items[i, 0]
        total += items[i, 0] * sign * items[i, column]
    best = -np.inf
    for i in range(size):
        more = items[i, 1] - items[i, 0]
        weight += more
        total += more * sign * items[i, column]
        if weight > 0.0:
            best = max(best, total / weight)
    # Rounding must not take the mean out of what it is a mean of.
    return min(best, sign * items[0, column])


def split_posteriors(
    circuit: Circuit, weight: FloatArray, open_vars: AnyArray, codes: ByteArray, query: str
) -> tuple[FloatArray, FloatArray] | None:
    """How probable each posterior expectation of the sum is, and what it is; None if not known.

    If some vtree node holds all variables of the sum and none of the open ones, the open variables
    can only choose which of its sum nodes is passed. If they choose one for sure, there are no more
    different posteriors than such nodes, however many states the open variables have.
    """
    vtree = circuit.vtree
    free = open_vars[codes[open_vars] == UNKNOWN]
    top = _highest_without(circuit, np.flatnonzero(weight), free)
    if top is None:
        return None
    above = [top]
    while above[-1] != vtree.root:
        above.append(int(vtree.node_parent[above[-1]]))
    theta = conditional_parameters(circuit, codes[np.newaxis], query)[:, 0]
    flow = np.zeros(circuit.n_nodes)
    flow[circuit.root] = 1.0
    choosers: list[int] = []
    for v in above[:0:-1]:
        edges = circuit.vtree_edges(v)
        passed = flow[circuit.edge_parent[edges]] * theta[edges]
        is_left = above[above.index(v) - 1] == vtree.node_left[v]
        child = (circuit.edge_left if is_left else circuit.edge_right)[edges]
        np.add.at(flow, child, passed)
        used, n_ways = np.unique(circuit.edge_parent[edges[passed > 0.0]], return_counts=True)
        choosers += used[n_ways > 1].tolist()
    is_free = np.zeros(circuit.n_vars, dtype=np.bool_)
    is_free[free] = True
    if choosers:
        is_hidden = (codes == UNKNOWN) & ~is_free
        is_decided = find_decided(circuit, is_hidden, np.array(choosers))
        if not is_decided[choosers].all():
            return None
    nodes = np.flatnonzero((circuit.node_vtree == top) & (flow > 0.0))
    return flow[nodes], _expectations(circuit, theta, weight)[nodes]


def _highest_without(circuit: Circuit, inside: AnyArray, outside: AnyArray) -> int | None:
    """The highest vtree node over all variables of `inside` and none of `outside`."""
    vtree = circuit.vtree
    first, last = vtree.node_span
    place = first[vtree.var_leaf]
    v = int(vtree.var_leaf[inside[0]]) if len(inside) else int(vtree.var_leaf[0])
    best = None
    while v != NONE:
        holds = (first[v] <= place) & (place < last[v])
        if holds[outside].any():
            break
        if holds[inside].all():
            best = v
        v = int(vtree.node_parent[v])
    return best


def _expectations(circuit: Circuit, theta: FloatArray, weight: FloatArray) -> FloatArray:
    """The expectation of the sum below every node, with parameters given the row."""
    value = np.zeros(circuit.n_nodes)
    value[1 : 2 * circuit.n_vars : 2] = weight
    for v in range(circuit.vtree.n_nodes):
        edges = circuit.vtree_edges(v)
        if len(edges):
            right = circuit.edge_right[edges]
            below = value[circuit.edge_left[edges]] + np.where(right == NONE, 0.0, value[right])
            np.add.at(value, circuit.edge_parent[edges], theta[edges] * below)
    return value
