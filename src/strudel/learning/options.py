"""Small objects that hold options: what searches, training methods and estimators share.

In:  options by name.
Out: objects with scikit-learn's `get_params` and `set_params`, checked when they are used.

Options live where they mean something: those of one search in its object, for example
``LearnPSDD(copies="minimal")``. A name stands for an object with its defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Self, TypeVar

from strudel.data.names import did_you_mean


@dataclass(kw_only=True)
class Options:
    """Options as attributes. `GridSearchCV` reaches them as ``search__copies``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name; with `deep` those of objects inside also."""
        params: dict[str, Any] = {}
        for field in fields(self):
            value = params[field.name] = getattr(self, field.name)
            if deep and isinstance(value, Options):
                params |= {f"{field.name}__{key}": one for key, one in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set options by name; ``learnpsdd__copies`` sets one of an object inside."""
        for key, value in params.items():
            name, _, inner = key.partition("__")
            known = [field.name for field in fields(self)]
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no option {name!r}. {did_you_mean(name, known)}"
                )
            if inner:
                getattr(self, name).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""


Kind = TypeVar("Kind", bound=Options)


def named_options(name: str, value: Any, kinds: Mapping[str, type[Kind]]) -> Kind:
    """The object that an option stands for: itself, or the defaults that a name stands for.

    Examples
    --------
    >>> from strudel.learning.searches import SEARCHES
    >>> named_options("search", "best_first", SEARCHES)
    BestFirst(sampled_rows=None, structure_rows=None, clones=True)
    """
    if isinstance(value, str) and value in kinds:
        value = kinds[value]()
    if not isinstance(value, tuple(kinds.values())):
        classes = ", ".join(kind.__name__ for kind in kinds.values())
        raise ValueError(
            f"{name} must be one of {', '.join(kinds)}, or an object of one of {classes}, but is "
            f"{value!r}."
        )
    found: Kind = value  # type: ignore[assignment]
    found.check()
    return found


def check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Refuse what is not one of some names."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, but is {value!r}.")


def check_count(name: str, value: Any, lowest: int = 1, may_be_none: bool = False) -> None:
    """Refuse what is not a whole number, or too small."""
    _check_number(name, value, lowest, may_be_none, Integral, "a whole number")


def check_size(name: str, value: Any, may_be_none: bool = False) -> None:
    """Refuse what is not a finite number of at least 0."""
    _check_number(name, value, 0, may_be_none, Real, "a finite number")


def _check_number(
    name: str, value: Any, lowest: int, may_be_none: bool, kind: type, words: str
) -> None:
    if value is None and may_be_none:
        return
    if not isinstance(value, kind) or not lowest <= value < float("inf"):  # type: ignore[operator]
        raise ValueError(f"{name} must be {words} of at least {lowest}, but is {value!r}.")
