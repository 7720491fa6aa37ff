"""Samples, free or given what is known: one pass up per evidence, then one walk down per sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel, parallel_kernel, prange
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import check_in_normal_form, check_smooth
from strudel.queries.arguments import given_rows
from strudel.queries.conditional import conditional_parameters
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import circuit_of
from strudel.queries.passes import (
    LANES,
    Plan,
    encode,
    is_fit_for_passes,
    log_probabilities,
    pass_up,
    plan,
    working_memory,
)

BLOCK_NUMBERS = 2**22  # random numbers drawn at a time
PIECE = 512  # samples that one pass up serves at most, so that all threads have work


def sample(model: Circuit, n: int = 1, rng: np.random.Generator | int | None = None) -> ByteArray:
    """Draw rows from the model.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Smooth and structured-decomposable.
    n : int
        Number of rows.
    rng : numpy Generator or seed

    Returns
    -------
    uint8 ndarray of shape (n, n_vars)

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> rows = sample(figure_1_circuit(), 10000, rng=0)
    >>> bool(abs(rows[:, 3].mean() - 0.4) < 0.02)
    True
    """
    circuit = circuit_of(model)
    nothing = np.full((1, circuit.n_vars), np.nan)
    return _draw(circuit, nothing, n, rng, "sample")[0]


def sample_conditional(
    model: Circuit, given: Any, n: int = 1, rng: np.random.Generator | int | None = None
) -> ByteArray:
    """Draw completions of partly observed rows, exactly from `p(rest | given)`.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Smooth and structured-decomposable.
    given : array-like of shape (n_vars,) or (n_rows, n_vars), frame, or dict by feature name
        0, 1, or NaN where the value is unknown.
    n : int
        Number of completions per row.
    rng : numpy Generator or seed

    Returns
    -------
    uint8 ndarray
        Of shape (n, n_vars) for a dict or a single row without its own axis, else (n_rows, n,
        n_vars).

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> sample_conditional(figure_1_circuit(), {"X1": 1, "X2": 0, "X3": 1, "X4": 0}, n=2, rng=0)
    array([[1, 0, 1, 0],
           [1, 0, 1, 0]], dtype=uint8)
    """
    circuit = circuit_of(model)
    evidence, is_single = given_rows(circuit, given)
    rows = _draw(circuit, evidence, n, rng, "sample_conditional")
    return rows[0] if is_single else rows


def _draw(
    circuit: Circuit,
    evidence: FloatArray,
    n: int,
    rng: np.random.Generator | int | None,
    query: str,
) -> ByteArray:
    """Rows of shape (n_evidence, n, n_vars)."""
    if not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"n must be a whole number of rows, zero or more, but is {n!r}.")
    if not (circuit.is_smooth and circuit.is_in_normal_form):
        check_smooth(circuit, query)
        check_in_normal_form(circuit, query)
    raise_if_impossible(log_probabilities(circuit, evidence, query))
    rng = np.random.default_rng(rng)
    codes = encode(evidence)
    layout = plan(circuit)
    n_vtree = circuit.vtree.n_nodes
    is_fit = is_fit_for_passes(circuit)
    out = np.empty((len(codes) * n, circuit.n_vars), dtype=np.uint8)
    block = max(PIECE, BLOCK_NUMBERS // n_vtree)
    for start in range(0, len(out), block):
        stop = min(start + block, len(out))
        # One number per sample and vtree node, drawn in order: threads cannot change the result.
        numbers = rng.random((stop - start, n_vtree))
        piece_start, piece_stop = _pieces(start, stop, n)
        piece_codes = codes[piece_start // n]
        is_lost = np.ones(len(piece_codes), dtype=np.bool_)
        if is_fit:
            _walk_pieces(
                piece_codes,
                piece_start - start,
                piece_stop - start,
                numbers,
                layout,
                circuit.root,
                out[start:stop],
                is_lost,
            )
        for piece in np.flatnonzero(is_lost):
            theta = conditional_parameters(circuit, piece_codes[piece : piece + 1], query)[:, 0]
            rows = slice(piece_start[piece], piece_stop[piece])
            own = slice(rows.start - start, rows.stop - start)
            _walk_given_parameters(numbers[own], layout, circuit.root, theta, out[rows])
    return out.reshape(len(codes), n, circuit.n_vars)


def _pieces(start: int, stop: int, n: int) -> tuple[AnyArray, AnyArray]:
    """Cut samples start:stop where the evidence changes (every n), and at most PIECE apart."""
    cuts = np.unique(
        np.concatenate([np.arange(start, stop, PIECE), np.arange(-(-start // n) * n, stop, n)])
    )
    return cuts, np.append(cuts[1:], stop)


@parallel_kernel
def _walk_pieces(
    codes: AnyArray,
    piece_start: AnyArray,
    piece_stop: AnyArray,
    numbers: FloatArray,
    p: Plan,
    root: int,
    out: ByteArray,
    is_lost: AnyArray,
) -> None:
    """Eight pieces share a pass up; then every sample of each walks down."""
    n_blocks = (len(codes) + LANES - 1) // LANES
    n_chunks = min(n_blocks, 16)
    for chunk in prange(n_chunks):
        value, scale, exponent = working_memory(p)
        stack = np.empty(len(p.vtree_var) + 1, dtype=np.int32)
        for block in range(np.int64(chunk), n_blocks, n_chunks):
            start = block * LANES
            width = min(LANES, len(codes) - start)
            lost = pass_up(codes, start, width, p, value, scale, exponent)
            for b in range(width):
                is_lost[start + b] = lost >> b & 1
                if is_lost[start + b]:
                    continue
                for s in range(piece_start[start + b], piece_stop[start + b]):
                    _walk(p, root, value, scale, b, numbers[s], stack, out[s])


@kernel
def _walk(
    p: Plan,
    root: int,
    value: FloatArray,
    scale: FloatArray,
    b: int,
    numbers: FloatArray,
    stack: IntArray,
    row: ByteArray,
) -> None:
    """Choose one edge at every sum on the way, in proportion to its share of the sum's value."""
    n_literals = 2 * len(row)
    stack[0] = root
    size = 1
    while size > 0:
        size -= 1
        n = stack[size]
        if n < n_literals:
            row[n // 2] = n % 2
            continue
        v = p.sum_vtree[n - n_literals]
        rest = numbers[v] * value[n, b] / scale[v, b]
        chosen = NONE
        for e in range(p.node_edges[n], p.node_edges[n + 1]):
            part = p.edge_theta[e] * value[p.edge_left[e], b]
            if p.edge_right[e] != NONE:
                part *= value[p.edge_right[e], b]
            if part > 0.0:
                chosen = e  # rounding may leave a last crumb: then the last possible edge takes it
                rest -= part
                if rest < 0.0:
                    break
        stack[size] = p.edge_left[chosen]
        size += 1
        if p.edge_right[chosen] != NONE:
            stack[size] = p.edge_right[chosen]
            size += 1


@kernel
def _walk_given_parameters(
    numbers: FloatArray, p: Plan, root: int, theta: FloatArray, out: ByteArray
) -> None:
    """The same walks with the parameters given the evidence, for rows that lost digits."""
    n_literals = 2 * out.shape[1]
    stack = np.empty(len(p.vtree_var) + 1, dtype=np.int32)
    for s in range(len(out)):
        stack[0] = root
        size = 1
        while size > 0:
            size -= 1
            n = stack[size]
            if n < n_literals:
                out[s, n // 2] = n % 2
                continue
            rest = numbers[s, p.sum_vtree[n - n_literals]]
            chosen = NONE
            for e in range(p.node_edges[n], p.node_edges[n + 1]):
                if theta[e] > 0.0:
                    chosen = e
                    rest -= theta[e]
                    if rest < 0.0:
                        break
            stack[size] = p.edge_left[chosen]
            size += 1
            if p.edge_right[chosen] != NONE:
                stack[size] = p.edge_right[chosen]
                size += 1
