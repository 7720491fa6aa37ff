from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from strudel.trees.bisection import bisect


def symmetric(n, rng, power=3):
    weight = np.triu(rng.random((n, n)) ** power, 1)
    return weight + weight.T


def cut(weight, side):
    return sum(
        weight[i, j] for i in range(len(side)) for j in range(i) if bool(side[i]) != bool(side[j])
    )


def smallest_cut(weight):
    n = len(weight)
    return min(cut(weight, np.isin(range(n), half)) for half in combinations(range(n), n // 2))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8])
def test_the_cut_is_the_smallest_of_all(n):
    rng = np.random.default_rng(n)
    for _ in range(10):
        weight = symmetric(n, rng)
        side = bisect(weight)
        assert np.sum(side == 0) == n // 2
        assert cut(weight, side) == pytest.approx(smallest_cut(weight), abs=1e-12)


@pytest.mark.compiled
def test_ten_variables_are_nearly_always_halved_best():
    rng = np.random.default_rng(0)
    ratio = []
    for _ in range(30):
        weight = symmetric(10, rng)
        ratio.append(cut(weight, bisect(weight)) / smallest_cut(weight))
    assert np.sum(np.array(ratio) > 1 + 1e-9) <= 1
    assert max(ratio) < 1.1


@pytest.mark.compiled
def test_planted_halves_are_found():
    rng = np.random.default_rng(1)
    n = 301
    hidden = rng.permutation(n) % 2 == 0  # 151 and 150
    weight = symmetric(n, rng, power=1) + 0.4 * (hidden[:, None] == hidden)
    np.fill_diagonal(weight, 0.0)
    side = bisect(weight)
    assert np.array_equal(side == 1, hidden)
    assert np.array_equal(bisect(weight), side)


def test_without_weights_the_halves_are_still_equal():
    for n in range(1, 7):
        assert np.sum(bisect(np.zeros((n, n))) == 0) == n // 2


def test_negative_weights_do_no_harm():
    # Rounding makes the mutual information of independent variables slightly negative.
    weight = -symmetric(6, np.random.default_rng(0))
    assert cut(weight, bisect(weight)) == pytest.approx(smallest_cut(weight))


def test_an_example_of_bisect():
    weight = np.array([[0, 1, 9, 1], [1, 0, 1, 9], [9, 1, 0, 1], [1, 9, 1, 0]])
    assert bisect(weight.astype(float)).tolist() == [0, 1, 0, 1]
