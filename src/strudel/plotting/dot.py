"""Graphviz text for the three structures.

In:  a `Vtree`, a `ChowLiuTree` or a `Circuit` of any size.
Out: a string for `dot`, such as ``dot -Tsvg``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, AnyArray
from strudel.plotting.circuits import checked_row, circuit_to_draw
from strudel.plotting.layout import DrawnCircuit, drawn_circuit, taken_by
from strudel.plotting.trees import tree_of_model, vtree_and_names
from strudel.queries.given import circuit_of, shown_circuit
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree


def to_dot(
    obj: Any,
    feature_names: Sequence[str] | None = None,
    row: Any = None,
    *,
    what: str = "circuit",
) -> str:
    """Write a structure in the language of Graphviz.

    Parameters
    ----------
    obj : Vtree, ChowLiuTree, Circuit or fitted estimator
        What to draw. A sum with a single edge is drawn as its product alone; of several components
        the structure, or with a row the most responsible one.
    feature_names : sequence of str, optional
        One per variable; a circuit's own names, or x0, x1, ..., by default.
    row : array-like of shape (n_columns,) or dict, optional
        A fully observed row, whose active edges in a circuit are drawn in red.
    what : {"circuit", "vtree", "tree"}, default="circuit"
        What of a model: the Chow-Liu tree is the one closest to it.

    Examples
    --------
    >>> from strudel import Vtree
    >>> print(to_dot(Vtree.from_nested((0, 1)), ["a", "b"]))
    digraph vtree {
      node [shape=plaintext];
      n0 [label="a"];
      n1 [label="b"];
      n2 [shape=point];
      n2 -> n0 [arrowhead=none];
      n2 -> n1 [arrowhead=none];
    }
    """
    if what == "vtree":
        obj, feature_names = vtree_and_names(obj, feature_names)
    elif what == "tree" and not isinstance(obj, ChowLiuTree):
        closest = tree_of_model(obj)
        obj, feature_names = closest.tree, feature_names or closest.names
    is_tree = isinstance(obj, Vtree | ChowLiuTree)
    names = None if feature_names is None else tuple(map(str, feature_names))
    n_vars = obj.n_vars if is_tree else len(circuit_of(obj).columns)
    if names is not None and len(names) != n_vars:
        raise ValueError(f"There are {len(names)} feature names for {n_vars} variables.")
    if not is_tree:
        whole = shown_circuit(obj)
        if names is not None:
            columns = zip(whole.columns, names, strict=True)
            named = tuple(replace(column, name=name) for column, name in columns)
            whole = whole.with_columns(replace(whole.columns, columns=named))
        cells = None if row is None else checked_row(whole, row)
        circuit, has_parameters, _ = circuit_to_draw(whole, cells)
        drawn = drawn_circuit(circuit)
        is_active = np.zeros(drawn.n_edges, dtype=bool)
        if cells is not None:
            is_active = drawn.is_taken(taken_by(circuit, cells))
        kind, lines = "circuit", _circuit_lines(drawn, is_active, has_parameters)
    elif row is not None:
        raise ValueError(
            f"Only a circuit can show the active edges of a row, not a {type(obj).__name__}."
        )
    elif isinstance(obj, Vtree):
        kind, lines = "vtree", _vtree_lines(obj, names)
    else:
        kind, lines = "chow_liu_tree", _chow_liu_lines(obj, names)
    return "\n".join([f"digraph {kind} {{", *(f"  {line};" for line in lines), "}"])


def quote(label: str) -> str:
    """A label as Graphviz reads it back: quotes and backslashes escaped, line ends kept visible."""
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\r", "").replace("\n", "\\n") + '"'


def _vtree_lines(vtree: Vtree, names: tuple[str, ...] | None) -> Iterator[str]:
    label = names_of(vtree.n_vars, names)
    yield "node [shape=plaintext]"
    for node, var in enumerate(vtree.node_var.tolist()):
        yield f"n{node} [shape=point]" if var == NONE else f"n{node} [label={quote(label[var])}]"
    for node in np.flatnonzero(vtree.node_var == NONE).tolist():
        for child in (vtree.node_left[node], vtree.node_right[node]):
            yield f"n{node} -> n{child} [arrowhead=none]"


def _chow_liu_lines(tree: ChowLiuTree, names: tuple[str, ...] | None) -> Iterator[str]:
    yield "node [shape=box, style=rounded]"
    for var, name in enumerate(names_of(tree.n_vars, names)):
        yield f"x{var} [label={quote(name)}]"
    for var, parent in enumerate(tree.var_parent.tolist()):
        if parent != NONE:
            yield f"x{parent} -> x{var}"


def _circuit_lines(
    circuit: DrawnCircuit, is_active: AnyArray, has_parameters: bool
) -> Iterator[str]:
    """Nodes are n0, n1, ...; the product of edge e is `e<e>`; lines run from inputs to the root."""
    width = np.diff(circuit.node_edges)
    first = circuit.node_edges
    yield "rankdir=LR"
    yield "node [shape=circle, width=0.25, fixedsize=true, fontsize=10]"
    yield "edge [arrowhead=none, fontsize=9]"
    used = np.unique(np.concatenate([circuit.edge_left, circuit.edge_right, [circuit.root]]))
    for node in used[used != NONE].tolist():
        if node < circuit.n_inputs:
            name = quote(circuit.label[node])
            yield f"n{node} [shape=box, fixedsize=false, height=0.25, label={name}]"
        elif width[node] > 1:
            yield f'n{node} [label="⊕"]'

    def output_of(node: int) -> str:
        return f"e{first[node]}" if width[node] == 1 else f"n{node}"  # it makes no choice

    for edge, parent in enumerate(circuit.edge_parent.tolist()):
        left, right = int(circuit.edge_left[edge]), int(circuit.edge_right[edge])
        red = "color=red, fontcolor=red" if is_active[edge] else ""
        parameter = f'label="{circuit.theta[edge]:.3g}"' if has_parameters else ""
        weight = ", ".join(filter(None, (parameter, red)))
        if right == NONE:
            yield f"n{left} -> n{parent} [{weight}]"
            continue
        yield f'e{edge} [label="⊗"]'
        for child in (left, right):
            yield f"{output_of(child)} -> e{edge}" + (f" [{red}]" if red else "")
        if width[parent] > 1:
            yield f"e{edge} -> n{parent} [{weight}]"
