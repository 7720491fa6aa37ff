"""Operations as arrays, for a file; and back, each checked before it is done.

In:  operations; or arrays that a file claims to be some.
Out: arrays; or operations, and the reason why one cannot be done.

The kernels check nothing, so an operation from a file must be possible where it is done.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE, AnyArray
from strudel.errors import JournalError
from strudel.learning.growing.counts import undecided_places
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES, N_NODES, Growth
from strudel.learning.growing.operations import Operation
from strudel.learning.journal import take

FIELDS = ("edge", "place", "target", "n_levels")


def operations_to_arrays(operations: list[Operation]) -> dict[str, AnyArray]:
    """One entry per operation, and the other edges of all of them one after another."""
    arrays: dict[str, AnyArray] = {
        name: np.array([getattr(operation, name) for operation in operations], dtype=np.int32)
        for name in FIELDS
    }
    arrays["n_others"] = np.array([len(one.others) for one in operations], dtype=np.int32)
    others = [edge for operation in operations for edge in operation.others]
    arrays["others"] = np.array(others, dtype=np.int32)
    return arrays


def operations_from_arrays(arrays: dict[str, AnyArray]) -> list[Operation]:
    """The operations that `operations_to_arrays` wrote down."""
    n = len(arrays.get("edge", ()))
    columns = [take(arrays, name, np.int32, (n,)).tolist() for name in FIELDS]
    counts = take(arrays, "n_others", np.int32, (n,)).astype(np.int64)
    n_others = int(counts.sum()) if np.all(counts >= 0) else NONE
    others = tuple(take(arrays, "others", np.int32, (n_others,)).tolist())
    stops = np.cumsum(counts).tolist()
    return [
        Operation(edge, place, target, n_levels, others[stop - count : stop])
        for edge, place, target, n_levels, count, stop in zip(
            *columns, counts.tolist(), stops, strict=True
        )
    ]


def check_operation(growing: GrowingCircuit, operation: Operation) -> None:
    """Refuse an operation that the circuit as it is now does not allow."""
    g = growing.growth
    edge, target, n_levels = operation.edge, operation.target, operation.n_levels
    edges = (edge, *operation.others)
    is_fine = (
        all(0 <= e < g.size[N_EDGES] and g.edge["death"][e] == ALIVE for e in edges)
        and len(set(edges)) == len(edges)
        and (n_levels == NONE or 0 <= n_levels <= growing.vtree.depth)
        and (target == NONE or 0 <= target < g.size[N_NODES])
    )
    if is_fine and target == NONE:
        is_fine = not operation.others and bool(g.edge["is_candidate"][edge])
        is_fine = is_fine and operation.place in undecided_places(g, edge).tolist()
    elif is_fine and n_levels == NONE:
        is_fine = not operation.others and _leads_to(g, edge, target)
    elif is_fine:
        sides = [[int(g.edge[side][e]) for e in edges] for side in ("left", "right")]
        is_fine = g.node["first"][target] != NONE and [target] * len(edges) in sides
    if not is_fine:
        raise JournalError(f"operation {growing.n_splits + 1} of a search is impossible")


def _leads_to(g: Growth, edge: int, target: int) -> bool:
    """Whether only sums of one edge lie between an edge and the sum below it."""
    place = g.vtree["first"][g.node["vtree"][target]]
    if g.node["first"][target] == NONE:
        return False
    while True:
        v = g.node["vtree"][g.edge["parent"][edge]]
        if g.vtree["left"][v] == NONE or not g.vtree["first"][v] <= place < g.vtree["last"][v]:
            return False
        is_left = place < g.vtree["last"][g.vtree["left"][v]]
        child = int(g.edge["left" if is_left else "right"][edge])
        if child == target:
            return True
        edge = int(g.node["first"][child])
        if edge == NONE or g.node["width"][child] != 1:
            return False
