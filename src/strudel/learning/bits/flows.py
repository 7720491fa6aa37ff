"""Circuit flows: which edges a row passes on its way through a deterministic circuit.

In:  a deterministic `BitCircuit` and fully observed rows.
Out: `Flows`, the one active edge of every row at every vtree node it reaches, and the weight
     through each edge.

Values go up the circuit, flows come down (Dang et al. 2020, section 3), 64 rows to a word. A row
activates at most one edge per vtree node, however large the circuit is, so a flow is kept as one
index per row and vtree node instead of one bit per row and edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from strudel._numba import in_threads, kernel, lowest_bit
from strudel._types import NONE, CountArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Edges
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits
from strudel.errors import CircuitPropertyError
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.properties import check_properties

BLOCK_WORDS = 8  # 512 rows: one cache line per node


@dataclass(frozen=True, eq=False)
class Flows:
    """The flows of many rows through one circuit."""

    active_edge: IntArray  # (n_vtree_nodes, n_rows) NONE where a literal is reached, or nothing is
    edge_count: CountArray  # (n_edges,) weight of the rows through each edge
    is_possible: np.ndarray  # (n_rows,) bool: whether the row reaches the root at all

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.active_edge.shape[1]


def compute_flows(
    circuit: BitCircuit, X: BitMatrix | ArrayLike, *, sample_weight: ArrayLike | None = None
) -> Flows:
    """Find the active edges of every row.

    Parameters
    ----------
    circuit : Circuit
        Deterministic, smooth and structured-decomposable.
    X : BitMatrix or array-like of shape (n_rows, n_vars)
        Fully observed rows.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row counts.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> flows = compute_flows(figure_1_circuit(), [[1, 0, 1, 0]])
    >>> int((flows.active_edge >= 0).sum())  # four choices in red, and a product without one
    5
    """
    bits = _bits_for(circuit, X, sample_weight)
    check_properties(circuit, "compute_flows", "in_normal_form")
    active = np.full((circuit.vtree.n_nodes, bits.n_rows), NONE, dtype=np.int32)
    is_twice = _sweep(circuit, bits, active, np.empty(0), np.empty((0, 0), dtype=np.uint64))
    raise_if_ambiguous(is_twice)
    count = np.zeros(circuit.n_edges)
    _count(active, bits.weights, count)
    if circuit.root >= 2 * circuit.n_vars:
        is_possible = active[circuit.vtree.root] != NONE
    else:  # the root is a literal: a single variable, fixed
        is_possible = bits.unpack()[:, 0] == circuit.root
    return Flows(active, count, is_possible)


def flow_log_likelihood(circuit: BitCircuit, X: BitMatrix | ArrayLike) -> FloatArray:
    """Log-likelihood of every row: the sum of the log-parameters of its active edges.

    It is -inf for a row that has none. Needs a deterministic circuit; the flows are not kept.
    """
    bits = _bits_for(circuit, X, None)
    total = np.full(bits.n_rows, -np.inf)
    is_twice = _sweep(circuit, bits, np.empty((0, 0), np.int32), total, np.empty((0, 0), np.uint64))
    raise_if_ambiguous(is_twice)
    return total


def dense_flows(circuit: BitCircuit, X: BitMatrix | ArrayLike) -> WordArray:
    """The paper's bit-vectors `(n_edges, n_words)`: bit r of line e is 1 if row r takes edge e."""
    bits = _bits_for(circuit, X, None)
    dense = np.zeros((circuit.n_edges, bits.words.shape[1]), dtype=np.uint64)
    _sweep(circuit, bits, np.empty((0, 0), np.int32), np.empty(0), dense)
    return dense


def _bits_for(
    circuit: BitCircuit, X: BitMatrix | ArrayLike, sample_weight: ArrayLike | None
) -> BitMatrix:
    bits = as_bits(X, sample_weight)
    if bits.n_vars != circuit.n_vars:
        raise ValueError(
            f"X has {bits.n_vars} columns, but the circuit has {circuit.n_vars} variables."
        )
    return bits


def raise_if_ambiguous(is_twice: bool) -> None:
    """Refuse a circuit in which some row took two edges of a sum."""
    if is_twice:
        raise CircuitPropertyError(
            "Flows need a deterministic circuit, but some row satisfies two edges of one sum node. "
            "why_not_deterministic(circuit) says which."
        )


def _sweep(
    circuit: BitCircuit, bits: BitMatrix, active: IntArray, total: FloatArray, dense: WordArray
) -> bool:
    """Fill the outputs that are not empty; returns whether some row took two edges of a sum."""
    n_words = bits.words.shape[1]
    n_blocks = -(-n_words // BLOCK_WORDS)
    is_twice = np.zeros(n_blocks, dtype=np.bool_)
    in_threads(
        _flow_blocks,
        n_blocks,
        bits.words,
        bits.n_rows,
        circuit.node_vtree,
        circuit.edges,
        circuit.edge_log_theta,
        active,
        total,
        dense,
        is_twice,
    )
    return bool(is_twice.any())


@kernel
def _flow_blocks(
    first: int,
    last: int,
    words: WordArray,
    n_rows: int,
    node_vtree: IntArray,
    edges: Edges,
    edge_log_theta: FloatArray,
    active: IntArray,
    total: FloatArray,
    dense: WordArray,
    is_twice: np.ndarray,
) -> None:
    """Blocks of rows are independent, so threads share nothing but the outputs' disjoint parts."""
    for block in range(first, last):
        is_twice[block], _ = flow_block(
            words,
            n_rows,
            block * BLOCK_WORDS,
            node_vtree,
            edges,
            edge_log_theta,
            active,
            total,
            dense,
            np.empty(0, dtype=np.int32),
            np.empty((0, BLOCK_WORDS), dtype=np.uint64),
            np.empty(BLOCK_WORDS, dtype=np.uint64),
        )


@kernel
def flow_block(
    words: WordArray,
    n_rows: int,
    first_word: int,
    node_vtree: IntArray,
    edges: Edges,
    edge_log_theta: FloatArray,
    active: IntArray,
    total: FloatArray,
    dense: WordArray,
    passed_edge: IntArray,
    passed_rows: WordArray,
    possible_rows: WordArray,
) -> tuple[bool, int]:
    """Values up, flows down, for the rows of BLOCK_WORDS words.

    Fills `active` (n_vtree_nodes, n_rows), `total` (n_rows,) and `dense` (n_edges, n_words) for
    these rows, `passed_edge` (n_edges,) with the edges that some of them take and `passed_rows`
    (n_edges, BLOCK_WORDS) with which, unless they are empty, and `possible_rows` (BLOCK_WORDS,).
    Returns whether some row took two edges of a sum, and how many edges are taken.
    """
    node_edges, edge_left, edge_right = edges
    n_vars, n_all_words = words.shape
    n_nodes = len(node_vtree)
    n_words = min(BLOCK_WORDS, n_all_words - first_word)
    value = np.zeros((n_nodes, BLOCK_WORDS), dtype=np.uint64)
    flow = np.zeros((n_nodes, BLOCK_WORDS), dtype=np.uint64)
    taken = np.zeros(BLOCK_WORDS, dtype=np.uint64)  # rows that an earlier edge of the same sum took
    is_twice = False
    n_passed = 0

    everyone = np.zeros(BLOCK_WORDS, dtype=np.uint64)  # bits past the last row belong to no row
    for w in range(n_words):
        left = n_rows - (first_word + w) * 64
        everyone[w] = (
            ~np.uint64(0) if left >= 64 else (np.uint64(1) << np.uint64(left)) - np.uint64(1)
        )
    for v in range(n_vars):
        for w in range(n_words):
            value[2 * v + 1, w] = words[v, first_word + w]
            value[2 * v, w] = everyone[w] & ~words[v, first_word + w]
    for n in range(2 * n_vars, n_nodes):
        for e in range(node_edges[n], node_edges[n + 1]):
            l, r = edge_left[e], edge_right[e]
            if r == NONE:
                for w in range(BLOCK_WORDS):
                    value[n, w] |= value[l, w]
            else:
                for w in range(BLOCK_WORDS):
                    value[n, w] |= value[l, w] & value[r, w]

    for w in range(BLOCK_WORDS):
        flow[n_nodes - 1, w] = value[n_nodes - 1, w]
        possible_rows[w] = value[n_nodes - 1, w]
    if len(total):
        for w in range(n_words):
            word = flow[n_nodes - 1, w]
            while word:
                total[(first_word + w) * 64 + lowest_bit(word)] = 0.0
                word &= word - np.uint64(1)
    for n in range(n_nodes - 1, 2 * n_vars - 1, -1):
        some = np.uint64(0)
        for w in range(BLOCK_WORDS):
            some |= flow[n, w]
        if not some:
            continue
        v = node_vtree[n]
        for w in range(BLOCK_WORDS):
            taken[w] = np.uint64(0)
        for e in range(node_edges[n], node_edges[n + 1]):
            l, r = edge_left[e], edge_right[e]
            is_new = True
            for w in range(n_words):
                through = flow[n, w] & value[l, w]
                if r != NONE:
                    through &= value[r, w]
                if not through:
                    continue
                is_twice |= (taken[w] & through) != np.uint64(0)
                taken[w] |= through
                flow[l, w] |= through
                if r != NONE:
                    flow[r, w] |= through
                if len(dense):
                    dense[e, first_word + w] = through
                if len(passed_edge):
                    if is_new:
                        is_new = False
                        passed_edge[n_passed] = e
                        for other in range(BLOCK_WORDS):
                            passed_rows[n_passed, other] = np.uint64(0)
                        n_passed += 1
                    passed_rows[n_passed - 1, w] = through
                if len(active) or len(total):
                    word = through
                    while word:
                        s = (first_word + w) * 64 + lowest_bit(word)
                        word &= word - np.uint64(1)
                        if len(active):
                            active[v, s] = e
                        if len(total):
                            total[s] += edge_log_theta[e]
    return is_twice, n_passed


@kernel
def _count(active: IntArray, weight: FloatArray, count: CountArray) -> None:
    """Add up the weight of the rows through each edge."""
    for v in range(active.shape[0]):
        for s in range(active.shape[1]):
            if active[v, s] != NONE:
                count[active[v, s]] += weight[s]
