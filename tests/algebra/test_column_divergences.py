"""Divergences of circuits over columns against tables of all states."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from column_circuits import (
    category_column,
    column_circuits,
    deterministic_circuit,
    joint_of,
    random_circuit,
)
from strategies import examples, seeds
from strudel import kl_divergence
from strudel.algebra import (
    cauchy_schwarz_divergence,
    cross_entropy,
    inner_product,
    mean_squared_distance,
    renyi_divergence,
)
from strudel.circuits.finer import with_edges
from strudel.circuits.reweigh import given_row
from strudel.tables.column import bit_column
from strudel.tables.evidence import evidence_of_regions
from strudel.tables.schema import Columns
from strudel.trees.vtree import balanced_vtree

REL = 1e-9


def close(expected):
    return pytest.approx(expected, rel=REL, abs=1e-12)


@st.composite
def pairs_of(draw, k_p=1, k_q=1):
    """Two circuits over the same columns; one of one component is deterministic."""
    base = draw(column_circuits(max_columns=3, n_components=1))
    rng = random.Random(draw(seeds))
    return tuple(
        (deterministic_circuit if k == 1 else random_circuit)(base.columns, base.vtree, rng, k)
        for k in (k_p, k_q)
    )


def mean_log(p, q):
    """The mean of the log of q under p."""
    some = p > 0.0
    if np.any(some & (q == 0.0)):
        return -math.inf
    return math.fsum(p[some] * np.log(q[some]))


@examples(100)
@given(pairs_of())
def test_divergences_of_deterministic_circuits(pair):
    p, q = (joint_of(one).ravel() for one in pair)
    expected = mean_log(p, p) - mean_log(p, q)
    assert kl_divergence(*pair) == close(expected)
    assert cross_entropy(*pair) == close(-mean_log(p, q))
    both = (p > 0.0) & (q > 0.0)
    for alpha in (0.3, 2.0):
        total = math.fsum(p[both] ** alpha * q[both] ** (1.0 - alpha))
        is_finite = total > 0.0 and (alpha < 1.0 or both.sum() == (p > 0.0).sum())
        expected = math.log(total) / (alpha - 1.0) if is_finite else math.inf
        assert renyi_divergence(*pair, alpha) == close(expected)


@examples(60)
@given(pairs_of(k_p=3), pairs_of(k_p=2, k_q=5))
def test_mixtures_take_part_in_products_and_expectations(first, second):
    p, q = (joint_of(one).ravel() for one in first)
    assert cross_entropy(*first) == close(-mean_log(p, q))
    p, q = (joint_of(one).ravel() for one in second)
    assert inner_product(*second) == close(p @ q)
    assert mean_squared_distance(*second) == close(np.mean((p - q) ** 2))
    cosine = p @ q / math.sqrt((p @ p) * (q @ q))
    expected = -math.log(min(cosine, 1.0)) if cosine > 0.0 else math.inf
    assert cauchy_schwarz_divergence(*second) == pytest.approx(expected, rel=REL, abs=1e-9)


@examples(60)
@given(pairs_of(), st.floats(0.5, 9.5))
def test_cells_meet_where_those_of_either_circuit_do(pair, bound):
    p, q = pair
    numbers = [place for place, column in enumerate(p.columns) if column.is_numeric]
    assume(numbers)
    finer = with_edges(q, {numbers[0]: [bound]})
    assert kl_divergence(p, finer) == close(kl_divergence(p, q))
    assert kl_divergence(finer, p) == close(kl_divergence(q, p))
    # What is known of a column within a cell counts, too.
    below = [{numbers[0]: ((-np.inf, bound),)}]
    known, log_p = given_row(p, evidence_of_regions(p.columns, below))
    assume(known is not None)
    assert kl_divergence(known, p) == close(-log_p)
    assert inner_product(known, with_edges(p, {numbers[0]: [bound]})) > 0.0


def test_columns_with_other_values_are_refused():
    vtree, rng = balanced_vtree(2), random.Random(0)
    three, four = (
        deterministic_circuit(
            Columns((category_column("a", n), bit_column("b")), "pandas"), vtree, rng
        )
        for n in (3, 4)
    )
    with pytest.raises(ValueError, match="columns, but 'a' has other values in p than in q"):
        kl_divergence(three, four)
