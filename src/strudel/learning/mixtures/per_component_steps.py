"""EM for components that own their structure, one step after another.

In:  `Structure`s, first responsibilities, and the weights of the rows.
Out: `OwnSteps`: the weight through every edge of every component, and the best of all steps.

The weights of rows are multiples of one power of two (`exact_weights`), so that sums do not depend
on their order, nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from strudel._numba import parallel_kernel, prange
from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import compute_flows
from strudel.data.bits import BitMatrix, exact_weights
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import N_EDGES, N_NODES
from strudel.learning.history import MixtureHistory
from strudel.learning.mixture_methods import MixtureOptions, MixtureSmoothing
from strudel.learning.mixtures.em import TRAINING_STRENGTH

BLOCK_ROWS = 512  # rows whose log-likelihoods stay in cache
NEGLIGIBLE = -30.0  # what is below exp(-30) of a row counts as zero


@dataclass(frozen=True, eq=False)
class Structure:
    """The edges of one component, and which of them every row takes."""

    train_active: IntArray  # (n_vtree_nodes, n_rows)
    valid_active: IntArray
    edge_parent: IntArray  # (n_edges,)
    edge_even: FloatArray  # (n_edges,) one over the edges of its sum
    places: IntArray  # the vtree nodes where some sum has a choice

    @classmethod
    def of_growing(cls, growing: GrowingCircuit) -> Structure:
        """The structure as it is now; a split changes the arrays of rows in place."""
        g = growing.growth
        node = g.node[: g.size[N_NODES]]
        parent = np.ascontiguousarray(g.edge["parent"][: g.size[N_EDGES]])
        return cls(
            g.train_active,
            g.valid_active,
            parent,
            1.0 / node["width"][parent],
            _places(node["vtree"], node["width"]),
        )

    @classmethod
    def of_circuit(cls, circuit: Circuit, train: BitMatrix, valid: BitMatrix) -> Structure:
        """The structure of a circuit that is finished."""
        width = np.diff(circuit.node_edges)
        return cls(
            compute_flows(circuit, train).active_edge,
            compute_flows(circuit, valid).active_edge,
            circuit.edge_parent,
            1.0 / width[circuit.edge_parent],
            _places(circuit.node_vtree, width),
        )

    def counts(self, weight: FloatArray) -> FloatArray:
        """The weight through every edge."""
        count = np.zeros(len(self.edge_parent))
        rows = np.flatnonzero(weight).astype(np.int32)
        _add_weights(self.train_active, rows, weight, count)
        return count

    def prior(self, weight: FloatArray, smoothing: MixtureSmoothing) -> FloatArray:
        """What parameters are drawn to: all alike, or those of all rows together."""
        if smoothing == "uniform":
            return self.edge_even
        return parameters(self.counts(weight), self.edge_parent, self.edge_even, 1.0)

    def log_likelihoods(self, log_theta: FloatArray, *, of_valid: bool = False) -> FloatArray:
        """The log-likelihood of every training or validation row."""
        active = self.valid_active if of_valid else self.train_active
        log_p = np.zeros(active.shape[1])
        _add_logs(active, self.places, log_theta, log_p)
        return log_p


def _places(node_vtree: IntArray, width: IntArray) -> IntArray:
    return np.unique(node_vtree[width > 1]).astype(np.int32)


def parameters(
    count: FloatArray, edge_parent: IntArray, prior: FloatArray, strength: float
) -> FloatArray:
    """Parameters that are drawn to a prior by so many virtual rows per sum."""
    total = np.bincount(edge_parent, weights=count, minlength=1)[edge_parent] + strength
    with np.errstate(invalid="ignore"):  # 0 / 0 where nothing came and nothing is drawn
        theta = (count + strength * prior) / total
    return np.where(total > 0.0, theta, prior)


def log_parameters(
    count: FloatArray, edge_parent: IntArray, prior: FloatArray, strength: float
) -> FloatArray:
    """Their natural logs."""
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(parameters(count, edge_parent, prior, strength))
    return logs


@dataclass(frozen=True, eq=False)
class Part:
    """A component that is learned, but for the strength of its smoothing."""

    circuit: Circuit
    count: FloatArray  # (n_edges,) weight through every edge
    prior: FloatArray  # (n_edges,) what its parameters are drawn to

    def log_theta(self, strength: float) -> FloatArray:
        """Its parameters, with so much smoothing."""
        return log_parameters(self.count, self.circuit.edge_parent, self.prior, strength)


@parallel_kernel
def _add_weights(active: IntArray, rows: IntArray, weight: FloatArray, count: FloatArray) -> None:
    """Add the weight of each row to its edges; every edge belongs to one vtree node."""
    for v in prange(len(active)):
        mine = active[np.int64(v)]
        for s in rows:
            e = mine[s]
            if e != NONE:
                count[e] += weight[s]


@parallel_kernel
def _add_logs(active: IntArray, places: IntArray, log_theta: FloatArray, log_p: FloatArray) -> None:
    """Add the log-parameters on the way of each row."""
    n_rows = len(log_p)
    for b in prange((n_rows + BLOCK_ROWS - 1) // BLOCK_ROWS):
        start = int(np.int64(b)) * BLOCK_ROWS
        for v in places:
            for s in range(start, min(start + BLOCK_ROWS, n_rows)):
                e = active[v, s]
                if e != NONE:
                    log_p[s] += log_theta[e]


def training_strength(options: MixtureOptions) -> float:
    """Virtual rows per sum while learning."""
    return TRAINING_STRENGTH if options.pseudocount == "auto" else float(options.pseudocount)


@dataclass(frozen=True, eq=False)
class Step:
    """A mixture on the way: what its parameters are made of, per component."""

    n_splits: tuple[int, ...]
    counts: list[FloatArray]  # (n_edges,) each
    priors: list[FloatArray]
    weights: list[FloatArray]  # (n_rows,) each, behind the counts
    log_weight: FloatArray
    score: float  # mean log-likelihood of the validation rows, or the training rows without any


class OwnSteps:
    """EM on some structures, which may grow between steps."""

    def __init__(
        self,
        row_weight: FloatArray,
        valid_weight: FloatArray,
        options: MixtureOptions,
        history: MixtureHistory,
        on_iteration: Callable[[MixtureHistory], None] | None = None,
    ) -> None:
        self.row_weight = row_weight
        self.valid_weight = valid_weight
        self.options = options
        self.history = history
        self.on_iteration = on_iteration
        self.best: Step | None = None
        self.structures: list[Structure] = []
        self.counts: list[FloatArray] = []
        self.priors: list[FloatArray] = []
        self.weights: list[FloatArray] = []  # of the rows, per component
        self.n_splits: tuple[int, ...] = ()
        self._first_log_weight: FloatArray = np.empty(0)

    def begin(self, structures: list[Structure], share: FloatArray) -> None:
        """Start from responsibilities `(n_rows, n_components)`."""
        self.structures = structures
        self.n_splits = (0,) * len(structures)
        self._expect(share)
        self._draw()

    def resume(
        self, structures: list[Structure], counts: list[FloatArray], log_weight: FloatArray
    ) -> None:
        """Start from parameters, by their counts and the weights of the components."""
        self.structures, self.counts = structures, counts
        self.n_splits = (0,) * len(structures)
        self._first_log_weight = log_weight
        self._draw()

    def change(
        self, structures: list[Structure], counts: list[FloatArray], n_splits: tuple[int, ...]
    ) -> None:
        """Go on with other structures, for the same responsibilities."""
        self.structures, self.counts, self.n_splits = structures, counts, n_splits
        self._draw()

    def _draw(self) -> None:
        smoothing = self.options.smoothing
        self.priors = [one.prior(self.row_weight, smoothing) for one in self.structures]

    def is_late(self) -> bool:
        """Whether the time is over; keeps the reason in the history."""
        limit = self.options.max_seconds
        if limit is not None and self.history.elapsed >= limit:
            self.history.stopped_because = "max_seconds"
            return True
        return False

    def climb(self) -> None:
        """Steps until they gain no more, then back to the best; one component gains nothing."""
        options, n_steps, last_gain, gained = self.options, 0, 0, -np.inf
        while n_steps < options.max_iter and n_steps - last_gain < options.patience:
            score = self.take()
            n_steps += 1
            if score > gained + options.tol:
                gained, last_gain = score, n_steps
            if len(self.structures) == 1 or self.is_late():
                break
        assert self.best is not None
        if self.best.weights and self.best.n_splits == self.n_splits:
            self.counts, self.weights = self.best.counts, self.best.weights

    def take(self) -> float:
        """One step: parameters for the counts, their score, and new counts."""
        strength = training_strength(self.options)
        log_theta = [
            log_parameters(count, one.edge_parent, prior, strength)
            for count, one, prior in zip(self.counts, self.structures, self.priors, strict=True)
        ]
        log_weight = self._log_weight()
        valid = float("nan")
        if len(self.valid_weight):
            log_p = self._log_likelihoods(log_theta, of_valid=True)
            valid = _mean(self.valid_weight, logsumexp(log_p + log_weight, axis=1))
        log_joint = self._log_likelihoods(log_theta) + log_weight
        log_p = np.asarray(logsumexp(log_joint, axis=1))
        train = _mean(self.row_weight, log_p)
        score = train if np.isnan(valid) else valid
        if self.best is None or score > self.best.score:
            # Arrays are replaced by every step, never changed.
            self.best = Step(
                self.n_splits, self.counts, self.priors, self.weights, log_weight, score
            )
        self.history.add(train, valid, self.options.tol)
        with np.errstate(invalid="ignore"):  # a row that is impossible
            below = log_joint - log_p[:, np.newaxis]
        self._expect(np.where(below > NEGLIGIBLE, np.exp(np.minimum(below, 0.0)), 0.0))
        if self.on_iteration is not None:
            self.on_iteration(self.history)
        return score

    def _log_likelihoods(
        self, log_theta: list[FloatArray], *, of_valid: bool = False
    ) -> FloatArray:
        """Of every row under every component."""
        columns = [
            one.log_likelihoods(logs, of_valid=of_valid)
            for one, logs in zip(self.structures, log_theta, strict=True)
        ]
        return np.column_stack(columns)

    def _expect(self, share: FloatArray) -> None:
        """The counts for responsibilities."""
        self.weights = [exact_weights(self.row_weight * column) for column in share.T]
        self.counts = [
            one.counts(weight) for one, weight in zip(self.structures, self.weights, strict=True)
        ]

    def _log_weight(self) -> FloatArray:
        if not self.weights:
            return self._first_log_weight
        # One virtual row keeps every weight above zero.
        mass = np.array([weight.sum() for weight in self.weights])
        logs: FloatArray = np.log((mass + 1.0 / len(mass)) / (mass.sum() + 1.0))
        return logs


def _mean(weight: FloatArray, log_p: FloatArray) -> float:
    """The mean of rows that count; the others may be impossible."""
    counts = weight > 0.0
    return float(weight[counts] @ log_p[counts] / weight.sum())
