"""Events to SDDs on a model's own vtree, and SDDs to circuits.

In:  anything that can be an event, a `Vtree`, and the names of its variables.
Out: `Sdd`; a `Circuit` over columns of 0 and 1 that is 1 on its rows and 0 on all others.

Simple events (`simple_events`) are built directly; all others by PySDD (`pysdd_compiler`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from strudel._names import names_of, places_of
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import why_not_deterministic
from strudel.errors import CircuitPropertyError
from strudel.logic.events import need_bits
from strudel.logic.pysdd_compiler import compile_bounded
from strudel.logic.sdd import FALSE, FIRST_LITERAL, TRUE, Sdd, reached_nodes
from strudel.logic.simple_events import simple_event, simple_sdd
from strudel.logic.terms import said_event
from strudel.tables.schema import bit_columns
from strudel.trees.vtree import Vtree


def circuit_of_sdd(sdd: Sdd) -> Circuit | None:
    """The circuit of an SDD, with what the SDD does not mention filled in."""
    vtree, sums = sdd.vtree, CircuitBuilder(sdd.vtree)
    for v in range(vtree.n_nodes):  # first of all, so that they come first at every vtree node
        sums.true(v)
    made: dict[int, int] = {}  # nodes of the SDD that some row satisfies, but not all

    def is_possible(n: int) -> bool:
        return n == TRUE or n in made

    def node_at(n: int, v: int) -> int:
        """Node `n` of the SDD as a node for a vtree node above its own."""
        return sums.true(v) if n == TRUE else sums.lift(made[n], v)

    for n in reached_nodes(sdd).tolist():
        if n >= sdd.first_decision:
            v = int(sdd.node_vtree[n])
            left, right = sums.vtree_left[v], sums.vtree_right[v]
            edges = [
                (node_at(prime, left), node_at(sub, right), 0.0)
                for prime, sub in sdd.elements(n)
                if is_possible(prime) and is_possible(sub)
            ]
            if edges:
                made[n] = sums.add_at(v, edges)
        elif n not in (FALSE, TRUE):
            made[n] = n - FIRST_LITERAL
    return sums.as_they_are(node_at(sdd.root, vtree.root)) if is_possible(sdd.root) else None


def compile_event(event: Any, vtree: Vtree, feature_names: Sequence[str] | None = None) -> Sdd:
    """Compile an event to an SDD.

    Parameters
    ----------
    event : Event, str, Cnf, Dnf, Nnf, Sdd, dict, or row
        A dict or a row is the event that the variables have these values.
    vtree : Vtree
        What the SDD follows; usually that of a circuit.
    feature_names : sequence of str, optional
        The names of the variables; x0, x1, ... by default.

    Returns
    -------
    Sdd
        On `vtree`, holding for exactly the rows of the event.

    Raises
    ------
    MissingDependencyError
        If PySDD is not installed, unless the event is a row, a conjunction of literals, a single
        clause, a count of literals, a count and a conjunction, or an SDD on this vtree.
    SizeLimitError
        If the SDD takes too much memory, or more than a minute; `STRUDEL_COMPILE_SECONDS` allows
        more.

    Examples
    --------
    >>> from strudel.trees import balanced_vtree
    >>> sdd = compile_event("at_least(2, a, b, c)", balanced_vtree(3), ("a", "b", "c"))
    >>> sdd.holds([[1, 0, 1], [0, 0, 1]])
    array([ True, False])
    """
    names = names_of(vtree.n_vars, feature_names)
    found = said_event(event, bit_columns(names))
    if found.kind == "sdd" and found.sdd is not None and found.sdd.vtree == vtree:
        return _checked(_on(found.sdd, vtree))
    need_bits(found)
    place = places_of(names)
    simple = simple_event(found, place)
    if simple is not None:
        return simple_sdd(simple, vtree)
    return compile_bounded(found, vtree, place)


def _on(sdd: Sdd, vtree: Vtree) -> Sdd:
    """The same SDD with the node numbers of an equal vtree."""
    if sdd.vtree is vtree:
        return sdd
    mine, theirs = (np.lexsort(tree.node_span) for tree in (vtree, sdd.vtree))
    number = np.empty(vtree.n_nodes + 1, dtype=np.int32)
    number[theirs], number[-1] = mine, -1  # NONE stays NONE
    return Sdd(
        vtree,
        number[sdd.node_vtree],
        sdd.node_start.copy(),
        sdd.element_prime.copy(),
        sdd.element_sub.copy(),
        sdd.root,
    )


def _checked(sdd: Sdd) -> Sdd:
    """Refuse what comes from elsewhere and counts rows twice."""
    circuit = circuit_of_sdd(sdd)
    if circuit is not None and why_not_deterministic(circuit) is not None:
        raise CircuitPropertyError(
            "The primes of an SDD's decision must exclude each other, but some row satisfies two."
        )
    return sdd
