"""Whether one circuit is positive wherever another is.

In:  circuit p, and its `Pairs` with a deterministic q.
Out: True or False.

A number cannot tell: the rows of p that q lacks may weigh 1e-20. So every edge of p with positive
weight gets a random whole number instead, and p is added up twice modulo a prime, over all rows and
over those that q has too. The two polynomials in these numbers differ if any row is lacking, and if
they differ, their values do, but for a chance below (variables / 5e8)**2 with two primes.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, WordArray
from strudel.algebra.pairs import Pairs
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.mixture import Mixture
from strudel.queries.model import Model

FIRST_PRIME = np.uint64(2**31 - 1)  # products of two residues fit in a word
SECOND_PRIME = np.uint64(2**31 - 19)


def is_covered(p: Circuit, pairs: Pairs) -> bool:
    """Whether q, which must be deterministic, is positive on every row where `p` is."""
    weight = np.random.default_rng(0).integers(1, 2**30, (p.n_edges + 1, 2), dtype=np.uint64)
    weight[:-1][p.edge_log_theta == -np.inf] = 0
    weight[-1] = 1  # of a bare literal
    alone = _add_up(p.edges, weight[:-1])
    if len(pairs.pair_p) == 0:
        return alone == (0, 0)
    return alone == _add_up(pairs.edges, weight[pairs.edge_p])


def is_model_covered(p: Model, structure: Circuit, pairs: Pairs) -> bool:
    """The same for a mixture on `structure`, which may be positive where no component is."""
    is_all = is_covered(structure, pairs)
    if is_all or not isinstance(p, Mixture):
        return is_all
    possible = np.flatnonzero(p.log_weight > -np.inf)
    columns = p.edge_log_theta[:, possible].T
    return all(is_covered(p.structure.with_parameters(column), pairs) for column in columns)


@kernel
def _add_up(edges: Edges, edge_weight: WordArray) -> tuple[int, int]:
    """The value of the last node modulo either prime, every literal counting 1.

    `edge_weight` (n_edges, 2) holds the weights for either.
    """
    node_edges, edge_left, edge_right = edges
    value = np.ones((len(node_edges) - 1, 2), dtype=np.uint64)
    for n in range(len(value)):
        if node_edges[n] == node_edges[n + 1]:
            continue
        first, second = np.uint64(0), np.uint64(0)
        for e in range(node_edges[n], node_edges[n + 1]):
            l, r = edge_left[e], edge_right[e]
            a = edge_weight[e, 0] * value[l, 0] % FIRST_PRIME
            b = edge_weight[e, 1] * value[l, 1] % SECOND_PRIME
            if r != NONE:
                a = a * value[r, 0] % FIRST_PRIME
                b = b * value[r, 1] % SECOND_PRIME
            first += a
            second += b
        value[n, 0], value[n, 1] = first % FIRST_PRIME, second % SECOND_PRIME
    return value[len(value) - 1, 0], value[len(value) - 1, 1]
