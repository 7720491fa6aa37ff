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
from strudel.circuits.mixture import Mixture
from strudel.circuits.normalization import normalized_parameters
from strudel.circuits.passes import (
    LANES,
    Plan,
    are_moderate,
    decode,
    pass_up,
    plan,
    set_literals,
    working_memory,
)
from strudel.circuits.properties import check_properties


def conditional_parameters(circuit: Circuit, codes: AnyArray, query: str) -> FloatArray:
    """Parameters `(n_edges, n_rows)` given each of at most LANES rows of codes.

    The edges of a sum that a row makes impossible get zero. Unnormalised parameters are normalised.
    """
    columns = np.broadcast_to(circuit.edge_log_theta[:, np.newaxis], (circuit.n_edges, len(codes)))
    is_moderate = np.broadcast_to(are_moderate(circuit.edge_log_theta), len(codes))
    return _lane_parameters(circuit, circuit.theta, columns, is_moderate, codes, query)


def component_parameters(mixture: Mixture, block: int, codes: AnyArray, query: str) -> FloatArray:
    """Parameters `(n_edges, n_components)` of LANES components at most, given one row of codes.

    Block number b holds the components from ``b * LANES`` on.
    """
    part = slice(block * LANES, (block + 1) * LANES)
    columns = mixture.edge_log_theta[:, part]
    lanes = np.repeat(codes[np.newaxis], columns.shape[1], axis=0)
    theta = mixture.theta_lanes[block]
    is_moderate = mixture.is_moderate[part]
    return _lane_parameters(mixture.structure, theta, columns, is_moderate, lanes, query)


def _lane_parameters(
    circuit: Circuit,
    edge_theta: FloatArray,
    columns: FloatArray,
    is_moderate: AnyArray,
    codes: AnyArray,
    query: str,
) -> FloatArray:
    """Parameters given a row of codes and the log-parameters in a column for each lane."""
    check_properties(circuit, query, "smooth", "in_normal_form")
    theta = np.zeros(columns.shape)
    lost = _conditional_parameters(codes, plan(circuit), edge_theta, theta)
    for b in range(len(codes)):
        if lost >> b & 1 or not is_moderate[b]:
            theta[:, b] = parameters_in_logs(circuit, columns[:, b], codes[b])
    return theta


@kernel
def _conditional_parameters(
    codes: AnyArray, p: Plan, edge_theta: FloatArray, theta: FloatArray
) -> int:
    """Fill `theta` (n_edges, n_lanes); returns a bit per lane that lost digits."""
    n_lanes = len(codes)
    value, scale, exponent = working_memory(p)
    set_literals(codes, np.arange(n_lanes), n_lanes, value)
    lost = pass_up(p, edge_theta, value, scale, exponent)
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
    log_theta, _ = normalized_parameters(
        circuit.edges, edge_log_theta, circuit.n_vars, decode(codes)
    )
    return np.exp(log_theta)
