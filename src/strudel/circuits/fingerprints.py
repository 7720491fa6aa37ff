"""Fingerprints: two roots with the same one add up the same products of edges.

In:  the edges of a circuit and a random number for every edge.
Out: two numbers modulo a prime for the root.

Multiply in products and add up in sums, all modulo 2**61 - 1. Different sums of products give equal
numbers only by a chance of about (edges of a product / 2**61)**2.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel

PRIME = np.uint64(2**61 - 1)
LOW_31 = np.uint64(2**31 - 1)
LOW_30 = np.uint64(2**30 - 1)
BITS_1, BITS_30, BITS_31, BITS_61 = (np.uint64(bits) for bits in (1, 30, 31, 61))


@kernel
def plus(a: np.uint64, b: np.uint64) -> np.uint64:
    """The sum modulo the prime."""
    total = a + b
    return total - PRIME if total >= PRIME else total


@kernel
def times(a: np.uint64, b: np.uint64) -> np.uint64:
    """The product modulo the prime, from halves of 30 and 31 bits: 2**61 is 1 there."""
    a_high, a_low = a >> BITS_31, a & LOW_31
    b_high, b_low = b >> BITS_31, b & LOW_31
    middle = a_low * b_high + a_high * b_low
    total = (
        ((a_high * b_high) << BITS_1)
        + (middle >> BITS_30)
        + ((middle & LOW_30) << BITS_31)
        + a_low * b_low
    )
    total = (total >> BITS_61) + (total & PRIME)
    return total - PRIME if total >= PRIME else total
