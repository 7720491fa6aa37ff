"""The same distributions on a finer structure.

In:  a mixture on one circuit, and another circuit that is finer, for instance made of it by splits
     and clones.
Out: the same mixture on the other circuit.

Splits and clones only copy: every sum of the finer circuit has the choices of one sum of the
coarser one, or some of them. So the product of the two circuits is the finer one, edge by edge, and
the weights of the coarser one, normalised there, are its parameters. An edge of the finer one may
also meet several of the coarser one, as long as its parameter is the same with each of them.
"""

from __future__ import annotations

import numpy as np

from strudel.algebra.pairs import find_pairs
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.normalization import normalized_columns

SAME = 1e-9  # parameters that differ by less are the same, but for rounding


def on_finer_structure(mixture: Mixture, finer: Circuit) -> Mixture:
    """A mixture with the same distribution, on a circuit that is finer than its own.

    Raises
    ------
    ValueError
        If the circuit is not finer.

    Examples
    --------
    >>> from strudel import Strudel, log_likelihood
    >>> X = np.random.default_rng(0).integers(0, 2, (200, 5))
    >>> few, many = (Strudel(n_components=2, max_splits=n, random_state=0).fit(X) for n in (0, 3))
    >>> same = on_finer_structure(few.circuit_, many.circuit_.structure)
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
    is_finer = np.array_equal(np.unique(edge), np.arange(finer.n_edges))
    weight = np.vstack([mixture.edge_log_theta, np.zeros(n_components)])[pairs.edge_q]
    log_theta = np.empty((finer.n_edges, n_components))
    if is_finer:
        found = normalized_columns(pairs.edges, weight, finer.n_vars)[0][is_edge]
        log_theta[edge] = found
        is_finer = np.allclose(log_theta[edge], found, rtol=0.0, atol=SAME)
    if not is_finer:
        raise ValueError(
            "The circuit is not finer than the mixture's own, as splits and clones would make it."
        )
    # A sum that a component never reaches has no parameters of its own there: even ones.
    first, width = finer.node_edges[2 * finer.n_vars : -1], np.diff(finer.node_edges)
    is_alive = np.maximum.reduceat(log_theta, first)[finer.edge_parent - 2 * finer.n_vars] > -np.inf
    even = -np.log(width[finer.edge_parent])[:, np.newaxis]
    log_theta = np.where(is_alive, log_theta, even)
    return Mixture(finer, log_theta, mixture.log_weight, mixture.known)
