"""Samples, free or given what is known: one pass up per evidence, then one walk down per sample.

In a mixture a sample first takes a component, by its posterior given the evidence; samples of the
same evidence and component share a pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strudel._numba import in_threads, kernel, lane
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import (
    LANES,
    Plan,
    encode,
    pass_up,
    plan,
    set_literals,
    working_memory,
)
from strudel.circuits.properties import check_properties
from strudel.data.argument_checks import RandomState, generator_from
from strudel.data.validation import slices
from strudel.queries.arguments import given_rows
from strudel.queries.by_block import by_block
from strudel.queries.column_answers import as_table
from strudel.queries.conditional_parameters import parameters_in_logs
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model, Part, model_of, part_of, structure_of
from strudel.queries.probabilities import (
    component_log_probabilities,
    log_mean,
    log_probabilities,
    posterior,
)

BLOCK_NUMBERS = 2**22  # random numbers drawn at a time
PIECE = 512  # samples that one pass up serves at most, so that all threads have work


@by_block("given")
def sample(
    model: Model,
    n_samples: int = 1,
    given: Any = None,
    random_state: RandomState = None,
    *,
    missing: bool = False,
) -> ByteArray:
    """Draw rows from the model, or complete partly known rows, exactly from `p(rest | given)`.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and structured-decomposable.
    n_samples : int
        Number of rows; per row of `given` if that is a table.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    random_state : int, numpy Generator, RandomState or None
        For lazy rows, block b draws from the seed and b: other blocks give other draws.
    missing : bool, default=False
        Whether values are missing in the rows as in the table that the model was learned from: by
        rule where a rule was found, else as often as given the column on which it depends most.

    Returns
    -------
    uint8 ndarray of shape (n_samples, n_vars)
        With an axis of rows before these, (n_rows, n_samples, n_vars), if `given` is a table. If
        the model was learned from a table, a frame of all these rows: what is given stays as
        it is, and numbers and dates are drawn from their density within their cell.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> rows = sample(circuit, 10000, random_state=0)
    >>> bool(abs(rows[:, 3].mean() - 0.4) < 0.02)
    True
    >>> sample(circuit, 2, given={"X1": 1, "X2": 0, "X3": 1}, random_state=0)
    array([[1, 0, 1, 0],
           [1, 0, 1, 1]], dtype=uint8)
    """
    model = model_of(model)
    if missing and model.table_code is None:
        raise ValueError(
            "missing=True draws missing values as the columns of a table have them, but this model "
            "was learned from 0 and 1, and knows of no missing values."
        )
    evidence, is_single = given_rows(model, given)
    rng = generator_from(random_state)
    rows = draw_rows(model, evidence, n_samples, rng, "sample")
    rows = rows[0] if is_single else rows
    return as_table(model, rows, given, rng, with_missing=missing)


def draw_rows(
    model: Model,
    evidence: FloatArray,
    n: int,
    random_state: RandomState,
    query: str,
) -> ByteArray:
    """Rows of shape (n_evidence, n, n_vars)."""
    if not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"n_samples must be a whole number of rows, zero or more, but is {n!r}.")
    check_properties(structure_of(model), query, "smooth", "in_normal_form")
    codes, rng = encode(evidence), generator_from(random_state)
    out = np.empty((len(codes) * n, model.n_vars), dtype=np.uint8)
    walkers = _Walkers.of(part_of(model))
    n_vtree, is_mixture = model.vtree.n_nodes, isinstance(model, Mixture)
    # One number per sample and vtree node, drawn in order: threads cannot change the result. One
    # more chooses the component of a mixture.
    for part in slices(len(out), max(PIECE, BLOCK_NUMBERS // (n_vtree + len(walkers.is_moderate)))):
        numbers = rng.random((part.stop - part.start, n_vtree + is_mixture))
        row = np.arange(part.start, part.stop) // n
        log_p = component_log_probabilities(model, codes[row[0] : row[-1] + 1], query)
        raise_if_impossible(log_mean(model, log_p), first_row=int(row[0]))
        component = _choose(posterior(model, log_p), row - row[0], numbers[:, -1])
        order = np.lexsort((row, component))
        walkers.walk(codes, row, component, order, numbers, out[part])
    if len(out) == 0:
        raise_if_impossible(log_probabilities(model, evidence, query))
    return out.reshape(len(evidence), n, model.n_vars)


def _choose(weight: FloatArray, row: AnyArray, number: FloatArray) -> AnyArray:
    """The component of each sample: its number lies within the component's share of its row."""
    if weight.shape[1] == 1:
        return np.zeros(len(row), dtype=np.int64)
    last = np.cumsum(weight, axis=1)
    last /= last[:, -1:]
    return (last[row] <= number[:, np.newaxis]).sum(axis=1)


class _Walkers(NamedTuple):
    """The components, ready for walks of samples."""

    structure: Circuit
    edge_log_theta: FloatArray  # (n_edges, n_components)
    theta: FloatArray  # (n_components, n_edges), or (n_edges,) of a single one
    is_moderate: AnyArray  # (n_components,)

    @classmethod
    def of(cls, part: Part) -> _Walkers:
        with np.errstate(over="ignore"):  # such components are walked in logs
            theta = np.ascontiguousarray(np.exp(part.edge_log_theta.T))
        theta = theta[0] if len(theta) == 1 else theta
        return cls(part.structure, part.edge_log_theta, theta, part.is_moderate)

    def walk(
        self,
        codes: AnyArray,
        row: AnyArray,
        component: AnyArray,
        order: AnyArray,
        numbers: FloatArray,
        out: ByteArray,
    ) -> None:
        """Fill the samples `order` of `out`, sorted by component and row of codes."""
        layout, root = plan(self.structure), self.structure.root
        piece_start, piece_stop = _pieces(component[order] * len(codes) + row[order])
        first = order[piece_start]  # a sample of each piece
        is_lost = ~self.is_moderate[component[first]]  # these are not walked at all
        in_threads(
            _walk_pieces,
            -(-len(first) // LANES),
            codes[row[first]],
            component[first],
            piece_start,
            piece_stop,
            order,
            numbers,
            layout,
            root,
            self.theta,
            out,
            is_lost,
        )
        for piece in np.flatnonzero(is_lost):
            log_theta = self.edge_log_theta[:, component[first[piece]]]
            theta = parameters_in_logs(self.structure, log_theta, codes[row[first[piece]]])
            own = order[piece_start[piece] : piece_stop[piece]]
            _walk_given_parameters(own, numbers, layout, root, theta, out)


def _pieces(key: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Where runs of equal keys start and stop, cut so that none is longer than PIECE."""
    edges = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
    length = np.diff(edges, append=len(key))
    n_pieces = -(-length // PIECE)
    number = np.arange(n_pieces.sum()) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    start = np.repeat(edges, n_pieces) + number * PIECE
    return start, np.append(start[1:], len(key))


@kernel
def _walk_pieces(
    first: int,
    last: int,
    codes: AnyArray,
    component: AnyArray,
    piece_start: AnyArray,
    piece_stop: AnyArray,
    order: AnyArray,
    numbers: FloatArray,
    p: Plan,
    root: int,
    theta: FloatArray,
    out: ByteArray,
    is_lost: AnyArray,
) -> None:
    """Eight pieces share a pass up; then every sample of each walks down."""
    value, scale, exponent = working_memory(p)
    stack = np.empty(len(p.vtree_var) + 1, dtype=np.int32)
    edge_theta = _room_for_lanes(theta)
    held = np.full(LANES, NONE)  # the component that each lane holds
    for block in range(first, last):
        start = block * LANES
        width = min(LANES, len(codes) - start)
        _load_lanes(component[start : start + width], theta, held, edge_theta)
        lane_row = start + np.arange(LANES)
        set_literals(codes, lane_row, width, value)
        lost = pass_up(p, edge_theta, value, scale, exponent)
        for b in range(width):
            is_lost[start + b] |= lost >> b & 1 != 0
            if is_lost[start + b] or not value[root, b] > 0.0:
                continue
            for i in range(piece_start[start + b], piece_stop[start + b]):
                s = order[i]
                _walk(p, root, edge_theta, value, scale, b, numbers[s], stack, out[s])


@kernel
def _room_for_lanes(theta: FloatArray) -> FloatArray:
    """Room for the parameters of each lane; those of a single component serve all lanes."""
    if theta.ndim == 1:
        return theta
    return np.zeros((theta.shape[1], LANES))


@kernel
def _load_lanes(
    component: AnyArray, theta: FloatArray, held: AnyArray, edge_theta: FloatArray
) -> None:
    """Copy the parameters of a component to each lane that does not hold them yet."""
    if theta.ndim == 2:
        for b in range(len(component)):
            if held[b] != component[b]:
                held[b] = component[b]
                own = theta[component[b]]
                for e in range(len(own)):
                    edge_theta[e, b] = own[e]


@kernel
def _walk(
    p: Plan,
    root: int,
    edge_theta: FloatArray,
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
            part = lane(edge_theta[e], b) * value[p.edge_left[e], b]
            if p.edge_right[e] != NONE:
                part *= value[p.edge_right[e], b]
            if part > 0.0:
                chosen = e  # rounding may leave a rest: then the last possible edge is chosen
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
    samples: AnyArray, numbers: FloatArray, p: Plan, root: int, theta: FloatArray, out: ByteArray
) -> None:
    """The same walks with the parameters given the evidence, for rows that lost digits."""
    value, scale, _ = working_memory(p)
    value[:] = 1.0  # every sum that such parameters leave possible adds up to 1
    stack = np.empty(len(p.vtree_var) + 1, dtype=np.int32)
    for s in samples:
        _walk(p, root, theta, value, scale, 0, numbers[s], stack, out[s])
