"""Many small components of independent columns, which keep to what the rows say of a few columns.

In:  for every row the value of each column, NONE where it is unknown, and the row's weight.
Out: a `Mixture` on the structure of independent columns.

Whole rows are most likely with few, smooth components. A question is about two or three columns,
and of these few components forget a part of what the rows say. Hundreds of components, each of some
ten rows, keep it: they are as true as counting where rows are many. Together with the smooth ones
they are hardly less likely, and truer than counting where rows are few (docs/truth.md).

Every component starts at a row. Stepwise EM (Cappe and Moulines 2009): the expected counts of a
batch of rows are mixed into those so far, so some passes over the rows are enough. Counts of
ordered values are spread over their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.compile import compile_column_tree
from strudel.circuits.flows import compute_flows
from strudel.circuits.mixture import Mixture, average
from strudel.tables.column_codes import ColumnCode
from strudel.trees.column_tree import ColumnTree, column_tops
from strudel.trees.vtree import Vtree

N_PASSES = 9  # over the rows
BATCH = 512  # rows
MOST_ROWS = 20_000  # of larger tables, a sample
ROWS_PER_COMPONENT = 3  # at least
FIRST_STEP, LARGEST_STEP, SMALLEST_STEP = 0.5, 0.32, 0.02  # in the first pass, then falling
PRIOR_ROWS = 0.1  # virtual rows of every component, as the column's own shares
SPREAD = 0.1  # of a count along the line of ordered values, in normal scores


def learn_column_components(
    values: IntArray,
    weight: FloatArray,
    columns: Sequence[ColumnCode],
    vtree: Vtree,
    *,
    n_components: int,
    n_runs: int,
    rng: np.random.Generator,
) -> Mixture:
    """The average of some runs; `values` are `(n_columns, n_rows)`, `columns` all columns."""
    if values.shape[1] > MOST_ROWS:
        chosen = np.sort(rng.choice(values.shape[1], MOST_ROWS, replace=False))
        values, weight = values[:, chosen], weight[chosen]
    first = np.append(0, np.cumsum([column.n_values for column in columns]))
    rows = np.where(values == NONE, NONE, values + first[:-1, np.newaxis]).T.astype(np.int32)
    size = min(n_components, max(1, len(rows) // ROWS_PER_COMPONENT))
    learner = _Learner(np.ascontiguousarray(rows), weight, columns, first)
    found = [learner.run(size, rng) for _ in range(n_runs)]
    return average([_mixture(*one, columns, vtree, first) for one in found])


class _Learner:
    """The rows, and what the columns are like on their own."""

    def __init__(
        self, rows: IntArray, weight: FloatArray, columns: Sequence[ColumnCode], first: AnyArray
    ) -> None:
        self.rows, self.weight, self.first = rows, weight, first
        known = rows != NONE
        count = np.bincount(
            rows[known], np.repeat(weight, known.sum(axis=1)), minlength=int(first[-1])
        )
        self.share = np.empty(len(count))  # of every value among those of its column
        self.spread: list[FloatArray | None] = []  # what a count of a value adds to its neighbours
        for c, column in enumerate(columns):
            own = slice(first[c], first[c + 1])
            self.share[own] = (count[own] + 0.05) / (count[own] + 0.05).sum()
            self.spread.append(_spread(self.share[own]) if column.is_ordered else None)

    def run(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Log-probabilities `(n_values, size)` of the values, and log-weights of components."""
        n_rows, total = len(self.rows), float(self.weight.sum())
        n_batches = max(n_rows // BATCH, 1)
        chance = self.weight / total
        is_enough = np.count_nonzero(chance) >= size
        start = self.rows[rng.choice(n_rows, size, replace=not is_enough, p=chance)]
        count = np.repeat(self.share[:, np.newaxis], size, axis=1)
        component = np.broadcast_to(np.arange(size)[:, np.newaxis], start.shape)
        count[start[start != NONE], component[start != NONE]] += 1.0
        count *= total / (2 * size)
        mass = np.full(size, total / size)
        n_steps, step = N_PASSES * n_batches, 0
        for number in range(N_PASSES):
            for batch in np.array_split(rng.permutation(n_rows), n_batches):
                log_p, log_weight = self.parameters(count, mass)
                new, new_mass = np.zeros_like(count), np.zeros(size)
                part = self.weight[batch]
                _expect(self.rows[batch], part, log_p, log_weight, np.empty(size), new, new_mass)
                falling = SMALLEST_STEP + (LARGEST_STEP - SMALLEST_STEP) * (1.0 - step / n_steps)
                length = FIRST_STEP if number == 0 else falling
                if n_batches == 1:
                    length = 1.0
                times = length * total / max(float(part.sum()), 1e-300)
                count += times * new - length * count
                mass += times * new_mass - length * mass
                step += 1
        return self.parameters(count, mass)

    def parameters(self, count: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
        """M-step: the log-parameters for some counts."""
        log_p = np.empty_like(count)
        for c, spread in enumerate(self.spread):
            own = slice(self.first[c], self.first[c + 1])
            smooth = count[own] if spread is None else spread @ count[own]
            smooth = np.maximum(smooth, 0.0) + PRIOR_ROWS * self.share[own, np.newaxis]
            log_p[own] = np.log(smooth / smooth.sum(axis=0))
        weight = np.maximum(mass, 0.0) + 0.5 / len(mass)
        return log_p, np.log(weight / weight.sum())


def _spread(share: FloatArray) -> FloatArray:
    """How a count of a value is shared with its neighbours; frequent values keep theirs.

    Columns add up to one, and shares of all rows stay nearly what they are.
    """
    score = ndtri(np.cumsum(share) - share / 2.0)
    near = np.exp(-0.5 * ((score[:, np.newaxis] - score) / SPREAD) ** 2) * share[:, np.newaxis]
    return np.asarray(near / near.sum(axis=0))


def _mixture(
    log_p: FloatArray,
    log_weight: FloatArray,
    columns: Sequence[ColumnCode],
    vtree: Vtree,
    first: AnyArray,
) -> Mixture:
    """Components with these probabilities of values, as circuits on one structure."""
    alone = np.full(len(columns), NONE, dtype=np.int32)
    even = tuple(np.full((1, column.n_values), 1.0 / column.n_values) for column in columns)
    structure = compile_column_tree(ColumnTree(tuple(columns), alone, even), vtree)
    # Row j holds value j of every column, or its last: so the edge of each value is found.
    words = [
        column.codewords[
            np.minimum(np.arange(max(c.n_values for c in columns)), column.n_values - 1)
        ]
        for column in columns
    ]
    active = compute_flows(structure, np.hstack(words)).active_edge
    edge_log_theta = np.zeros((structure.n_edges, len(log_weight)))
    for c, top in enumerate(column_tops(vtree, columns).tolist()):
        edge = active[top, : columns[c].n_values]
        if len(edge) > 1:
            edge_log_theta[edge] = log_p[first[c] : first[c + 1]]
    return Mixture(structure, edge_log_theta, log_weight)


@kernel
def _expect(
    rows: IntArray,
    weight: FloatArray,
    log_p: FloatArray,
    log_weight: FloatArray,
    share: FloatArray,
    count: FloatArray,
    mass: FloatArray,
) -> None:
    """E-step: add the responsibilities of components for rows to `count` and `mass`."""
    n_rows, n_columns = rows.shape
    size = len(log_weight)
    for r in range(n_rows):
        for k in range(size):
            share[k] = log_weight[k]
        for c in range(n_columns):
            value = rows[r, c]
            if value >= 0:
                for k in range(size):
                    share[k] += log_p[value, k]
        most = share[0]
        for k in range(1, size):
            most = max(most, share[k])
        total = 0.0
        for k in range(size):
            share[k] = np.exp(share[k] - most)
            total += share[k]
        for k in range(size):
            share[k] *= weight[r] / total
            mass[k] += share[k]
        for c in range(n_columns):
            value = rows[r, c]
            if value >= 0:
                for k in range(size):
                    count[value, k] += share[k]
