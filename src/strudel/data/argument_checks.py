"""Checks of arguments and options: one of several names, a whole number, a finite number, a seed.

In:  the name of an argument and its value.
Out: nothing, or a `ValueError` that says in one sentence what the argument may be; of a
     `random_state` the numpy Generator.

`check_common_options` checks what all estimators have; each checks the rest on its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np

from strudel._memory import total_memory
from strudel.errors import in_the_middle

LARGEST_SEED = 2**32 - 1  # that scikit-learn takes


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Refuse a value that is not one of the allowed names."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, but is {shown(value)}.")


def check_count(
    name: str,
    value: Any,
    lowest: int = 1,
    highest: int | None = None,
    *,
    may_be_none: bool = False,
    may_be_auto: bool = False,
) -> None:
    """Refuse a value that is not a whole number, or is too small or too large."""
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
    """Refuse a value that is not a finite number of at least 0, or above 0."""
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
        raise ValueError(f"{name} must be {words}, but is {shown(value)}.")


def shown(value: Any) -> str:
    """A value as it may stand in a sentence, whatever it is."""
    return in_the_middle(repr(value), 60)


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    _check(name, value, isinstance(value, bool | np.bool_), "True or False", False, False)


def check_jobs(name: str, value: Any) -> None:
    """Refuse what is no number of threads; a negative one stands for all."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    _check(name, value, is_whole, "a whole number", True, False)


def check_level(name: str, value: Any) -> None:
    """Refuse what does not say how much to print."""
    is_level = isinstance(value, Integral | np.bool_) and int(value) >= 0
    _check(name, value, is_level, "True, False, a whole number of at least 0", False, True)


def check_seed(name: str, value: Any, *, may_be_generator: bool = False) -> None:
    """Refuse what random numbers cannot come from.

    Examples
    --------
    >>> check_seed("random_state", "7")
    Traceback (most recent call last):
    ...
    ValueError: random_state must be a whole number from 0 to 4294967295, a RandomState, or ...
    """
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    most = np.inf if may_be_generator else LARGEST_SEED
    kinds = (np.random.RandomState, np.random.Generator) if may_be_generator else ()
    is_right = (
        value is np.random  # as scikit-learn has it
        or (is_count and 0 <= value <= most)
        or isinstance(value, (np.random.RandomState, *kinds))
    )
    words = "of at least 0, a Generator" if may_be_generator else f"from 0 to {LARGEST_SEED}"
    _check(name, value, is_right, f"a whole number {words}, a RandomState", True, False)


BYTES_OF_A_SPLIT = 64  # at least an edge, while the circuit grows


def check_fits(name: str, value: int, bytes_each: int) -> None:
    """Refuse a number of things that more than half of the memory could not hold.

    Examples
    --------
    >>> check_fits("n_components", 10**15, 1000)
    Traceback (most recent call last):
    ...
    ValueError: n_components=1000000000000000 needs at least 909,495 TiB of memory, but ...
    """
    if value * bytes_each > total_memory() // 2:
        raise ValueError(
            f"{name}={value} needs at least {_words(value * bytes_each)} of memory, but this "
            f"machine has {_words(total_memory())}. Give less."
        )


def _words(n_bytes: int) -> str:
    gib = n_bytes / 2**30
    return f"{gib:.1f} GiB" if gib < 1024 else f"{gib / 1024:,.0f} TiB"


COMMON: dict[str, Callable[[str, Any], None]] = {
    "n_jobs": check_jobs,
    "random_state": check_seed,
    "verbose": check_level,
    "warm_start": check_flag,
}


def check_common_options(estimator: Any) -> None:
    """Refuse wrong values of the options that all estimators share, and arrays as options."""
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, np.ndarray) and name != "constraint":  # which may be a row
            raise ValueError(f"{name} must not be an array, but is {shown(value)}.")
    for name, check in COMMON.items():
        if hasattr(estimator, name):
            check(name, getattr(estimator, name))


RandomState: TypeAlias = np.random.Generator | np.random.RandomState | int | None


def generator_from(random_state: RandomState) -> np.random.Generator:
    """The generator itself, or one from a seed, a `RandomState` or, for None, anywhere."""
    check_seed("random_state", random_state, may_be_generator=True)
    if isinstance(random_state, np.random.RandomState):
        # As `default_rng` does from NumPy 2.2 on: its numbers go on, so the next draws differ.
        return np.random.Generator(random_state._bit_generator)
    return np.random.default_rng(random_state)


def random_state_from(random_state: Any) -> np.random.RandomState:
    """The `RandomState` itself, or one from a seed, or NumPy's own for None, as in scikit-learn."""
    check_seed("random_state", random_state)
    if random_state is None or random_state is np.random:
        return np.random.mtrand._rand
    if isinstance(random_state, np.random.RandomState):
        return random_state
    return np.random.RandomState(random_state)


def seed_from(random_state: Any) -> int:
    """A seed, drawn from a `random_state`."""
    return int(random_state_from(random_state).randint(2**31))


def check_limits(max_seconds: float | None, max_nodes: int | None) -> tuple[float, float]:
    """The limits of a search; infinite for None."""
    limits = []
    for name, limit in (("max_seconds", max_seconds), ("max_nodes", max_nodes)):
        if limit is not None and not limit >= 0:
            raise ValueError(f"{name} must be zero or more, or None, but is {limit!r}.")
        limits.append(math.inf if limit is None else limit)
    return limits[0], limits[1]
