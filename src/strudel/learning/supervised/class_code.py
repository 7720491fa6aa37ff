"""The class as variables of its own, beside those of the inputs.

In:  the classes.
Out: their codewords; names for their variables; a table code with one column more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from strudel._types import ByteArray
from strudel.tables.table_code import Column, TableCode


def class_codewords(n_classes: int) -> ByteArray:
    """One variable for one or two classes, one per class for more.

    Examples
    --------
    >>> class_codewords(2).tolist(), class_codewords(3).tolist()
    ([[0], [1]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    """
    words = np.eye(n_classes, dtype=np.uint8)
    return words[:, 1:] if n_classes == 2 else words


def target_name(y: Any) -> str:
    """What the target is called: as its series or its only column, else "class".

    Examples
    --------
    >>> import pandas as pd
    >>> target_name(pd.Series([0, 1], name="smoker")), target_name([0, 1])
    ('smoker', 'class')
    """
    columns = list(getattr(y, "columns", ()))
    name = columns[0] if len(columns) == 1 else getattr(y, "name", None)
    return name if isinstance(name, str) and name else "class"


def class_names(classes: Sequence[Any], taken: Sequence[str], name: str = "class") -> list[str]:
    """Names of these variables that no other variable has.

    Classes 0 and 1 are a variable like those of a table of 0 and 1, which has the target's name.

    Examples
    --------
    >>> class_names(["no", "yes"], ["age"])
    ['class=yes']
    >>> class_names([0, 1], ["age"], "smoker")
    ['smoker']
    """
    while any(other == name or other.startswith(f"{name}=") for other in taken):
        name += "_"
    if list(classes) == [0, 1]:
        return [name]
    return [f"{name}={value}" for value in (classes[1:] if len(classes) == 2 else classes)]


def with_class(code: TableCode, classes: Sequence[Any], name: str = "class") -> TableCode:
    """The code with the class as the last column.

    Examples
    --------
    >>> from strudel import TableEncoder
    >>> code = TableEncoder().fit([[1], [2], [3]]).code_
    >>> with_class(code, ["no", "yes"]).variable_names
    ('x0>=2', 'x0>=3', 'class=yes')
    """
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
