"""Structural properties: which ones a circuit has, and why it lacks others.

In:  any well-formed `BitCircuit`, even one whose nodes do not respect the vtree nodes they name.
Out: `why_not_*` give a reason in words, or None; `check_properties` raises it for a query.

Only the root and what lies below it counts, and scopes come from the literals really below a node.
Parameters are ignored: an edge with probability zero is still an edge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, IntArray, WordArray
from strudel.errors import CircuitPropertyError
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.determinism import find_overlap
from strudel.learning.bits.scopes import (
    find_tops,
    node_scopes,
    reached_nodes,
    scope_variables,
)
from strudel.trees.vtree import Vtree

MAX_NAMES = 12  # variables named in a reason


def why_not_smooth(circuit: BitCircuit) -> str | None:
    """Why some sum has edges over different variables, or the root misses one; None if neither.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> why_not_smooth(figure_1_circuit()) is None
    True
    """
    scope = node_scopes(circuit)
    left, right = _edge_scopes(circuit, scope)
    missing = scope[circuit.edge_parent] & ~(left | right)
    for edge in _first(circuit, missing):
        return (
            f"edge {edge} of node {circuit.edge_parent[edge]} does not mention "
            f"{_names(circuit, missing[edge])}, unlike another edge of that node"
        )
    seen = set(scope_variables(scope[circuit.root]))
    unseen = [var for var in range(circuit.n_vars) if var not in seen]
    if unseen:
        return f"the root, node {circuit.root}, does not mention {_list(circuit, unseen)}"
    return None


def why_not_decomposable(circuit: BitCircuit) -> str | None:
    """Why the two children of some product share a variable; None if none do.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> why_not_decomposable(figure_1_circuit()) is None
    True
    """
    left, right = _edge_scopes(circuit, node_scopes(circuit))
    for edge in _first(circuit, left & right):
        return (
            f"both children of edge {edge} of node {circuit.edge_parent[edge]} "
            f"mention {_names(circuit, left[edge] & right[edge])}"
        )
    return None


def _edge_scopes(circuit: BitCircuit, scope: WordArray) -> tuple[WordArray, WordArray]:
    """The variables of both children of every edge; none where there is one child only."""
    with_none = np.vstack([scope, np.zeros_like(scope[:1])])  # NONE has no variables
    return with_none[circuit.edge_left], with_none[circuit.edge_right]


def _first(circuit: BitCircuit, variables: WordArray) -> IntArray:
    """The first edge below the root with some of these variables, if there is one."""
    is_reached = reached_nodes(circuit)[circuit.edge_parent]
    return np.flatnonzero(is_reached & variables.any(axis=1))[:1].astype(np.int32)


def why_not_structured_decomposable(circuit: BitCircuit, vtree: Vtree | None = None) -> str | None:
    """Why some product does not split its variables as a node of the vtree does; None if all do.

    A product follows a vtree node if one child has only variables on one of its sides and the other
    child only variables on the other. The vtree is the circuit's own unless another is given.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> from strudel.trees import linear_vtree
    >>> why_not_structured_decomposable(figure_1_circuit()) is None
    True
    >>> why_not_structured_decomposable(figure_1_circuit(), linear_vtree(4))
    'edge ... of node ... joins ... with ..., which no vtree node separates'
    """
    vtree = circuit.vtree if vtree is None else vtree
    if vtree.n_vars != circuit.n_vars:
        return f"the vtree has {vtree.n_vars} variables and the circuit {circuit.n_vars}"
    follows = find_tops(circuit, vtree).edge_follows
    bad = np.flatnonzero(reached_nodes(circuit)[circuit.edge_parent] & ~follows)
    for edge in bad[:1]:
        scope = node_scopes(circuit)
        left, right = (
            _names(circuit, scope[child[edge]]) for child in (circuit.edge_left, circuit.edge_right)
        )
        return (
            f"edge {edge} of node {circuit.edge_parent[edge]} joins {left} with {right}, "
            "which no vtree node separates"
        )
    return None


def why_not_deterministic(circuit: BitCircuit) -> str | None:
    """Why some row satisfies two edges of one sum, or why that is not known; None if none does.

    Exact where products follow the vtree. Parameters are ignored: two edges must exclude each other
    even if one has probability zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> why_not_deterministic(figure_1_circuit()) is None
    True
    """
    overlap = find_overlap(circuit)
    if overlap is None:
        return None
    first, second = overlap.edges
    if overlap.row is None:
        return (
            f"edges {first} and {second} of node {overlap.node} could not be shown to exclude each "
            "other: the products below do not follow the vtree"
        )
    row = ", ".join(
        f"{_name(circuit, var)}={overlap.row[var]}" for var in sorted(overlap.row)[:MAX_NAMES]
    )
    rest = ", ..." if len(overlap.row) > MAX_NAMES else ""
    return f"edges {first} and {second} of node {overlap.node} are both satisfied by {row}{rest}"


def why_not_in_normal_form(circuit: BitCircuit) -> str | None:
    """Why some node is not normalised for the vtree node it names; None if all are.

    In normal form the left and right child of every product are normalised for the left and right
    child of its vtree node, a sum at a vtree leaf has literals below it, and the root is normalised
    for the vtree root. Such a circuit is smooth and structured-decomposable. Unlike the other
    properties this one is asked of all nodes, since passes over the arrays meet them all.
    """
    vtree = circuit.vtree
    v = circuit.node_vtree[circuit.edge_parent]
    is_leaf = vtree.node_var[v] != NONE
    child_vtree = np.append(circuit.node_vtree, NONE)  # so that child NONE has vtree node NONE
    is_literal = circuit.edge_left < 2 * circuit.n_vars
    is_good = np.where(
        is_leaf,
        is_literal & (child_vtree[circuit.edge_left] == v) & (circuit.edge_right == NONE),
        (child_vtree[circuit.edge_left] == vtree.node_left[v])
        & (child_vtree[circuit.edge_right] == vtree.node_right[v]),
    )
    for edge in np.flatnonzero(~is_good)[:1]:
        return (
            f"the children of edge {edge} of node {circuit.edge_parent[edge]} are not normalised "
            f"for the children of vtree node {v[edge]}"
        )
    if circuit.node_vtree[circuit.root] != vtree.root:
        return f"the root, node {circuit.root}, is not normalised for the root of the vtree"
    return None


Property: TypeAlias = Literal[
    "smooth", "decomposable", "structured_decomposable", "deterministic", "in_normal_form"
]
WHY_NOT: dict[Property, tuple[str, Callable[[BitCircuit], str | None]]] = {
    "smooth": ("a smooth circuit", why_not_smooth),
    "decomposable": ("a decomposable circuit", why_not_decomposable),
    "structured_decomposable": (
        "a structured-decomposable circuit",
        why_not_structured_decomposable,
    ),
    "deterministic": ("a deterministic circuit", why_not_deterministic),
    "in_normal_form": ("a circuit in normal form", why_not_in_normal_form),
}


def check_properties(circuit: BitCircuit, query: str, *properties: Property) -> None:
    """Raise `CircuitPropertyError` in the name of a query for the first missing property."""
    for name in properties:
        if not getattr(circuit, f"is_{name}"):  # found once for each circuit
            needed, why_not = WHY_NOT[name]
            raise CircuitPropertyError(f"{query} needs {needed}, but {why_not(circuit)}.")


def _names(circuit: BitCircuit, scope: WordArray) -> str:
    return _list(circuit, scope_variables(scope))


def _list(circuit: BitCircuit, variables: list[int]) -> str:
    """The names of some variables, in words."""
    names = [_name(circuit, var) for var in variables[:MAX_NAMES]]
    if len(variables) > MAX_NAMES:
        names.append(f"{len(variables) - MAX_NAMES} more")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _name(circuit: BitCircuit, var: int) -> str:
    return names_of(circuit.n_vars, circuit.feature_names)[var]
