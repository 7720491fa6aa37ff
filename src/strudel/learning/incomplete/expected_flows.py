"""Expected flows: how much weight of partly observed rows takes every edge, on average.

In:  a `Circuit` or a `Mixture` with its parameters, and rows with unknown values.
Out: `ExpectedFlows`: the expected weight through every edge of every component, and the
     log-likelihood of the rows.

A complete row takes one edge at every sum it reaches. For a partly observed row this is uncertain:
one pass up sums the unknown values out, one pass down divides the row's weight among the edges in
proportion to their share. A component of a mixture gets the part of a row that it is responsible
for. Rows go in a fixed number of parts, each with counts of its own, which are added in their
order: the number of threads changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from strudel._numba import kernel, run_blocks
from strudel._types import FloatArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.circuits.properties import check_properties
from strudel.data.bits import BitMatrix
from strudel.learning.incomplete.partial_rows import PartialRows, partial_rows
from strudel.learning.incomplete.reachable_nodes import (
    Layout,
    Reached,
    known_words,
    layout,
    pass_up,
    reach,
    room_for,
)
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model, model_of

N_PARTS = 16  # of the rows, for the threads to share
MOST_COUNTS = 2**24  # numbers that the counts of all parts may be: 128 MiB


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
    model: Model,
    X: PartialRows | BitMatrix | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> ExpectedFlows:
    """Expected weight of the rows through every edge, given what is known of them.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and in normal form; components of a mixture share their structure.
    X : array-like of shape (n_rows, n_vars)
        0, 1, or NaN where the value is unknown.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row counts.

    Returns
    -------
    ExpectedFlows
        A circuit counts as a mixture of one component. For complete rows the counts are those of
        `compute_flows`.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> flows = expected_flows(figure_1_circuit(), [[1, 0, 1, 0], [1, 0, 1, np.nan]])
    >>> flows.edge_count[-2:, 0].round(3)  # X4 = 1 and X4 = 0
    array([0.2, 1.8])
    """
    model = model_of(model)
    passes = Passes.of(model, "expected_flows")
    return passes.expect(partial_rows(X, sample_weight, model.n_vars), as_mixture(model))


class Passes(NamedTuple):
    """A structure, ready for passes with any parameters."""

    circuit: Circuit
    layout: Layout

    @classmethod
    def of(cls, model: Model, query: str) -> Passes:
        """Lay out the structure that all components share."""
        circuit = model.structure if isinstance(model, Mixture) else model
        check_properties(circuit, query, "smooth", "in_normal_form")
        return cls(circuit, layout(circuit))

    def expect(self, rows: PartialRows, mixture: Mixture, n_groups: int = 1) -> ExpectedFlows:
        """Expected flows; groups of components are mixtures of their own, averaged evenly."""
        log_p = np.empty((rows.n_rows, n_groups))
        count, weight = self._run(rows, mixture, n_groups, log_p)
        raise_if_impossible(log_p.max(axis=1))
        log_of_rows = np.logaddexp.reduce(log_p, axis=1) - np.log(n_groups)
        return ExpectedFlows(count, weight, float(rows.weight @ log_of_rows))

    def log_probabilities(self, rows: PartialRows, mixture: Mixture) -> FloatArray:
        """Log-probability of every row."""
        log_p = np.empty((rows.n_rows, 1))
        self._run(rows, mixture, 1, log_p, is_counting=False)
        return log_p[:, 0]

    def _run(
        self,
        rows: PartialRows,
        mixture: Mixture,
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
