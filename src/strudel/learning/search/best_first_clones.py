"""Score clones for best-first search: the best context of every sum, by exact gain.

In:  `Growth`, and the sums of one vtree node.
Out: for each of them the edge above that should have its own copy, and the gain per new parameter.

First pairs of edges are counted, then sums are scored from the counts, whatever their order; so
counts may also come from rows elsewhere, in partitions (`learning/partitioned/gains.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.data.x_log_x import x_log_x_in
from strudel.learning.growing.growth import Growth, count_of


class PairRoom(NamedTuple):
    """A hash table of pairs of edges; empty before and after."""

    keys: AnyArray  # (2**k,) int64 NONE: the edge above and the edge below
    counts: FloatArray  # the values of `keys`
    slots: AnyArray  # (2**(k - 1) + 1,) the keys in use


class CloneRoom(NamedTuple):
    """What `best_clones` works in; as it should be again afterwards."""

    gain: AnyArray  # (n_edges,) int64 0
    occupied: IntArray  # (n_edges,) 0
    target: IntArray  # (n_edges,)
    contexts: IntArray  # (n_edges,)


def pair_room(n_pairs: int) -> PairRoom:
    """Room for this many pairs."""
    n_keys = 1 << (2 * n_pairs + 16).bit_length()
    return PairRoom(
        keys=np.full(n_keys, NONE, dtype=np.int64),
        counts=np.zeros(n_keys),
        slots=np.empty(n_keys // 2 + 1, dtype=np.int64),
    )


def clone_room(g: Growth) -> CloneRoom:
    """Room for a circuit as large as `g` may become before it moves."""
    n_edges = len(g.edge)
    return CloneRoom(
        gain=np.zeros(n_edges, dtype=np.int64),
        occupied=np.zeros(n_edges, dtype=np.int32),
        target=np.zeros(n_edges, dtype=np.int32),
        contexts=np.empty(n_edges, dtype=np.int32),
    )


@kernel
def score_clones(
    g: Growth,
    c: int,
    wanted: int,
    table: FloatArray,
    unit: float,
    pairs: PairRoom,
    room: CloneRoom,
    node_score: FloatArray,
    node_edge: IntArray,
) -> None:
    """The best context of every sum at vtree node c with stamp `wanted`, and its score."""
    n_pairs = count_pairs(g, c, wanted, pairs)
    best_clones(g, pairs, n_pairs, table, unit, room, node_score, node_edge)


@kernel
def count_pairs(g: Growth, c: int, wanted: int, room: PairRoom) -> int:
    """Count the pairs (context, edge) of the sums at vtree node c with stamp `wanted`.

    A context is an edge above through which some of the sum's rows come: an edge that leads to it,
    or, where that one is the only edge of its sum, the next edge further up that is a choice.
    Returns the number of pairs, which are in `slots`; NONE (the room is spoilt) for lack of room.
    """
    top = g.vtree[c]["parent"]
    if top == NONE:
        return 0
    active = g.train_active
    keys, counts, slots = room.keys, room.counts, room.slots
    n_slots = 0
    mask = len(keys) - 1
    for s in range(active.shape[1]):
        a = active[c, s]
        if a == NONE:
            continue
        n = g.edge[a]["parent"]
        if g.node[n]["stamp"] != wanted or g.node[n]["width"] < 2:
            continue
        p = top
        b = active[p, s]
        while g.node[g.edge[b]["parent"]]["width"] == 1 and g.vtree[p]["parent"] != NONE:
            p = g.vtree[p]["parent"]
            b = active[p, s]
        key = (np.int64(b) << np.int64(32)) | np.int64(a)
        h = np.int64(b) * np.int64(1_000_003) + np.int64(a)
        i = (h ^ (h >> np.int64(17))) & mask
        while keys[i] != NONE and keys[i] != key:
            i = (i + 1) & mask
        if keys[i] == NONE:
            if n_slots == len(slots):
                return NONE
            keys[i] = key
            counts[i] = 0.0
            slots[n_slots] = i
            n_slots += 1
        counts[i] += g.train_weight[s]
    return n_slots


@kernel
def best_clones(
    g: Growth,
    pairs: PairRoom,
    n_pairs: int,
    table: FloatArray,
    unit: float,
    room: CloneRoom,
    node_score: FloatArray,
    node_edge: IntArray,
) -> None:
    """For every sum at one vtree node: its best context, and the gain of a copy per parameter.

    The pairs may come in any order, since gains are added up as whole numbers: a nat is `unit` of
    them. The pairs are removed from their room.
    """
    keys, counts, slots = pairs.keys, pairs.counts, pairs.slots
    gain, occupied, target, contexts = room.gain, room.occupied, room.target, room.contexts
    n_contexts = 0
    for k in range(n_pairs):
        i = slots[k]
        b, a = keys[i] >> np.int64(32), keys[i] & np.int64(0xFFFFFFFF)
        keys[i] = NONE
        if occupied[b] == 0:
            contexts[n_contexts] = b
            n_contexts += 1
            target[b] = g.edge[a]["parent"]
        occupied[b] += 1
        x, whole = counts[i], g.edge[a]["train"]
        gain[b] += np.int64(
            np.rint(
                unit
                * (x_log_x_in(table, x) + x_log_x_in(table, whole - x) - x_log_x_in(table, whole))
            )
        )
    for k in range(n_contexts):
        node_score[target[contexts[k]]] = -np.inf
    for k in range(n_contexts):
        b = contexts[k]
        n = target[b]
        total = count_of(g, n)
        inside = g.edge[b]["train"]
        if total - inside > 1e-9 * total:
            value = (
                gain[b] / unit
                - x_log_x_in(table, inside)
                - x_log_x_in(table, total - inside)
                + x_log_x_in(table, total)
            )
            score = value / max(1, min(g.node[n]["width"] - 1, occupied[b]))
            if score > node_score[n] or (score == node_score[n] and b < node_edge[n]):
                node_score[n] = score
                node_edge[n] = b
        gain[b] = 0
        occupied[b] = 0
