"""The arrays of a circuit that grows, and the small operations on them that a split is made of.

`Growth` holds everything; the functions link edges into sums, count their uses, end what nothing
leads to any more, and keep likelihoods and the heap of edge counts up to date.

A sum with counts h contributes f(h_1) + f(h_2) + ... - f(h_1 + h_2 + ...) to the log-likelihood,
with f(x) = x ln x. Copying it for some of its rows divides the counts between two sums. The
contributions of both, less the old one, are the gain, so gains need counts only. A set of places
is a row of words with one bit per place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel, lowest_bit, popcount
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray

ALIVE = np.iinfo(np.int32).max  # death of an edge that has not died

# Places in `Growth.size`.
N_NODES, N_EDGES, N_ALIVE, N_HEAP, N_SPLITS, N_IMPOSSIBLE, STAMP, ROOT, SHRINKS, NO_HEAP = range(10)


# One record per node, edge, heap entry and vtree node: what belongs together lies together. With an
# array per property late splits of plants took 1.4 times (252 us against 180), and compiling the
# learner 1.6 times as long (31 s against 20). Kernels write `edge[e]["left"]`, which takes a tenth
# less to compile than `edge["left"][e]`; where `e` is an array only the latter can be assigned to.
NODE = np.dtype(
    [
        ("vtree", np.int32),
        ("first", np.int32),  # first edge, NONE at a literal
        ("width", np.int32),  # number of edges
        ("uses", np.int32),  # number of living edges that lead to the node
        ("stamp", np.int32),  # the operation that last touched the node
        ("is_open", np.bool_),  # whether some variable is undecided below
        ("is_reached", np.bool_),  # whether rows came here before the operation of its stamp
        ("chance", np.float64),  # of a one at the split place, in the operation of its stamp
        ("strength", np.float64),  # virtual rows that draw its parameters to the priors
        ("train", np.float64),  # what the node contributes to the training log-likelihood
        ("valid", np.float64),
    ],
    align=True,
)
EDGE = np.dtype(
    [
        ("parent", np.int32),
        ("left", np.int32),
        ("right", np.int32),
        ("next", np.int32),  # next edge of the same parent
        ("previous", np.int32),
        ("birth", np.int32),
        ("death", np.int32),
        ("stamp", np.int32),
        ("train", np.float64),  # weight of the training rows through it
        ("valid", np.float64),
        ("prior", np.float64),  # what its parameter is drawn to; those of a sum add up to 1
        ("key", np.float64),  # count under which the edge last entered the heap
        ("is_candidate", np.bool_),  # whether some variable is still undecided below
    ],
    align=True,
)
HEAP = np.dtype([("key", np.float64), ("depth", np.int32), ("edge", np.int32)])
VTREE = np.dtype(
    [
        ("left", np.int32),
        ("right", np.int32),
        ("parent", np.int32),
        ("depth", np.int32),
        ("first", np.int32),  # first place
        ("last", np.int32),  # last place plus one
        ("stamp", np.int32),
    ]
)


class Growth(NamedTuple):
    """Every array of the growing circuit; nodes, edges and heap have room to spare.

    A *place* is the position of a variable in the vtree's order of leaves, so that the variables
    below a vtree node are a range of places.
    """

    size: AnyArray  # (8,) int64 how much of the arrays is in use
    total: FloatArray  # (2,) log-likelihood of all training and all validation rows
    strength: FloatArray  # (1,) virtual rows of a new node, when copies shrink to their originals
    node: AnyArray  # (n,) NODE
    node_one: WordArray  # (n, n_words) places with a positive literal below
    node_zero: WordArray  # (n, n_words) places with a negative literal below
    node_copy: IntArray  # (n, 2) copies for value 0 and 1 in the operation of its stamp
    node_found: IntArray  # work list of nodes
    edge: AnyArray  # (n,) EDGE
    edge_copy: IntArray  # (n, 2)
    heap: AnyArray  # (n,) HEAP, largest count first, with stale entries
    vtree: AnyArray  # (n_vtree_nodes,) VTREE
    place_var: IntArray  # (n_vars,) variable at a place
    train_active: IntArray  # (n_vtree_nodes, n_rows) active edge
    train_words: WordArray  # (n_rows, n_words) one bit per place
    train_weight: FloatArray
    train_rows: IntArray  # work list of rows
    valid_active: IntArray
    valid_words: WordArray
    valid_weight: FloatArray
    valid_rows: IntArray


@kernel
def link(g: Growth, node_edges: IntArray) -> None:
    """Fill what follows from the first circuit: edge lists, uses, literals below each node."""
    n_literals = 2 * len(g.place_var)
    for place in range(len(g.place_var)):
        bit = np.uint64(1) << np.uint64(place % 64)
        g.node_one[2 * g.place_var[place] + 1, place // 64] = bit
        g.node_zero[2 * g.place_var[place], place // 64] = bit
    for n in range(n_literals):
        g.node[n]["first"] = NONE
    for n in range(n_literals, len(node_edges) - 1):
        g.node[n]["first"] = NONE
        last = NONE
        for e in range(node_edges[n], node_edges[n + 1]):
            append_edge(g.node, g.edge, n, last, e)
            adopt(g.node, g.edge, e)
            last = e
        collect_scope(g.node, g.edge, g.vtree, g.node_one, g.node_zero, n)


@kernel
def append_edge(node: AnyArray, edge: AnyArray, n: int, last: int, e: int) -> None:
    """Put edge e behind `last`, so far the last edge of sum n, or NONE."""
    node[n]["width"] += 1
    edge[e]["next"] = NONE
    edge[e]["previous"] = last
    if last == NONE:
        node[n]["first"] = e
    else:
        edge[last]["next"] = e


@kernel
def adopt(node: AnyArray, edge: AnyArray, e: int) -> None:
    """Count the uses of the children of a new edge, and see whether anything below is undecided."""
    l, r = edge[e]["left"], edge[e]["right"]
    node[l]["uses"] += 1
    edge[e]["is_candidate"] = False
    if r != NONE:
        node[r]["uses"] += 1
        edge[e]["is_candidate"] = node[l]["is_open"] or node[r]["is_open"]


@kernel
def collect_scope(
    node: AnyArray,
    edge: AnyArray,
    vtree: AnyArray,
    node_one: WordArray,
    node_zero: WordArray,
    n: int,
) -> None:
    """The literals below a sum are those below its edges."""
    v = node[n]["vtree"]
    first, last = vtree[v]["first"] // 64, (vtree[v]["last"] - 1) // 64 + 1
    for w in range(first, last):
        node_one[n, w] = np.uint64(0)
        node_zero[n, w] = np.uint64(0)
    e = node[n]["first"]
    while e != NONE:
        l, r = edge[e]["left"], edge[e]["right"]
        for w in range(first, last):
            node_one[n, w] |= node_one[l, w]
            node_zero[n, w] |= node_zero[l, w]
            if r != NONE:
                node_one[n, w] |= node_one[r, w]
                node_zero[n, w] |= node_zero[r, w]
        e = edge[e]["next"]
    node[n]["is_open"] = False
    for w in range(first, last):
        if node_one[n, w] & node_zero[n, w]:
            node[n]["is_open"] = True


@kernel
def new_node(size: AnyArray, node: AnyArray, v: int, strength: float) -> int:
    """A sum without edges at vtree node v."""
    n = size[N_NODES]
    size[N_NODES] += 1
    node[n]["vtree"] = v
    node[n]["first"] = NONE
    node[n]["width"] = 0
    node[n]["strength"] = strength
    return n


@kernel
def new_edge(
    size: AnyArray,
    node: AnyArray,
    edge: AnyArray,
    parent: int,
    child: int,
    other: int,
    is_left: bool,
) -> int:
    """An edge without rows; the caller links it into its parent's list."""
    e = size[N_EDGES]
    size[N_EDGES] += 1
    size[N_ALIVE] += 1
    edge[e]["parent"] = parent
    edge[e]["left"] = child if is_left else other
    edge[e]["right"] = other if is_left else child
    edge[e]["birth"] = size[N_SPLITS]
    edge[e]["death"] = ALIVE
    edge[e]["key"] = -1.0
    adopt(node, edge, e)
    return e


@kernel
def kill(size: AnyArray, node: AnyArray, edge: AnyArray, e: int) -> None:
    """End an edge, and every node below that nothing else leads to."""
    pending = [e]
    while len(pending) > 0:
        e = pending.pop()
        edge[e]["death"] = size[N_SPLITS]
        size[N_ALIVE] -= 1
        for side in range(2):
            child = edge[e]["left"] if side == 0 else edge[e]["right"]
            if child == NONE:
                continue
            node[child]["uses"] -= 1
            if node[child]["uses"] == 0:
                f = node[child]["first"]
                while f != NONE:
                    pending.append(f)
                    f = edge[f]["next"]


@kernel
def rows_through(active: IntArray, edge: int, rows: IntArray) -> int:
    """List the rows whose active edge is `edge`; returns how many."""
    n = 0
    n_rows = len(active)
    for start in range(0, n_rows, 64):
        end = min(start + 64, n_rows)
        hits = 0
        for s in range(start, end):  # vectorised; most blocks hold none when the edge is small
            hits += active[s] == edge
        if hits:
            for s in range(start, end):
                if active[s] == edge:
                    rows[n] = s
                    n += 1
    return n


@kernel
def refresh(g: Growth, n: int, pseudocount: float) -> None:
    """Bring a touched node's likelihood up to date, and the heap entries of its edges."""
    size, node, edge = g.size, g.node, g.edge
    shrinks = size[SHRINKS] != 0
    if shrinks:
        pseudocount = node[n]["strength"]
    share = pseudocount / node[n]["width"]
    is_alive = (node[n]["uses"] > 0 or n == size[ROOT]) and size[NO_HEAP] == 0
    train, valid, new_train, new_valid = 0.0, 0.0, 0.0, 0.0
    e = node[n]["first"]
    while e != NONE:
        count, passed = edge[e]["train"], edge[e]["valid"]
        if shrinks:
            share = pseudocount * edge[e]["prior"]
        if count > 0.0 or passed > 0.0:
            log_above = math.log(count + share) if count + share > 0.0 else -np.inf
            train += count
            valid += passed
            if count > 0.0:
                new_train += count * log_above
            if passed > 0.0:
                new_valid += passed * log_above
        # Edges without rows, half of all copies, wait outside until the heap is empty.
        if count > 0.0 and is_alive and edge[e]["key"] != count and edge[e]["is_candidate"]:
            push(size, g.heap, node, edge, g.vtree, e)
        e = edge[e]["next"]
    if node[n]["width"] == 1:
        new_train, new_valid = 0.0, 0.0
    else:
        if train > 0.0:
            new_train -= train * math.log(train + pseudocount)
        if valid > 0.0 and new_valid > -np.inf:
            new_valid -= valid * math.log(train + pseudocount)
    g.total[0] += new_train - node[n]["train"]
    node[n]["train"] = new_train
    for sign in range(-1, 2, 2):  # the old value goes out, the new one in; infinities are counted
        value = node[n]["valid"] if sign < 0 else new_valid
        if value == -np.inf:
            size[N_IMPOSSIBLE] += sign
        else:
            g.total[1] += sign * value
    node[n]["valid"] = new_valid


@kernel
def refresh_all(g: Growth, pseudocount: float) -> None:
    """Fill likelihoods and heap for the first circuit."""
    for n in range(2 * len(g.place_var), g.size[N_NODES]):
        refresh(g, n, pseudocount)


@kernel
def push_all(g: Growth, edges: IntArray) -> None:
    """Add many edges to the heap."""
    for e in edges:
        push(g.size, g.heap, g.node, g.edge, g.vtree, e)


@kernel
def push(
    size: AnyArray, heap: AnyArray, node: AnyArray, edge: AnyArray, vtree: AnyArray, e: int
) -> None:
    """Add an edge to the heap under its present count."""
    key = edge[e]["train"]
    depth = vtree[node[edge[e]["parent"]]["vtree"]]["depth"]
    edge[e]["key"] = key
    i = size[N_HEAP]
    size[N_HEAP] += 1
    while i > 0 and not comes_before(heap, (i - 1) // 2, key, depth, e):
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i]["key"] = key
    heap[i]["depth"] = depth
    heap[i]["edge"] = e


@kernel
def pop(size: AnyArray, heap: AnyArray) -> None:
    """Take the first entry out of the heap."""
    size[N_HEAP] -= 1
    n = size[N_HEAP]
    key, depth, edge = heap[n]["key"], heap[n]["depth"], heap[n]["edge"]
    i = 0
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and comes_before(
            heap, child + 1, heap[child]["key"], heap[child]["depth"], heap[child]["edge"]
        ):
            child += 1
        if not comes_before(heap, child, key, depth, edge):
            break
        heap[i] = heap[child]
        i = child
    heap[i]["key"] = key
    heap[i]["depth"] = depth
    heap[i]["edge"] = edge


@kernel
def comes_before(heap: AnyArray, i: int, key: float, depth: int, edge: int) -> bool:
    """Whether entry i of the heap precedes another: more rows, then nearer the root, then older."""
    if heap[i]["key"] != key:
        return heap[i]["key"] > key
    if heap[i]["depth"] != depth:
        return heap[i]["depth"] < depth
    return heap[i]["edge"] < edge


@kernel
def count_of(g: Growth, n: int) -> float:
    """Weight of the training rows through a sum."""
    total = 0.0
    e = g.node[n]["first"]
    while e != NONE:
        total += g.edge[e]["train"]
        e = g.edge[e]["next"]
    return total


@kernel
def undecided_places(g: Growth, edge: int) -> IntArray:
    """The places of the variables with both literals below an edge."""
    # By way of `undecided` and `places_in` it would take 0.6 s longer to compile.
    places = np.empty(len(g.place_var), dtype=np.int32)
    n = 0
    for side in range(2):
        child = g.edge[edge]["left"] if side == 0 else g.edge[edge]["right"]
        v = g.node[child]["vtree"]
        for w in range(g.vtree[v]["first"] // 64, (g.vtree[v]["last"] - 1) // 64 + 1):
            word = g.node_one[child, w] & g.node_zero[child, w]
            while word:
                places[n] = w * 64 + lowest_bit(word)
                n += 1
                word &= word - np.uint64(1)
    return places[:n]


@kernel
def undecided(g: Growth, edge: int, both_sides: bool) -> WordArray:
    """The places with both literals below an edge, or below its left child only."""
    mask = np.zeros(g.train_words.shape[1], dtype=np.uint64)
    for side in range(2 if both_sides else 1):
        child = g.edge[edge]["left"] if side == 0 else g.edge[edge]["right"]
        u = g.node[child]["vtree"]
        for w in range(g.vtree[u]["first"] // 64, (g.vtree[u]["last"] - 1) // 64 + 1):
            mask[w] |= g.node_one[child, w] & g.node_zero[child, w]
    return mask


@kernel
def places_in(mask: WordArray) -> IntArray:
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
def words_in(mask: WordArray) -> tuple[int, int]:
    """The first word with a one, and the last one plus one."""
    low, high = len(mask), 0
    for w in range(len(mask)):
        if mask[w]:
            low, high = min(low, w), w + 1
    return low, high


@kernel
def count_ones(g: Growth, rows: IntArray, mask: WordArray, first: int, one: FloatArray) -> float:
    """Weight of the rows with a one at every place; returns that of all rows."""
    low, high = words_in(mask)
    total = 0.0
    for s in rows:
        weight = g.train_weight[s]
        total += weight
        for w in range(low, high):
            word = g.train_words[s, w] & mask[w]
            while word:
                one[w * 64 + lowest_bit(word) - first] += weight
                word &= word - np.uint64(1)
    return total
