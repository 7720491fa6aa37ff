"""The trees of scikit-learn's models, as arrays.

In:  a fitted decision tree, forest or gradient boosting.
Out: `FittedTree`s, whose values add up to the output of the model.

Nothing is imported from scikit-learn: models are recognised by the names of their classes. The
trees of gradient boosting on histograms are in a private attribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray

_TREE = frozenset({"DecisionTreeRegressor", "DecisionTreeClassifier"})
_FOREST = frozenset(
    {
        "RandomForestRegressor",
        "RandomForestClassifier",
        "ExtraTreesRegressor",
        "ExtraTreesClassifier",
    }
)
_ONE_BY_ONE = frozenset({"GradientBoostingRegressor", "GradientBoostingClassifier"})
_HISTOGRAMS = frozenset({"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"})
BOOSTING = _ONE_BY_ONE | _HISTOGRAMS
WITH_TREES = _TREE | _FOREST | BOOSTING


class FittedTree(NamedTuple):
    """A tree as arrays: a row goes left where its feature is at most the threshold.

    A feature of categories goes left where its bit is set, and NaN where the node says so.
    """

    left: AnyArray  # NONE at a leaf
    right: AnyArray
    feature: AnyArray
    threshold: AnyArray
    value: FloatArray  # (n_nodes, n_outputs)
    categories: dict[int, AnyArray]  # node -> 256 booleans, of a test of categories
    nan_left: AnyArray  # where NaN goes left, and a category that the tree does not know


def kinds_of(predictor: Any) -> set[str]:
    """The names of the scikit-learn classes that something is of."""
    classes = type(predictor).__mro__
    return {kind.__name__ for kind in classes if kind.__module__.split(".")[0] == "sklearn"}


def fitted_trees(model: Any, classes: AnyArray | None) -> Iterator[FittedTree]:
    """The trees, their values weighted so that they add up to the model's output."""
    kinds = kinds_of(model)
    if kinds & _HISTOGRAMS:
        yield from _histogram_trees(model)
        return
    if kinds & _ONE_BY_ONE:
        n_outputs = model.estimators_.shape[1]
        for stage in model.estimators_:
            for column, one in enumerate(stage):
                weight = np.zeros((1, n_outputs))
                weight[0, column] = model.learning_rate * scale_of(model)
                yield _tree(one.tree_, one.tree_.value[:, :, 0] * weight)
        return
    trees = [model] if kinds & _TREE else model.estimators_
    for one in trees:
        value = one.tree_.value
        if classes is None:
            value = value[:, :, 0]
        else:
            value = value[:, 0] / value[:, 0].sum(axis=1, keepdims=True)
        yield _tree(one.tree_, value / len(trees))


def compares_in_single(model: Any) -> bool:
    """Whether the trees of a model round features to 32 bits; those on histograms do not."""
    return not kinds_of(model) & _HISTOGRAMS


def scale_of(model: Any) -> float:
    """How many times its decision function the log-odds of a boosted model are."""
    return 2.0 if getattr(model, "loss", None) == "exponential" else 1.0


def _tree(tree: Any, value: FloatArray) -> FittedTree:
    return FittedTree(
        tree.children_left,
        tree.children_right,
        tree.feature,
        tree.threshold,
        value,
        {},
        tree.missing_go_to_left.astype(bool),
    )


def _histogram_trees(model: Any) -> Iterator[FittedTree]:
    """The same for gradient boosting on histograms, whose trees have no public name."""
    if getattr(model, "loss", None) in ("poisson", "gamma"):
        raise ValueError(
            f"This {type(model).__name__} with loss={model.loss!r} predicts the exponential of a "
            "sum of trees, whose expectation is not exact. Use loss='squared_error'."
        )
    try:
        for stage in model._predictors:
            for column, one in enumerate(stage):
                nodes = one.nodes
                value = np.zeros((len(nodes), len(stage)))
                value[:, column] = nodes["value"]
                is_leaf = nodes["is_leaf"].astype(bool)
                bits = np.unpackbits(
                    np.ascontiguousarray(one.raw_left_cat_bitsets).astype("<u4").view(np.uint8),
                    axis=1,
                    bitorder="little",
                ).astype(bool)
                asks = np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf)
                yield FittedTree(
                    np.where(is_leaf, NONE, nodes["left"].astype(np.int64)),
                    np.where(is_leaf, NONE, nodes["right"].astype(np.int64)),
                    nodes["feature_idx"],
                    nodes["num_threshold"],
                    value,
                    {int(node): bits[nodes["bitset_idx"][node]] for node in asks},
                    nodes["missing_go_to_left"].astype(bool),
                )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"The trees of this {type(model).__name__} cannot be read with this version of "
            "scikit-learn. Use GradientBoostingRegressor or GradientBoostingClassifier."
        ) from error
