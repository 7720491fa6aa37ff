"""Whether one circuit is positive wherever another is.

In:  circuit p, and its `Pairs` with a deterministic q.
Out: True or False.

A number cannot tell: the rows of p that q lacks may weigh 1e-20. So every edge of p with positive
weight gets a random whole number instead, and p is added up twice modulo a prime, over all rows and
over those that q has too. The two polynomials in these numbers differ if any row is lacking, and if
they differ, their values do, but for a chance of about (variables / 1e9)**2 with two primes.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, IntArray
from strudel.algebra.pairs import Pairs
from strudel.circuits.circuit import Circuit

PRIMES = (2**31 - 1, 2**31 - 19)  # products of two residues fit in int64


def is_covered(p: Circuit, pairs: Pairs) -> bool:
    """Whether q, which must be deterministic, is positive on every row where `p` is."""
    rng = np.random.default_rng(0)
    for prime in PRIMES:
        weight = rng.integers(1, prime, p.n_edges + 1)
        weight[:-1][p.edge_log_theta == -np.inf] = 0
        weight[-1] = 1  # of a bare literal
        alone = _add_up(p.node_edges, p.edge_left, p.edge_right, weight[:-1], prime)
        both = 0
        if len(pairs.pair_p):
            both = _add_up(
                pairs.node_edges, pairs.edge_left, pairs.edge_right, weight[pairs.edge_p], prime
            )
        if alone != both:
            return False
    return True


@kernel
def _add_up(
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    edge_weight: AnyArray,
    prime: int,
) -> int:
    """The value of the last node modulo a prime, every literal counting 1."""
    value = np.ones(len(node_edges) - 1, dtype=np.int64)
    for n in range(len(value)):
        if node_edges[n] == node_edges[n + 1]:
            continue
        total = np.int64(0)
        for e in range(node_edges[n], node_edges[n + 1]):
            part = edge_weight[e] * value[edge_left[e]] % prime
            if edge_right[e] != NONE:
                part = part * value[edge_right[e]] % prime
            total += part
        value[n] = total % prime
    return value[len(value) - 1]
