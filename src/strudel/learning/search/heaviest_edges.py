"""The edges with most rows of one circuit among several that share a table.

In:  a `GrowingCircuit`; after a split, what the split pushed onto the heap.
Out: `HeaviestEdges`, in the order in which the greedy search would take them.

The list is short: each circuit of a beam has one, made from that of the circuit it was split from.
It holds every edge with at least `floor` rows; when too many of them are gone, all edges are
looked through again and a lower floor is found. Edges that a split leaves alone keep the variable
that was chosen for them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, IntArray
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_HEAP, STAMP, Growth, comes_before
from strudel.learning.search.greedy import in_depth_first_order
from strudel.learning.search_options import TieRule

ROOM = 256  # entries of a new list; fewer have to be renewed more often
ENTRY = np.dtype(
    [
        ("key", np.float64),  # weight of the training rows through the edge
        ("depth", np.int32),  # of its vtree node
        ("edge", np.int32),
        ("place", np.int32),  # of the variable to split it on; NONE before it is known
    ]
)
FEWEST_ROWS = np.nextafter(0.0, 1.0)  # a floor that leaves out only edges without rows


class HeaviestEdges(NamedTuple):
    """The edges that come first."""

    entries: AnyArray  # (n,) ENTRY: most rows first, then nearest the root, then oldest
    floor: float  # every edge that can be split and has this many rows is there; 0 for all


def heaviest_edges(growing: GrowingCircuit, n_wanted: int) -> HeaviestEdges:
    """Those of a circuit, from all of its edges; at least `n_wanted`, if there are that many."""
    g = growing.growth
    edges = growing.candidates()
    count = g.edge["train"][edges]
    has_rows = count > 0.0
    room = ROOM + 2 * n_wanted
    if np.count_nonzero(has_rows) < n_wanted:
        floor = 0.0
    elif len(edges) <= room:
        floor = FEWEST_ROWS
    else:
        floor = max(float(np.partition(count, -room)[-room]), FEWEST_ROWS)
    edges = edges[count >= floor]
    entries = np.empty(len(edges), dtype=ENTRY)
    entries["key"] = g.edge["train"][edges]
    entries["depth"] = g.vtree["depth"][g.node["vtree"][g.edge["parent"][edges]]]
    entries["edge"] = edges
    entries["place"] = NONE
    order = np.lexsort((entries["edge"], entries["depth"], -entries["key"]))  # that of the heap
    return HeaviestEdges(entries[order], floor)


def heaviest_after_split(
    before: HeaviestEdges, growing: GrowingCircuit, n_wanted: int
) -> HeaviestEdges:
    """Those right after a split, by `UndoableSplits.split`, from those before it."""
    g = growing.growth
    if before.floor == 0.0:  # edges without rows never enter the heap
        return heaviest_edges(growing, n_wanted)
    entries = np.empty(len(before.entries) + int(g.size[N_HEAP]), dtype=ENTRY)
    entries = entries[: _merge(g, before.entries, before.floor, entries)]
    if len(entries) < n_wanted:
        return heaviest_edges(growing, n_wanted)
    if len(entries) > 4 * (ROOM + 2 * n_wanted):
        floor = float(entries["key"][ROOM + 2 * n_wanted])
        return HeaviestEdges(entries[entries["key"] >= floor], floor)
    return HeaviestEdges(entries, before.floor)


@kernel
def _merge(g: Growth, old: AnyArray, floor: float, entries: AnyArray) -> int:
    """Fill `entries`, in order, with what is still as it was and what the split pushed."""
    n = 0
    for i in range(len(old)):
        e = old["edge"][i]
        if g.edge[e]["death"] == ALIVE and g.edge[e]["train"] == old["key"][i]:
            entries[n] = old[i]
            n += 1
    for i in range(g.size[N_HEAP]):
        key, depth, e = g.heap[i]["key"], g.heap[i]["depth"], g.heap[i]["edge"]
        if key < floor or g.edge[e]["death"] != ALIVE or g.edge[e]["train"] != key:
            continue
        k = n
        while k > 0 and not comes_before(entries, k - 1, key, depth, e):
            entries[k] = entries[k - 1]
            k -= 1
        entries["key"][k], entries["depth"][k] = key, depth
        entries["edge"][k], entries["place"][k] = e, NONE
        n += 1
    return n


def first_entries(
    growing: GrowingCircuit, heaviest: HeaviestEdges, n_wanted: int, tie_rule: TieRule
) -> IntArray:
    """Where in the list its first edges are; fewer if not that many can be split."""
    key = heaviest.entries["key"]
    n = min(n_wanted, len(key))
    if tie_rule == "depth_first" and n:
        n_tied = int(np.count_nonzero(key >= key[n - 1]))
        if np.any(key[1:n_tied] == key[: n_tied - 1]):
            edges = heaviest.entries["edge"][:n_tied].copy()
            walked = np.empty_like(edges)
            _walk(growing.growth, edges, walked)
            rank = np.empty(n_tied, dtype=np.int64)
            rank[np.argsort(edges)] = np.argsort(walked)  # where the walk leaves each edge
            return np.lexsort((rank, -key[:n_tied]))[:n].astype(np.int32)
    return np.arange(n, dtype=np.int32)


@kernel
def _walk(g: Growth, edges: IntArray, found: IntArray) -> None:
    """Fill `found` with the same edges as a depth-first walk leaves them."""
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    for e in edges:
        g.edge[e]["stamp"] = stamp
        v = g.node[g.edge[e]["parent"]]["vtree"]
        while v != NONE and g.vtree[v]["stamp"] != stamp:
            g.vtree[v]["stamp"] = stamp
            v = g.vtree[v]["parent"]
    in_depth_first_order(g, stamp, found)
