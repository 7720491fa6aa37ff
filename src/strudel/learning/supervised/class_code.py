"""The class as variables beside those of the inputs.

In:  the classes; a mixture whose components belong to them.
Out: their codewords; names for their variables; a table code with one column more; the mixture
     over the variables of the inputs and of the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from strudel._types import NONE, ByteArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.tables.table_code import Column, TableCode
from strudel.trees.vtree import Vtree


def class_codewords(n_classes: int) -> ByteArray:
    """One variable for one or two classes, one per class for more."""
    words = np.eye(n_classes, dtype=np.uint8)
    return words[:, 1:] if n_classes == 2 else words


def target_name(y: Any) -> str:
    """What the target is called: as its series or its only column, else "class"."""
    columns = list(getattr(y, "columns", ()))
    name = columns[0] if len(columns) == 1 else getattr(y, "name", None)
    return name if isinstance(name, str) and name else "class"


def class_names(classes: Sequence[Any], taken: Sequence[str], name: str = "class") -> list[str]:
    """Names of these variables that no other variable has.

    Classes 0 and 1 are a variable like those of a table of 0 and 1, which has the target's name.
    """
    while any(other == name or other.startswith(f"{name}=") for other in taken):
        name += "_"
    if list(classes) == [0, 1]:
        return [name]
    return [f"{name}={value}" for value in (classes[1:] if len(classes) == 2 else classes)]


def with_class(code: TableCode, classes: Sequence[Any], name: str = "class") -> TableCode:
    """The code with the class as the last column."""
    words = class_codewords(len(classes))
    names = class_names(classes, code.variable_names, name)
    while name in code.names:
        name += "_"
    column = Column(
        name,
        "category",
        code.n_vars,
        code.n_vars + words.shape[1],
        tuple(map(str, classes)),
        words,
        tuple(names),
        tuple(classes),
    )
    return replace(code, columns=(*code.columns, column))


def with_class_variables(
    mixture: Mixture, component_class: IntArray, codewords: ByteArray
) -> Mixture:
    """The mixture over inputs and class: every component says of which class it is."""
    structure, log_theta = mixture.structure, [mixture.edge_log_theta]
    vtree, n_vars, n_bits = structure.vtree, structure.n_vars, codewords.shape[1]
    node_left, node_right = vtree.node_left.tolist(), vtree.node_right.tolist()
    node_var = vtree.node_var.tolist()
    shift = 2 * n_bits  # literals come first
    left, right = (
        np.where(child >= 2 * n_vars, child + shift, child).tolist()
        for child in (structure.edge_left, structure.edge_right)
    )
    n_edges = np.diff(structure.node_edges)[2 * n_vars :].tolist()
    sum_vtree = structure.node_vtree[2 * n_vars :].tolist()
    root = structure.root + (shift if structure.root >= 2 * n_vars else 0)
    for bit in range(n_bits):  # a leaf of its own, joined with all before
        var, top = n_vars + bit, len(node_var) - 1
        node_left += [NONE, top]
        node_right += [NONE, top + 1]
        node_var += [var, NONE]
        leaf = 2 * (n_vars + n_bits) + len(sum_vtree)
        sum_vtree += [top + 1, top + 2]
        n_edges += [2, 1]
        left += [2 * var + 1, 2 * var, root]
        right += [NONE, NONE, leaf]
        one = codewords[component_class, bit].astype(np.float64)
        with np.errstate(divide="ignore"):
            log_theta.append(np.log([one, 1.0 - one, np.ones_like(one)]))
        root = leaf + 1
    made = Vtree(*(np.array(part, dtype=np.int32) for part in (node_left, node_right, node_var)))
    edge_log_theta = np.vstack(log_theta)
    circuit = Circuit(
        made,
        np.concatenate([np.repeat(made.var_leaf, 2), sum_vtree]).astype(np.int32),
        np.cumsum([0, *[0] * 2 * made.n_vars, *n_edges]).astype(np.int32),
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
        edge_log_theta[:, 0].copy(),
    )
    return Mixture(circuit, edge_log_theta, mixture.log_weight)
