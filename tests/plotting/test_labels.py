"""Facts about names in pictures: short, different, and where they hide nothing."""

import itertools

import numpy as np
import pytest

from strudel.plotting.canvas import every_few, place_labels, short_label, short_labels


def test_steps_of_labels_are_round_and_leave_room():
    assert [every_few(n, 400.0, 9.0) for n in (10, 44, 45, 100, 1000)] == [1, 1, 2, 5, 50]


def test_long_names_lose_their_middle():
    assert short_label("abcdefgh" * 5) == "abcdefgh…" + ("abcdefgh" * 5)[-15:]
    assert short_label("$1") == r"\$1"


@pytest.mark.parametrize("longest", [12, 16, 24])
def test_different_names_stay_different(longest):
    dates = [f"last visit of the patient>={year}-01-15" for year in range(2015, 2022)]
    middle = [f"north-western {word} and coast of the county" for word in ("high", "low", "wet")]
    numbers = [f"{'a' * 30}{n}{'b' * 30}" for n in range(12)]
    short = short_labels([*dates, *middle, *numbers, "age", "age"], longest)
    assert all(len(label) <= longest for label in short)
    assert len(set(short)) == len(dates) + len(middle) + len(numbers) + 1


def test_labels_hide_neither_dots_nor_each_other():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 100, (2, 40))
    radius, wide, high = np.full(40, 1.0), rng.uniform(5, 20, 40), 5.0
    found = place_labels(x, y, radius, wide, high, np.arange(40))
    assert 5 < len(found) < 40
    assert 0 in found  # the first has a place
    boxes = [(x[i] + dx, y[i] + dy, wide[i], high) for i, (dx, dy) in found.items()]
    boxes += [(x[i], y[i], 2.0, 2.0) for i in range(40)]
    for (ax, ay, aw, ah), (bx, by, bw, bh) in itertools.product(boxes[: len(found)], boxes):
        is_same = (ax, ay) == (bx, by)
        assert is_same or 2 * abs(ax - bx) >= aw + bw - 1e-6 or 2 * abs(ay - by) >= ah + bh - 1e-6
