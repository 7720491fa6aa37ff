"""What to split next: the edge with most rows, the variable that tells most about the others.

In:  a `GrowingCircuit`.
Out: one edge (eFLOW); one place, a variable's position among the vtree's leaves (vMI).
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.data.x_log_x import LARGEST_TABLE, x_log_x_of
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import (
    ALIVE,
    N_HEAP,
    ROOT,
    STAMP,
    Growth,
    pop,
    rows_through,
    undecided_places,
)
from strudel.learning.search.gains import Gains
from strudel.learning.search.information_scores import score_real, score_whole
from strudel.learning.search_options import EdgeScore, TieRule, VariableScore


def pick_edge(
    growing: GrowingCircuit,
    score: EdgeScore,
    rng: np.random.Generator,
    tie_rule: TieRule = "root_first",
) -> int | None:
    """The edge to split, or None when no variable is undecided anywhere.

    ``"flow"`` takes the edge with the largest weight of training rows (eFLOW). Of several,
    ``"root_first"`` takes the one nearest the root, then the oldest; ``"depth_first"`` the one
    whose sum a depth-first walk from the root, left before right, leaves first. ``"random"`` takes
    any (eRAND).
    """
    if score == "random":
        candidates = growing.candidates()
        return int(rng.choice(candidates)) if len(candidates) else None
    g = growing.growth
    edge = _largest_flow(g.size, g.heap, g.edge)
    if edge == NONE or g.edge["train"][edge] == 0.0:
        # Only edges without rows are left, and those of the last split are not in the heap yet.
        growing.queue_all()
        g = growing.growth  # it may have moved
        edge = _largest_flow(g.size, g.heap, g.edge)
    if edge == NONE:
        return None
    return int(_first_left(g) if tie_rule == "depth_first" else edge)


@kernel
def _largest_flow(size: AnyArray, heap: AnyArray, edge: AnyArray) -> int:
    """The first edge of the heap that is still what it was when it entered."""
    while size[N_HEAP] and _is_stale(heap, edge, 0):
        pop(size, heap)
    return heap[0]["edge"] if size[N_HEAP] else NONE


@kernel
def _first_left(g: Growth) -> int:
    """Of the edges tied for the largest flow, the first that a depth-first walk leaves."""
    # Equal keys are the top of the heap, a tree by themselves: walk it without taking anything out.
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    n_tied = 0
    pending = [0]
    while len(pending) > 0:
        i = pending.pop()
        if i >= g.size[N_HEAP] or g.heap[i]["key"] != g.heap[0]["key"]:
            continue
        pending.append(2 * i + 1)
        pending.append(2 * i + 2)
        e = g.heap[i]["edge"]
        if _is_stale(g.heap, g.edge, i) or g.edge[e]["stamp"] == stamp:
            continue
        g.edge[e]["stamp"] = stamp
        n_tied += 1
        v = g.node[g.edge[e]["parent"]]["vtree"]
        while v != NONE and g.vtree[v]["stamp"] != stamp:
            g.vtree[v]["stamp"] = stamp
            v = g.vtree[v]["parent"]
    if n_tied == 1:
        return g.heap[0]["edge"]
    first = np.empty(1, dtype=np.int32)
    in_depth_first_order(g, stamp, first)
    return first[0]


@kernel
def _is_stale(heap: AnyArray, edge: AnyArray, i: int) -> bool:
    """Whether the edge of a heap entry died or changed its count since."""
    e = heap[i]["edge"]
    return edge[e]["death"] != ALIVE or edge[e]["train"] != heap[i]["key"]


@kernel
def in_depth_first_order(g: Growth, stamp: int, found: IntArray) -> None:
    """Fill `found` with the first stamped edges in post-order, below stamped vtree nodes only."""
    n_found = 0
    nodes = [int(g.size[ROOT])]
    edges = [int(g.node[g.size[ROOT]]["first"])]  # next edge to descend into
    sides = [0]
    g.node[g.size[ROOT]]["stamp"] = stamp
    while len(nodes) > 0:
        e = edges[-1]
        if e == NONE:
            n = nodes.pop()
            edges.pop()
            sides.pop()
            e = g.node[n]["first"]
            while e != NONE:
                if g.edge[e]["stamp"] == stamp:
                    found[n_found] = e
                    n_found += 1
                    if n_found == len(found):
                        return
                e = g.edge[e]["next"]
            continue
        child = g.edge[e]["left"] if sides[-1] == 0 else g.edge[e]["right"]
        if sides[-1] == 0:
            sides[-1] = 1
        else:
            sides[-1] = 0
            edges[-1] = g.edge[e]["next"]
        if child == NONE or g.node[child]["stamp"] == stamp or g.node[child]["first"] == NONE:
            continue
        if g.vtree[g.node[child]["vtree"]]["stamp"] != stamp:
            continue
        g.node[child]["stamp"] = stamp
        nodes.append(int(child))
        edges.append(int(g.node[child]["first"]))
        sides.append(0)


class VariablePicker:
    """Chooses a variable below an edge; keeps its working memory from one split to the next."""

    def __init__(self, growing: GrowingCircuit, score: VariableScore, alpha: float = 1.0) -> None:
        g = growing.growth
        self.score = score
        self.alpha = float(alpha)
        self.growing = growing
        n_vars = len(g.place_var)
        if score == "random":  # needs no memory
            return
        if score == "gain":
            self.gains = Gains(growing)
            return
        # Information does not change when all weights and alpha are multiplied by one number:
        # completions that count 1/4 are as quick as rows that count 1.
        scale = _whole_scale(g.train_weight)
        self.weight = weight = g.train_weight * scale
        self.alpha *= scale
        self.is_unit = bool(np.all(weight == 1.0))
        # Larger totals are counted as real weights.
        is_whole = bool(np.all(weight == np.round(weight))) and weight.sum() < LARGEST_TABLE
        total = int(weight.sum()) if is_whole else 0
        # x ln x for x = alpha + count; counts are whole numbers unless the rows have real weights.
        self.table = x_log_x_of(np.arange(total + 1.0) + self.alpha) if is_whole else np.zeros(0)
        n_words = -(-len(weight) // 64) if self.is_unit else 0
        self.columns = np.zeros((n_vars, n_words), dtype=np.uint64)
        self.pair = np.zeros((n_vars, n_vars), dtype=np.int32 if is_whole else np.float64)
        self.touched = np.empty(n_vars * (n_vars - 1) // 2 if is_whole else 0, dtype=np.int32)
        self.slot = np.full(total + 1, NONE, dtype=np.int32)

    def pick(self, edge: int, rng: np.random.Generator) -> int:
        """The place of the variable to split on.

        ``"mutual_information"`` sums, for every variable still undecided below the edge, its
        smoothed mutual information with the other undecided ones on the rows through the edge
        (vMI); the largest wins, then the lowest variable. ``"random"`` takes any (vRAND).
        ``"gain"`` takes the one whose split gains most per new parameter.
        """
        g = self.growing.growth
        if self.score == "gain":
            return self.gains.best_place(edge)
        if self.score == "random":
            return int(rng.choice(undecided_places(g, edge)))
        places, n_rows = _list_places_and_rows(g, edge)
        rows = g.train_rows[:n_rows]
        scores = np.zeros(len(places))
        if len(self.table):
            score_whole(
                g.train_words,
                self.weight,
                rows,
                places,
                self.alpha,
                self.table,
                self.is_unit,
                self.columns,
                self.pair.ravel(),
                self.touched,
                self.slot,
                scores,
            )
        else:
            score_real(g.train_words, self.weight, rows, places, self.alpha, self.pair, scores)
        return int(best_place(g.place_var, places, scores, self.growing.train_total))


@kernel
def best_place(place_var: IntArray, places: IntArray, scores: FloatArray, total: float) -> int:
    """The place with the largest score; of several, that of the lowest variable."""
    # Sums in another order differ in the last digits, so equal means equal up to rounding.
    slack = 1e-12 * (1.0 + len(places)) * (1.0 + np.log1p(total))
    largest = -np.inf  # `scores.max()` takes half a second to compile
    for score in scores:
        largest = max(largest, score)
    enough = largest - slack
    best = NONE
    for i in range(len(places)):
        if scores[i] >= enough and (best == NONE or place_var[places[i]] < place_var[best]):
            best = places[i]
    return best


def _whole_scale(weight: FloatArray) -> float:
    """The smallest power of two up to 64 that makes all weights whole; 1 if there is none."""
    for scale in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0):
        if np.all(weight * scale == np.round(weight * scale)):
            return scale
    return 1.0


@kernel
def _list_places_and_rows(g: Growth, edge: int) -> tuple[IntArray, int]:
    """The undecided places below `edge`; and how many rows it has, listed in `train_rows`."""
    v = g.node[g.edge[edge]["parent"]]["vtree"]
    return undecided_places(g, edge), rows_through(g.train_active[v], edge, g.train_rows)
