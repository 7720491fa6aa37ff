"""The circuit given evidence: how probable each edge is at its sum, once something is known.

In:  a `Circuit` in normal form, or a `Mixture` of such, and a few rows of evidence as codes.
Out: per row or component, parameters of the same structure that make it the distribution given
     that row.

With them every sum that the evidence leaves possible adds up to 1, whatever the evidence costs, so
what follows needs no scale: sums of entropies, polynomials of counts, walks of samples.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel, lane
from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.evaluate import _upward_log_values
from strudel.circuits.mixture import Mixture
from strudel.circuits.properties import check_properties
from strudel.queries.passes import (
    LANES,
    Plan,
    are_moderate,
    decode,
    is_fit_for_passes,
    pass_up,
    plan,
    working_memory,
)


def conditional_parameters(circuit: Circuit, codes: AnyArray, query: str) -> FloatArray:
    """Parameters `(n_edges, n_rows)` given each of at most LANES rows of codes.

    The edges of a sum that a row makes impossible get zero. Unnormalised parameters are normalised.
    """
    check_properties(circuit, query, "smooth", "in_normal_form")
    theta = np.zeros((circuit.n_edges, len(codes)))
    lost = (1 << LANES) - 1
    if is_fit_for_passes(circuit):
        lost = _conditional_parameters(codes, plan(circuit), circuit.theta, theta)
    for row in range(len(codes)):
        if lost >> row & 1:
            theta[:, row] = parameters_in_logs(circuit, circuit.edge_log_theta, codes[row])
    return theta


def component_parameters(mixture: Mixture, block: int, codes: AnyArray, query: str) -> FloatArray:
    """Parameters `(n_edges, n_components)` of LANES components at most, given one row of codes.

    Block number b holds the components from ``b * LANES`` on.
    """
    circuit = mixture.structure
    check_properties(circuit, query, "smooth", "in_normal_form")
    columns = mixture.edge_log_theta[:, block * LANES : (block + 1) * LANES]
    theta = np.zeros(columns.shape)
    lanes = np.repeat(codes[np.newaxis], columns.shape[1], axis=0)
    lost = _conditional_parameters(lanes, plan(circuit), mixture.theta_lanes[block], theta)
    for c, is_moderate in enumerate(are_moderate(columns)):
        if lost >> c & 1 or not is_moderate:
            theta[:, c] = parameters_in_logs(circuit, columns[:, c], codes)
    return theta


@kernel
def _conditional_parameters(
    codes: AnyArray, p: Plan, edge_theta: FloatArray, theta: FloatArray
) -> int:
    """Fill `theta` (n_edges, n_lanes); returns a bit per lane that lost digits."""
    n_lanes = len(codes)
    value, scale, exponent = working_memory(p)
    lost = pass_up(codes, 0, n_lanes, p, edge_theta, value, scale, exponent)
    for v in range(len(p.vtree_var)):
        for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
            n = p.sums[k]
            for e in range(p.node_edges[n], p.node_edges[n + 1]):
                l, r = p.edge_left[e], p.edge_right[e]
                for b in range(n_lanes):
                    if value[n, b] > 0.0:
                        part = lane(edge_theta[e], b) * value[l, b]
                        if r != NONE:
                            part *= value[r, b]
                        theta[e, b] = part * scale[v, b] / value[n, b]
    return lost


def parameters_in_logs(circuit: Circuit, edge_log_theta: FloatArray, codes: AnyArray) -> FloatArray:
    """The same for one row and the parameters given, where a pass would lose digits."""
    log_value = np.empty((circuit.n_nodes, 1))
    _upward_log_values(
        decode(codes[np.newaxis]),
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        np.ascontiguousarray(edge_log_theta),
        log_value,
    )
    value = log_value[:, 0]
    part = edge_log_theta + value[circuit.edge_left]
    part += np.where(circuit.edge_right == NONE, 0.0, value[circuit.edge_right])
    total = value[circuit.edge_parent]
    is_possible = total > -np.inf
    theta = np.zeros(circuit.n_edges)
    theta[is_possible] = np.exp(part[is_possible] - total[is_possible])
    # Logs of very small values have few digits after the point; their sum takes out what is common.
    place = circuit.edge_parent - 2 * circuit.n_vars
    sums = np.zeros(circuit.n_nodes - 2 * circuit.n_vars)
    np.add.at(sums, place, theta)
    return theta / np.where(sums > 0.0, sums, 1.0)[place]
