from __future__ import annotations

import numpy as np
import pytest

from strudel.trees.pairing import pair_up

NONE = -1


def symmetric(n, rng, power=3):
    weight = np.triu(rng.random((n, n)) ** power, 1)
    return weight + weight.T


def total(weight, partner):
    return sum(weight[i, p] for i, p in enumerate(partner.tolist()) if p != NONE) / 2


def best_total(weight, rows=None):
    """By trying all: the first row with every other, or, if the number is odd, left out."""
    rows = tuple(range(len(weight))) if rows is None else rows
    if len(rows) < 2:
        return 0.0
    first, rest = rows[0], rows[1:]
    totals = [
        weight[first, other] + best_total(weight, tuple(r for r in rest if r != other))
        for other in rest
    ]
    if len(rows) % 2:
        totals.append(best_total(weight, rest))
    return max(totals)


def assert_pairs(partner):
    alone = np.flatnonzero(partner == NONE)
    assert len(alone) == len(partner) % 2
    paired = np.flatnonzero(partner != NONE)
    assert np.array_equal(partner[partner[paired]], paired)
    assert not np.any(partner[paired] == paired)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_the_pairs_are_the_best_of_all(n):
    rng = np.random.default_rng(n)
    for _ in range(10):
        weight = symmetric(n, rng)
        partner = pair_up(weight)
        assert_pairs(partner)
        assert total(weight, partner) == pytest.approx(best_total(weight))


@pytest.mark.compiled
def test_planted_pairs_of_three_hundred_are_found():
    rng = np.random.default_rng(0)
    order = rng.permutation(301)
    weight = symmetric(301, rng, power=1)
    first, second = order[:300:2], order[1:300:2]
    weight[first, second] = weight[second, first] = 1.1
    partner = pair_up(weight)
    assert_pairs(partner)
    assert np.array_equal(partner[first], second)
    assert partner[order[300]] == NONE
    assert np.array_equal(pair_up(weight), partner)


@pytest.mark.compiled
def test_large_tables_stay_near_the_bound_of_the_assignment():
    # Twice the weight of any matching is at most that of the best assignment.
    from scipy.optimize import linear_sum_assignment

    weight = symmetric(200, np.random.default_rng(3))
    bound = weight - 1e6 * np.eye(200)
    rows, columns = linear_sum_assignment(bound, maximize=True)
    partner = pair_up(weight)
    assert_pairs(partner)
    assert total(weight, partner) > 0.98 * bound[rows, columns].sum() / 2


def test_equal_and_absent_weights_still_give_pairs():
    for n in range(1, 8):
        assert_pairs(pair_up(np.zeros((n, n))))
        assert_pairs(pair_up(-symmetric(n, np.random.default_rng(n))))


def test_an_example_of_pair_up():
    weight = np.array([[0, 5, 4, 0], [5, 0, 0, 4], [4, 0, 0, 1], [0, 4, 1, 0]])
    assert pair_up(weight.astype(float)).tolist() == [2, 3, 0, 1]
