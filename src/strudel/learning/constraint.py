"""Where learning under a constraint starts, and what it refuses to learn from.

In:  an event, a circuit to start from, and the rows to learn from.
Out: the circuit without the rows that violate the event; an error that names the first row of the
     table that does.

The event is compiled on the vtree of the first circuit that the search would start from without it,
and the two are multiplied. So what the event leaves open, variables it does not mention above all,
depends on one another as the Chow-Liu tree says (`init="chow_liu"`) or not at all ("independent",
where the product is the event's SDD itself). The product has at most about twice as many edges as
the SDD, since a compiled Chow-Liu tree has at most two nodes at a vtree node. Splits only condition
and copy: they never make a row possible.

A search that continues from a learned circuit multiplies that one by the event instead, unless it
was learned under the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from strudel._names import names_of
from strudel._types import AnyArray, ByteArray
from strudel.algebra.products import multiply
from strudel.circuits.circuit import Circuit
from strudel.data.bits import pack_columns
from strudel.learning.search.learn_structure import impossible_rows
from strudel.logic.event_compiler import compile_event, event_circuit
from strudel.queries.passes import UNKNOWN, decode
from strudel.queries.probabilities import log_probabilities
from strudel.trees.vtree import Vtree

SHOWN = 8  # values of a violating row that an error quotes


def check_vtree(vtree: Any, constraint: Any) -> None:
    """Refuse to choose among several vtrees under a constraint: the first circuit has one."""
    if constraint is not None and isinstance(vtree, str) and vtree == "auto":
        raise ValueError(
            "vtree='auto' compares several first circuits, but under a constraint there is one: "
            "name a vtree."
        )


def constraint_circuit(constraint: Any, vtree: Vtree, names: Sequence[str] | None) -> Circuit:
    """The rows that satisfy the constraint."""
    event = event_circuit(compile_event(constraint, vtree, names))
    if event is None:
        raise ValueError("No row satisfies the constraint, so there is nothing to learn.")
    return event


def restrict(circuit: Circuit, allowed: Circuit) -> Circuit:
    """The rows of a circuit that another one allows; parameters do not matter."""
    all_rows = circuit.with_parameters(np.zeros(circuit.n_edges))  # excludes nothing
    both = multiply(all_rows, allowed, normalize=True)
    assert isinstance(both, Circuit)  # of two circuits
    return both


def check_satisfied(
    allowed: Circuit,
    table: ByteArray,
    names: Sequence[str] | None,
    name: str = "X",
    must: str = "satisfy the constraint",
    advice: str = "Leave such rows out, or weaken the constraint.",
) -> None:
    """Refuse a table with a row that a circuit does not allow."""
    violating = _violating_rows(allowed, table)
    if len(violating) == 0:
        return
    row = int(violating[0])
    labels = names_of(table.shape[1], names)
    ones = [label for label, value in zip(labels, table[row], strict=True) if value == 1]
    shown = ", ".join(ones[:SHOWN]) + (", ..." if len(ones) > SHOWN else "")
    others = "" if len(violating) == 1 else f" (and {len(violating) - 1} more do not)"
    raise ValueError(
        f"Every row of {name} must {must}, but row {row} does not{others}: its "
        f"ones are {shown or 'none'}. {advice}"
    )


def _violating_rows(allowed: Circuit, table: ByteArray) -> AnyArray:
    """The rows that a circuit does not allow, whatever their unknown values are."""
    if not np.any(table == UNKNOWN):
        return impossible_rows(allowed, pack_columns(table))
    no_choice = allowed.with_parameters(np.zeros(allowed.n_edges))
    log_p = log_probabilities(no_choice, decode(table), "fit")
    return np.flatnonzero(log_p == -np.inf)
