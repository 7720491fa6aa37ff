"""Rows with unknown values: what they reach in a circuit, expected flows, and parameters by EM.

In:  a `BitCircuit` or a `BitMixture` with its parameters, and a table of 0, 1 and NaN.
Out: `PartialRows`, equal rows merged; `ExpectedFlows`: how much weight of the rows takes every edge
     of every component, on average, and their log-likelihood; the model with better parameters.

Known values rule most of a large circuit out: a split edge has decided some variables, and a row
that knows one of them otherwise does not take it. So the search goes down from the root and asks
at every node whether a known value contradicts what the node has decided, which is a few words of
bits. What can be reached does not depend on parameters, so the components of a mixture share it.

A complete row takes one edge at every sum it reaches. For a partly observed row this is uncertain:
one pass up sums the unknown values out, one pass down divides the row's weight among the edges in
proportion to their share. A component of a mixture gets the part of a row that it is responsible
for. Values are logs: nothing underflows. Where one edge is left, as is mostly so, no `exp` is
needed. Rows go in a fixed number of parts, whose counts are added in their order: the number of
threads changes nothing.

EM takes expected flows and then shares of them, drawn to a prior. Every step raises the likelihood
of what is known plus the log of the prior, until it hardly does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from strudel._compiling import NO_LIMIT, Clock
from strudel._numba import kernel, run_blocks
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.passes import distinct_rows
from strudel.circuits.walks import raise_if_impossible
from strudel.data.bits import BitMatrix, decode, encode, exact_weights, pack_rows
from strudel.data.validation import check_evidence, check_sample_weight
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.mixture import BitMixture, Model, as_mixture
from strudel.learning.mixtures.em_steps import Prior, log_parameters

N_PARTS = 16  # of the rows, for the threads to share
MOST_COUNTS = 2**24  # numbers that the counts of all parts may be: 128 MiB
# States of a node while a row is looked at; from 0 on it is the node's slot.
NEW, EXCLUDED, POSSIBLE, OPEN = -1, -2, -3, -4


@dataclass(frozen=True, eq=False)
class PartialRows:
    """Distinct rows that count, in the order of their codes."""

    codes: ByteArray  # (n_rows, n_vars) 0, 1 or UNKNOWN
    weight: FloatArray  # (n_rows,) exact, so that sums do not depend on their order

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return len(self.codes)

    @property
    def n_vars(self) -> int:
        """Number of columns."""
        return self.codes.shape[1]

    @cached_property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return float(self.weight.sum())

    @property
    def evidence(self) -> FloatArray:
        """The rows as 0, 1 and NaN."""
        return decode(self.codes)

    def expect(self, passes: Passes, mixture: BitMixture, n_groups: int = 1) -> ExpectedFlows:
        """Expected flows of all rows."""
        return passes.expect(self, mixture, n_groups)

    def mean_log_probability(self, passes: Passes, mixture: BitMixture) -> float:
        """Mean log-likelihood of what is known of the rows."""
        return float(self.weight @ passes.log_probabilities(self, mixture) / self.total_weight)


def partial_rows(
    X: PartialRows | BitMatrix | ArrayLike,
    sample_weight: ArrayLike | None = None,
    n_vars: int | None = None,
) -> PartialRows:
    """Check rows and merge equal ones; those of weight zero are left out."""
    if isinstance(X, PartialRows):
        return X
    if isinstance(X, BitMatrix):
        return merge_codes(X.unpack(), X.row_weight)
    codes = encode(check_evidence(X, n_vars=n_vars))
    weight = None if sample_weight is None else check_sample_weight(sample_weight, len(codes))
    return merge_codes(codes, weight)


def merge_codes(codes: ByteArray, weight: FloatArray | None) -> PartialRows:
    """Merge equal rows of codes; those of weight zero are left out."""
    weight = np.ones(len(codes)) if weight is None else exact_weights(weight)
    distinct, place = distinct_rows(codes[weight > 0.0])
    merged = np.bincount(place, weights=weight[weight > 0.0], minlength=len(distinct))
    return PartialRows(distinct, merged.astype(np.float64, copy=False))


class ExpectedFlows(NamedTuple):
    """What partly observed rows send through a model."""

    edge_count: FloatArray  # (n_edges, n_components) expected weight through every edge
    component_weight: FloatArray  # (n_components,) expected weight of every component
    log_likelihood: float  # sum over the rows, weighted

    def __add__(self, other: ExpectedFlows) -> ExpectedFlows:  # type: ignore[override]
        """Those of more rows."""
        return ExpectedFlows(
            self.edge_count + other.edge_count,
            self.component_weight + other.component_weight,
            self.log_likelihood + other.log_likelihood,
        )


def expected_flows(
    model: BitCircuit | BitMixture,
    X: PartialRows | BitMatrix | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> ExpectedFlows:
    """Expected weight of the rows through every edge, given what is known of them.

    `X` holds 0, 1, and NaN where a value is unknown. A circuit counts as a mixture of one
    component. For complete rows the counts are those of `compute_flows`.
    """
    rows = partial_rows(X, sample_weight, model.n_vars)
    return Passes.of(model).expect(rows, as_mixture(model))


class Passes(NamedTuple):
    """A structure, ready for passes with any parameters."""

    circuit: BitCircuit
    layout: Layout

    @classmethod
    def of(cls, model: Model) -> Passes:
        """Lay out the structure that all components share."""
        circuit = model.structure if isinstance(model, BitMixture) else model
        return cls(circuit, layout(circuit))

    def expect(self, rows: PartialRows, mixture: BitMixture, n_groups: int = 1) -> ExpectedFlows:
        """Expected flows; groups of components are mixtures of their own, averaged evenly."""
        log_p = np.empty((rows.n_rows, n_groups))
        count, weight = self._run(rows, mixture, n_groups, log_p)
        raise_if_impossible(log_p.max(axis=1))
        log_of_rows = np.logaddexp.reduce(log_p, axis=1) - np.log(n_groups)
        return ExpectedFlows(count, weight, float(rows.weight @ log_of_rows))

    def log_probabilities(self, rows: PartialRows, mixture: BitMixture) -> FloatArray:
        """Log-probability of every row."""
        log_p = np.empty((rows.n_rows, 1))
        self._run(rows, mixture, 1, log_p, is_counting=False)
        return log_p[:, 0]

    def _run(
        self,
        rows: PartialRows,
        mixture: BitMixture,
        n_groups: int,
        log_p: FloatArray,
        is_counting: bool = True,
    ) -> tuple[FloatArray, FloatArray]:
        """Fill `log_p`; returns the counts of every edge and component, and of the components."""
        log_theta, k = mixture.edge_log_theta, mixture.n_components
        n_parts = int(np.clip(MOST_COUNTS // max(log_theta.size, 1), 1, N_PARTS))
        part_rows = -(-rows.n_rows // n_parts)
        n_counts = -(-rows.n_rows // part_rows) if is_counting else 0
        counts = np.zeros((n_counts, *log_theta.shape))
        weights = np.zeros((n_counts, k))
        log_weight = mixture.log_weight + np.log(n_groups)  # adds up to one in every group
        known = known_words(self.circuit, rows.codes)
        nothing = np.zeros((0, k)), np.zeros(0)

        def run(part: slice) -> None:
            i = part.start // part_rows
            count, weight = (counts[i], weights[i]) if is_counting else nothing
            _expected_flows(
                known[part],
                rows.weight[part],
                self.layout,
                log_theta,
                log_weight,
                log_p[part],
                count,
                weight,
            )

        run_blocks(run, rows.n_rows, part_rows)
        return counts.sum(axis=0), weights.sum(axis=0)


@kernel
def _expected_flows(
    known: WordArray,
    weight: FloatArray,
    c: Layout,
    log_theta: FloatArray,
    log_weight: FloatArray,
    log_p: FloatArray,
    count: FloatArray,
    component_weight: FloatArray,
) -> None:
    """Fill `log_p` (n_rows, n_groups), and add to the counts unless there is no room for them."""
    n_edges, k = log_theta.shape
    n_groups = log_p.shape[1]
    size = k // n_groups
    r = room_for(c)
    value = np.empty((len(r.first), k))
    flow = np.zeros((len(r.first), k))
    share = np.empty((n_edges, k))
    responsible = np.empty(k)
    for s in range(len(weight)):
        n_slots = reach(known[s], c, r)
        if n_slots == 1:
            log_p[s] = -np.inf
            continue
        pass_up(r, n_slots, log_theta, value, share)
        for g in range(n_groups):
            top, total = -np.inf, 0.0
            for j in range(g * size, (g + 1) * size):
                top = max(top, log_weight[j] + value[n_slots - 1, j])
            for j in range(g * size, (g + 1) * size):
                responsible[j] = (
                    np.exp(log_weight[j] + value[n_slots - 1, j] - top) if top > -np.inf else 0.0
                )
                total += responsible[j]
            log_p[s, g] = top + np.log(total) if total > 0.0 else -np.inf
            for j in range(g * size, (g + 1) * size):
                responsible[j] *= weight[s] / total if total > 0.0 else 0.0
        if len(component_weight) == 0:
            continue
        for j in range(k):
            component_weight[j] += responsible[j]
            flow[n_slots - 1, j] = responsible[j]
        _pass_down(r, n_slots, share, flow, count)


@kernel
def _pass_down(
    r: Reached, n_slots: int, share: FloatArray, flow: FloatArray, count: FloatArray
) -> None:
    """Divide what arrives at every sum among its edges; leaves `flow` at zero."""
    k = flow.shape[1]
    for i in range(n_slots - 1, 0, -1):
        for a in range(r.first[i], r.first[i + 1]):
            e, left, right = r.edge[a], r.left[a], r.right[a]
            for j in range(k):
                through = share[a, j] * flow[i, j]
                count[e, j] += through
                flow[left, j] += through
                flow[right, j] += through
        for j in range(k):
            flow[i, j] = 0.0
    for j in range(k):
        flow[0, j] = 0.0


class Layout(NamedTuple):
    """What the search needs of a circuit's structure; places are variables in vtree order."""

    root: int
    n_literals: int
    node_edges: IntArray
    edge_left: IntArray
    edge_right: IntArray
    node_first: IntArray  # (n_nodes,) first word with a place of the node
    node_last: IntArray  # (n_nodes,) last such word plus one
    never: WordArray  # (n_nodes, n_words, 2) places that are never 0, and never 1, below the node


class Reached(NamedTuple):
    """Room for what one row reaches. Slot 0 is a node that is always true, for literals."""

    state: IntArray  # (n_nodes,) one of the above, or the slot
    stack: IntArray
    touched: IntArray  # nodes that are not NEW
    first: IntArray  # active edges of slot i are first[i]:first[i + 1]
    edge: IntArray  # active edges
    left: IntArray  # slots of their children
    right: IntArray


def layout(circuit: BitCircuit) -> Layout:
    """Find out what every node has decided."""
    vtree = circuit.vtree
    first, last = (span[circuit.node_vtree] for span in vtree.node_span)
    place = np.empty(circuit.n_vars, dtype=np.int64)
    place[vtree.order] = np.arange(circuit.n_vars)
    bit = np.uint64(1) << (place % 64).astype(np.uint64)
    can_be = np.zeros((circuit.n_nodes, -(-circuit.n_vars // 64), 2), dtype=np.uint64)
    for value in (0, 1):
        can_be[2 * np.arange(circuit.n_vars) + value, place // 64, value] = bit
    never = np.zeros_like(can_be)
    _find_decided(
        circuit.node_edges, circuit.edge_left, circuit.edge_right, first, last, can_be, never
    )
    return Layout(
        circuit.root,
        2 * circuit.n_vars,
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        (first // 64).astype(np.int32),
        ((last - 1) // 64 + 1).astype(np.int32),
        never,
    )


@kernel
def _find_decided(
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    first: IntArray,
    last: IntArray,
    can_be: WordArray,
    never: WordArray,
) -> None:
    """Fill `never`: the places of a node that can have no such value below it."""
    n_nodes, n_words, _ = can_be.shape
    for n in range(n_nodes):
        for e in range(node_edges[n], node_edges[n + 1]):
            for w in range(n_words):
                for value in range(2):
                    can_be[n, w, value] |= can_be[edge_left[e], w, value]
                    if edge_right[e] != NONE:
                        can_be[n, w, value] |= can_be[edge_right[e], w, value]
        for place in range(first[n], last[n]):
            bit = np.uint64(1) << np.uint64(place % 64)
            for value in range(2):
                if not can_be[n, place // 64, value] & bit:
                    never[n, place // 64, value] |= bit


def known_words(circuit: BitCircuit, codes: AnyArray) -> WordArray:
    """For every row the places known to be 0, and to be 1, of shape `(n_rows, n_words, 2)`."""
    ordered = codes[:, circuit.vtree.order]
    return np.stack([pack_rows(ordered == 0), pack_rows(ordered == 1)], axis=2)


@kernel
def room_for(c: Layout) -> Reached:
    """Room for any row."""
    n_nodes, n_edges = len(c.node_edges) - 1, len(c.edge_left)
    return Reached(
        np.full(n_nodes, NEW, dtype=np.int32),
        np.empty(2 * n_edges + 1, dtype=np.int32),
        np.empty(n_nodes, dtype=np.int32),
        np.zeros(n_nodes + 2, dtype=np.int32),
        np.empty(n_edges, dtype=np.int32),
        np.empty(n_edges, dtype=np.int32),
        np.empty(n_edges, dtype=np.int32),
    )


@kernel
def reach(known: WordArray, c: Layout, r: Reached) -> int:
    """Find what a row reaches, children first; returns the number of slots, 1 for nothing.

    The root has the last slot.
    """
    # Names of their own for the arrays: looked up in the tuples, every access takes twice as long.
    state, stack, touched = r.state, r.stack, r.touched
    node_edges, edge_left, edge_right = c.node_edges, c.edge_left, c.edge_right
    node_first, node_last, never, n_literals = c.node_first, c.node_last, c.never, c.n_literals
    n_slots, n_active, n_touched, size = 1, 0, 0, 1
    r.first[1] = 0
    stack[0] = c.root
    state[c.root] = POSSIBLE
    touched[0] = c.root
    n_touched = 1
    while size > 0:
        n = stack[size - 1]
        if state[n] == POSSIBLE:  # look at the children first
            state[n] = OPEN
            for e in range(node_edges[n], node_edges[n + 1]):
                left, right = edge_left[e], edge_right[e]
                if state[left] == NEW:
                    state[left] = _look_at(known, node_first, node_last, never, n_literals, left)
                    touched[n_touched] = left
                    n_touched += 1
                if state[left] == EXCLUDED:
                    continue
                if right != NONE:
                    if state[right] == NEW:
                        state[right] = _look_at(
                            known, node_first, node_last, never, n_literals, right
                        )
                        touched[n_touched] = right
                        n_touched += 1
                    if state[right] == EXCLUDED:
                        continue
                    if state[right] == POSSIBLE:
                        stack[size] = right
                        size += 1
                if state[left] == POSSIBLE:
                    stack[size] = left
                    size += 1
            continue
        size -= 1
        if state[n] != OPEN:  # another way led here before
            continue
        first = n_active
        for e in range(node_edges[n], node_edges[n + 1]):
            left = state[edge_left[e]]
            if left < 0:
                continue
            right = np.int32(0) if edge_right[e] == NONE else state[edge_right[e]]
            if right >= 0:
                r.edge[n_active], r.left[n_active], r.right[n_active] = e, left, right
                n_active += 1
        if n_active == first:
            state[n] = EXCLUDED
            continue
        state[n] = n_slots
        n_slots += 1
        r.first[n_slots] = n_active
    for i in range(n_touched):
        state[touched[i]] = NEW
    return n_slots


@kernel
def _look_at(
    known: WordArray,
    node_first: IntArray,
    node_last: IntArray,
    never: WordArray,
    n_literals: int,
    n: int,
) -> int:
    """The state of a node: EXCLUDED if a known value contradicts what it has decided."""
    for w in range(node_first[n], node_last[n]):
        if (known[w, 0] & never[n, w, 0]) | (known[w, 1] & never[n, w, 1]):
            return EXCLUDED
    return 0 if n < n_literals else POSSIBLE


@kernel
def pass_up(
    r: Reached, n_slots: int, log_theta: FloatArray, value: FloatArray, share: FloatArray
) -> None:
    """Fill `value` (slots, k), and `share` (active edges, k): of every edge in its sum."""
    k = log_theta.shape[1]
    for j in range(k):
        value[0, j] = 0.0
    for i in range(1, n_slots):
        first, last = r.first[i], r.first[i + 1]
        for a in range(first, last):
            e, left, right = r.edge[a], r.left[a], r.right[a]
            for j in range(k):
                share[a, j] = log_theta[e, j] + value[left, j] + value[right, j]
        if last == first + 1:
            for j in range(k):
                value[i, j] = share[first, j]
                share[first, j] = 1.0
            continue
        for j in range(k):
            top = share[first, j]
            for a in range(first + 1, last):
                top = max(top, share[a, j])
            if top == -np.inf:  # then the row never gets here with this component
                value[i, j] = -np.inf
                for a in range(first, last):
                    share[a, j] = 0.0
                continue
            total = 0.0
            for a in range(first, last):
                share[a, j] = np.exp(share[a, j] - top)
                total += share[a, j]
            value[i, j] = top + np.log(total)
            for a in range(first, last):
                share[a, j] /= total


@dataclass(frozen=True)
class EmLimits:
    """When EM stops."""

    max_iter: int = 100
    tol: float = 1e-4  # nats per row that a step must gain
    patience: int = 2  # steps without a better validation likelihood
    clock: Clock = NO_LIMIT


class Fitted(NamedTuple):
    """The best step of EM."""

    model: BitMixture
    flows: ExpectedFlows | None  # the counts its parameters come from; None for the start
    train: float  # mean log-likelihood of what is known of the rows
    valid: float  # of the validation rows; nan without any


def climb(
    passes: Passes,
    start: BitMixture,
    rows: PartialRows,
    valid: PartialRows | None,
    prior: Prior,
    limits: EmLimits,
    *,
    n_groups: int = 1,
    on_iteration: Callable[[float, float], None] | None = None,
    survives_interrupt: bool = False,
) -> Fitted:
    """EM steps until nothing is gained; groups of components are mixtures of their own.

    `on_iteration` gets the mean log-likelihoods of training and validation rows. An interrupt ends
    what the steps are a part of, or only the steps.
    """
    best: Fitted | None = None
    model, counts = start, None
    before, since_best = -np.inf, 0
    try:
        for i in range(limits.max_iter + 1):
            before_step = limits.clock.left()
            valid_mean = np.nan
            if valid is not None:
                valid_mean = valid.mean_log_probability(passes, model)
            flows = rows.expect(passes, model, n_groups)
            train = flows.log_likelihood / rows.total_weight
            since_best += 1
            if best is None or not valid_mean <= best.valid:
                best, since_best = Fitted(model, counts, train, valid_mean), 0
            if on_iteration is not None:
                on_iteration(train, valid_mean)
            left = limits.clock.left()  # another step takes as long as this one
            is_late = before_step is not None and left is not None and 2 * left <= before_step
            if train - before < limits.tol or since_best >= limits.patience or is_late:
                break
            before, counts = train, flows
            if i < limits.max_iter:
                model = maximise(passes.circuit, flows, prior, n_groups)
    except KeyboardInterrupt:
        if best is None or not survives_interrupt:
            raise
    assert best is not None  # the start at least
    return best


def maximise(
    circuit: BitCircuit, flows: ExpectedFlows, prior: Prior, n_groups: int = 1
) -> BitMixture:
    """The parameters that suit expected counts and a prior best."""
    log_theta = np.empty_like(flows.edge_count)
    log_parameters(flows.edge_count, circuit.node_edges, prior.mean, prior.strength, log_theta)
    mass = flows.component_weight.reshape(n_groups, -1)
    # One virtual row per group keeps every weight above zero.
    weight = (mass + 1.0 / mass.shape[1]) / (mass.sum(axis=1, keepdims=True) + 1.0) / n_groups
    return BitMixture(circuit, log_theta, np.log(weight).ravel())
