"""The edges of a circuit that a row takes.

In:  a fully observed row, as an array or by name.
Out: one bool per edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from strudel._types import AnyArray, ByteArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import dense_flows
from strudel.data.validation import check_evidence
from strudel.queries.model import Model


def checked_row(model: Model, row: Any) -> ByteArray:
    """The row, if it gives every variable: in order, by name, or in the columns of a table."""
    n_vars = model.n_vars
    if isinstance(row, Mapping) or model.table_code is not None:
        values = check_evidence(row, n_vars=n_vars, feature_names=model.feature_names, name="row")
        values = values[0] if len(values) == 1 else values
    else:
        values = np.asarray(row)
    if values.shape != (n_vars,):
        raise ValueError(
            f"row must hold one value per variable, {n_vars} in all, but has shape {values.shape}."
        )
    if not np.isin(values, (0, 1)).all():
        raise ValueError("row must hold only 0 and 1: unknown values have no active edges.")
    return values.astype(np.uint8)


def active_edges(circuit: Circuit, row: ByteArray) -> AnyArray:
    """One bool per edge: whether the row flows through it."""
    return np.asarray(dense_flows(circuit, row[np.newaxis])[:, 0] != 0)
