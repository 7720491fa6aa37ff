"""Small tables of coded columns, and a plain model of them: no code of the library."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
from hypothesis import strategies as st

from strategies import seeds, weights


def one_hot(k):
    return [[int(i == j) for j in range(k)] for i in range(k)]


def thermometer(k):
    return [[int(j < i) for j in range(k - 1)] for i in range(k)]


def some_codes(rng):
    """Any different codes of up to three bits."""
    width = rng.randint(1, 3)
    every = list(itertools.product((0, 1), repeat=width))
    return [list(word) for word in rng.sample(every, rng.randint(1, len(every)))]


@st.composite
def coded_tables(draw, max_columns=4, max_vars=7, max_rows=25):
    """Columns as pairs of first variable and codewords; the places of values; row weights."""
    rng = random.Random(draw(seeds))
    columns, n_vars = [], 0
    for _ in range(draw(st.integers(1, max_columns))):
        kind = draw(st.sampled_from(["bit", "one_hot", "thermometer", "any"]))
        words = {
            "bit": lambda: [[0], [1]],
            "one_hot": lambda: one_hot(rng.randint(2, 4)),
            "thermometer": lambda: thermometer(rng.randint(2, 4)),
            "any": lambda: some_codes(rng),
        }[kind]()
        if n_vars + len(words[0]) <= max_vars:
            columns.append((n_vars, words))
            n_vars += len(words[0])
    if n_vars == 1:  # a bit beside it: a model of one fixed variable is nothing to learn
        columns.append((1, [[0], [1]]))
    n_rows = draw(st.integers(1, max_rows))
    # A hidden value makes the columns depend on one another; some values never occur.
    hidden = [rng.randrange(4) for _ in range(n_rows)]
    places = [
        [
            min(h, len(words) - 1) if rng.random() < 0.7 else rng.randrange(len(words))
            for h in hidden
        ]
        for _, words in columns
    ]
    weight = draw(st.one_of(st.just(np.ones(n_rows)), weights(n_rows)))
    return columns, np.array(places).T, weight


def encode(columns, places):
    """The 0/1 rows of rows of places."""
    rows = [
        [bit for (_, words), place in zip(columns, row, strict=True) for bit in words[place]]
        for row in places
    ]
    return np.array(rows, dtype=np.uint8)


def all_places(columns):
    """The places of every possible row."""
    return list(itertools.product(*[range(len(words)) for _, words in columns]))


def possible_rows(columns):
    """Every possible 0/1 row, as tuples."""
    return {tuple(row) for row in encode(columns, all_places(columns)).tolist()}


class PlainTree:
    """Smoothed tables of pairs of columns, by counting rows one at a time; a place may be -1."""

    def __init__(self, columns, places, weight, alpha=1.0):
        self.sizes = [len(words) for _, words in columns]
        self.places, self.weight, self.alpha = places, weight, alpha

    def joint(self, *asked):
        """P(values of some columns) on rows that know them, with four virtual rows in all."""
        sizes = [self.sizes[c] for c in asked]
        share = 4 * self.alpha / math.prod(sizes)
        table = {cell: share for cell in itertools.product(*map(range, sizes))}
        for row, w in zip(self.places, self.weight, strict=True):
            cell = tuple(int(row[c]) for c in asked)
            if min(cell) >= 0:
                table[cell] += w
        total = math.fsum(table.values())
        return {cell: count / total for cell, count in table.items()}

    def worth(self, a, b):
        """Mutual information less the price of parameters beyond those of two bits."""
        pair = self.joint(a, b)
        one, other = (_margin(pair, side) for side in range(2))
        information = math.fsum(
            p * math.log(p / (one[x] * other[y])) for (x, y), p in pair.items() if p > 0
        )
        n_more = max((self.sizes[a] - 1) * (self.sizes[b] - 1) - 1, 0)
        return information - n_more / math.fsum(self.weight)

    def best_forest(self):
        """The largest worth of any forest over the columns, by trying all sets of edges."""
        n = len(self.sizes)
        pairs = list(itertools.combinations(range(n), 2))
        worth = {pair: self.worth(*pair) for pair in pairs}
        best = 0.0
        for size in range(1, n):
            for edges in itertools.combinations(pairs, size):
                if _is_forest(n, edges):
                    best = max(best, math.fsum(worth[edge] for edge in edges))
        return best

    def probability(self, row, parents):
        """Of a row of places, as the product of a table per column."""
        p = 1.0
        for c, up in enumerate(parents):
            if up < 0:
                p *= self.joint(c)[row[c],]
            else:
                pair = self.joint(c, up)
                p *= pair[row[c], row[up]] / _margin(pair, 1)[row[up]]
        return p


def _margin(pair, side):
    margin = {}
    for cell, p in pair.items():
        margin[cell[side]] = margin.get(cell[side], 0.0) + p
    return margin


def _is_forest(n, edges):
    root = list(range(n))
    for a, b in edges:
        while root[a] != a:
            a = root[a]
        while root[b] != b:
            b = root[b]
        if a == b:
            return False
        root[a] = b
    return True
