"""x ln x of numbers and arrays, and from a table."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from strudel.data.x_log_x import LARGEST_TABLE, x_log_x, x_log_x_in, x_log_x_of, x_log_x_table


@pytest.mark.parametrize("x", [0.25, 1.0, 7.0, 1e6])
def test_numbers_and_arrays_agree_with_the_formula(x):
    assert x_log_x(x) == pytest.approx(x * log(x))
    assert x_log_x_of(np.array([x]))[0] == pytest.approx(x * log(x))


@pytest.mark.parametrize("x", [0.0, -1e-12])
def test_it_is_zero_where_x_is_not_positive(x):
    assert x_log_x(x) == 0.0
    assert x_log_x_of(np.array([x]))[0] == 0.0
    assert x_log_x_in(np.zeros(0), x) == 0.0


def test_a_table_of_whole_weights_says_the_same_to_the_last_digit():
    table = x_log_x_table(np.array([3.0, 40.0, 7.0]))
    assert len(table) == 51
    assert [x_log_x_in(table, float(x)) for x in range(51)] == [
        x_log_x(float(x)) for x in range(51)
    ]


def test_other_weights_have_no_table():
    table = x_log_x_table(np.array([0.5, 2.0]))
    assert len(table) == 0
    assert len(x_log_x_table(np.array([float(LARGEST_TABLE)]))) == 0
    assert x_log_x_in(table, 2.5) == x_log_x(2.5)
