"""Moments about the mean: how they combine, and how they are found by enumeration.

In:  means and central moments of parts, with their probabilities; or a model, a form and rows.
Out: `Moments` of the whole.

Central moments keep their digits where the mean is large and the spread is small; raw moments, the
expectations of powers, are made from them at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import NamedTuple

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.predictions.conditional_questions import answer_questions
from strudel.predictions.predictor_forms import Form, LeafForm, LinearForm
from strudel.queries.columns.value_probabilities import respects
from strudel.queries.model import Model
from strudel.queries.passes import UNKNOWN

BLOCK_CELLS = 2**23  # codes of the states of all rows taken together


class Moments(NamedTuple):
    """Moments of a prediction given each row."""

    mean: FloatArray  # (n_rows, n_outputs)
    central: FloatArray  # (n_rows, order - 1, n_outputs), about the mean, from the second on

    @property
    def order(self) -> int:
        """The highest moment."""
        return self.central.shape[-2] + 1

    def raw(self, k: int) -> FloatArray:
        """The expectation of the k-th power."""
        total = self.mean**k
        for j in range(2, k + 1):
            total = total + comb(k, j) * self.central[..., j - 2, :] * self.mean ** (k - j)
        return total


def mix_moments(weight: FloatArray, parts: Moments) -> Moments:
    """The moments of a mixture, from those of its parts on the second axis.

    `weight` is `(n_rows, n_parts)` and adds up to one in every row; `parts` have the shapes
    `(n_rows, n_parts, n_outputs)` and `(n_rows, n_parts, order - 1, n_outputs)`.
    """
    share = weight[:, :, np.newaxis]
    mean = (share * parts.mean).sum(axis=1)
    apart = parts.mean - mean[:, np.newaxis]
    central = np.empty((len(mean), parts.order - 1, mean.shape[1]))
    for k in range(2, parts.order + 1):
        total = apart**k
        for j in range(2, k + 1):
            total = total + comb(k, j) * parts.central[:, :, j - 2] * apart ** (k - j)
        central[:, k - 2] = (share * total).sum(axis=1)
    return Moments(mean, central)


def moments_of_points(weight: FloatArray, value: FloatArray, order: int) -> Moments:
    """The moments of values `(n_rows, n_points, n_outputs)` with these probabilities."""
    nothing = np.zeros((*value.shape[:2], order - 1, value.shape[2]))
    return mix_moments(weight, Moments(value, nothing))


class States(NamedTuple):
    """What is unknown of each row and may matter to a predictor, and how many states it has."""

    parts: list[tuple[int, AnyArray]]  # first variable and codewords: columns, or single variables
    is_asked: AnyArray  # (n_rows, n_parts)
    n_states: FloatArray  # (n_rows,)


def states_of(model: Model, form: Form, codes: AnyArray, query: str) -> States:
    """The states to enumerate: values of columns where the model has them, else 0 and 1."""
    unknown = unknown_and_used(form, codes)
    code = model.table_code
    parts: list[tuple[int, AnyArray]] = []
    for column in code.columns if code is not None else ():
        own = slice(column.start, column.stop)
        if unknown[:, own].any() and not respects(model, column, query):
            parts = []
            break
        parts.append((column.start, column.cell_words))
    parts = parts or [(var, np.array([[0], [1]], dtype=np.uint8)) for var in range(model.n_vars)]
    starts = [start for start, _ in parts]
    is_asked = np.logical_or.reduceat(unknown, starts, axis=1)
    n_values = np.array([float(len(words)) for _, words in parts])
    return States(parts, is_asked, np.where(is_asked, n_values, 1.0).prod(axis=1))


def enumerated_moments(
    model: Model,
    form: Form,
    codes: AnyArray,
    states: States,
    order: int,
    made_of: Callable[[FloatArray], FloatArray],
    is_few: AnyArray,
    shift: FloatArray,
    query: str,
) -> Moments:
    """Moments of what is `made_of` the form's output given the rows in `is_few`, else NaN.

    All states of the unknown variables that the predictor uses are enumerated, and of a tree only
    those on paths that are still open; the others are summed out. `shift` `(n_rows, n_outputs)` is
    added to the output.
    """
    n_columns = made_of(np.zeros((1, form.n_outputs))).shape[1]
    mean = np.full((len(codes), n_columns), np.nan)
    central = np.full((len(codes), order - 1, n_columns), np.nan)
    patterns, which = np.unique(states.is_asked, axis=0, return_inverse=True)
    for p, is_asked in enumerate(patterns):
        same = np.flatnonzero(is_few & (which.ravel() == p))
        parts = [part for part, is_there in zip(states.parts, is_asked, strict=True) if is_there]
        n_states = int(np.prod([len(words) for _, words in parts], dtype=np.int64))
        block = max(1, BLOCK_CELLS // (n_states * codes.shape[1]))
        for start in range(0, len(same), block):
            rows = same[start : start + block]
            asked_row = np.repeat(np.arange(len(rows), dtype=np.int32), n_states)
            asked = codes[rows[asked_row]]
            known, number = asked.copy(), np.tile(np.arange(n_states), len(rows))
            for first, words in parts:
                asked[:, first : first + words.shape[1]] = words[number % len(words)]
                number = number // len(words)
            _, chance = answer_questions(model, codes[rows], asked_row, asked, query)
            is_against = np.any((known != UNKNOWN) & (known != asked), axis=1)
            chance = np.where(is_against, 0.0, chance)
            output = form.evaluate(np.where(asked == UNKNOWN, 0, asked)) + shift[rows[asked_row]]
            mean[rows], central[rows] = moments_of_points(
                chance.reshape(len(rows), -1),
                made_of(output).reshape(len(rows), n_states, -1),
                order,
            )
    return Moments(mean, central)


def unknown_and_used(form: Form, codes: AnyArray) -> AnyArray:
    """Which variables `(n_rows, n_vars)` are unknown and may still matter to the predictor."""
    is_unknown = np.asarray(codes == UNKNOWN)
    if isinstance(form, LinearForm):
        return is_unknown & np.any(form.weight != 0.0, axis=1)
    if isinstance(form, LeafForm):
        return is_unknown & _on_open_paths(form, codes)
    return is_unknown


def _on_open_paths(form: LeafForm, codes: AnyArray) -> AnyArray:
    """Which variables are on the way to a leaf that a row may still reach."""
    is_used = np.zeros(codes.shape, dtype=np.bool_)
    literal_leaf = np.repeat(np.arange(form.n_leaves), np.diff(form.leaf_start))
    var, value = form.leaf_literal // 2, form.leaf_literal % 2
    for row, used in zip(codes, is_used, strict=True):
        is_closed = np.zeros(form.n_leaves, dtype=np.bool_)
        is_closed[literal_leaf[(row[var] != UNKNOWN) & (row[var] != value)]] = True
        used[var[~is_closed[literal_leaf]]] = True
    return is_used
