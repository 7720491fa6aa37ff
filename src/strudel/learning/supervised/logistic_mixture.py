"""A logistic regression as a distribution of inputs and class, so that inputs may be missing.

In:  rows with classes, and what their columns hold.
Out: `LogisticFit`, from which a mixture is read off for any penalty.

The regression has a weight for every class and every value of a column; cells of numbers have a
slope and steps, so that neighbours are alike. It says how probable the classes of a complete row
are. Many distributions agree with it on all complete rows. As in Khosravi et al. 2019, who look for
the best naive Bayes model among them, the one taken here gives the rows the highest likelihood; it
is a mixture, whose components keep what columns tell about each other. Missing inputs are then
summed out exactly.

With weights ``w``, component k has ``P(x, c | k) ~ exp(bias[c]) * prod_j base[k, x_j] *
exp(w[c, x_j])``: all columns are independent given k and c. EM finds `base`, whose shares make
every component expect the values that its rows have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import log_softmax, logsumexp, softmax

from strudel._types import NONE, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import compute_flows
from strudel.circuits.mixture import Mixture
from strudel.learning.mixtures.first_responsibilities import find_clusters
from strudel.learning.supervised.class_mixtures import ClassRows
from strudel.learning.supervised.class_model import ClassModel
from strudel.learning.supervised.losses import softmax_regression
from strudel.tables.column_codes import ColumnCode, column_values, complete_columns

STEPS = 10.0  # how much stronger steps between cells are penalised than slopes and categories
MOST_STEPS, MORE_STEPS = 25, 3  # of EM: from clusters, and from the end of another penalty
LEAST_GAIN = 1e-3  # nats per row of a step that is not the last
MOST_WEIGHTS = 2**24  # rows times weights of a regression; more rows are sampled
HEAVIEST = 1e12  # weight of all rows, beyond which a regression overflows


class Regression(NamedTuple):
    """Log-odds of the classes, up to what is the same for all of them."""

    weight: FloatArray  # (n_classes, n_values) of every value of every column
    bias: FloatArray  # (n_classes,)


class Tables(NamedTuple):
    """A mixture of independent columns, all of whose values stand side by side."""

    log_theta: FloatArray  # (n_classes, n_components, n_values) of a column, given both
    log_weight: FloatArray  # (n_classes, n_components)

    def class_logs(self, held: csr_array) -> FloatArray:
        """Log-probability of the known values of a row together with each class."""
        n_classes, n_components, n_values = self.log_theta.shape
        logs = held @ self.log_theta.reshape(-1, n_values).T
        logs = logs.reshape(-1, n_classes, n_components) + self.log_weight
        return np.asarray(logsumexp(logs, axis=2))


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Rows, complete for the regression and as they are for the mixture."""

    circuit: Circuit  # over the columns, all independent
    rows: ClassRows  # complete
    known: ClassRows  # as they are
    n_components: int
    seed: int
    _shares: list[FloatArray] = field(default_factory=list)  # of the last mixture's components

    @property
    def columns(self) -> tuple[ColumnCode, ...]:
        """All columns that have variables."""
        return complete_columns(self.rows.columns or (), self.rows.X.shape[1])

    def refined(self, rows: ClassRows, penalty: float, strength: float) -> LogisticFit:
        """EM on the rows as they are, with unknown values."""
        return replace(self, known=rows, _shares=[])

    def scorer(self, penalty: float, strength: float) -> LogisticScorer:
        """What predicts held-out rows, quickly if they are complete."""
        return LogisticScorer(self, self._regression(penalty), strength)

    def model(self, penalty: float, strength: float) -> ClassModel:
        """The mixture with this penalty; `strength` draws a component to all rows."""
        tables = self.tables(self._regression(penalty), strength)
        n_classes, n_components = tables.log_weight.shape
        own = np.arange(n_classes, dtype=np.int32).repeat(n_components)
        return ClassModel(self._mixture(tables), own, None)

    def _regression(self, penalty: float) -> Regression:
        """The penalised regression on the complete rows."""
        rows = self.rows
        if rows.n_classes == 1:
            n_values = sum(column.n_values for column in self.columns)
            return Regression(np.zeros((1, n_values)), np.zeros(1))
        held = values_held(rows.X, self.columns)
        table, strengths = _features(self.columns, rows.middles, held.T @ rows.weight)
        n_most = MOST_WEIGHTS // max(1, table.shape[1])
        if held.shape[0] > n_most:
            some = np.random.default_rng(self.seed).permutation(held.shape[0])[:n_most]
            # Every class has a row among them.
            first = np.unique(rows.label, return_index=True)[1]
            some = np.union1d(some, first)
            held, rows = held[some], rows.take(some)
        scaled = table / np.sqrt(penalty * strengths)
        weight = rows.weight * min(1.0, HEAVIEST / float(rows.weight.sum()))
        found = softmax_regression(held @ scaled, rows.label, weight)
        return Regression((scaled @ found.coefficients).T, found.bias)

    def tables(self, regression: Regression, strength: float) -> Tables:
        """EM: of all mixtures that agree with the regression, one of high likelihood."""
        columns, rows = self.columns, self.known
        held = values_held(rows.X, columns)
        n_components = max(1, min(self.n_components, held.shape[0] // 2))
        shares, n_steps = self._first_shares(held, n_components)
        parts = _slices(columns)
        count = held.T @ rows.weight + 1.0
        even = np.concatenate([count[part] / count[part].sum() for part in parts])
        base = [np.tile(even[part], (n_components, 1)) for part in parts]
        found = [_tilted(base[j], regression, part) for j, part in enumerate(parts)]
        last = -np.inf
        for step in range(n_steps):
            weighted = shares * rows.weight[:, np.newaxis]
            total = weighted.sum(axis=0)
            log_share = np.log((total + 1.0) / (total.sum() + n_components))
            counts = (held.T @ weighted).T + strength * even
            for _ in range(MORE_STEPS if step == 0 else 1):
                for j, part in enumerate(parts):
                    wanted = counts[:, part] / counts[:, part].sum(axis=1, keepdims=True)
                    chance = softmax(regression.bias[:, np.newaxis] + _sum(found), axis=0)
                    model = np.einsum("ck,ckv->kv", chance, np.exp(found[j][0]))
                    base[j] *= wanted / model
                    base[j] /= base[j].sum(axis=1, keepdims=True)
                    found[j] = _tilted(base[j], regression, part)
            log_weight = log_softmax(regression.bias[:, np.newaxis] + _sum(found), axis=0)
            tables = Tables(
                np.concatenate([log_theta for log_theta, _ in found], axis=2),
                log_weight + log_share,
            )
            logs = np.empty((held.shape[0], n_components))
            for c, own in enumerate(rows.members()):
                logs[own] = held[own] @ tables.log_theta[c].T + tables.log_weight[c]
            of_rows = logsumexp(logs, axis=1)
            shares = np.exp(logs - of_rows[:, np.newaxis])
            mean = float(rows.weight @ of_rows / rows.weight.sum())
            if mean - last < LEAST_GAIN:
                break
            last = mean
        self._shares[:] = [shares]
        return tables

    def _first_shares(self, held: csr_array, n_components: int) -> tuple[FloatArray, int]:
        """Where EM begins, and how many steps it may take."""
        if self._shares:
            return self._shares[0], MORE_STEPS
        if n_components == 1:
            return np.ones((held.shape[0], 1)), 1
        rng = np.random.default_rng(self.seed)
        table = held.toarray().astype(np.uint8)
        clusters = find_clusters(table, self.known.weight, n_components, "k-means++", rng)
        own = clusters.label(table)[:, np.newaxis] == np.arange(n_components)
        return 0.9 * own + 0.1 / n_components, MOST_STEPS

    def _mixture(self, tables: Tables) -> Mixture:
        """The tables as parameters of the circuit.

        The share of an edge among those of its sum is that of the values that take it.
        """
        columns, parts = self.columns, _slices(self.columns)
        theta = np.exp(tables.log_theta).reshape(-1, tables.log_theta.shape[2])
        rows = np.hstack([column.codewords[[0]] for column in columns])
        first = rows.repeat(len(theta[0]), axis=0)
        for column, part in zip(columns, parts, strict=True):
            first[part, column.start : column.stop] = column.codewords
        active = compute_flows(self.circuit, first).active_edge.T  # (n_values, n_vtree_nodes)
        is_used = np.zeros((len(active), self.circuit.n_edges), dtype=bool)
        place, node = np.nonzero(active != NONE)
        is_used[place, active[place, node]] = True
        count = np.ones((self.circuit.n_edges, len(theta)))
        for part in parts:
            own = is_used[part]
            is_own = own.any(axis=0) & ~own.all(axis=0)  # others do not depend on the column
            count[is_own] = own[:, is_own].T.astype(np.float64) @ theta[:, part].T
        total = np.zeros((self.circuit.n_nodes, len(theta)))
        np.add.at(total, self.circuit.edge_parent, count)
        log_weight = tables.log_weight.ravel()
        return Mixture(
            self.circuit,
            np.log(count) - np.log(total[self.circuit.edge_parent]),
            log_weight - logsumexp(log_weight),
        )


@dataclass(eq=False)
class LogisticScorer:
    """Predicts by the regression where a row is complete, and else by the mixture."""

    fit: LogisticFit
    regression: Regression
    strength: float

    def joint_logs(self, rows: FloatArray) -> FloatArray:
        """Log-odds of the classes, up to what is the same for all of them."""
        held = values_held(rows, self.fit.columns)
        logs = np.asarray(held @ self.regression.weight.T) + self.regression.bias
        has_gaps = np.flatnonzero(np.isnan(rows).any(axis=1))
        if len(has_gaps):
            tables = self.fit.tables(self.regression, self.strength)
            logs[has_gaps] = tables.class_logs(held[has_gaps])
        return logs


def values_held(rows: FloatArray, columns: Sequence[ColumnCode]) -> csr_array:
    """Which of the values of all columns, side by side, every row has; `(n_rows, n_values)`."""
    values = column_values(rows, columns).T  # (n_rows, n_columns)
    first = np.array([part.start for part in _slices(columns)], dtype=np.int64)
    is_known = values != NONE
    ends = np.append(0, is_known.sum(axis=1).cumsum())
    n_values = sum(column.n_values for column in columns)
    place = (values + first)[is_known]
    return csr_array((np.ones(len(place)), place, ends), shape=(len(values), n_values))


def _slices(columns: Sequence[ColumnCode]) -> list[slice]:
    """The values of every column among all of them."""
    ends = np.cumsum([0] + [column.n_values for column in columns]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def _features(
    columns: Sequence[ColumnCode],
    middles: Sequence[FloatArray | None] | None,
    count: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """What the regression sees of every value `(n_values, n_features)`, and how it is penalised.

    A category is a feature. A cell of numbers has its mean, in standard deviations, and all steps
    up to it.
    """
    blocks, strengths = [], []
    for j, part in enumerate(_slices(columns)):
        size = part.stop - part.start
        middle = None if middles is None else middles[j]
        if middle is None:
            blocks.append(np.eye(size))
            strengths.append(np.ones(size))
            continue
        share = (count[part] + 1e-9) / (count[part] + 1e-9).sum()
        slope = middle - share @ middle
        spread = np.sqrt(share @ slope**2)
        steps = np.tril(np.ones((size, size)))[:, 1:]
        blocks.append(
            np.column_stack([slope / (spread if spread > 0.0 else 1.0), steps - share @ steps])
        )
        strengths.append(np.append(1.0, np.full(size - 1, STEPS)))
    table = np.zeros((len(count), sum(block.shape[1] for block in blocks)))
    at = 0
    for part, block in zip(_slices(columns), blocks, strict=True):
        table[part, at : at + block.shape[1]] = block
        at += block.shape[1]
    return table, np.concatenate(strengths)


def _tilted(base: FloatArray, regression: Regression, part: slice) -> tuple[FloatArray, FloatArray]:
    """Log-shares of a column's values, given class and component, and the log of their sum."""
    logs = np.log(base) + regression.weight[:, np.newaxis, part]
    total = logsumexp(logs, axis=2)
    return logs - total[:, :, np.newaxis], total


def _sum(found: Sequence[tuple[FloatArray, FloatArray]]) -> FloatArray:
    total: FloatArray = np.sum([part for _, part in found], axis=0)
    return total
