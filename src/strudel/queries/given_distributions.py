"""Distributions of counts or states given evidence, of a circuit or averaged over a mixture.

In:  a `Circuit` or `Mixture` in normal form, rows of evidence as codes, the variables asked about.
Out: a vector of probabilities per row.
"""

from __future__ import annotations

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.mixture import Mixture
from strudel.queries.components import component_log_probabilities, posterior
from strudel.queries.conditional_parameters import component_parameters, conditional_parameters
from strudel.queries.model import Model
from strudel.queries.node_distributions import NodeDistributions
from strudel.queries.passes import LANES

BLOCK_BYTES = 2**28  # of vectors, as long as that leaves one row of evidence


def distributions_given(
    model: Model, codes: AnyArray, distributions: NodeDistributions, query: str
) -> FloatArray:
    """The vectors `(n_rows, size)` of the root given each row, which must be possible."""
    n_together = max(1, min(LANES, BLOCK_BYTES // distributions.peak))
    found = np.empty((len(codes), distributions.size[-1]))
    if isinstance(model, Mixture):
        weight = posterior(model, component_log_probabilities(model, codes, query))
        for row in range(len(codes)):
            found[row] = _average(model, codes[row], weight[row], distributions, n_together, query)
        return found
    for start in range(0, len(codes), n_together):
        part = slice(start, start + n_together)
        theta = conditional_parameters(model, codes[part], query)
        found[part] = distributions.of_root(theta)
    return found


def _average(
    mixture: Mixture,
    codes: AnyArray,
    weight: FloatArray,
    distributions: NodeDistributions,
    n_together: int,
    query: str,
) -> FloatArray:
    """The vectors of all components given one row, in proportion to their posterior."""
    mean = np.zeros(distributions.size[-1])
    for c in range(0, mixture.n_components, LANES):
        if not weight[c : c + LANES].any():
            continue
        theta = component_parameters(mixture, c // LANES, codes, query)
        for start in range(0, theta.shape[1], n_together):
            part = slice(start, start + n_together)
            vectors = distributions.of_root(np.ascontiguousarray(theta[:, part]))
            mean += weight[c : c + LANES][part] @ vectors
    return mean
