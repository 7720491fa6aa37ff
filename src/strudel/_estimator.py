"""Estimators of scikit-learn, without loading it: that takes longer than all the rest of an import.

In:  a class whose constructor takes options, and keeps them under their names.
Out: `Options`, with `get_params` and `set_params`; `Estimator`, with all else that pipelines,
     searches and notebooks ask for; `Transformer`, with tables of the kind that is asked for.

Where it matters what scikit-learn's own classes do, an estimator is seen as if it inherited from
them. Only then are they loaded, and mostly by those who ask.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from strudel._display import plotting
from strudel._names import did_you_mean
from strudel._types import AnyArray
from strudel.data.lazy import is_lazy

F = TypeVar("F", bound=Callable[..., Any])


class Options:
    """Options as attributes. `GridSearchCV` reaches one of an object inside by two underscores."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """What the constructor takes."""
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name; with `deep` those of objects inside also."""
        params: dict[str, Any] = {}
        for name in self._get_param_names():
            value = params[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{key}": inner for key, inner in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set options by name; ``search__copies`` sets one of an object inside."""
        known = self._get_param_names()
        for key in sorted(params, key=lambda key: "__" in key):  # objects before what is in them
            name, _, inner = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no option {name!r}. {did_you_mean(name, known)}"
                )
            held = getattr(self, name)
            if not inner:
                setattr(self, name, params[key])
            elif hasattr(held, "set_params"):
                held.set_params(**{inner: params[key]})
            else:
                raise ValueError(
                    f"{key} cannot be set, because {name} is {held!r}: give an object as {name}."
                )
        return self


class Estimator(Options):
    """Options, and what is learned by `fit`, in attributes that end with an underscore."""

    SKLEARN: ClassVar[tuple[str, ...]] = ()  # the classes of scikit-learn that say what it is

    def _in_sklearn(self) -> Any:
        """What `super()` would be, if this inherited from classes of scikit-learn."""
        kind: Any = type(self)
        seen: Any = object.__new__(_class_in_sklearn(kind))
        seen.__dict__ = self.__dict__
        return super(Estimator, seen)

    def __getattr__(self, name: str) -> Any:
        """What scikit-learn asks of its own estimators, such as how metadata is routed."""
        if "sklearn" in sys.modules and not name.endswith("_"):
            own: Any = type(self)
            for kind in _class_in_sklearn(own).__mro__:
                if name in vars(kind):
                    value = vars(kind)[name]
                    return value.__get__(self, own) if hasattr(value, "__get__") else value
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name)

    def __repr__(self) -> str:
        return str(self._in_sklearn().__repr__())

    def __sklearn_tags__(self) -> Any:
        return self._in_sklearn().__sklearn_tags__()

    def __sklearn_clone__(self) -> Self:
        made = type(self)(
            **{name: clone(value) for name, value in self.get_params(deep=False).items()}
        )
        for name in ("_sklearn_output_config", "_metadata_request"):
            if name in vars(self):
                setattr(made, name, copy.deepcopy(vars(self)[name]))
        return made

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram = self._in_sklearn()._repr_html_  # there is none if it is set to show text
        return lambda: diagram() + self._summary()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = self._in_sklearn()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._summary()
        return bundle

    def _summary(self) -> str:
        """Sizes, a drawing and the learning curve, below scikit-learn's diagram."""
        return str(plotting("notebook").summary_of(self))


class Classifier(Estimator):
    """An estimator with `predict` for classes."""

    SKLEARN = ("ClassifierMixin",)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy: the share of rows whose most probable class is the true one.

        For lazy rows, only the classes are loaded.
        """
        from sklearn.metrics import accuracy_score

        fitted: Any = self
        y, predicted = np.asarray(y), np.asarray(fitted.predict(X))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))


class Regressor(Estimator):
    """An estimator with `predict` for numbers."""

    SKLEARN = ("RegressorMixin",)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination: the predicted share of the target's variance."""
        from sklearn.metrics import r2_score

        fitted: Any = self
        y, predicted = np.asarray(y), np.asarray(fitted.predict(X))
        return float(r2_score(y, predicted, sample_weight=sample_weight))


class Transformer(Estimator):
    """An estimator with `transform`."""

    SKLEARN = ("OneToOneFeatureMixin", "TransformerMixin")

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Learn from a table, and transform it."""
        fitted: Any = self
        return fitted.fit(X, y, **options).transform(X)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Of which kind tables are: "default", "pandas" or "polars"."""
        self._in_sklearn().set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """The names of the columns after `transform`."""
        names: AnyArray = self._in_sklearn().get_feature_names_out(input_features)
        return names


def as_set(transform: F) -> F:
    """The method `transform`, whose tables are as `set_output` says, unless they are lazy."""

    @functools.cache
    def wrapped() -> Any:
        from sklearn.base import TransformerMixin  # which wraps the methods of its classes

        wrapper: Any = type("Wrapper", (TransformerMixin,), {"transform": transform})
        return wrapper.transform

    @functools.wraps(transform)
    def call(self: Any, X: Any) -> Any:
        is_plain = is_lazy(X) or "sklearn" not in sys.modules  # then nobody can have said anything
        return (transform if is_plain else wrapped())(self, X)

    return call  # type: ignore[return-value]


def clone(value: Any) -> Any:
    """A copy of an option; of an estimator, one with the same options that is not fitted."""
    if hasattr(value, "__sklearn_clone__") and not isinstance(value, type):
        return value.__sklearn_clone__()
    return copy.deepcopy(value)


def not_fitted(model: Any) -> ValueError:
    """The error of scikit-learn for an estimator that is asked before it is fitted."""
    from sklearn.exceptions import NotFittedError

    error: ValueError = NotFittedError(
        f"This {type(model).__name__} is not fitted yet: call fit first."
    )
    return error


@functools.cache
def _class_in_sklearn(kind: Any) -> Any:
    """The class as if it inherited from classes of scikit-learn."""
    from sklearn import base

    mixins = [getattr(base, name) for name in (*kind.SKLEARN, "BaseEstimator")]
    return type(kind.__name__, (kind, *mixins), {"__module__": kind.__module__})
