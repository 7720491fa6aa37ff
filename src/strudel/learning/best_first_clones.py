"""Score clones for best-first search: the best context of every sum, by exact gain.

In:  `Growth`, and the sums of one vtree node.
Out: for each of them the edge above that should have its own copy, and the gain per new parameter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.learning.counting import count_of, x_log_x
from strudel.learning.growth import Growth


class CloneRoom(NamedTuple):
    """What `score_clones` works in; as it should be again afterwards."""

    gain: FloatArray  # (n_edges,) 0
    occupied: IntArray  # (n_edges,) 0
    target: IntArray  # (n_edges,)
    contexts: IntArray  # (n_rows,)
    keys: AnyArray  # (2**k > n_rows,) int64 NONE: a hash table of pairs of edges
    counts: FloatArray  # the values of `keys`
    slots: AnyArray  # (n_rows,) the keys in use


def clone_room(g: Growth) -> CloneRoom:
    """Room for a circuit as large as `g` may become before it moves."""
    n_edges, n_rows = len(g.edge), g.train_active.shape[1]
    n_keys = 1 << (2 * n_rows + 16).bit_length()
    return CloneRoom(
        gain=np.zeros(n_edges),
        occupied=np.zeros(n_edges, dtype=np.int32),
        target=np.zeros(n_edges, dtype=np.int32),
        contexts=np.empty(n_rows + 1, dtype=np.int32),
        keys=np.full(n_keys, NONE, dtype=np.int64),
        counts=np.zeros(n_keys),
        slots=np.empty(n_rows + 1, dtype=np.int64),
    )


@kernel
def score_clones(
    g: Growth,
    c: int,
    wanted: int,
    table: FloatArray,
    room: CloneRoom,
    node_score: FloatArray,
    node_edge: IntArray,
) -> None:
    """For every sum at vtree node c with stamp `wanted`: its best context, and the gain of a copy.

    A context is an edge above through which some of the sum's rows come: an edge that leads to it,
    or, where that one is the only edge of its sum, the next edge further up that is a choice.
    """
    top = g.vtree["parent"][c]
    if top == NONE:
        return
    active = g.train_active
    gain, occupied, target, contexts = room.gain, room.occupied, room.target, room.contexts
    keys, counts, slots = room.keys, room.counts, room.slots
    n_contexts, n_slots = 0, 0
    mask = len(keys) - 1
    for s in range(active.shape[1]):  # the histogram of pairs (context, edge)
        a = active[c, s]
        if a == NONE:
            continue
        n = g.edge["parent"][a]
        if g.node["stamp"][n] != wanted or g.node["width"][n] < 2:
            continue
        p = top
        b = active[p, s]
        while g.node["width"][g.edge["parent"][b]] == 1 and g.vtree["parent"][p] != NONE:
            p = g.vtree["parent"][p]
            b = active[p, s]
        key = (np.int64(b) << np.int64(32)) | np.int64(a)
        h = np.int64(b) * np.int64(1_000_003) + np.int64(a)
        i = (h ^ (h >> np.int64(17))) & mask
        while keys[i] != NONE and keys[i] != key:
            i = (i + 1) & mask
        if keys[i] == NONE:
            keys[i] = key
            counts[i] = 0.0
            slots[n_slots] = i
            n_slots += 1
            if occupied[b] == 0:
                contexts[n_contexts] = b
                n_contexts += 1
                target[b] = n
            occupied[b] += 1
        counts[i] += g.train_weight[s]
    for k in range(n_slots):
        i = slots[k]
        b, a = keys[i] >> np.int64(32), keys[i] & np.int64(0xFFFFFFFF)
        whole = g.edge["train"][a]
        gain[b] += (
            x_log_x(counts[i], table) + x_log_x(whole - counts[i], table) - x_log_x(whole, table)
        )
        keys[i] = NONE
    for k in range(n_contexts):
        node_score[target[contexts[k]]] = -np.inf
    for k in range(n_contexts):
        b = contexts[k]
        n = target[b]
        total = count_of(g, n)
        inside = g.edge["train"][b]
        if total - inside > 1e-9 * total:
            value = (
                gain[b]
                - x_log_x(inside, table)
                - x_log_x(total - inside, table)
                + x_log_x(total, table)
            )
            score = value / max(1, min(g.node["width"][n] - 1, occupied[b]))
            if score > node_score[n] or (score == node_score[n] and b < node_edge[n]):
                node_score[n] = score
                node_edge[n] = b
        gain[b] = 0.0
        occupied[b] = 0
