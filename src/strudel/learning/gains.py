"""Exact gains: how much a clone or a split would raise the training log-likelihood.

In:  `Growth`; sums at a vtree node, or edges and the variables undecided below them.
Out: the best context of every sum, the best variable of every edge, each with its gain per new
     parameter.

A sum with counts h contributes f(h_1) + f(h_2) + ... - f(h_1 + h_2 + ...) to the log-likelihood,
with f(x) = x ln x. Copying it for some of its rows divides the counts between two sums, and the
contributions of both, less the old one, are the gain. So gains need counts only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strudel._numba import kernel, lowest_bit, popcount, run_blocks
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.learning.growing import GrowingCircuit
from strudel.learning.growth import STAMP, Growth, rows_through

MOST_PLACES = 64  # variables that are compared at all, the most balanced ones
LONG = 2048  # rows of an edge beyond which its variables are first compared on a part of them
SHORT_LIST = 12  # variables that are then compared on all rows
N_PRICED = 3  # the best of them, for which the copied edges are counted, too
EDGE_PRICE = 0.05  # of an edge without rows, in parameters; else circuits grow and learn nothing
LARGEST_TABLE = 2**22  # entries of x ln x, 32 MiB; beyond, logarithms are taken one by one
MUCH = 2e6  # rows by vtree nodes: with less to do, threads cost more than they save
N_LANES = 4  # shares of the edges to score; the result does not depend on it
LEAST_GAIN = 3.0  # nats per parameter: copies that gain less are not counted to a split


class Gains:
    """Scores splits and clones of a growing circuit; keeps its working memory between calls."""

    def __init__(self, growing: GrowingCircuit, least_gain: float = LEAST_GAIN) -> None:
        self.growing = growing
        self.least_gain = float(least_gain)
        self.table = _whole_table(growing.growth.train_weight)
        self._room = _make_room(growing.growth)

    def of_clones(self, v: int, node_score: FloatArray, node_edge: IntArray) -> None:
        """Score the best clone of every sum at vtree node v that has the latest stamp."""
        g = self.growing.growth
        _score_clones(g, v, g.size[STAMP], self.table, self._rooms(), node_score, node_edge)

    def of_splits(
        self,
        edges: IntArray,
        edge_score: FloatArray,
        edge_place: IntArray,
    ) -> None:
        """Score the best split of each of these edges."""
        g, room = self.growing.growth, self._rooms()
        rows = np.minimum(g.edge["train"][edges], LONG).sum()
        n_lanes = N_LANES if rows * len(g.vtree) > MUCH else 1
        shares = [np.ascontiguousarray(edges[lane::n_lanes]) for lane in range(n_lanes)]

        def score(part: slice) -> None:
            lane = part.start
            _score_splits(
                g, shares[lane], self.table, self.least_gain, room, lane, edge_score, edge_place
            )

        run_blocks(score, n_lanes, 1)

    def of_variables(self, edge: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """For every undecided place below an edge its gain, and the parameters that it adds.

        The gain is in nats of training likelihood, without smoothing. It includes that of the
        copies beside the way which the split makes possible and `least_gain` asks for.
        """
        g = self.growing.growth
        mask = _undecided(g, edge)
        v = int(g.node["vtree"][g.edge["parent"][edge]])
        room = self._rooms()
        rows = room.rows[0][: rows_through(g.train_active[v], edge, room.rows[0])]
        first, last = int(g.vtree["first"][v]), int(g.vtree["last"][v])
        gains, costs = np.full(last - first, -np.inf), np.ones(last - first)
        _split_gains(
            g,
            v,
            rows,
            mask,
            False,
            self.table,
            self.least_gain,
            room.local[0],
            room.local_node[0],
            gains,
            costs,
        )
        places = _places(mask)
        return places, gains[places - first], costs[places - first]

    def best_place(self, edge: int) -> int:
        """On which variable to split an edge: its place."""
        g, room = self.growing.growth, self._rooms()
        score, place = np.empty(len(g.edge)), np.empty(len(g.edge), dtype=np.int32)
        one = np.array([edge], dtype=np.int32)
        _score_splits(g, one, self.table, self.least_gain, room, 0, score, place)
        return int(place[edge])

    def _rooms(self) -> Room:
        """The working memory, as large as the circuit has become."""
        g = self.growing.growth
        if len(self._room.gain) < len(g.edge) or self._room.seen.shape[1] < len(g.node):
            self._room = _make_room(g)
        return self._room


def _whole_table(weight: FloatArray) -> FloatArray:
    """X ln x for all counts that whole weights can add up to; empty for other weights."""
    if not np.all(weight == np.round(weight)) or weight.sum() >= LARGEST_TABLE:
        return np.zeros(0)
    x = np.arange(weight.sum() + 1)
    return np.asarray(x * np.log(np.maximum(x, 1.0)))


class Room(NamedTuple):
    """What the kernels here work in; one lane per thread."""

    gain: FloatArray  # (n_edges,) 0
    occupied: IntArray  # (n_edges,) 0
    target: IntArray  # (n_edges,)
    contexts: IntArray  # (n_rows,)
    keys: AnyArray  # (2**k > n_rows,) int64 NONE: a hash table of pairs of edges
    counts: FloatArray  # the values of `keys`
    slots: AnyArray  # (n_rows,) the keys in use
    local: IntArray  # (n_lanes, n_edges) NONE
    local_node: IntArray  # (n_lanes, n_nodes) NONE
    seen: IntArray  # (n_lanes, n_nodes)
    round: IntArray  # (n_lanes,)
    rows: IntArray  # (n_lanes, n_rows)


def _make_room(g: Growth) -> Room:
    n_nodes, n_edges, n_rows = len(g.node), len(g.edge), g.train_active.shape[1]
    n_keys = 1 << (2 * n_rows + 16).bit_length()
    return Room(
        gain=np.zeros(n_edges),
        occupied=np.zeros(n_edges, dtype=np.int32),
        target=np.zeros(n_edges, dtype=np.int32),
        contexts=np.empty(n_rows + 1, dtype=np.int32),
        keys=np.full(n_keys, NONE, dtype=np.int64),
        counts=np.zeros(n_keys),
        slots=np.empty(n_rows + 1, dtype=np.int64),
        local=np.full((N_LANES, n_edges), NONE, dtype=np.int32),
        local_node=np.full((N_LANES, n_nodes), NONE, dtype=np.int32),
        seen=np.zeros((N_LANES, n_nodes), dtype=np.int32),
        round=np.zeros(N_LANES, dtype=np.int32),
        rows=np.empty((N_LANES, n_rows), dtype=np.int32),
    )


@kernel
def _f(x: float, table: FloatArray) -> float:
    """X ln x; whole numbers are looked up where the weights are whole."""
    if x <= 0.0:
        return 0.0
    if len(table):
        return table[np.int64(x)]
    return x * np.log(x)


@kernel
def _score_clones(
    g: Growth,
    c: int,
    wanted: int,
    table: FloatArray,
    room: Room,
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
        gain[b] += _f(counts[i], table) + _f(whole - counts[i], table) - _f(whole, table)
        keys[i] = NONE
    for k in range(n_contexts):
        node_score[target[contexts[k]]] = -np.inf
    for k in range(n_contexts):
        b = contexts[k]
        n = target[b]
        total = count_of(g, n)
        inside = g.edge["train"][b]
        if total - inside > 1e-9 * total:
            value = gain[b] - _f(inside, table) - _f(total - inside, table) + _f(total, table)
            score = value / max(1, min(g.node["width"][n] - 1, occupied[b]))
            if score > node_score[n] or (score == node_score[n] and b < node_edge[n]):
                node_score[n] = score
                node_edge[n] = b
        gain[b] = 0.0
        occupied[b] = 0


@kernel
def count_of(g: Growth, n: int) -> float:
    """Weight of the training rows through a sum."""
    total = 0.0
    e = g.node["first"][n]
    while e != NONE:
        total += g.edge["train"][e]
        e = g.edge["next"][e]
    return total


@kernel
def _score_splits(
    g: Growth,
    edges: IntArray,
    table: FloatArray,
    least: float,
    room: Room,
    lane: int,
    edge_score: FloatArray,
    edge_place: IntArray,
) -> None:
    """For every one of `edges` its best place, and the gain of that split per unit of its cost."""
    for e in edges:
        edge_score[e], edge_place[e] = _score_split(g, e, table, least, room, lane)


@kernel
def _score_split(
    g: Growth, edge: int, table: FloatArray, least: float, room: Room, lane: int
) -> tuple[float, int]:
    v = g.node["vtree"][g.edge["parent"][edge]]
    rows, local, local_node = room.rows[lane], room.local[lane], room.local_node[lane]
    rows = rows[: rows_through(g.train_active[v], edge, rows)]
    first, last = g.vtree["first"][v], g.vtree["last"][v]
    mask = _undecided(g, edge)
    best_score, best_place = -np.inf, _places(mask)[0]
    gains = np.full(last - first, -np.inf)
    costs = np.ones(last - first)
    _keep_balanced(g, rows, mask, first, gains, costs)
    if len(rows) > LONG:
        step = len(rows) // LONG
        _split_gains(
            g, v, rows[::step].copy(), mask, True, table, least, local, local_node, gains, costs
        )
        mask[:] = np.uint64(0)
        for _ in range(SHORT_LIST):
            i, gain = _take_best(gains, costs)
            if gain > -np.inf:
                mask[(first + i) // 64] |= np.uint64(1) << np.uint64((first + i) % 64)
        gains[:] = -np.inf
        costs[:] = 1.0
    _split_gains(g, v, rows, mask, False, table, least, local, local_node, gains, costs)
    for _ in range(N_PRICED):
        i, gain = _take_best(gains, costs)
        if gain > 0.0:
            n_edges = _n_copied(g, edge, first + i, room, lane)
            score = gain / (costs[i] + EDGE_PRICE * n_edges)
            if score > best_score or (score == best_score and first + i < best_place):
                best_score, best_place = score, first + i
    return best_score, best_place


@kernel
def _keep_balanced(
    g: Growth,
    rows: IntArray,
    mask: WordArray,
    first: int,
    balance: FloatArray,
    costs: FloatArray,
) -> None:
    """Of very many places keep those whose rarer value is most frequent; others gain little."""
    n_places = 0
    for word in mask:
        n_places += popcount(word)
    if n_places <= MOST_PLACES:
        return
    one = np.zeros(len(balance))
    total = _count_ones(g, rows, mask, first, one)
    for place in _places(mask):
        balance[place - first] = min(one[place - first], total - one[place - first])
    mask[:] = np.uint64(0)
    for _ in range(MOST_PLACES):
        i, _balance = _take_best(balance, costs)
        mask[(first + i) // 64] |= np.uint64(1) << np.uint64((first + i) % 64)
    balance[:] = -np.inf


@kernel
def _take_best(gains: FloatArray, costs: FloatArray) -> tuple[int, float]:
    """The place with the largest gain per parameter, and its gain, which is then taken out."""
    best = 0
    for i in range(1, len(gains)):
        if gains[i] / costs[i] > gains[best] / costs[best]:
            best = i
    gain = gains[best]
    gains[best] = -np.inf
    return best, gain


@kernel
def _undecided(g: Growth, edge: int) -> WordArray:
    """The places with both literals below an edge, as bits."""
    mask = np.zeros(g.train_words.shape[1], dtype=np.uint64)
    for side in range(2):
        child = g.edge["left"][edge] if side == 0 else g.edge["right"][edge]
        u = g.node["vtree"][child]
        for w in range(g.vtree["first"][u] // 64, (g.vtree["last"][u] - 1) // 64 + 1):
            mask[w] |= g.node_one[child, w] & g.node_zero[child, w]
    return mask


@kernel
def _n_copied(g: Growth, edge: int, place: int, room: Room, lane: int) -> int:
    """How many edges a split copies, once for each value."""
    seen = room.seen[lane]
    room.round[lane] += 1
    now = room.round[lane]
    word, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
    v = g.node["vtree"][g.edge["parent"][edge]]
    is_left = place < g.vtree["last"][g.vtree["left"][v]]
    pending = [np.int64(g.edge["left"][edge] if is_left else g.edge["right"][edge])]
    n_edges = 0
    while len(pending) > 0:
        n = pending.pop()
        v = g.node["vtree"][n]
        if g.vtree["left"][v] == NONE:
            continue
        is_left = place < g.vtree["last"][g.vtree["left"][v]]
        e = g.node["first"][n]
        while e != NONE:
            n_edges += 2
            child = g.edge["left"][e] if is_left else g.edge["right"][e]
            if seen[child] != now and g.node_one[child, word] & g.node_zero[child, word] & bit:
                seen[child] = now
                pending.append(np.int64(child))
            e = g.edge["next"][e]
    return n_edges


@kernel
def _split_gains(
    g: Growth,
    v: int,
    rows: IntArray,
    mask: WordArray,
    is_part: bool,
    table: FloatArray,
    least: float,
    local: IntArray,
    local_node: IntArray,
    gains: FloatArray,
    costs: FloatArray,
) -> None:
    """Gain and number of new parameters of splitting an edge on each place in `mask`."""
    first = g.vtree["first"][v]
    one = np.zeros(len(gains))
    total = _count_ones(g, rows, mask, first, one)
    usable = mask.copy()
    for w in range(len(mask)):
        word = mask[w]
        while word:
            place = w * 64 + lowest_bit(word)
            x = one[place - first]
            if x == 0.0 or x == total:
                usable[w] &= ~(word & (~word + np.uint64(1)))
            else:
                gains[place - first] = _f(x, table) + _f(total - x, table) - _f(total, table)
            word &= word - np.uint64(1)
    column = np.empty(len(gains), dtype=np.int32)
    pending: list[Any] = [np.int64(g.vtree["left"][v]), np.int64(g.vtree["right"][v])]
    masks = [usable, usable]
    while len(pending) > 0:
        u, mask = pending.pop(), masks.pop()
        places = _places(mask)
        if len(places) == 0:
            continue
        for k in range(len(places)):
            column[places[k] - first] = k
        edges, here, hist = _histogram(g, u, rows, mask, first, column, len(places), local)
        if len(edges) == 0:
            continue
        below = _add_gains(
            g, u, edges, here, hist, places, is_part, table, least, first, local_node, gains, costs
        )
        if g.vtree["left"][u] != NONE:
            pending.append(np.int64(g.vtree["left"][u]))
            pending.append(np.int64(g.vtree["right"][u]))
            masks.append(below)
            masks.append(below)


@kernel
def _places(mask: WordArray) -> IntArray:
    """The places in a set of bits."""
    n = 0
    for word in mask:
        n += popcount(word)
    places = np.empty(n, dtype=np.int32)
    k = 0
    for w in range(len(mask)):
        word = mask[w]
        while word:
            places[k] = w * 64 + lowest_bit(word)
            word &= word - np.uint64(1)
            k += 1
    return places


@kernel
def _count_ones(g: Growth, rows: IntArray, mask: WordArray, first: int, one: FloatArray) -> float:
    """Weight of the rows with a one at every place; returns that of all rows."""
    total = 0.0
    for s in rows:
        weight = g.train_weight[s]
        total += weight
        for w in range(len(mask)):
            word = g.train_words[s, w] & mask[w]
            while word:
                one[w * 64 + lowest_bit(word) - first] += weight
                word &= word - np.uint64(1)
    return total


@kernel
def _histogram(
    g: Growth,
    u: int,
    rows: IntArray,
    mask: WordArray,
    first: int,
    column: IntArray,
    n_columns: int,
    local: IntArray,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Active edges at u, their weights, and the weight of their rows with a one at each place."""
    active = g.train_active[u]
    edges = np.empty(min(len(rows), 1 << 30), dtype=np.int32)
    n_edges = 0
    for s in rows:
        e = active[s]
        if e != NONE and local[e] == NONE:
            local[e] = n_edges
            edges[n_edges] = e
            n_edges += 1
    edges = edges[:n_edges]
    here = np.zeros(n_edges)
    hist = np.zeros((n_edges, n_columns))
    low, high = len(mask), 0
    for w in range(len(mask)):
        if mask[w]:
            low, high = min(low, w), w + 1
    for s in rows:
        e = active[s]
        if e == NONE:
            continue
        k = local[e]
        weight = g.train_weight[s]
        here[k] += weight
        for w in range(low, high):
            word = g.train_words[s, w] & mask[w]
            while word:
                hist[k, column[w * 64 + lowest_bit(word) - first]] += weight
                word &= word - np.uint64(1)
    for e in edges:
        local[e] = NONE
    return edges, here, hist


@kernel
def _add_gains(
    g: Growth,
    u: int,
    edges: IntArray,
    here: FloatArray,
    hist: FloatArray,
    places: IntArray,
    is_part: bool,
    table: FloatArray,
    least: float,
    first: int,
    local_node: IntArray,
    gains: FloatArray,
    costs: FloatArray,
) -> WordArray:
    """Add the gains of the copies at u; returns the places that reach the vtree nodes below.

    On the way to its leaf a place needs copies. Beside the way a copy is made where it pays; the
    split is what makes it possible, so its gain counts.
    """
    below = np.zeros(g.train_words.shape[1], dtype=np.uint64)
    start, end = g.vtree["first"][u], g.vtree["last"][u]
    n_columns = len(places)
    n_nodes = 0
    nodes = np.empty(len(edges), dtype=np.int32)
    for e in edges:
        n = g.edge["parent"][e]
        if local_node[n] == NONE:
            local_node[n] = n_nodes
            nodes[n_nodes] = n
            n_nodes += 1
    inside = np.zeros(n_nodes)
    one, value = np.zeros((n_nodes, n_columns)), np.zeros((n_nodes, n_columns))
    free = np.full((n_nodes, n_columns), -2.0)
    for k in range(len(edges)):
        j = local_node[g.edge["parent"][edges[k]]]
        h = here[k]
        inside[j] += h
        if is_part:
            rest = -_f(h, table)
        else:
            count = g.edge["train"][edges[k]]
            rest = _f(count - h, table) - _f(count, table)
        for i in range(n_columns):
            x = hist[k, i]
            value[j, i] += rest
            if x > 0.0:
                one[j, i] += x
                value[j, i] += _f(x, table)
                free[j, i] += 1.0
            if h - x > 0.0:
                value[j, i] += _f(h - x, table)
                free[j, i] += 1.0
    for j in range(n_nodes):
        n = nodes[j]
        local_node[n] = NONE
        if is_part:
            rest = _f(inside[j], table)
        else:
            total = count_of(g, n)
            rest = _f(total, table) - _f(total - inside[j], table)
        is_unary = g.node["width"][n] == 1
        for i in range(n_columns):
            place = places[i]
            word, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
            x = one[j, i]
            gain = value[j, i] + rest - _f(x, table) - _f(inside[j] - x, table)
            cost = max(0.0, free[j, i])
            if start <= place < end:
                below[word] |= bit
                if not (g.node_one[n, word] & g.node_zero[n, word] & bit):
                    continue  # decided: it is not copied
            elif is_unary:
                below[word] |= bit
                continue
            elif gain > least * max(1.0, cost):
                below[word] |= bit
            else:
                continue
            gains[place - first] += gain
            costs[place - first] += cost
    return below
