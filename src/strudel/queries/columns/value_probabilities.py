"""The probability of every value of every column, given each row, from one pass up and one down.

In:  a model over the 0/1 variables of a table code, and rows of 0, 1 and NaN.
Out: for every column an array `(n_rows, n_values)`.

Where codes of no value are impossible, whether a column has a value is a sum of its 0/1 variables:
one of them under a one-hot code, the difference of two under a thermometer code. So the
probabilities of the variables are enough. Elsewhere the codeword of every value is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.passes import decode, distinct_rows, encode
from strudel.data.validation import slices
from strudel.queries.model import Model, structure_of
from strudel.queries.probabilities import literal_probabilities, log_probabilities
from strudel.tables.coded_column import CodedColumn

BLOCK_CELLS = 2**22  # cells of the evidence rows made at a time
ROUNDING = 1e-9


def value_probabilities(
    model: Model, columns: Sequence[CodedColumn], rows: FloatArray, query: str
) -> tuple[FloatArray, list[FloatArray]]:
    """Log-probability of every row, and the probability of every value of the columns given it.

    NaN where a row is impossible.
    """
    codes, place = distinct_rows(encode(rows))
    log_p, ones = literal_probabilities(model, codes, query)
    few = decode(codes)
    found = []
    for column in columns:
        if respects(model, column, query):
            shares = linear_shares(column, ones[:, column.start : column.stop])
        else:
            with np.errstate(invalid="ignore"):
                shares = codeword_shares(model, column, few, log_p, query)
        shares[log_p == -np.inf] = np.nan
        found.append(shares[place])
    return log_p[place], found


def respects(model: Model, column: CodedColumn, query: str) -> bool:
    """Whether a model leaves no probability to codes that stand for no value."""
    if len(column.cell_words) == 2 ** (column.stop - column.start):  # all codes stand for one
        return True
    words = np.full((len(column.cell_words), model.n_vars), np.nan)
    words[:, column.start : column.stop] = column.cell_words

    def has_all(asked: Model) -> bool:
        return bool(abs(np.exp(log_probabilities(asked, words, query)).sum() - 1.0) < ROUNDING)

    # What a structure excludes is impossible under any parameters, and one circuit is quick to ask.
    return has_all(_even(structure_of(model))) or has_all(model)


def _even(structure: Circuit) -> Circuit:
    """The structure with equal parameters at every sum."""
    n_choices = np.diff(structure.node_edges)[structure.edge_parent]
    return structure.with_parameters(-np.log(n_choices))


def value_sums(codewords: AnyArray) -> FloatArray:
    """How to sum variables, and a last one that is 1, for every cell: `(n_cells, n_bits + 1)`."""
    n_values, n_bits = codewords.shape
    if n_values == n_bits and np.array_equal(codewords, np.eye(n_bits)):
        return np.eye(n_values, n_bits + 1)
    words = np.column_stack([codewords, np.ones(n_values)])
    if n_values == n_bits + 1:  # a thermometer: the inverse has only -1, 0 and 1
        return np.asarray(np.round(np.linalg.inv(words).T), dtype=np.float64)
    return np.asarray(np.linalg.pinv(words).T)


def linear_shares(column: CodedColumn, ones: FloatArray) -> FloatArray:
    """The probability of every value, from those of a column's variables `(n_rows, n_bits)`."""
    sums = value_sums(column.cell_words)
    # Not a matrix product, whose last digits depend on how many rows there are.
    shares = np.maximum(np.einsum("rb,vb->rv", ones, sums[:, :-1]) + sums[:, -1], 0.0)
    total = shares.sum(axis=1, keepdims=True)
    return column.of_values(shares / np.where(total > 0.0, total, 1.0))


def codeword_shares(
    model: Model, column: CodedColumn, evidence: FloatArray, log_given: FloatArray, query: str
) -> FloatArray:
    """The probability of every value of a column, given each row: their codewords share it all."""
    chances = codeword_chances(model, column, evidence, log_given, query)
    total = chances.sum(axis=1, keepdims=True)
    return column.of_values(chances / np.where(total > 0.0, total, 1.0))


def codeword_chances(
    model: Model, column: CodedColumn, evidence: FloatArray, log_given: FloatArray, query: str
) -> FloatArray:
    """The probability of every codeword of a column, given each row."""
    words = column.cell_words
    n_rows, n_cells = len(evidence), len(words)
    chances = np.empty((n_rows, n_cells))
    for part in slices(n_rows, max(1, BLOCK_CELLS // (n_cells * evidence.shape[1]))):
        known = evidence[part, column.start : column.stop]
        rows = np.repeat(evidence[part], n_cells, axis=0)
        rows[:, column.start : column.stop] = np.tile(words, (len(known), 1))
        log_p = log_probabilities(model, rows, query).reshape(-1, n_cells)
        against = (known[:, np.newaxis] == 1 - words[np.newaxis]).any(axis=2)
        with np.errstate(invalid="ignore"):
            shares = np.minimum(np.exp(log_p - log_given[part, np.newaxis]), 1.0)
        chances[part] = np.where(against, 0.0, shares)
    return chances
