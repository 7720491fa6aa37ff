"""What a query accepts as a model: a circuit, a mixture, or anything fitted that holds one."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, are_moderate

Model: TypeAlias = Circuit | Mixture


def model_of(model: Any) -> Model:
    """The circuit or the mixture of a model; of a classifier, that of inputs and class."""
    if hasattr(model, "joint_mixture") and hasattr(model, "classes_"):
        found: Model = model.joint_mixture()
        return found
    for one in (model, getattr(model, "circuit_", None)):
        if isinstance(one, Circuit | Mixture):
            return one
    if hasattr(model, "fit"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit first.")
    raise TypeError(
        f"A model is a Circuit, a Mixture or a fitted estimator, but got {type(model).__name__}."
    )


def structure_of(model: Model) -> Circuit:
    """The circuit itself, or the structure that all components share."""
    return model.structure if isinstance(model, Mixture) else model


class Part(NamedTuple):
    """The components of a model, on one structure."""

    structure: Circuit
    edge_log_theta: FloatArray  # (n_edges, n_components)
    theta: FloatArray  # for passes: (1, n_edges) of a circuit, else `Mixture.theta_lanes`
    is_moderate: AnyArray  # (n_components,) whether passes lose no digits of the parameters

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.edge_log_theta.shape[1]


def part_of(model: Model) -> Part:
    """The components of a model; a circuit is a single one."""
    if isinstance(model, Mixture):
        return Part(model.structure, model.edge_log_theta, model.theta_lanes, model.is_moderate)
    column = model.edge_log_theta[:, np.newaxis]
    with np.errstate(over="ignore"):  # such circuits are evaluated in logs
        return Part(model, column, model.theta[np.newaxis], are_moderate(column))


def log_weights_of(model: Model) -> FloatArray:
    """The logs of the components' weights; a circuit has weight 1."""
    return model.log_weight if isinstance(model, Mixture) else np.zeros(1)
