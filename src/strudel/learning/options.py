"""Small objects that hold options: what searches, training methods and estimators share.

In:  options by name.
Out: objects with scikit-learn's `get_params` and `set_params`, checked when they are used.

Options live where they mean something: those of one search in its object, for example
``LearnPSDD(copies="minimal")``. A name stands for an object with its defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

from strudel._names import close_names, did_you_mean
from strudel.data.argument_checks import shown


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
            held = getattr(self, name)
            if not inner:
                setattr(self, name, value)
            elif isinstance(held, Options):
                held.set_params(**{inner: value})
            else:
                raise ValueError(
                    f"{key} cannot be set, because {name} is {held!r}: give an object as {name}."
                )
        return self

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""


Kind = TypeVar("Kind", bound=Options)


def named_options(name: str, value: Any, kinds: Mapping[str, type[Kind]]) -> Kind:
    """The object that an option stands for: itself, or the defaults that a name stands for."""
    if isinstance(value, str) and value in kinds:
        value = kinds[value]()
    if not isinstance(value, tuple(kinds.values())):
        classes = ", ".join(kind.__name__ for kind in kinds.values())
        close = close_names(value, kinds)
        hint = f" {did_you_mean(value, kinds)}" if close else ""
        raise ValueError(
            f"{name} must be one of {', '.join(kinds)}, or an object of one of {classes}, but is "
            f"{shown(value)}.{hint}"
        )
    found: Kind = value  # type: ignore[assignment]
    found.check()
    return found
