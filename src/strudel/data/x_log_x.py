"""`x ln x`, 0 at 0: what entropies, and log-likelihoods of counts, are made of.

In:  a number inside a kernel; or an array; or weights, for a table of all counts they add up to.
Out: the value, the array, or the table and what it says.
"""

from __future__ import annotations

import math

import numpy as np

from strudel._numba import kernel
from strudel._types import FloatArray

LARGEST_TABLE = 2**22  # entries, 32 MiB; beyond, logarithms are taken one by one


@kernel
def x_log_x(x: float) -> float:
    """`x ln x` of a number; 0 where it is not positive."""
    return x * math.log(x) if x > 0.0 else 0.0


def x_log_x_of(x: FloatArray) -> FloatArray:
    """`x ln x` of every entry; 0 where it is not positive."""
    logs = np.log(x, out=np.zeros_like(x), where=x > 0.0)
    return np.multiply(x, logs, out=logs)


def x_log_x_table(weight: FloatArray) -> FloatArray:
    """`x ln x` for all counts that whole weights can add up to; empty for other weights."""
    if not np.all(weight == np.round(weight)) or weight.sum() >= LARGEST_TABLE:
        return np.zeros(0)
    table = np.empty(int(weight.sum()) + 1)
    _x_log_x_table(table)
    return table


@kernel
def _x_log_x_table(table: FloatArray) -> None:
    """Fill the table, to the last digit as `x_log_x` computes it."""
    for i in range(len(table)):
        table[i] = x_log_x(np.float64(i))


@kernel
def x_log_x_in(table: FloatArray, x: float) -> float:
    """`x ln x`; whole numbers are looked up where all weights are whole."""
    if x <= 0.0:
        return 0.0
    return table[np.int64(x)] if len(table) else x * np.log(x)
