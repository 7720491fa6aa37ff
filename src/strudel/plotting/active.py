"""The edges of a circuit that a row takes.

In:  a fully observed row.
Out: one bool per edge.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import AnyArray, ByteArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import dense_flows


def checked_row(row: ArrayLike, n_vars: int) -> ByteArray:
    """The row, if it has a 0 or 1 for every variable."""
    values = np.asarray(row)
    if values.shape != (n_vars,):
        raise ValueError(
            f"row must hold one value per variable, {n_vars} in all, but has shape {values.shape}."
        )
    if not np.isin(values, (0, 1)).all():
        raise ValueError("row must hold only 0 and 1: unknown values have no active edges.")
    return values.astype(np.uint8)


def active_edges(circuit: Circuit, row: ByteArray) -> AnyArray:
    """One bool per edge: whether the row flows through it.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> int(active_edges(figure_1_circuit(), np.array([1, 0, 1, 0], dtype=np.uint8)).sum())
    5
    """
    return np.asarray(dense_flows(circuit, row[np.newaxis])[:, 0] != 0)
