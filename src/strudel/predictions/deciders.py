"""What a predictor decides about rows that are only partly known.

In:  a model, a `Decision`, and the *open* variables: those that may become known.
Out: `PredictorDecider`, for `agreement_search`: the decision by the expected output, given the open
     variables; all other unknown variables are summed out.

Where the open variables are all that the predictor looks at, the expected output is the output
itself, and its range over the completions of a row decides. Otherwise the circuit bounds what can
be expected (`posterior_bounds`).
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.circuits.properties import check_properties
from strudel.predictions.agreement_search import OPEN
from strudel.predictions.decision import Decision
from strudel.predictions.expected import expected_outputs
from strudel.predictions.posterior_bounds import PosteriorBounds
from strudel.predictions.predictor_forms import LeafForm, LinearForm
from strudel.predictions.ranges import Ranges
from strudel.queries.model import Model, structure_of
from strudel.queries.passes import UNKNOWN, decode
from strudel.queries.probabilities import log_probabilities

MOST_LEAVES = 64  # of a predictor whose leaves are bounded one by one


class PredictorDecider:
    """The label of a predictor's expected output, as far as it is known."""

    def __init__(
        self, model: Model, decision: Decision, open_vars: AnyArray, codes: ByteArray, query: str
    ) -> None:
        self._model, self._decision, self._query = model, decision, query
        self._open_vars = open_vars
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
        """The label of each row, or OPEN."""
        codes = self._as_seen(codes, owner)
        low, high = self._ranges.bounds(codes)
        label = self._decision.labels(low, high)
        if self._is_complete:
            return label
        todo = np.flatnonzero(label == OPEN)
        is_known = (codes[todo][:, self._open_vars] != UNKNOWN).all(axis=1)
        known, unknown = todo[is_known], todo[~is_known]
        if len(known):
            output = expected_outputs(self._model, self._decision.form, decode(codes[known]))
            label[known] = self._decision.labels_of(output)
        if len(unknown) and self._bounds is not None:
            tighter = self._model_bounds(codes[unknown])
            label[unknown] = self._decision.labels(
                np.maximum(low[unknown], tighter[0]), np.minimum(high[unknown], tighter[1])
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
