"""Regressions that fill gaps: a correction of what a model expects, learned where values are known.

In:  a circuit over the columns of a table, and the table.
Out: `FillRegressions`: for every column a ridge regression on the row as the model completes it.

A model in cells knows one mean per cell and no slope, so it fills badly where numbers lie on
straight lines. Ridge regression alone knows nothing else. So every column gets a regression whose
inputs are what the model expects of it and all other columns of the row, where the model fills
further gaps. It learns from known values that are hidden one at a time, and its penalty is the one
that predicts rows best that are left out. The model has learned from the same rows and knows them
too well, so every row is completed by the model without a fifth of the rows, among them this one.

The inputs of a row stand side by side: a number or date is its value, or its mean if it is unknown;
any other column is the probability of each of its values but the last. So a regression has an
output for every input, and its own inputs are what the model expects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.learning.bits.fold import over_columns, unfold
from strudel.learning.bits.likelihood import rows_log_likelihood
from strudel.learning.bits.mixture import BitMixture
from strudel.learning.incomplete import ExpectedFlows, expected_flows
from strudel.queries.cells import cell_probabilities
from strudel.tables.column import Column
from strudel.tables.encoder import take_rows
from strudel.tables.evidence import Evidence, evidence_of_rows, nothing_known
from strudel.tables.learn_code import code_of_columns
from strudel.tables.schema import Columns

MOST_WORK = 120_000_000  # values of all columns that are hidden, times edges and components
MOST_CELLS = 2**23  # of all rows in which a value is hidden, 0/1 variables: 64 MiB
FEWEST_HIDDEN, MOST_HIDDEN = 100, 3000  # values of one column, if it has as many
MOST_HIDDEN_OF_TARGET = 2000  # values of the column that matters most, however large the model
FEWEST_ROWS = 20  # that know a column, to correct what the model expects of it
FARTHEST = 8.0  # standard deviations: numbers further out count as this far
N_ROUNDS = 3  # each starts from what the one before has filled
PENALTIES = 10.0 ** np.linspace(-1.0, 3.5, 10)
SMALLEST_SPREAD, TINY = 1e-6, 1e-12
N_LEVELS = 1000  # of quantiles of errors
FOLDS = 5  # of the rows; each is completed by a model without it
LEFT = 0.1  # rows that an edge keeps, whatever is taken away
QUERY = "impute"


Numbers: TypeAlias = Sequence[FloatArray | None]  # of every column, NaN if unknown; None: no number


@dataclass(frozen=True, eq=False)
class TargetErrors:
    """How far predictions of one column are off, in rows that neither model nor regression knew.

    Errors are measured by a deviation of their row: the variance of the column under the model,
    halfway to its mean. The model knows where the column varies more, but not by how much.
    """

    variance: float  # under the model, on average
    square: float  # the mean square of errors over deviations
    quantiles: FloatArray  # (n_levels,) of errors over deviations

    def variances(self, of_model: FloatArray) -> FloatArray:
        """The variance about the prediction of each row, from that under the model."""
        return self.square * (of_model + self.variance) / 2.0

    def away(self, of_model: FloatArray, q: FloatArray) -> FloatArray:
        """How far quantiles lie above the prediction of each row, `(n_rows, n_q)`."""
        deviation = np.sqrt((of_model + self.variance) / 2.0)
        levels = np.arange(1, len(self.quantiles) + 1) / (len(self.quantiles) + 1)
        return np.outer(deviation, np.interp(q, levels, self.quantiles))

    @staticmethod
    def of(error: FloatArray, variance: FloatArray, weight: FloatArray) -> TargetErrors:
        """The errors of rows, from their variances under the model."""
        mean = float(np.average(variance, weights=weight))
        deviation = np.sqrt(np.maximum((variance + mean) / 2.0, TINY))
        levels, size = np.arange(1, N_LEVELS) / N_LEVELS, error / deviation
        if np.ptp(weight) > 0.0:
            found = np.quantile(size, levels, weights=weight, method="inverted_cdf")
        else:
            found = np.quantile(size, levels, method="weibull")  # a new row is one of n + 1
        return TargetErrors(mean, float(np.average(size**2, weights=weight)), found)


@dataclass(frozen=True, eq=False)
class FillRegressions:
    """What fills the gaps of every column; inputs and outputs are in standard deviations."""

    middle: FloatArray  # (n_inputs,)
    scale: FloatArray  # (n_inputs,) 0 for inputs that tell nothing
    weight: FloatArray  # (n_rounds, n_inputs, n_inputs) of every input, for every output
    bias: FloatArray  # (n_rounds, n_inputs)
    errors: TargetErrors | None = None  # of the column that is to be predicted, if one is

    def fill(
        self,
        evidence: Evidence,
        shares: Sequence[FloatArray],
    ) -> list[FloatArray]:
        """For every column its mean in each row `(n_rows,)`, or a score for each of its values.

        `shares` are how probable the model finds every value of the columns given each row. Means
        lie in the range that was seen at fit.
        """
        columns, numbers = evidence.columns, numbers_of(evidence)
        is_unknown = _unknown(columns, numbers, evidence.codes)
        made = self.scaled(_inputs(columns, numbers, shares))
        for weight, bias in zip(self.weight, self.bias, strict=True):
            # Not a matrix product, whose last digits depend on how many rows there are.
            made = np.where(is_unknown, np.einsum("ri,io->ro", made, weight) + bias, made)
        found = []
        for column, part, own in zip(columns, _slices(columns), shares, strict=True):
            output = self.middle[part] + self.scale[part] * made[:, part]
            if not column.is_numeric:
                scores = np.column_stack([output, 1.0 - output.sum(axis=1)])
                found.append(scores[:, column.group_of_cell] * column.share_of_group)
            elif column.density is None or not self.scale[part].all():
                found.append(_means(column, own))
            else:
                found.append(np.clip(output[:, 0], *column.density.seen))
        return found

    def scaled(self, inputs: FloatArray) -> FloatArray:
        """Inputs in standard deviations, none too far out; 0 for those that tell nothing."""
        away = (inputs - self.middle) / np.where(self.scale > 0.0, self.scale, 1.0)
        return np.where(self.scale > 0.0, np.clip(away, -FARTHEST, FARTHEST), 0.0)


def numbers_of(evidence: Evidence) -> list[FloatArray | None]:
    """The numbers and dates of every column, NaN where one is unknown; None for other columns."""
    nothing = np.full(len(evidence), np.nan)
    return [
        evidence.numbers.get(place, nothing) if column.is_numeric else None
        for place, column in enumerate(evidence.columns)
    ]


def learn_fill_regressions(
    circuit: Circuit,
    X: Any,
    sample_weight: Any,
    rng: np.random.Generator,
    target: int | None = None,
) -> FillRegressions | None:
    """The regressions of all columns of a table, from known values of its rows that are hidden.

    None where no column varies, or there are so many that each could only be hidden in a few rows.
    The number of a column of numbers as `target` lets it be hidden in more rows, and tells its
    `errors`.
    """
    if sample_weight is not None:  # rows without weight may hold values of their own
        sample_weight = np.asarray(sample_weight, dtype=np.float64)
        own = np.flatnonzero(sample_weight > 0.0)
        X, sample_weight = take_rows(X, own), sample_weight[own]
    columns, code = circuit.columns, code_of_columns(circuit.columns)
    evidence = evidence_of_rows(columns, X)
    numbers, codes = numbers_of(evidence), evidence.codes
    n_cells = len(columns) * code.n_vars
    if n_cells == 0 or MOST_CELLS // n_cells < FEWEST_HIDDEN:
        return None
    mixture = unfold(circuit, code)
    middle, scale = _middle_and_scale(columns, numbers)
    n_inputs, slices = len(middle), _slices(columns)
    weight = np.tile(np.eye(n_inputs), (N_ROUNDS, 1, 1))
    found = FillRegressions(middle, scale, weight, np.zeros((N_ROUNDS, n_inputs)))
    work = mixture.edge_log_theta.size * len(columns)
    n_most = int(
        np.clip(MOST_WORK // max(work, 1), FEWEST_HIDDEN, min(MOST_CELLS // n_cells, MOST_HIDDEN))
    )
    some, parts = [], []
    for c, (column, known) in enumerate(zip(columns, numbers, strict=True)):
        is_known = codes[:, c] != column.n_cells
        if known is not None:
            is_known &= np.isfinite(known)
        own = np.flatnonzero(is_known)
        n_own = max(n_most, MOST_HIDDEN_OF_TARGET) if c == target else n_most
        if len(own) > n_own:
            own = np.sort(rng.choice(own, n_own, replace=False))
        some.append(own)
        parts.append(codes[own])
        parts[-1][:, c] = column.n_cells
    hidden, every = np.concatenate(parts), np.concatenate(some)
    owner = np.repeat(np.arange(len(columns)), [len(own) for own in some])
    fold = rng.permutation(len(codes)) % min(FOLDS, len(codes))
    log_p = np.empty(len(hidden))
    shares = [np.empty((len(hidden), column.n_cells)) for column in columns]
    cells = np.column_stack([evidence.cells(place) for place in range(len(columns))])
    rows = code.bits_of(cells)
    for number, without in enumerate(_models_without(mixture, rows, sample_weight, fold)):
        own = np.flatnonzero(fold[every] == number)
        asked = replace(nothing_known(columns), codes=hidden[own])
        log_p[own], found_shares = cell_probabilities(
            over_columns(without, columns, code), asked, range(len(columns))
        )
        for share, of_fold in zip(shares, found_shares, strict=True):
            share[own] = of_fold
    others = [
        None if known is None else np.where(owner == c, np.nan, known[every])
        for c, known in enumerate(numbers)
    ]
    is_unknown = _unknown(columns, others, hidden)
    made = found.scaled(_inputs(columns, others, shares))
    errors = None
    for number in range(N_ROUNDS):
        for c, part in enumerate(slices):
            own = np.flatnonzero((owner == c) & (log_p > -np.inf))
            if len(own) < FEWEST_ROWS or not scale[part].any():
                continue
            wanted = _wanted(columns[c], numbers[c], cells[:, c], every[own])
            wanted = (wanted - middle[part]) / np.where(scale[part] > 0.0, scale[part], 1.0)
            of_rows = np.ones(len(own)) if sample_weight is None else sample_weight[every[own]]
            found.weight[number][:, part], found.bias[number][part], error = _ridge(
                made[own], wanted, of_rows
            )
            if c == target:
                variance = cell_variances(columns[c], shares[c][own])
                errors = TargetErrors.of((scale[part] * error)[:, 0], variance, of_rows)
        made = np.where(is_unknown, made @ found.weight[number] + found.bias[number], made)
    return replace(found, errors=errors)


def _models_without(
    model: BitMixture, rows: FloatArray, sample_weight: FloatArray | None, fold: AnyArray
) -> list[BitMixture]:
    """The model without the rows of every fold: less weight where these rows went.

    Their expected flows are taken away from those of all rows, as one step of EM would do it.
    """
    n_folds = int(fold.max()) + 1
    if n_folds == 1:
        return [model] * n_folds
    if np.isneginf(model.edge_log_theta).any():  # rows that cannot be have no flows
        fold = np.where(rows_log_likelihood(model, rows) > -np.inf, fold, n_folds)
    flows = [
        expected_flows(
            model, rows[own], sample_weight=None if sample_weight is None else sample_weight[own]
        )
        for own in (fold == number for number in range(n_folds))
    ]
    total = sum(flows[1:], start=flows[0])
    return [_without(model, total, own) for own in flows]


def _without(model: BitMixture, total: ExpectedFlows, own: ExpectedFlows) -> BitMixture:
    """The model with the share of its flows that is left without some."""

    def share_left(count: FloatArray, taken: FloatArray) -> FloatArray:
        return (np.maximum(count - taken, 0.0) + LEFT) / (count + LEFT)

    circuit = model.structure
    theta = np.exp(model.edge_log_theta) * share_left(total.edge_count, own.edge_count)
    sums = np.zeros((circuit.n_nodes, theta.shape[1]))
    np.add.at(sums, circuit.edge_parent, theta)
    weight = np.exp(model.log_weight) * share_left(total.component_weight, own.component_weight)
    total_of = sums[circuit.edge_parent]
    theta = np.divide(theta, total_of, out=np.exp(model.edge_log_theta), where=total_of > 0.0)
    with np.errstate(divide="ignore"):  # what cannot be stays so
        return BitMixture(circuit, np.log(theta), np.log(weight / weight.sum()))


def _unknown(columns: Columns, numbers: Numbers, codes: AnyArray) -> AnyArray:
    """Which inputs of every row are unknown `(n_rows, n_inputs)`."""
    parts = []
    for column, known, own, part in zip(columns, numbers, codes.T, _slices(columns), strict=True):
        is_open = own >= column.n_cells if known is None else np.isnan(known)
        parts.append(np.repeat(is_open[:, np.newaxis], part.stop - part.start, axis=1))
    return np.hstack(parts)


def _middle_and_scale(columns: Columns, numbers: Numbers) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of every input, as far as it is known."""
    middle, scale = [], []
    for column, known in zip(columns, numbers, strict=True):
        if known is None:
            count = np.bincount(column.group_of_cell, column.counts)
            share = count[:-1] / max(count.sum(), 1.0)
            middle.append(share)
            scale.append(np.sqrt(share * (1.0 - share)))
            continue
        finite = known[np.isfinite(known)]
        with np.errstate(over="ignore", invalid="ignore"):
            ends = np.array([[finite.mean()], [finite.std()]]) if len(finite) else np.zeros((2, 1))
        # Numbers near the largest float have no deviation.
        middle.append(np.where(np.isfinite(ends).all(), ends[0], 0.0))
        scale.append(np.where(np.isfinite(ends).all(), ends[1], 0.0))
    return np.concatenate(middle), np.concatenate(scale)


def _inputs(columns: Columns, numbers: Numbers, shares: Sequence[FloatArray]) -> FloatArray:
    """What regressions see of every row `(n_rows, n_inputs)`."""
    parts = []
    for column, known, own in zip(columns, numbers, shares, strict=True):
        if known is None:
            parts.append(np.add.reduceat(own, column.first_of_group, axis=1)[:, :-1])
        else:
            parts.append(np.where(np.isnan(known), _means(column, own), known)[:, np.newaxis])
    return np.hstack(parts)


def _means(column: Column, shares: FloatArray) -> FloatArray:
    # Not a matrix product, whose last digits depend on how many rows there are.
    return np.einsum("rv,v->r", shares, column.cell_means)


def cell_variances(column: Column, shares: FloatArray) -> FloatArray:
    """The variance of a column of numbers given how probable its cells are in each row."""
    away = column.cell_means - _means(column, shares)[:, np.newaxis]
    within = np.nan_to_num(column.cells.moments()[1]) if column.density is not None else 0.0
    return np.asarray((shares * (within + away**2)).sum(axis=1))


def _wanted(column: Column, known: FloatArray | None, cells: AnyArray, own: AnyArray) -> FloatArray:
    """The inputs that would be right for a column in some rows that know it."""
    if known is not None:
        return known[own, np.newaxis]
    group = column.group_of_cell
    return (group[cells[own], np.newaxis] == np.arange(group[-1])).astype(np.float64)


def _slices(columns: Columns) -> list[slice]:
    """The inputs of every column among all of them."""
    sizes = [1 if column.is_numeric else column.n_groups - 1 for column in columns]
    return [slice(start, stop) for start, stop in pairwise(np.cumsum([0, *sizes]).tolist())]


def _ridge(
    inputs: FloatArray, wanted: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights and bias of a ridge regression, and how far it is off for rows that are left out.

    These errors are the smallest of all penalties.
    """
    weight = weight / weight.mean()
    share = weight / weight.sum()
    middle, center = share @ inputs, share @ wanted
    spread = np.sqrt(share @ (inputs - middle) ** 2)
    root = np.sqrt(weight)[:, np.newaxis]
    # Every input counts alike, also what the model expects, which varies less than the values.
    scale = np.where(spread > SMALLEST_SPREAD, spread, np.inf)
    left, size, right = np.linalg.svd(root * (inputs - middle) / scale, full_matrices=False)
    target = root * (wanted - center)
    along = left.T @ target
    best, off, least = np.zeros((len(size), wanted.shape[1])), target, np.inf
    for penalty in PENALTIES:
        kept = size**2 / (size**2 + penalty)
        # What a row adds to its own prediction: without it, the error grows by as much.
        own = np.einsum("ri,i->r", left**2, kept) + share
        error = (target - left @ (kept[:, np.newaxis] * along)) / (1.0 - own)[:, np.newaxis]
        if (loss := float((error**2).sum())) < least:
            best, least = (kept / np.maximum(size, TINY))[:, np.newaxis] * along, loss
            off = error
    found = right.T @ best / scale[:, np.newaxis]
    return found, center - middle @ found, off / np.maximum(root, TINY)
