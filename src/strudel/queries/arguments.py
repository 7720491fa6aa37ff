"""What queries take besides a model: evidence, sets of variables, and limits of searches.

In:  evidence as a table, frame, dict or nothing; variables by name or number; limits or None.
Out: clean rows, and whether the answer needs an axis for them; numbers of variables; numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from strudel._names import did_you_mean, find_name, names_of
from strudel._types import AnyArray, FloatArray
from strudel.data.validation import check_evidence, is_single_row
from strudel.queries.model import Model
from strudel.tables.table_code import table_log_density


def given_rows(model: Model, given: Any, name: str = "given") -> tuple[FloatArray, bool]:
    """Rows of 0, 1 and NaN, and whether they are one row without an axis of rows.

    `name` is what errors call them.
    """
    if given is None:
        return np.full((1, model.n_vars), np.nan), True
    rows = check_evidence(given, n_vars=model.n_vars, feature_names=model.feature_names, name=name)
    return rows, is_single_row(given)


def log_density_in(model: Model, X: Any, of_numbers: bool = True) -> FloatArray | float:
    """The log-density of the numbers, dates and rare categories of every row, given their cells.

    0 where there are none, or where the rows are of the 0/1 variables.
    """
    code = model.table_code
    return 0.0 if code is None else table_log_density(X, code, of_numbers)


def variable_indices(model: Model, variables: Any, name: str) -> AnyArray:
    """The numbers of one variable or several, in their order; a column stands for all of its."""
    is_one = isinstance(variables, str | int | np.integer)
    asked = [variables] if is_one else list(variables)
    names = names_of(model.n_vars, model.feature_names)
    place = {feature: var for var, feature in enumerate(names)}
    found: dict[int, Any] = {}
    for item in asked:
        for var in _variables(model, item, place, name):
            if var in found:
                raise ValueError(
                    f"{name} must name each variable once, "
                    f"but {found[var]!r} and {item!r} are the same variable."
                )
            found[var] = item
    if not found:
        raise ValueError(f"{name} must name at least one variable, but is empty.")
    return np.array(list(found), dtype=np.int64)


def _variables(model: Model, item: Any, place: dict[str, int], name: str) -> Iterable[int]:
    """The variable with this name or number, or all those of a column of a table."""
    code = model.table_code
    if code is None or not isinstance(item, str) or item in place:
        return [find_name(item, place, name)]
    if item not in code.names:
        raise ValueError(
            f"{name} names {item!r}, which is not a column. {did_you_mean(item, code.names)}"
        )
    return code.column(item).variables
