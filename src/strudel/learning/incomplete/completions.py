"""Completions of partly observed rows, drawn exactly from a model given what is known.

In:  a `Circuit` or a `Mixture`, and rows of codes 0, 1 and UNKNOWN.
Out: complete rows; `IncompleteRows`, training and validation rows that a model can complete.

`sample` with `given` does the same for any model; this one looks only at what a row can reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from strudel._numba import kernel, run_blocks
from strudel._types import AnyArray, ByteArray, FloatArray, WordArray
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.data.bits import BitMatrix, exact_weights, pack_columns
from strudel.learning.incomplete.expected_flows import Passes
from strudel.learning.incomplete.partial_rows import PartialRows, merge_codes
from strudel.learning.incomplete.reachable_nodes import (
    Layout,
    Reached,
    known_words,
    pass_up,
    reach,
    room_for,
)
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model
from strudel.queries.passes import UNKNOWN

BLOCK_NUMBERS = 2**22  # random numbers drawn at a time
PART_ROWS = 256  # that a thread takes
ENOUGH_ROWS = 2**16  # completed rows to aim for: with more of each, chance tells the search less
MOST_COPIES = 16


def complete_rows(model: Model, codes: AnyArray, n: int, rng: np.random.Generator) -> ByteArray:
    """Draw `n` completions of every row, of shape `(n_rows, n, n_vars)`."""
    passes, mixture = Passes.of(model, "complete_rows"), as_mixture(model)
    n_rows, n_vars = codes.shape
    out = np.full((n_rows, n, n_vars), UNKNOWN, dtype=np.uint8)
    n_numbers = numbers_per_row(model)
    block = max(PART_ROWS, BLOCK_NUMBERS // (n * n_numbers))
    for start in range(0, n_rows, block):
        rows = slice(start, min(start + block, n_rows))
        known = known_words(passes.circuit, codes[rows])
        # Drawn in order: threads cannot change the result.
        numbers = rng.random((len(known), n, n_numbers))
        mine = out[rows]

        def run(part: slice) -> None:
            _complete_rows(
                known[part],  # noqa: B023  (it runs before the loop goes on)
                numbers[part],  # noqa: B023
                passes.layout,
                mixture.edge_log_theta,
                mixture.log_weight,
                mine[part],  # noqa: B023
            )

        run_blocks(run, len(known), PART_ROWS)
    if n:
        impossible = np.any(out[:, 0] == UNKNOWN, axis=1)
        raise_if_impossible(np.where(impossible, -np.inf, 0.0))
    return out


def numbers_per_row(model: Model) -> int:
    """Random numbers that a completion takes: one per vtree node, one to choose the component."""
    circuit = model.structure if isinstance(model, Mixture) else model
    return int(circuit.vtree.n_nodes + 1)


@kernel
def _complete_rows(
    known: WordArray,
    numbers: FloatArray,
    c: Layout,
    log_theta: FloatArray,
    log_weight: FloatArray,
    out: ByteArray,
) -> None:
    """Fill `out` (n_rows, n, n_vars): one pass up per row, then one walk down per completion."""
    n_edges, k = log_theta.shape
    r = room_for(c)
    value = np.empty((len(r.first), k))
    share = np.empty((n_edges, k))
    posterior = np.empty(k)
    stack = np.empty(numbers.shape[2] + 1, dtype=np.int32)
    for s in range(len(known)):
        n_slots = reach(known[s], c, r)
        if n_slots == 1:  # an impossible row, for the caller to find
            continue
        pass_up(r, n_slots, log_theta, value, share)
        total, top = 0.0, -np.inf
        for j in range(k):
            top = max(top, log_weight[j] + value[n_slots - 1, j])
        if top == -np.inf:
            continue
        for j in range(k):
            posterior[j] = np.exp(log_weight[j] + value[n_slots - 1, j] - top)
            total += posterior[j]
        for i in range(numbers.shape[1]):
            rest, chosen = numbers[s, i, 0] * total, 0
            for j in range(k):
                if posterior[j] > 0.0:
                    chosen = j  # rounding may leave a last crumb: the last possible one takes it
                    rest -= posterior[j]
                    if rest < 0.0:
                        break
            _walk(n_slots - 1, chosen, numbers[s, i], c, r, share, stack, out[s, i])


@kernel
def _walk(
    root: int,
    component: int,
    numbers: FloatArray,
    c: Layout,
    r: Reached,
    share: FloatArray,
    stack: AnyArray,
    row: ByteArray,
) -> None:
    """Choose one active edge at every sum on the way, in proportion to its share."""
    stack[0] = root
    size, n_used = 1, 1
    while size > 0:
        size -= 1
        i = stack[size]
        rest, chosen = numbers[n_used], r.first[i]
        n_used += 1
        for a in range(r.first[i], r.first[i + 1]):
            if share[a, component] > 0.0:
                chosen = a
                rest -= share[a, component]
                if rest < 0.0:
                    break
        e = r.edge[chosen]
        for side in range(2):
            child = c.edge_left[e] if side == 0 else c.edge_right[e]
            slot = r.left[chosen] if side == 0 else r.right[chosen]
            if slot > 0:
                stack[size] = slot
                size += 1
            elif child >= 0:
                row[child // 2] = child % 2


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """Rows in their order, all of which count and know something."""

    train: ByteArray  # (n_rows, n_vars) codes
    train_weight: FloatArray | None
    valid: ByteArray | None
    valid_weight: FloatArray | None

    @cached_property
    def train_rows(self) -> PartialRows:
        """Training rows, equal ones merged."""
        return merge_codes(self.train, self.train_weight)

    @cached_property
    def valid_rows(self) -> PartialRows | None:
        """Validation rows, equal ones merged."""
        return None if self.valid is None else merge_codes(self.valid, self.valid_weight)

    @property
    def n_copies(self) -> int:
        """Completions of every row that make enough rows together: a power of two."""
        wanted = max(ENOUGH_ROWS // max(len(self.train), 1), 1)
        return min(2 ** (wanted.bit_length() - 1), MOST_COPIES)

    def completed(
        self, model: Model, n: int, rng: np.random.Generator
    ) -> tuple[BitMatrix, BitMatrix | None]:
        """`n` completions of every training and validation row, each of 1/n of the row's weight."""
        train = _complete(model, self.train, self.train_weight, n, rng)
        if self.valid is None:
            return train, None
        return train, _complete(model, self.valid, self.valid_weight, n, rng)

    def columns(self, is_kept: FloatArray) -> IncompleteRows:
        """The same rows with fewer columns."""
        valid = None if self.valid is None else np.ascontiguousarray(self.valid[:, is_kept])
        train = np.ascontiguousarray(self.train[:, is_kept])
        return IncompleteRows(train, self.train_weight, valid, self.valid_weight)


def _complete(
    model: Model, codes: ByteArray, weight: FloatArray | None, n: int, rng: np.random.Generator
) -> BitMatrix:
    if not np.any(codes == UNKNOWN):
        return pack_columns(codes, weight)
    rows = complete_rows(model, codes, n, rng).reshape(-1, codes.shape[1])
    if n == 1:
        return pack_columns(rows, weight)
    each = np.ones(len(codes)) if weight is None else exact_weights(weight)
    return pack_columns(rows, np.repeat(each / n, n))
