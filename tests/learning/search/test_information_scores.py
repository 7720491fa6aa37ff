"""Sums of mutual information, by tables of pairs."""

import itertools
import math

import numpy as np
import pytest

from strudel.data.bits import exact_weights, pack_rows
from strudel.learning.search.greedy import score_real


def mutual_information(x, y, weight, alpha):
    """Of two columns, with `alpha` more rows in every cell."""
    total = weight.sum() + 4 * alpha
    p = {
        (a, b): (weight[(x == a) & (y == b)].sum() + alpha) / total
        for a, b in itertools.product((0, 1), repeat=2)
    }
    first, second = [p[0, 0] + p[0, 1], p[1, 0] + p[1, 1]], [p[0, 0] + p[1, 0], p[0, 1] + p[1, 1]]
    return math.fsum(q * math.log(q / (first[a] * second[b])) for (a, b), q in p.items() if q > 0)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize(("n_vars", "first"), [(6, 0), (9, 61)])  # one word, and two
def test_scores_of_real_weights_agree_with_tables(alpha, n_vars, first, rng):
    n_rows = 40
    X = np.zeros((n_rows, first + n_vars), dtype=np.uint8)
    density = rng.random(n_vars)
    X[:, first:] = rng.random((n_rows, n_vars)) < density
    X[:, first] = 0
    weight = exact_weights(rng.random(n_rows) * (rng.random(n_rows) < 0.8))
    rows = np.flatnonzero(rng.random(n_rows) < 0.7).astype(np.int32)
    places = np.array([first + i for i in range(n_vars) if i != 2], dtype=np.int32)
    pair, scores = np.zeros((n_vars, n_vars)), np.zeros(len(places))
    score_real(pack_rows(X), weight, rows, places, alpha, pair, scores)
    expected = [
        math.fsum(
            mutual_information(X[rows, i], X[rows, j], weight[rows], alpha)
            for j in places
            if j != i
        )
        for i in places
    ]
    np.testing.assert_allclose(scores, expected, atol=1e-12)
    assert not pair.any()
