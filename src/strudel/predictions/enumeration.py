"""Moments of a predictor by enumeration: all states of the unknown variables that matter.

In:  a circuit or mixture, a form, rows, and what is made of the form's output.
Out: `Moments` given each row whose unknown states are few enough; which rows those are.

Only the variables that the predictor uses are enumerated, and of a tree only those on paths that
are still open; the others are summed out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.predictions.conditional_questions import answer_questions
from strudel.predictions.moments import Moments, moments_of_points
from strudel.predictions.predictor_forms import Form, LeafForm, LinearForm
from strudel.queries.model import Model
from strudel.queries.passes import UNKNOWN

BLOCK_CELLS = 2**23  # codes of the states of all rows taken together


def enumerated_moments(
    model: Model,
    form: Form,
    codes: AnyArray,
    order: int,
    made_of: Callable[[FloatArray], FloatArray],
    is_few: AnyArray,
    query: str,
) -> Moments:
    """Moments of what is `made_of` the form's output given the rows in `is_few`, else NaN."""
    n_columns = made_of(np.zeros((1, form.n_outputs))).shape[1]
    mean = np.full((len(codes), n_columns), np.nan)
    central = np.full((len(codes), order - 1, n_columns), np.nan)
    unknown = unknown_and_used(form, codes)
    n_unknown = unknown.sum(axis=1)
    for m in np.unique(n_unknown[is_few]):
        same = np.flatnonzero(is_few & (n_unknown == m))
        states = np.arange(2**m)[:, np.newaxis] >> np.arange(m) & 1
        block = max(1, BLOCK_CELLS // (len(states) * codes.shape[1]))
        for start in range(0, len(same), block):
            rows = same[start : start + block]
            asked_row = np.repeat(np.arange(len(rows), dtype=np.int32), len(states))
            asked = codes[rows[asked_row]]
            var = np.nonzero(unknown[rows])[1].reshape(len(rows), m)[asked_row]
            asked[np.arange(len(asked))[:, np.newaxis], var] = np.tile(states, (len(rows), 1))
            _, chance = answer_questions(model, codes[rows], asked_row, asked, query)
            value = made_of(form.evaluate(np.where(asked == UNKNOWN, 0, asked)))
            mean[rows], central[rows] = moments_of_points(
                chance.reshape(len(rows), -1), value.reshape(len(rows), len(states), -1), order
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
