"""The names of variables, and what to say about names that are not there.

In:  names as a model has them, and one that a person gave.
Out: the number of a variable; or a sentence with the names that were probably meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


def names_of(n_vars: int, feature_names: Sequence[str] | None) -> tuple[str, ...]:
    """The feature names, or x0, x1, ... where there are none."""
    if feature_names is None:
        return tuple(f"x{var}" for var in range(n_vars))
    if len(feature_names) != n_vars:
        raise ValueError(f"There are {len(feature_names)} feature names for {n_vars} variables.")
    return feature_names if isinstance(feature_names, tuple) else tuple(feature_names)


def places_of(names: Sequence[str]) -> dict[str, int]:
    """The number of every name."""
    place = {name: var for var, name in enumerate(names)}
    if len(place) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"Events name variables, but several are called {twice!r}.")
    return place


def find_name(key: Any, place: Mapping[str, int], who: str) -> int:
    """The number of the variable with this name or number."""
    if isinstance(key, str):
        if key in place:
            return place[key]
        raise ValueError(
            f"{who} names {key!r}, which is not a variable. {did_you_mean(key, place)}"
        )
    is_number = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if is_number and 0 <= key < len(place):
        return int(key)
    raise ValueError(
        f"{who} must name variables or number them from 0 to {len(place) - 1}, but has {key!r}."
    )


def did_you_mean(name: Any, names: Iterable[str]) -> str:
    """A sentence with the names that are close to a wrong one, or else with some that are known."""
    close = close_names(name, names)
    return f"Did you mean {quote(close)}?" if close else f"Choose from {quote(list(names))}."


def close_names(name: Any, names: Iterable[str], at_most: int = 3) -> list[str]:
    """The names that are spelled much like this one, or begin with it, whatever their case."""
    spelling = {known.lower(): known for known in names}
    text = str(name).lower()
    close = difflib.get_close_matches(text, spelling, n=at_most)
    if not close and text:
        close = [known for known in spelling if known.startswith(text)][:at_most]
    return [spelling[known] for known in close]


def quote(names: Sequence[str], at_most: int = 5) -> str:
    """Names for an error: in quotes, and counted where there are many."""
    listed = ", ".join(repr(name) for name in names[:at_most])
    return listed if len(names) <= at_most else f"{listed} and {len(names) - at_most} more"
