"""The same distributions on a finer structure.

In:  a mixture on one circuit, and another circuit, made of it by splits and clones.
Out: the same mixture on the other circuit.

Splits and clones only copy: every sum of the finer circuit has the choices of one sum of the
coarser one, or some of them. So the product of the two circuits is the finer one, edge by edge, and
the weights of the coarser one, normalised there, are its parameters.
"""

from __future__ import annotations

import numpy as np

from strudel.algebra.pairs import find_pairs
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.normalization import normalized_parameters


def on_finer_structure(mixture: Mixture, finer: Circuit) -> Mixture:
    """A mixture with the same distribution, on a circuit that splits and clones made of its own.

    Raises
    ------
    ValueError
        If the circuit is not made in this way.

    Examples
    --------
    >>> from strudel import StrudelMixture, log_likelihood
    >>> X = np.random.default_rng(0).integers(0, 2, (200, 5))
    >>> few, many = (StrudelMixture(2, n_splits=n, random_state=0).fit(X) for n in (0, 3))
    >>> same = on_finer_structure(few.mixture_, many.mixture_.structure)
    >>> np.allclose(log_likelihood(same, X), log_likelihood(few, X))
    True
    """
    if mixture.structure is finer:
        return mixture
    coarse, n_components = mixture.structure, mixture.n_components
    fine, coarse = (one.with_parameters(np.zeros(one.n_edges)) for one in (finer, coarse))
    pairs = find_pairs(fine, coarse, "on_finer_structure")
    is_edge = pairs.edge_p < finer.n_edges  # others are bare literals
    edge = pairs.edge_p[is_edge]
    if not np.array_equal(np.sort(edge), np.arange(finer.n_edges)):
        raise ValueError("The circuit is not made of the mixture's own by splits and clones.")
    weight = np.vstack([mixture.edge_log_theta, np.zeros(n_components)])[pairs.edge_q]
    log_theta = np.empty((finer.n_edges, n_components))
    for c in range(n_components):
        found, _ = normalized_parameters(pairs.edges, weight[:, c], finer.n_vars)
        log_theta[edge, c] = found[is_edge]
    # A sum that a component never reaches has no parameters of its own there: even ones.
    first, width = finer.node_edges[2 * finer.n_vars : -1], np.diff(finer.node_edges)
    is_alive = np.maximum.reduceat(log_theta, first)[finer.edge_parent - 2 * finer.n_vars] > -np.inf
    even = -np.log(width[finer.edge_parent])[:, np.newaxis]
    return Mixture(finer, np.where(is_alive, log_theta, even), mixture.log_weight)
