"""Questions about columns whose values are missing for a reason are about rows that have a value.

In:  a model of a table, and the columns that a question is about.
Out: the model of the rows in which these columns have values.

How often births is missing depends on sex. A model of all rows would answer a question about births
as if men had a number of them, too. Among rows with a value, a row of each sex counts as often as
births is known for it (`tables.missingness`): weights of the values of one column, as for parts of
cells. Components that know in which share of their rows births is known count as much as that says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from strudel._types import FloatArray
from strudel.circuits.mixture import Mixture
from strudel.queries.model import Model, model_of
from strudel.queries.soft_evidence import bit_logs, given_parts, with_code
from strudel.tables.density import EVERYWHERE

LEAST = 1e-6  # of the rows of a cell have a value, whatever was seen


def is_any_missing_for_a_reason(model: Any) -> bool:
    """Whether the values of some column of the model's table are."""
    try:
        code = model_of(model).table_code
    except (TypeError, ValueError):  # the query will say so
        return False
    return code is not None and bool(code.missingness.caused)


def with_values(model: Model, names: Iterable[str]) -> Model:
    """The model of the rows in which these columns have values."""
    code = model.table_code
    asked = [] if code is None else [name for name in names if name in code.missingness.caused]
    if code is None or not asked:
        return model
    weights: dict[str, FloatArray] = {}
    for cause, chance in code.missingness.chances_of_values(asked, code.columns):
        column = code.column(cause)
        cells = np.bincount(column.value_cell, np.maximum(chance, LEAST) * column.value_share)
        weights[cause] = weights.get(cause, np.ones(len(cells))) * cells
    parts = [(code.column(cause), own, EVERYWHERE) for cause, own in weights.items()]
    parts = [part for part in parts if bit_logs(*part[:2]) is not None]
    found, _, kept = given_parts(model, parts) if parts else (model, 0.0, slice(None))
    assert found is not None  # every cell has a weight
    if isinstance(model, Mixture) and model.known is not None:
        columns = [code.column(name) for name in asked]
        first = [column.start for column in columns if column.stop > column.start]
        logs = model.log_weight + np.log(np.maximum(model.known[first], LEAST)).sum(axis=0)
        found = replace(found, log_weight=logs[kept] - np.logaddexp.reduce(logs[kept]))
    left = code.missingness.without(asked)
    return with_code(found, replace(code, missingness=left))
