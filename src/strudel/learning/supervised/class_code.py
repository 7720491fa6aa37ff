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

from strudel._types import ByteArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.learning.structural_em import circuit_with_coins
from strudel.tables.table_code import Column, TableCode


def class_codewords(n_classes: int) -> ByteArray:
    """One variable for one or two classes, one per class for more."""
    words = np.eye(n_classes, dtype=np.uint8)
    return words[:, 1:] if n_classes == 2 else words


def target_name(y: Any) -> str:
    """The name of the target: that of its series or only column, else "class"."""
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
    is_input = np.arange(mixture.n_vars + codewords.shape[1]) < mixture.n_vars
    circuit = circuit_with_coins(mixture.structure, is_input, on_left=False)
    one = codewords[component_class].T.astype(np.float64)  # (n_class_vars, n_components)
    with np.errstate(divide="ignore"):
        of_coins = np.log(np.stack([one, 1.0 - one, np.ones_like(one)], axis=1))
    log_theta = np.vstack([mixture.edge_log_theta, *of_coins])
    circuit = circuit.with_parameters(log_theta[:, 0].copy())
    return Mixture(circuit, log_theta, mixture.log_weight)
