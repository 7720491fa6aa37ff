"""Moments of trees, forests and boosting: every leaf is a conjunction of literals.

In:  a circuit or mixture, smooth and decomposable; a `LeafForm`; rows.
Out: log-probabilities of the rows, and `Moments` of the prediction given each.

Only the leaves that a row may still reach count, and of such a leaf only the unknown literals: a
*question*. Leaves with the same question are asked about once, and the questions of a row share
their passes (`conditional_questions.py`). One tree has every moment, because its leaves exclude
each other. The variance of a sum of trees takes questions about every two leaves.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.predictions.conditional_questions import answer_questions
from strudel.predictions.moments import Moments
from strudel.predictions.predictor_forms import LeafForm
from strudel.queries.model import Model
from strudel.queries.passes import UNKNOWN

BLOCK_CELLS = 2**24  # codes of the questions of all rows taken together, at most
MAX_PAIRS = 2**22  # of questions, for the variance of a sum of trees: some seconds


def leaf_moments(
    model: Model,
    form: LeafForm,
    codes: AnyArray,
    order: int,
    query: str,
    max_pairs: int = MAX_PAIRS,
) -> tuple[FloatArray, Moments]:
    """Log-probability of every row of codes, and the moments given it.

    `order` is at most 2 unless there is one tree. Moments of impossible rows are NaN.
    """
    assert order <= 2 or form.n_trees == 1
    log_p = np.empty(len(codes))
    mean = np.empty((len(codes), form.n_outputs))
    central = np.zeros((len(codes), order - 1, form.n_outputs))
    n_left = max_pairs
    block = max(1, BLOCK_CELLS // (form.n_leaves * form.n_vars))
    for start in range(0, len(codes), block):
        part = slice(start, start + block)
        log_p[part], questions, chance = _leaf_chances(model, form, codes[part], query)
        # Not a matrix product, whose last digits depend on how many rows there are.
        mean[part] = np.einsum("rl,lo->ro", chance, form.leaf_value)
        if order > 1 and form.n_trees == 1:
            apart = form.leaf_value - mean[part, np.newaxis]
            for k in range(2, order + 1):
                central[part, k - 2] = np.einsum("rl,rlo->ro", chance, apart**k)
        elif order > 1:
            if not _has_unknown(codes[part], form).any():
                continue
            n_left -= _add_variances(
                model, form, codes[part], questions, chance, n_left, central[part, 0], query
            )
            if n_left < 0:
                raise ValueError(
                    f"{query} of {form.n_trees} trees needs more than max_pairs = {max_pairs} "
                    f"pairs of leaves by row {start + len(codes[part]) - 1}. Allow more with "
                    "max_pairs, ask for fewer rows or rows with fewer unknown values, or use "
                    "fewer or smaller trees."
                )
    return log_p, Moments(mean + form.bias, central)


def _has_unknown(codes: AnyArray, form: LeafForm) -> AnyArray:
    """Which rows do not know all that the trees ask about."""
    return np.any(codes[:, np.unique(form.leaf_literal // 2)] == UNKNOWN, axis=1)


def _leaf_chances(
    model: Model, form: LeafForm, codes: AnyArray, query: str
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Log-probability of each row, and `(n_rows, n_leaves)` its questions and their chances."""
    questions = np.empty((len(codes), form.n_leaves), dtype=np.int32)
    asked_leaf = np.empty(questions.size, dtype=np.int32)
    asked_row = np.empty(questions.size, dtype=np.int32)
    n_asked = _find_questions(
        codes, form.leaf_start, form.leaf_literal, questions, asked_row, asked_leaf
    )
    asked = codes[asked_row[:n_asked]]
    _add_literals(asked, asked_leaf, form.leaf_start, form.leaf_literal)
    log_p, asked_chance = answer_questions(model, codes, asked_row[:n_asked], asked, query)
    # A row's question about nothing has its own number, and no question has the last: NONE.
    sure = np.where(log_p > -np.inf, 1.0, np.nan)
    return log_p, questions, np.concatenate([sure, asked_chance, [0.0]])[questions]


@kernel
def _find_questions(
    codes: AnyArray,
    leaf_start: IntArray,
    leaf_literal: IntArray,
    questions: IntArray,
    asked_row: IntArray,
    asked_leaf: IntArray,
) -> int:
    """Fill the question of each row and leaf; returns how many there are besides the rows.

    NONE where the row cannot reach the leaf, the row's own number where it surely does, else
    `n_rows` plus the place among `asked_row` and `asked_leaf`.
    """
    n_rows, n_leaves = questions.shape
    n_slots = 8
    while n_slots < 2 * n_leaves:
        n_slots *= 2
    table = np.empty(n_slots, dtype=np.int32)
    n_asked = 0
    for s in range(n_rows):
        row = codes[s]
        table[:] = NONE
        for l in range(n_leaves):
            mixed = np.int64(0)
            n_unknown = 0
            is_possible = True
            for i in range(leaf_start[l], leaf_start[l + 1]):
                literal = np.int64(leaf_literal[i])
                code = row[literal // 2]
                if code == UNKNOWN:
                    n_unknown += 1
                    mixed += (literal + 1) * 2654435761 & 0x7FFFFFFF  # in any order
                elif code != literal % 2:
                    is_possible = False
                    break
            if not is_possible:
                questions[s, l] = NONE
                continue
            if n_unknown == 0:
                questions[s, l] = s
                continue
            slot = (mixed ^ (mixed >> 17)) & (n_slots - 1)
            while table[slot] != NONE and not _is_same(
                row, asked_leaf[table[slot]], l, n_unknown, leaf_start, leaf_literal
            ):
                slot = (slot + 1) & (n_slots - 1)
            if table[slot] == NONE:
                table[slot] = n_asked
                asked_row[n_asked], asked_leaf[n_asked] = s, l
                n_asked += 1
            questions[s, l] = n_rows + table[slot]
    return n_asked


@kernel
def _is_same(
    row: AnyArray, a: int, b: int, n_unknown: int, leaf_start: IntArray, leaf_literal: IntArray
) -> bool:
    """Whether two leaves ask the same of a row, the second about `n_unknown` literals."""
    n_found = 0
    for i in range(leaf_start[a], leaf_start[a + 1]):
        if row[leaf_literal[i] // 2] == UNKNOWN:
            is_there = False
            for j in range(leaf_start[b], leaf_start[b + 1]):
                is_there |= leaf_literal[i] == leaf_literal[j]
            if not is_there:
                return False
            n_found += 1
    return n_found == n_unknown


@kernel
def _add_literals(
    asked: AnyArray, asked_leaf: IntArray, leaf_start: IntArray, leaf_literal: IntArray
) -> None:
    """Put the literals of its leaf into every row of codes."""
    for s in range(len(asked)):
        l = asked_leaf[s]
        for i in range(leaf_start[l], leaf_start[l + 1]):
            asked[s, leaf_literal[i] // 2] = leaf_literal[i] % 2


def _add_variances(
    model: Model,
    form: LeafForm,
    codes: AnyArray,
    questions: IntArray,
    chance: FloatArray,
    most: int,
    variance: FloatArray,
    query: str,
) -> int:
    """Fill the variance of the trees' sum, row by row; returns how many pairs it took.

    Gives up, with `variance` half filled, as soon as these are more than `most`. Every tree has its
    mean taken out first, so that the terms are as small as the variance.
    """
    tree_start = np.searchsorted(form.leaf_tree, np.arange(form.n_trees))
    n_pairs = 0
    for row in np.flatnonzero(_has_unknown(codes, form)):
        tree_mean = np.add.reduceat(chance[row, :, np.newaxis] * form.leaf_value, tree_start)
        apart = form.leaf_value - tree_mean[form.leaf_tree]
        is_open = questions[row] != NONE
        asked, first, place = np.unique(
            questions[row, is_open], return_index=True, return_inverse=True
        )
        value = np.zeros((len(asked), form.n_outputs))
        np.add.at(value, place, apart[is_open])
        leaves = np.flatnonzero(is_open)[first].astype(np.int32)
        n_pairs += len(asked) * (len(asked) - 1) // 2
        if n_pairs > most:
            return n_pairs
        together = _pair_chances(model, form, codes[row], leaves, query)
        together[np.diag_indices(len(asked))] = chance[row, leaves]
        variance[row] = np.einsum("ao,ab,bo->o", value, together, value)
    return n_pairs


def _pair_chances(
    model: Model, form: LeafForm, row: AnyArray, leaves: IntArray, query: str
) -> FloatArray:
    """How probable it is that the row satisfies two of these leaves, for every two of them."""
    asked = np.repeat(row[np.newaxis], len(leaves), axis=0)
    _add_literals(asked, leaves, form.leaf_start, form.leaf_literal)
    is_mine = np.flatnonzero(np.any(asked != row, axis=0))  # variables that some leaf is about
    ones = (asked[:, is_mine] == 1).astype(np.float32)
    zeros = (asked[:, is_mine] == 0).astype(np.float32)
    against = ones @ zeros.T
    a, b = np.nonzero(np.triu((against + against.T) == 0.0, 1))
    both = np.where(asked[a] == UNKNOWN, asked[b], asked[a])
    _, both_chance = answer_questions(
        model, row[np.newaxis], np.zeros(len(both), dtype=np.int32), both, query
    )
    chance = np.zeros((len(leaves), len(leaves)))
    chance[a, b] = chance[b, a] = both_chance
    return chance
