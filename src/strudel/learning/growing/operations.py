"""Splits and clones as a list: a circuit is its start and what was done to it.

In:  a `GrowingCircuit` at its start, and operations.
Out: the same circuit, grown again, for instance with other parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from strudel._types import NONE
from strudel.learning.growing.growing_circuit import GrowingCircuit


class Operation(NamedTuple):
    """A split of `edge` at a place, or a clone of the sum `target` for it.

    With `n_levels` the sums that many levels below are also copied, and `others` are edges that
    share the clone.
    """

    edge: int
    place: int = NONE
    target: int = NONE
    n_levels: int = NONE
    others: tuple[int, ...] = ()


def apply(growing: GrowingCircuit, operation: Operation) -> None:
    """Do one operation."""
    if operation.n_levels != NONE and operation.target == NONE:
        growing.split_deeply(operation.edge, operation.place, operation.n_levels)
    elif operation.n_levels != NONE:
        parents = np.array([operation.edge, *operation.others], dtype=np.int32)
        growing.clone_deeply(parents, operation.target, operation.n_levels)
    elif operation.target == NONE:
        growing.split(operation.edge, operation.place)
    else:
        growing.clone(operation.edge, operation.target)


def replay(
    growing: GrowingCircuit,
    operations: Iterable[Operation],
    after_each: Callable[[GrowingCircuit], None] | None = None,
) -> GrowingCircuit:
    """Do them one after another; the same numbers come out as the first time."""
    growing.without_queue()
    for operation in operations:
        apply(growing, operation)
        if after_each is not None:
            after_each(growing)
    return growing
