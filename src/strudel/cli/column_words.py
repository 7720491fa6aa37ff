"""Words for rows of 0/1 variables that stand for the columns of a table.

In:  rows of 0, 1 and NaN, or names of columns.
Out: such rows in words; the variables of columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from strudel._types import AnyArray
    from strudel.tables.table_code import TableCode


def in_words(code: TableCode, row: AnyArray) -> dict[str, str]:
    """The value of every column of a row, as it is called; several where the row leaves a choice.

    Columns without a known value are left out.
    """
    from strudel.tables.column import either

    words = {}
    for column in code.columns:
        bits = np.asarray(row[column.start : column.stop], dtype=np.float64)
        if np.isnan(bits).all():
            continue
        fits = ~(bits == 1.0 - column.codewords).any(axis=1)
        if not fits.any():  # no value has this code: the nearest, as when it is decoded
            fits = np.arange(column.n_values) == column.nearest(bits[np.newaxis])[0]
        if not fits.all() or column.n_values == 1:
            labels = [column.labels[place] for place in np.flatnonzero(fits)]
            words[column.name] = either(labels)
    return words


def column_variables(code: TableCode, names: Iterable[str]) -> list[str]:
    """The variables of columns; a name of a variable stands for itself."""
    found: list[str] = []
    for name in names:
        if name in code.variable_names and name not in code.names:
            found.append(name)
        else:
            found += code.column(name).variable_names
    return found
