"""Checks of arguments and options: one of several names, a whole number, a finite number.

In:  the name of an argument and its value.
Out: nothing, or a `ValueError` that says what the argument may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Refuse a value that is not one of the allowed names.

    Examples
    --------
    >>> check_choice("detail", "full", ("nodes", "map"))
    Traceback (most recent call last):
    ...
    ValueError: detail must be one of nodes, map, but is 'full'.
    """
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, but is {value!r}.")


def check_count(
    name: str,
    value: Any,
    lowest: int = 1,
    highest: int | None = None,
    *,
    may_be_none: bool = False,
    may_be_auto: bool = False,
) -> None:
    """Refuse a value that is not a whole number, or is too small or too large.

    Examples
    --------
    >>> check_count("n_splits", 1.5, 0, may_be_auto=True)
    Traceback (most recent call last):
    ...
    ValueError: n_splits must be a whole number of at least 0, or 'auto', but is 1.5.
    """
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    is_right = is_count and lowest <= value and (highest is None or value <= highest)
    most = "" if highest is None else f" and at most {highest}"
    words = f"a whole number of at least {lowest}{most}"
    _check(name, value, is_right, words, may_be_none, may_be_auto)


def check_size(
    name: str,
    value: Any,
    *,
    may_be_zero: bool = True,
    may_be_none: bool = False,
    may_be_auto: bool = False,
) -> None:
    """Refuse a value that is not a finite number of at least 0, or above 0.

    Examples
    --------
    >>> check_size("alpha", 0.0, may_be_zero=False)
    Traceback (most recent call last):
    ...
    ValueError: alpha must be a positive number, but is 0.0.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    is_right = is_number and 0 <= value < float("inf") and (may_be_zero or value > 0)
    words = "a finite number of at least 0" if may_be_zero else "a positive number"
    _check(name, value, is_right, words, may_be_none, may_be_auto)


def _check(
    name: str, value: Any, is_right: bool, words: str, may_be_none: bool, may_be_auto: bool
) -> None:
    is_none = may_be_none and value is None
    is_auto = may_be_auto and isinstance(value, str) and value == "auto"
    if not (is_right or is_none or is_auto):
        words += (", or 'auto'" if may_be_auto else "") + (", or None" if may_be_none else "")
        raise ValueError(f"{name} must be {words}, but is {value!r}.")
