"""What a predictor can still say about rows that are only partly known.

In:  a form of a predictor, and rows as codes.
Out: the least and the largest output over all completions of each row, or bounds on them that are
     exact for complete rows; and the variable that is best known next.

No model takes part: every completion counts, even an impossible one.
"""

from __future__ import annotations

import numpy as np

from strudel._names import find_name, names_of, places_of
from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.evaluate import evaluate_log
from strudel.logic.events import bounds_of_parts, children_first
from strudel.logic.sdd import FIRST_LITERAL, Sdd
from strudel.predictions.predictor_forms import CircuitForm, EventForm, Form, LeafForm, LinearForm
from strudel.queries.passes import UNKNOWN


def mentioned_variables(form: Form) -> AnyArray:
    """The variables that a predictor looks at, in order."""
    if isinstance(form, LinearForm):
        return np.flatnonzero(np.any(form.weight != 0.0, axis=1))
    if isinstance(form, LeafForm):
        return np.unique(form.leaf_literal // 2).astype(np.int64)
    if isinstance(form, EventForm):
        return np.array(sorted(_Truth(form).occurrences), dtype=np.int64)
    return np.arange(form.n_vars)


class Ranges:
    """The outputs that completions of a row can have."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.variables = mentioned_variables(form)
        if isinstance(form, EventForm):
            self._truth = _Truth(form)
        elif isinstance(form, CircuitForm):
            self._misses_rows = _misses_rows(form.circuit.structure)
            self._var_weight = _weight_by_variable(form)

    def bounds(self, codes: AnyArray) -> tuple[FloatArray, FloatArray]:
        """The least and the largest output of each row, `(n_rows, n_outputs)` each."""
        form = self.form
        if isinstance(form, LinearForm):
            return _linear_bounds(form, codes)
        if isinstance(form, EventForm):
            low, high = self._truth.bounds(codes)
            return low[:, np.newaxis].astype(np.float64), high[:, np.newaxis].astype(np.float64)
        if isinstance(form, LeafForm):
            return form.ranges(codes)[:2]
        low = np.empty((len(codes), form.n_outputs))
        high = np.empty_like(low)
        circuit = form.circuit
        _circuit_bounds(
            codes,
            circuit.structure.node_edges,
            circuit.structure.edge_left,
            circuit.structure.edge_right,
            np.ascontiguousarray(circuit.literal_weight),
            np.ascontiguousarray(circuit.edge_weight),
            circuit.bias,
            self._misses_rows,
            low,
            high,
        )
        return low, high

    def next_variables(self, codes: AnyArray) -> IntArray:
        """The unknown variable of each row that narrows the output most; NONE if none is left.

        For a tree it is the first unknown one on the path, so that a search visits no more rows
        than the tree has nodes.
        """
        gain = self._gains(codes)
        gain[codes[:, self.variables] != UNKNOWN] = -1.0
        if gain.shape[1] == 0:
            return np.full(len(codes), NONE, dtype=np.int32)
        best = gain.argmax(axis=1)
        found = self.variables[best].astype(np.int32)
        found[gain[np.arange(len(codes)), best] < 0.0] = NONE
        return found

    def _gains(self, codes: AnyArray) -> FloatArray:
        """How much each of `variables` narrows the output, zero or more."""
        form = self.form
        if isinstance(form, LinearForm):
            spread = np.abs(form.weight[self.variables]).max(axis=1, initial=0.0)
            return np.tile(spread, (len(codes), 1))
        if isinstance(form, EventForm):
            return self._truth.gains(codes)[:, self.variables]
        if isinstance(form, CircuitForm):
            return np.tile(self._var_weight, (len(codes), 1))
        return form.ranges(codes)[2][:, self.variables]


def _linear_bounds(form: LinearForm, codes: AnyArray) -> tuple[FloatArray, FloatArray]:
    known = (codes == 1).astype(np.float64) @ form.weight + form.bias
    is_unknown = (codes == UNKNOWN).astype(np.float64)
    low = known + is_unknown @ np.minimum(form.weight, 0.0)
    return low, known + is_unknown @ np.maximum(form.weight, 0.0)


def _misses_rows(structure: Circuit) -> bool:
    """Whether some row takes no edge of the root, so that only the bias is left of it."""
    ones = structure.with_parameters(np.zeros(structure.n_edges))
    log_count = evaluate_log(ones, np.full((1, structure.n_vars), np.nan))[0]
    return bool(log_count < structure.n_vars * np.log(2.0) - 1e-9)


def _weight_by_variable(form: CircuitForm) -> FloatArray:
    """How much weight lies on the literals of each variable and on the edges right above them."""
    circuit = form.circuit
    n_literals = 2 * circuit.n_vars
    weight = np.abs(circuit.literal_weight).max(axis=1, initial=0.0)
    edge = np.abs(circuit.edge_weight).max(axis=1, initial=0.0)
    for child in (circuit.structure.edge_left, circuit.structure.edge_right):
        is_literal = (child >= 0) & (child < n_literals)
        np.maximum.at(weight, child[is_literal], edge[is_literal])
    return np.asarray(weight.reshape(-1, 2).sum(axis=1))


@kernel
def _circuit_bounds(
    codes: AnyArray,
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    literal_weight: FloatArray,
    edge_weight: FloatArray,
    bias: FloatArray,
    misses_rows: bool,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """One pass up per row: a product adds the ranges of its children, a sum joins its edges'.

    A node that no completion satisfies has the empty range, from inf to -inf.
    """
    n_rows, n_vars = codes.shape
    n_nodes, n_outputs = len(node_edges) - 1, low.shape[1]
    least = np.empty((n_nodes, n_outputs))
    most = np.empty((n_nodes, n_outputs))
    for s in range(n_rows):
        is_complete = True
        for literal in range(2 * n_vars):
            code = codes[s, literal // 2]
            is_complete &= code != UNKNOWN
            if code == UNKNOWN or code == literal % 2:
                least[literal] = literal_weight[literal]
                most[literal] = literal_weight[literal]
            else:
                least[literal] = np.inf
                most[literal] = -np.inf
        for n in range(2 * n_vars, n_nodes):
            least[n] = np.inf
            most[n] = -np.inf
            for e in range(node_edges[n], node_edges[n + 1]):
                for j in range(n_outputs):
                    down = least[edge_left[e], j] + edge_weight[e, j]
                    up = most[edge_left[e], j] + edge_weight[e, j]
                    if edge_right[e] != NONE:
                        down += least[edge_right[e], j]
                        up += most[edge_right[e], j]
                    least[n, j] = min(least[n, j], down)
                    most[n, j] = max(most[n, j], up)
        for j in range(n_outputs):
            down, up = least[n_nodes - 1, j], most[n_nodes - 1, j]
            if down > up:
                down, up = 0.0, 0.0
            elif misses_rows and not is_complete:
                down, up = min(down, 0.0), max(up, 0.0)
            low[s, j] = bias[j] + down
            high[s, j] = bias[j] + up


class _Truth:
    """An event on partly known rows: whether it must hold, and whether it may."""

    def __init__(self, form: EventForm) -> None:
        self._event, self._n_vars = form.event, form.n_vars
        self._parts = list(children_first(form.event))
        self._place = places_of(names_of(form.n_vars, form.feature_names))
        self._var = {
            id(part): find_name(part.var, self._place, "The event")
            for part, _ in self._parts
            if part.kind == "variable"
        }
        self.occurrences = set(self._var.values())
        for part, _ in self._parts:
            if part.sdd is not None:
                self.occurrences |= set(_sdd_variables(part.sdd).tolist())

    def bounds(self, codes: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Whether each row satisfies the event for sure, and whether it possibly does."""
        return bounds_of_parts(self._event, codes, self._place)[id(self._event)]

    def gains(self, codes: AnyArray) -> FloatArray:
        """For each variable, how many parts that still matter mention it."""
        bounds = bounds_of_parts(self._event, codes, self._place)
        is_open = {key: low != high for key, (low, high) in bounds.items()}
        matters = {key: np.zeros(len(codes), dtype=np.bool_) for key in bounds}
        gain = np.zeros((len(codes), self._n_vars))
        last = id(self._event)
        matters[last] = is_open[last]
        for part, operands in reversed(self._parts):
            here = matters[id(part)]
            for child in operands:
                matters[id(child)] |= here & is_open[id(child)]
                if child.kind == "variable":
                    gain[:, self._var[id(child)]] += here & is_open[id(child)]
            if part.sdd is not None:
                gain[:, _sdd_variables(part.sdd)] += here[:, np.newaxis]
        if self._event.kind == "variable":
            gain[:, self._var[last]] += matters[last]
        return gain


def _sdd_variables(sdd: Sdd) -> AnyArray:
    """The variables of all literals that some decision uses, or of the root."""
    used = np.concatenate([sdd.element_prime, sdd.element_sub, [sdd.root]])
    used = used[(used >= FIRST_LITERAL) & (used < sdd.first_decision)]
    return np.unique((used - FIRST_LITERAL) // 2).astype(np.int64)
