"""Counts and what they add to the log-likelihood: what gains are made of.

A sum with counts h contributes f(h_1) + f(h_2) + ... - f(h_1 + h_2 + ...), with f(x) = x ln x.
Copying it for some of its rows divides the counts between two sums. The contributions of both, less
the old one, are the gain, so gains need counts only.

A set of places is a row of words with one bit per place, as in `Growth`.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel, lowest_bit, popcount
from strudel._types import NONE, FloatArray, IntArray, WordArray
from strudel.learning.growing.growth import Growth


@kernel
def count_of(g: Growth, n: int) -> float:
    """Weight of the training rows through a sum."""
    total = 0.0
    e = g.node[n]["first"]
    while e != NONE:
        total += g.edge[e]["train"]
        e = g.edge[e]["next"]
    return total


@kernel
def undecided_places(g: Growth, edge: int) -> IntArray:
    """The places of the variables with both literals below an edge."""
    # By way of `undecided` and `places_in` it would take 0.6 s longer to compile.
    places = np.empty(len(g.place_var), dtype=np.int32)
    n = 0
    for side in range(2):
        child = g.edge[edge]["left"] if side == 0 else g.edge[edge]["right"]
        v = g.node[child]["vtree"]
        for w in range(g.vtree[v]["first"] // 64, (g.vtree[v]["last"] - 1) // 64 + 1):
            word = g.node_one[child, w] & g.node_zero[child, w]
            while word:
                places[n] = w * 64 + lowest_bit(word)
                n += 1
                word &= word - np.uint64(1)
    return places[:n]


@kernel
def undecided(g: Growth, edge: int, both_sides: bool) -> WordArray:
    """The places with both literals below an edge, or below its left child only."""
    mask = np.zeros(g.train_words.shape[1], dtype=np.uint64)
    for side in range(2 if both_sides else 1):
        child = g.edge[edge]["left"] if side == 0 else g.edge[edge]["right"]
        u = g.node[child]["vtree"]
        for w in range(g.vtree[u]["first"] // 64, (g.vtree[u]["last"] - 1) // 64 + 1):
            mask[w] |= g.node_one[child, w] & g.node_zero[child, w]
    return mask


@kernel
def places_in(mask: WordArray) -> IntArray:
    """The places in a set of bits."""
    n = 0
    for word in mask:
        n += popcount(word)
    places = np.empty(n, dtype=np.int32)
    k = 0
    for w in range(len(mask)):
        word = mask[w]
        while word:
            places[k] = w * 64 + lowest_bit(word)
            word &= word - np.uint64(1)
            k += 1
    return places


@kernel
def words_in(mask: WordArray) -> tuple[int, int]:
    """The first word with a one, and the last one plus one."""
    low, high = len(mask), 0
    for w in range(len(mask)):
        if mask[w]:
            low, high = min(low, w), w + 1
    return low, high


@kernel
def count_ones(g: Growth, rows: IntArray, mask: WordArray, first: int, one: FloatArray) -> float:
    """Weight of the rows with a one at every place; returns that of all rows."""
    low, high = words_in(mask)
    total = 0.0
    for s in rows:
        weight = g.train_weight[s]
        total += weight
        for w in range(low, high):
            word = g.train_words[s, w] & mask[w]
            while word:
                one[w * 64 + lowest_bit(word) - first] += weight
                word &= word - np.uint64(1)
    return total
