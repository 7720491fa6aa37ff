"""What arguments may be, and what is said of others."""

import numpy as np
import pytest

from strudel.data.argument_checks import check_choice, check_count, check_size


@pytest.mark.parametrize("value", [1, 7, np.int64(3)])
def test_whole_numbers_in_range_are_counts(value):
    check_count("n", value, 1, 7)


@pytest.mark.parametrize("value", [0, 8, 1.0, True, "3", None, "auto", np.array([1, 2])])
def test_all_else_is_no_count(value):
    with pytest.raises(ValueError, match="n must be a whole number of at least 1 and at most 7, "):
        check_count("n", value, 1, 7)


@pytest.mark.parametrize("value", [0, 0.5, np.float32(2.0)])
def test_finite_numbers_are_sizes(value):
    check_size("alpha", value)


@pytest.mark.parametrize("value", [-0.1, np.inf, np.nan, False, "0.5", None])
def test_all_else_is_no_size(value):
    with pytest.raises(ValueError, match="alpha must be a finite number of at least 0, but is"):
        check_size("alpha", value)


def test_none_and_auto_are_allowed_where_said():
    for check in (check_count, check_size):
        check("n", None, may_be_none=True)
        check("n", "auto", may_be_auto=True)
        with pytest.raises(ValueError, match=r"[01], or 'auto', or None, but is 'none'"):
            check("n", "none", may_be_none=True, may_be_auto=True)


def test_a_choice_is_one_of_the_names():
    check_choice("kind", "a", ("a", "b"))
    for value in ("c", 1, None, ["a"]):
        with pytest.raises(ValueError, match="kind must be one of a, b, but is"):
            check_choice("kind", value, ("a", "b"))
