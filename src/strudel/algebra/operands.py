"""What the algebra takes: models that share a vtree, in normal form.

In:  circuits or fitted estimators.
Out: circuits, or an error that says what they lack.
"""

from __future__ import annotations

from typing import Any

from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import check_in_normal_form, why_not_deterministic
from strudel.errors import CircuitPropertyError
from strudel.queries.model import circuit_of


def one_circuit(p: Any, query: str) -> Circuit:
    """The circuit of a model, in normal form."""
    circuit = circuit_of(p)
    if not circuit.is_in_normal_form:
        check_in_normal_form(circuit, query)
    return circuit


def two_circuits(p: Any, q: Any, query: str) -> tuple[Circuit, Circuit]:
    """The circuits of two models, in normal form on one vtree, with the names of either."""
    first, second = one_circuit(p, query), one_circuit(q, query)
    if first.n_vars != second.n_vars:
        raise ValueError(
            f"{query} needs two circuits over the same variables, but p has {first.n_vars} and "
            f"q has {second.n_vars}. Sum out the others with marginalize."
        )
    mine, theirs = first.feature_names, second.feature_names
    if mine is not None and theirs is not None and mine != theirs:
        var = next(var for var in range(len(mine)) if mine[var] != theirs[var])
        raise ValueError(
            f"{query} needs two circuits over the same variables, but variable {var} is "
            f"{mine[var]!r} in p and {theirs[var]!r} in q."
        )
    if first.vtree is not second.vtree and first.vtree != second.vtree:
        raise ValueError(
            f"{query} needs two circuits on one vtree, but those of p and q differ. Circuits share "
            "one when they are learned from the same rows, compiled for the same vtree, or made "
            "from one another."
        )
    if mine is None and theirs is not None:
        first = first.with_names(theirs)
    return first, second


def need_deterministic(circuit: Circuit, what: str, hint: str = "") -> None:
    """Raise `CircuitPropertyError` if `what` is done to a circuit that is not deterministic."""
    if not circuit.is_deterministic:
        reason = why_not_deterministic(circuit)
        raise CircuitPropertyError(
            f"{what}, which needs a deterministic circuit, but {reason}.{hint}"
        )
