"""What a query accepts as a model: a circuit, a mixture, or anything fitted that holds one."""

from __future__ import annotations

from typing import Any, TypeAlias

from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture

Model: TypeAlias = Circuit | Mixture


def model_of(model: Any) -> Model:
    """The circuit or the mixture of a model.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> model_of(figure_1_circuit())
    Circuit(n_vars=4, n_nodes=17, n_edges=16)
    """
    held = [model, *(getattr(model, name, None) for name in ("circuit_", "mixture_", "model_"))]
    for found in held:
        if isinstance(found, Circuit | Mixture):
            return found
    if hasattr(model, "fit"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit first.")
    raise TypeError(
        f"A model is a Circuit, a Mixture or a fitted estimator, but got {type(model).__name__}."
    )


def circuit_of(model: Any) -> Circuit:
    """The circuit of a model that is one circuit.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit_of(figure_1_circuit())
    Circuit(n_vars=4, n_nodes=17, n_edges=16)
    """
    found = model_of(model)
    if isinstance(found, Mixture):
        raise TypeError(
            "This needs a single circuit, but the model is a mixture of "
            f"{found.n_components} components. Take one with component(c), or all as one circuit "
            "with to_circuit()."
        )
    return found


def structure_of(model: Model) -> Circuit:
    """The circuit itself, or the structure that all components share."""
    return model.structure if isinstance(model, Mixture) else model


def structures_of(model: Model) -> list[Circuit]:
    """The circuit itself, or all structures that components have."""
    return [part.structure for part in model.parts()] if isinstance(model, Mixture) else [model]
