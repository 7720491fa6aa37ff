"""Where learning under a constraint starts, and what it refuses to learn from.

In:  an event, and the rows to learn from.
Out: the first circuit, which gives every violating row probability zero; an error that names the
     first row that violates.

The event is compiled on the vtree of the first circuit that the search would start from without it,
and the two are multiplied. So what the event leaves open, variables it does not mention above all,
depends on one another as the Chow-Liu tree says (`init="chow_liu"`) or not at all ("independent",
where the product is the event's SDD itself). The product has at most about twice as many edges as
the SDD, since a compiled Chow-Liu tree has at most two nodes at a vtree node. Splits only condition
and copy: they never make a row possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from strudel._types import ByteArray
from strudel.algebra.products import multiply
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix, pack_columns
from strudel.learning.options import SearchOptions
from strudel.learning.structure import first_circuit, impossible_rows
from strudel.logic.compile_event import compile_event
from strudel.logic.event_circuit import event_circuit
from strudel.logic.names import names_of

SHOWN = 8  # values of a violating row that an error quotes


def first_circuit_under(
    constraint: Any, train: BitMatrix, search: SearchOptions, names: Sequence[str] | None
) -> Circuit:
    """The circuit before the first split, with exactly the rows that satisfy the constraint."""
    first = first_circuit(train, search)
    event = event_circuit(compile_event(constraint, first.vtree, names))
    if event is None:
        raise ValueError("No row at all satisfies the constraint, so there is nothing to learn.")
    open_first = first.with_parameters(np.zeros(first.n_edges))  # excludes nothing
    both = multiply(open_first, event, normalize=True)
    assert isinstance(both, Circuit)  # of two circuits
    return both


def check_satisfied(
    first: Circuit, table: ByteArray, names: Sequence[str] | None, name: str = "X"
) -> None:
    """Refuse a table with a row that the first circuit makes impossible."""
    violating = impossible_rows(first, pack_columns(table))
    if len(violating) == 0:
        return
    row = int(violating[0])
    labels = names_of(table.shape[1], names)
    ones = [label for label, value in zip(labels, table[row], strict=True) if value]
    shown = ", ".join(ones[:SHOWN]) + (", ..." if len(ones) > SHOWN else "")
    others = "" if len(violating) == 1 else f" (and {len(violating) - 1} more do not)"
    raise ValueError(
        f"Every row of {name} must satisfy the constraint, but row {row} does not{others}: its "
        f"ones are {shown or 'none at all'}. Leave such rows out, or weaken the constraint."
    )
