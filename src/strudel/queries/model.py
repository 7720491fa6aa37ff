"""What a query accepts as a model: a circuit, a mixture, or anything fitted that holds one."""

from __future__ import annotations

from typing import Any

from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.mixture import Model as Model
from strudel.circuits.mixture import log_weights_of as log_weights_of
from strudel.circuits.mixture import part_of as part_of
from strudel.circuits.mixture import structure_of as structure_of


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
