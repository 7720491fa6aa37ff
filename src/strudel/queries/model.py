"""What a query accepts as a model: a circuit, or anything fitted that holds one."""

from __future__ import annotations

from typing import Any

from strudel.circuits.circuit import Circuit


def circuit_of(model: Any) -> Circuit:
    """The circuit of a model.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> circuit_of(figure_1_circuit())
    Circuit(n_vars=4, n_nodes=17, n_edges=16)
    """
    if isinstance(model, Circuit):
        return model
    circuit = getattr(model, "circuit_", None)
    if isinstance(circuit, Circuit):
        return circuit
    if hasattr(model, "fit"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit first.")
    raise TypeError(f"A model is a Circuit or a fitted estimator, but got {type(model).__name__}.")
