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

from strudel._types import NONE
from strudel.circuits.products import Pairs
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.fold import fold_bits, numbered
from strudel.learning.bits.mixture import BitMixture

SAME = 1e-9  # parameters that differ by less are the same, but for rounding


def on_finer_structure(mixture: BitMixture, finer: BitCircuit) -> BitMixture:
    """A mixture with the same distribution, on a circuit that is finer than its own.

    Raises
    ------
    ValueError
        If the circuit is not finer.
    """
    if mixture.structure is finer:
        return mixture
    coarse = mixture.structure
    fine, line_edge = numbered(finer)
    free = fold_bits(coarse, np.zeros((coarse.n_edges, 1)))
    pairs = Pairs(fine, free, query="on_finer_structure")
    weighed = fold_bits(coarse, mixture.edge_log_theta)
    cells = np.where(pairs.is_common[:, np.newaxis], weighed.leaf_log_p[pairs.cell_q], -np.inf)
    found = np.concatenate(pairs.normalized(weighed.edge_log_theta[pairs.edge_q], cells))
    edge = line_edge[np.concatenate([pairs.edge_p, fine.n_edges + pairs.cell_p])]
    found, edge = found[edge != NONE], edge[edge != NONE]
    log_theta = np.empty((finer.n_edges, mixture.n_components))
    is_finer = np.array_equal(np.unique(edge), np.arange(finer.n_edges))
    if is_finer:
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
    return BitMixture(finer, log_theta, mixture.log_weight, mixture.known)
