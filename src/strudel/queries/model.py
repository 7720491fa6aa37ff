"""What a query accepts as a model: a circuit, a mixture, or anything fitted that holds one."""

from __future__ import annotations

from typing import Any

from strudel.circuits.circuit import Circuit
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.fold import unfold
from strudel.learning.bits.mixture import BitMixture
from strudel.learning.bits.mixture import Model as Model
from strudel.learning.bits.mixture import log_weights_of as log_weights_of
from strudel.learning.bits.mixture import part_of as part_of
from strudel.learning.bits.mixture import structure_of as structure_of
from strudel.tables.learn_code import code_of_columns


def model_of(model: Any) -> Model:
    """The circuit or mixture over bits of a model, for questions that still ask them."""
    for one in (model, getattr(model, "circuit_", None)):
        if isinstance(one, BitCircuit | BitMixture):
            return one
        if isinstance(one, Circuit):
            return _unfolded(one)
    if hasattr(model, "fit"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit first.")
    raise TypeError(
        f"A model is a Circuit, a Mixture or a fitted estimator, but got {type(model).__name__}."
    )


def _unfolded(circuit: Circuit) -> Model:
    if "_unfolded" not in circuit.__dict__:
        code = None if circuit.columns.are_bits else code_of_columns(circuit.columns)
        mixture = unfold(circuit, code)
        found = mixture.structure if circuit.n_components == 1 else mixture
        if code is None:
            found = found.with_names(circuit.columns.names)
        else:
            found = found.with_table_code(code)
        circuit.__dict__["_unfolded"] = found
    made: Model = circuit.__dict__["_unfolded"]
    return made
