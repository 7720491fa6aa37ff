"""Sparse flows: what a row takes, by row and by state, with the usual way left out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import circuits, seeds
from strudel.circuits import CircuitBuilder, figure_1_circuit
from strudel.data import pack_columns
from strudel.learning.mixtures import em_steps
from strudel.learning.mixtures.em_steps import Ensemble, share_flows, uniform_prior
from strudel.trees import balanced_vtree


def possible_rows(circuit, n, rng):
    every = oracle.all_rows(circuit.n_vars)
    possible = [row for row in every if oracle.satisfied(circuit, row)[circuit.root]]
    return np.array(possible, dtype=np.uint8)[rng.integers(len(possible), size=n)]


def choices_of_row(circuit, row):
    """The edges with a parameter that a row takes, by enumeration."""
    width = np.diff(circuit.node_edges)[circuit.edge_parent]
    return [edge for edge in oracle.active_edges(circuit, row) if width[edge] > 1]


def places_of(choices):
    """The states of every place."""
    return [choices.place_state[i:j] for i, j in pairwise(choices.place_first)]


@given(circuits(max_vars=5), seeds, st.booleans())
def test_bags_and_defaults_tell_the_edges_of_every_row(circuit, seed, has_defaults):
    rows = possible_rows(circuit, 9, np.random.default_rng(seed))
    choices, [bags] = share_flows(circuit, pack_columns(rows), has_defaults=has_defaults)
    (bag,) = bags
    for r, row in enumerate(rows):
        listed = bag.row_state[bag.row_first[r] : bag.row_first[r + 1]]
        taken = set()
        for place, default in zip(places_of(choices), choices.default, strict=True):
            here = [s for s in listed if s in place]
            assert len(here) <= 1
            assert here or has_defaults
            taken.add(int(here[0] if here else default))
        edges = sorted(int(choices.edge[s]) for s in taken if s < len(choices.edge))
        assert edges == choices_of_row(circuit, row)


@given(circuits(max_vars=5), seeds)
def test_a_bag_lists_the_same_pairs_by_row_and_by_state(circuit, seed):
    rows = possible_rows(circuit, 9, np.random.default_rng(seed))
    _, [[bag]] = share_flows(circuit, pack_columns(rows))
    by_row = np.repeat(np.arange(len(rows)), np.diff(bag.row_first))
    by_state = np.repeat(np.arange(len(bag.state_first) - 1), np.diff(bag.state_first))
    assert sorted(zip(by_row, bag.row_state, strict=True)) == sorted(
        zip(bag.state_row, by_state, strict=True)
    )


def test_the_default_is_what_most_rows_take():
    builder = CircuitBuilder(balanced_vtree(1))
    circuit = builder.build(builder.add_leaf_sum(0, 0.5))  # edges: X = 1, X = 0
    choices, [[bag]] = share_flows(circuit, pack_columns([[0], [1], [0]]))
    assert circuit.edge_left[choices.edge[choices.default[0]]] == 0
    assert np.diff(bag.row_first).tolist() == [0, 1, 0]


@given(circuits(max_vars=5), seeds, st.booleans())
def test_counts_are_weighted_sums_over_the_rows(circuit, seed, has_defaults):
    rng = np.random.default_rng(seed)
    rows, weight = possible_rows(circuit, 9, rng), rng.gamma(1.0, size=9)
    share = rng.dirichlet(np.ones(3), size=9).astype(np.float32)
    choices, [[bag]] = share_flows(circuit, pack_columns(rows), has_defaults=has_defaults)
    ensemble = Ensemble(choices, uniform_prior(circuit, 1.0), 1, 3)
    ensemble.add(bag, share, weight[np.newaxis])
    ensemble.maximise()  # gives the defaults what the others leave over
    expected = np.zeros((circuit.n_edges, 3))
    for row, w, s in zip(rows, weight, share, strict=True):
        expected[choices_of_row(circuit, row)] += w * s
    np.testing.assert_allclose(ensemble.total, weight @ share, rtol=1e-12)
    np.testing.assert_allclose(
        ensemble.count[: len(choices.edge)], expected[choices.edge], atol=1e-12
    )
    assert not np.delete(expected, choices.edge, axis=0).any()


def test_groups_count_their_own_weights():
    circuit, rng = figure_1_circuit(), np.random.default_rng(0)
    rows, weight = possible_rows(circuit, 20, rng), rng.gamma(1.0, size=(3, 20))
    share = rng.dirichlet(np.ones(2), size=(3, 20)).astype(np.float32)
    choices, [[bag]] = share_flows(circuit, pack_columns(rows))
    together = Ensemble(choices, uniform_prior(circuit, 1.0), 3, 2)
    together.add(bag, np.concatenate(share, axis=1), weight)
    for g in range(3):
        alone = Ensemble(choices, uniform_prior(circuit, 1.0), 1, 2)
        alone.add(bag, share[g], weight[g][np.newaxis])
        np.testing.assert_array_equal(together.count[:, 2 * g : 2 * g + 2], alone.count)
        np.testing.assert_array_equal(together.total[2 * g : 2 * g + 2], alone.total)


def test_blocks_hold_the_rows_in_order(monkeypatch):
    circuit, rng = figure_1_circuit(), np.random.default_rng(0)
    rows = pack_columns(possible_rows(circuit, 150, rng), rng.integers(1, 5, 150))
    _, [[whole]] = share_flows(circuit, rows)
    monkeypatch.setattr(em_steps, "BLOCK_ROWS", 64)
    _, [bags] = share_flows(circuit, rows)
    assert [bag.n_rows for bag in bags] == [64, 64, 22]
    np.testing.assert_array_equal(np.concatenate([b.row_state for b in bags]), whole.row_state)
    np.testing.assert_array_equal(np.concatenate([b.weight for b in bags]), whole.weight)


def test_an_impossible_row_is_named(monkeypatch):
    builder = CircuitBuilder(balanced_vtree(2))
    circuit = builder.build(
        builder.add_sum([(builder.literal(0, 1), builder.add_leaf_sum(1, 0.5), 1.0)])
    )
    monkeypatch.setattr(em_steps, "BLOCK_ROWS", 64)
    rows = np.ones((100, 2), dtype=np.uint8)
    rows[77, 0] = 0
    with pytest.raises(ValueError, match="Row 77 is impossible") as caught:
        share_flows(circuit, pack_columns(rows[:50]), pack_columns(rows))
    assert caught.value.table == 1
