"""What the algebra takes: circuits over the same columns, on one vtree.

In:  circuits or fitted estimators.
Out: `Circuit`s whose columns have the same cells, or an error that says what they lack.

Sums over rows of products split into sums over pairs of components, so mixtures take part in them.
Logs and powers of a mixture do not: `need_single` says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._names import names_of, quote
from strudel.circuits.circuit import Circuit
from strudel.circuits.other_columns import with_edges
from strudel.circuits.properties import why_not_deterministic
from strudel.errors import CircuitPropertyError
from strudel.queries.given import circuit_of
from strudel.tables.column import Column


def one_circuit(p: Any) -> Circuit:
    """The circuit of a model, without components of weight zero."""
    circuit = circuit_of(p)
    counts = circuit.log_weight > -np.inf
    return circuit if counts.all() else circuit.components(counts)


def two_circuits(p: Any, q: Any, query: str) -> tuple[Circuit, Circuit]:
    """Two circuits on one vtree, over the same cells: they meet where those of either do."""
    first, second = one_circuit(p), one_circuit(q)
    mine, theirs = first.columns, second.columns
    things = "variables" if mine.are_bits and theirs.are_bits else "columns"
    needs = f"{query} needs two circuits over the same {things}, but"
    if len(mine) != len(theirs):
        raise ValueError(
            f"{needs} p has {len(mine)} and q has {len(theirs)}. Sum out the others with "
            "marginalize."
        )
    if mine.names != theirs.names and things == "variables":
        nameless = names_of(len(mine), None)
        if mine.names == nameless:
            first, mine = first.with_columns(theirs), theirs
        elif theirs.names == nameless:
            second, theirs = second.with_columns(mine), mine
    is_same = mine is theirs or (things == "variables" and mine.names == theirs.names)
    pairs = [] if is_same else list(zip(mine, theirs, strict=True))
    for place, (own, other) in enumerate(pairs):
        if own.name != other.name:
            raise ValueError(
                f"{needs} {things[:-1]} {place} is {own.name!r} in p and {other.name!r} in q."
            )
        if own.kind != other.kind or (not own.is_numeric and own.values != other.values):
            said = " and ".join(quote(one.labels) for one in (own, other))
            raise ValueError(f"{needs} {own.name!r} has other values in p than in q: {said}.")
    if first.vtree is not second.vtree and first.vtree != second.vtree:
        raise ValueError(
            f"{query} needs two circuits on one vtree, but those of p and q differ. Circuits share "
            "one when they are learned from the same rows, compiled for the same vtree, or made "
            "from one another."
        )
    edges = {
        place: _ends(own) | _ends(other)
        for place, (own, other) in enumerate(pairs)
        if own.is_numeric and (own.edges, own.region) != (other.edges, other.region)
    }
    return (with_edges(first, edges), with_edges(second, edges)) if edges else (first, second)


def _ends(column: Column) -> set[float]:
    """Where cells of a column meet, and where a region that it is known to lie in ends."""
    return {*column.edges, *(end for ends in column.region for end in ends if np.isfinite(end))}


def need_single(circuit: Circuit, what: str, function: str, hint: str = "") -> None:
    """Raise `CircuitPropertyError` unless it is one deterministic circuit.

    `what` is done to it, for example "power takes a power of p", and `function`, "log" or "power",
    is why several components are refused.
    """
    if circuit.n_components > 1:
        raise CircuitPropertyError(
            f"{what}, which is a mixture of {circuit.n_components} components, and the {function} "
            f"of a sum over components does not split into one {function} for each. Take one "
            f"component with component(c).{hint}"
        )
    need_deterministic(circuit, what, hint)


def need_deterministic(circuit: Circuit, what: str, hint: str = "") -> None:
    """Raise `CircuitPropertyError` if `what` is done to a circuit that is not deterministic."""
    reason = why_not_deterministic(circuit)
    if reason is not None:
        raise CircuitPropertyError(
            f"{what}, which needs a deterministic circuit, but {reason}.{hint}"
        )
