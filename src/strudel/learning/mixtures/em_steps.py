"""Steps of EM for mixtures that share one structure (equation 1 of the paper).

In:  a deterministic `BitCircuit` and fully observed rows.
Out: `Choices`, the edges that carry a parameter and that some row takes; per block of rows a `Bag`,
     which of them each row takes, found once; `Ensemble`, the parameters of several mixtures of
     equal size, improved step by step.

At every vtree node most rows take the same edge. That *default* is left out of the bags: a row's
log-likelihood is the sum over all defaults, the same for all rows, plus the differences where the
row goes another way; and the weight through a default is what the other edges leave over. On sparse
tables this saves nine tenths of the work, or more.

E-step: the log-likelihood of a row under every component is a sum of lines of the table of
log-parameters, picked by what the row takes. M-step: the weight through an edge is a sum of lines
of the table of responsibilities, picked by which rows take it. Both are the same gather, once by
row and once by edge, so every sum has one owner and one order: the number of threads changes
nothing.

Several mixtures (bags, restarts, runs to be averaged) learn side by side as *groups* of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.data.bits import BitMatrix
from strudel.errors import ImpossibleRowError
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.mixture import BitMixture

BLOCK_ROWS = 2**15  # rows whose responsibilities are in memory together
N_PARTS = 64  # pieces of equal work, for the threads to share
NEGLIGIBLE = -30.0  # what is below exp(-30) of the largest responsibility counts as zero


@dataclass(frozen=True, eq=False)
class Choices:
    """What a row can do at each vtree node that has a choice, numbered: the *states*.

    States are the edges that carry a parameter, in their order, then for every vtree node "no
    choice here", which rows take that reach a literal or a sum with a single edge. A place is a
    vtree node where some row has a choice.
    """

    circuit: BitCircuit
    edge: IntArray  # (n_edges_seen,) the edges with a parameter that some row takes
    node_first: IntArray  # edges of sum i are states node_first[i]:node_first[i + 1]
    place_first: IntArray  # states of place p are place_state[place_first[p]:place_first[p + 1]]
    place_state: IntArray
    default: IntArray  # (n_places,) the state most rows take; NONE where bags list all states
    state_of: IntArray  # (n_edges + n_vtree_nodes,) state of an edge, or of "no choice" at a node
    device: Any = None  # of torch, on which components learn; None for the kernels here

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.place_state)

    @property
    def is_listed(self) -> AnyArray:
        """Whether each state is in the bags: all that are no default."""
        is_listed = np.ones(self.n_states, dtype=np.bool_)
        is_listed[self.default[self.default != NONE]] = False
        return is_listed


@dataclass(frozen=True, eq=False)
class Bag:
    """The states of a block of rows that are not defaults, by row and by state."""

    row_first: IntArray  # states of row r are row_state[row_first[r]:row_first[r + 1]]
    row_state: IntArray
    state_first: IntArray  # rows of state s are state_row[state_first[s]:state_first[s + 1]]
    state_row: IntArray
    weight: FloatArray  # (n_rows,) how often each row counts

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)


def share_flows(
    circuit: BitCircuit, *tables: BitMatrix, has_defaults: bool = True
) -> tuple[Choices, list[list[Bag]]]:
    """Find the states that occur in some tables, and for each table the bags of its rows.

    Without defaults every state is in the bags: where a parameter may be zero, differences of logs
    are not numbers.
    """
    count = np.zeros(circuit.n_edges + circuit.vtree.n_nodes)
    for t, bits in enumerate(tables):
        try:
            for _, states in _state_blocks(circuit, bits):
                count += np.bincount(states.ravel(), minlength=len(count))
        except ImpossibleRowError as error:
            error.table = t
            raise
    choices = _choices_of(circuit, count, has_defaults)
    is_listed = choices.is_listed
    bags = [
        [
            bag_of(choices.state_of[states], is_listed, weight)
            for weight, states in _state_blocks(circuit, bits)
        ]
        for bits in tables
    ]
    return choices, bags


def _state_blocks(circuit: BitCircuit, bits: BitMatrix) -> Iterator[tuple[FloatArray, IntArray]]:
    """Weights and `(n_vtree_nodes, n_rows)` choices of blocks of rows.

    A choice is an edge of a sum with several, or `n_edges + v` for none at vtree node v.
    """
    has_choice = np.append(np.diff(circuit.node_edges)[circuit.edge_parent] > 1, False)
    none = circuit.n_edges + np.arange(circuit.vtree.n_nodes, dtype=np.int32)[:, np.newaxis]
    for start in range(0, bits.n_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, bits.n_rows)
        words = bits.words[:, start // 64 : -(-stop // 64)]
        block = BitMatrix(np.ascontiguousarray(words), stop - start)
        flows = compute_flows(circuit, block)
        if not flows.is_possible.all():
            raise ImpossibleRowError(start + int(np.argmin(flows.is_possible)))
        active = flows.active_edge
        yield bits.weights[start:stop], np.where(has_choice[active], active, none)


def _choices_of(circuit: BitCircuit, count: FloatArray, has_defaults: bool) -> Choices:
    """The states that occur, and the default of every place."""
    n_edges = circuit.n_edges
    edge = np.flatnonzero(count[:n_edges]).astype(np.int32)
    edge_vtree = circuit.node_vtree[circuit.edge_parent[edge]]
    is_place = np.zeros(circuit.vtree.n_nodes, dtype=bool)
    is_place[edge_vtree] = True
    without = np.flatnonzero(is_place & (count[n_edges:] > 0)).astype(np.int32)
    state_of = np.full(len(count), NONE, dtype=np.int32)
    state_of[edge] = np.arange(len(edge))
    state_of[n_edges + without] = len(edge) + np.arange(len(without))

    place = np.append(edge_vtree, without)
    order = np.argsort(place, kind="stable").astype(np.int32)
    place_first = np.append(np.flatnonzero(np.diff(place[order], prepend=NONE)), len(order))
    state_count = np.append(count[edge], count[n_edges + without])
    default = [
        order[first + np.argmax(state_count[order[first:last]])] if has_defaults else NONE
        for first, last in pairwise(place_first)
    ]
    parent = circuit.edge_parent[edge]
    return Choices(
        circuit,
        edge,
        np.append(np.flatnonzero(np.diff(parent, prepend=NONE)), len(edge)).astype(np.int32),
        place_first.astype(np.int32),
        order,
        np.array(default, dtype=np.int32),
        state_of,
    )


def bag_of(states: IntArray, is_listed: AnyArray, weight: FloatArray) -> Bag:
    """The bag of rows with these states, `(n_places, n_rows)`."""
    n_rows = states.shape[1]
    row_first = np.zeros(n_rows + 1, dtype=np.int32)
    state_first = np.zeros(len(is_listed) + 1, dtype=np.int32)
    _count_entries(states, is_listed, row_first, state_first)
    np.cumsum(row_first, out=row_first)
    np.cumsum(state_first, out=state_first)
    row_state = np.empty(row_first[-1], dtype=np.int32)
    state_row = np.empty(row_first[-1], dtype=np.int32)
    _fill_entries(
        states, is_listed, row_first[:-1].copy(), state_first[:-1].copy(), row_state, state_row
    )
    return Bag(row_first, row_state, state_first, state_row, weight)


@kernel
def _count_entries(
    states: IntArray, is_listed: AnyArray, row_first: IntArray, state_first: IntArray
) -> None:
    """Number of entries of every row and state, one place further on, ready for a running sum."""
    for v in range(states.shape[0]):
        for r in range(states.shape[1]):
            s = states[v, r]
            if s != NONE and is_listed[s]:
                row_first[r + 1] += 1
                state_first[s + 1] += 1


@kernel
def _fill_entries(
    states: IntArray,
    is_listed: AnyArray,
    row_next: IntArray,
    state_next: IntArray,
    row_state: IntArray,
    state_row: IntArray,
) -> None:
    for v in range(states.shape[0]):
        for r in range(states.shape[1]):
            s = states[v, r]
            if s != NONE and is_listed[s]:
                row_state[row_next[r]] = s
                row_next[r] += 1
                state_row[state_next[s]] = r
                state_next[s] += 1


@dataclass(frozen=True, eq=False)
class Prior:
    """Virtual rows per sum node, and how its edges share them."""

    strength: float
    mean: FloatArray  # (n_edges,) adds up to one at every sum


def uniform_prior(circuit: BitCircuit, strength: float) -> Prior:
    """The prior that treats all edges of a sum alike, as in `closed_form`."""
    return Prior(float(strength), 1.0 / np.diff(circuit.node_edges)[circuit.edge_parent])


@dataclass(frozen=True, eq=False)
class Counts:
    """What determines the parameters of an ensemble: arrays, or tensors on a device."""

    count: Any  # (n_states, n_columns) weight that every component sends through every state
    total: Any  # (n_columns,) and in all

    def columns(self, chosen: IntArray) -> Counts:
        """Those of some components."""
        return Counts(self.count[:, chosen], self.total[chosen])

    def arrays(self) -> tuple[FloatArray, FloatArray]:
        """Both as arrays."""
        count, total = (
            one if isinstance(one, np.ndarray) else one.cpu().numpy()
            for one in (self.count, self.total)
        )
        return count, total


class Ensemble:
    """Groups of components on one structure, each group a mixture of its own.

    `count` and `total` say how much weight every component sends through every state, and in all;
    they determine the parameters.
    """

    def __init__(
        self,
        choices: Choices,
        prior: Prior,
        n_groups: int,
        size: int,
        counts: Counts | None = None,
    ) -> None:
        self.choices = choices
        self.prior = prior
        self.n_groups = n_groups
        self.size = size
        shape = (choices.n_states, n_groups * size)
        self.count: FloatArray = np.zeros(shape)
        self.total: FloatArray = np.zeros(shape[1])
        if counts is not None:
            self.count[:], self.total[:] = counts.arrays()
        self._log_theta: FloatArray = np.zeros(shape)  # stays 0 for "no choice here"
        self._delta: AnyArray = np.zeros(shape, dtype=np.float32)  # to the default of the place
        self._base: AnyArray = np.zeros(shape[1], dtype=np.float32)  # all defaults, and the weight

    @property
    def n_columns(self) -> int:
        """Number of components of all groups."""
        return self.n_groups * self.size

    def counts(self) -> Counts:
        """A copy of the counts."""
        return Counts(self.count.copy(), self.total.copy())

    def maximise(self) -> None:
        """M-step: the best parameters for the counts."""
        choices = self.choices
        self.complete()
        log_parameters(
            self.count,
            choices.node_first,
            self.prior.mean[choices.edge],
            self.prior.strength,
            self._log_theta,
        )
        usual = choices.default[choices.default != NONE]
        self._base[:] = self._log_theta[usual].sum(axis=0) + self._log_weight()
        self.find_differences()

    def complete(self) -> None:
        """Give the defaults what the other states leave over."""
        choices = self.choices
        _complete(self.total, choices.place_first, choices.place_state, choices.default, self.count)

    def find_differences(self) -> None:
        """From the log-parameters, what rows add that do not take a default."""
        choices = self.choices
        _differences(
            self._log_theta, choices.place_first, choices.place_state, choices.default, self._delta
        )

    def expect(
        self, bags: Sequence[Bag], weights: Sequence[FloatArray]
    ) -> tuple[FloatArray, float]:
        """E-step: the counts under the parameters.

        `weights` are of shape `(1, n_rows)`, or `(n_groups, n_rows)` where groups see other rows.
        Returns the log-likelihood of every group on its rows, and that of their average.
        """
        self.clear()
        by_group, of_average = np.zeros(self.n_groups), 0.0
        for bag, weight in zip(bags, weights, strict=True):
            share, log_p = self.shares(bag)
            by_group += weighted_sums(weight, log_p)
            of_average += float(bag.weight @ log_mean(log_p))
            self.add(bag, share, weight)
        return by_group, of_average

    def clear(self) -> None:
        """Forget the counts."""
        self.count[:] = 0.0
        self.total[:] = 0.0

    def add(self, bag: Bag, share: AnyArray, weight: FloatArray) -> None:
        """Add the rows of a bag to the counts: component c gets `share[r, c]` of row r."""
        _weighted_sum(share, weight, self.total)
        in_threads(_gather_sum, N_PARTS, share, weight, bag.state_first, bag.state_row, self.count)

    def log_likelihoods(self, bags: Sequence[Bag]) -> FloatArray:
        """Log-likelihood of each row under each group."""
        return np.concatenate([self.shares(bag)[1] for bag in bags])

    def scores(
        self, bags: Sequence[Bag], weight: FloatArray, n_init: int
    ) -> tuple[FloatArray, float]:
        """Log-likelihood of rows of some weight under every group.

        And its mean per row under the average of the groups that are the best of their restarts.
        """
        log_p = self.log_likelihoods(bags)
        score = weighted_sums(weight[np.newaxis], log_p)
        mean = weight @ log_mean(log_p[:, best_restarts(score, n_init)]) / weight.sum()
        return score, float(mean)

    def shares(self, bag: Bag) -> tuple[AnyArray, FloatArray]:
        """Responsibilities of all components, and the log-likelihood under every group, by row."""
        share = np.empty((bag.n_rows, len(self.total)), dtype=np.float32)
        log_p = np.empty((bag.n_rows, self.n_groups))
        in_threads(
            _expect,
            len(log_p),
            bag.row_first,
            bag.row_state,
            self._base,
            self._delta,
            share,
            log_p,
        )
        return share, log_p

    def set_parameters(self, mixture: BitMixture) -> None:
        """Take over those of a mixture, for an ensemble of one group."""
        choices = self.choices
        self._log_theta[: len(choices.edge)] = mixture.edge_log_theta[choices.edge]
        usual = choices.default[choices.default != NONE]
        self._base[:] = self._log_theta[usual].sum(axis=0) + mixture.log_weight
        self.find_differences()

    def _log_weight(self) -> FloatArray:
        mass = self.total.reshape(-1, self.size)
        # One virtual row per group keeps every weight above zero.
        weight = (mass + 1.0 / self.size) / (mass.sum(axis=1, keepdims=True) + 1.0)
        return np.log(weight).ravel()

    def mixtures(self) -> list[BitMixture]:
        """Every group as a mixture, for the counts that some M-step completed."""
        circuit, edge = self.choices.circuit, self.choices.edge
        edge_count = np.zeros((circuit.n_edges, len(self.total)))
        edge_count[edge] = self.count[: len(edge)]
        log_theta = np.empty_like(edge_count)
        log_parameters(
            edge_count,
            circuit.node_edges[2 * circuit.n_vars :],
            self.prior.mean,
            self.prior.strength,
            log_theta,
        )
        return self.split(log_theta)

    def split(self, log_theta: FloatArray) -> list[BitMixture]:
        """The mixture of every group, from the parameters `(n_edges, n_columns)` of all."""
        log_weight = self._log_weight()
        columns = [slice(g * self.size, (g + 1) * self.size) for g in range(self.n_groups)]
        return [
            BitMixture(
                self.choices.circuit, np.ascontiguousarray(log_theta[:, own]), log_weight[own]
            )
            for own in columns
        ]


def best_restarts(score: FloatArray, n_init: int) -> IntArray:
    """The group with the best score of every run."""
    best = score.reshape(-1, n_init).argmax(axis=1)
    return np.arange(0, len(score), n_init) + best


def log_mean(log_p: FloatArray) -> FloatArray:
    """Log-likelihood of each row under the average of the groups, from that under each."""
    top = log_p.max(axis=1)
    if log_p.shape[1] == 1:
        return top
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        logs: FloatArray = shift + np.log(np.exp(log_p - shift[:, np.newaxis]).mean(axis=1))
    return logs


def weighted_sums(weight: FloatArray, log_p: FloatArray) -> FloatArray:
    """Log-likelihood of every group; a row of weight zero may be impossible."""
    with np.errstate(invalid="ignore"):  # 0 * -inf
        sums: FloatArray = np.where(weight.T > 0.0, weight.T * log_p, 0.0).sum(axis=0)
    return sums


@kernel
def _expect(
    first: int,
    last: int,
    row_first: IntArray,
    row_state: IntArray,
    base: AnyArray,
    delta: AnyArray,
    share: AnyArray,
    log_p: FloatArray,
) -> None:
    """Fill `share` (n_rows, n_columns), and `log_p` (n_rows, n_groups)."""
    n_groups = log_p.shape[1]
    size = len(base) // n_groups
    for row in range(first, last):
        mine = share[row]
        for j in range(len(mine)):
            mine[j] = base[j]
        for i in range(row_first[row], row_first[row + 1]):
            other = delta[row_state[i]]
            for j in range(len(mine)):
                mine[j] += other[j]
        for g in range(n_groups):
            log_p[row, g] = _normalise(mine[g * size : (g + 1) * size])


@kernel
def _normalise(logs: AnyArray) -> float:
    """Turn logs into shares of one; returns the log of their sum."""
    top = logs[0]
    for j in range(1, len(logs)):
        top = max(top, logs[j])
    if top == -np.inf:  # impossible under every component
        logs[:] = 0.0
        return -np.inf
    total = np.float32(0.0)
    for j in range(len(logs)):
        below = logs[j] - top
        logs[j] = np.exp(below) if below > np.float32(NEGLIGIBLE) else np.float32(0.0)
        total += logs[j]
    scale = np.float32(1.0) / total
    for j in range(len(logs)):
        logs[j] *= scale
    return np.float64(top) + np.log(np.float64(total))


@kernel
def _weighted_sum(share: AnyArray, weight: FloatArray, total: FloatArray) -> None:
    size = len(total) // len(weight)
    for row in range(len(share)):
        for g in range(len(weight)):
            w = weight[g, row]
            for j in range(g * size, (g + 1) * size):
                total[j] += w * share[row, j]


@kernel
def _gather_sum(
    first_part: int,
    last_part: int,
    share: AnyArray,
    weight: FloatArray,
    first: IntArray,
    index: IntArray,
    count: FloatArray,
) -> None:
    """Add to line s of `count` the weighted rows that `index[first[s]:first[s + 1]]` names."""
    size = count.shape[1] // len(weight)
    for part in range(first_part, last_part):
        for s in range(_part_start(first, part), _part_start(first, part + 1)):
            for i in range(first[s], first[s + 1]):
                row = index[i]
                for g in range(len(weight)):
                    w = weight[g, row]
                    mine = count[s, g * size : (g + 1) * size]
                    other = share[row, g * size : (g + 1) * size]
                    for j in range(size):
                        mine[j] += w * other[j]


@kernel
def _part_start(first: IntArray, part: int) -> int:
    """The line at which a part begins, so that all have about equally many entries."""
    n_lines = len(first) - 1
    if part == N_PARTS:
        return n_lines
    return int(np.searchsorted(first[:n_lines], np.int64(first[n_lines]) * part // N_PARTS))


@kernel
def _complete(
    total: FloatArray,
    place_first: IntArray,
    place_state: IntArray,
    default: IntArray,
    count: FloatArray,
) -> None:
    """The default of a place gets what its other states leave over."""
    for p in range(len(default)):
        usual = default[p]
        if usual == NONE:
            continue
        for j in range(len(total)):
            count[usual, j] = total[j]
        for i in range(place_first[p], place_first[p + 1]):
            s = place_state[i]
            if s != usual:
                for j in range(len(total)):
                    count[usual, j] -= count[s, j]
        for j in range(len(total)):
            count[usual, j] = max(count[usual, j], 0.0)  # rounding may leave a little less


def log_parameters(
    count: FloatArray,
    node_first: IntArray,
    mean: FloatArray,
    strength: float,
    log_theta: FloatArray,
) -> None:
    """Fill the lines of edges in `log_theta`; a component that never reaches a sum gets `mean`."""
    in_threads(_log_parameters, len(node_first) - 1, count, node_first, mean, strength, log_theta)


@kernel
def _log_parameters(
    first_node: int,
    last_node: int,
    count: FloatArray,
    node_first: IntArray,
    mean: FloatArray,
    strength: float,
    log_theta: FloatArray,
) -> None:
    n_columns = count.shape[1]
    for n in range(first_node, last_node):
        first, last = node_first[n], node_first[n + 1]
        for j in range(n_columns):
            total = strength
            for s in range(first, last):
                total += count[s, j]
            for s in range(first, last):
                theta = (count[s, j] + strength * mean[s]) / total if total > 0.0 else mean[s]
                log_theta[s, j] = np.log(theta) if theta > 0.0 else -np.inf


@kernel
def _differences(
    log_theta: FloatArray,
    place_first: IntArray,
    place_state: IntArray,
    default: IntArray,
    delta: AnyArray,
) -> None:
    """Log-parameters less that of the place's default, where it has one."""
    for p in range(len(default)):
        usual = default[p]
        for i in range(place_first[p], place_first[p + 1]):
            s = place_state[i]
            for j in range(log_theta.shape[1]):
                base = log_theta[usual, j] if usual != NONE else 0.0
                delta[s, j] = log_theta[s, j] - base
