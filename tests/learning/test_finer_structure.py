from __future__ import annotations

import numpy as np
import pytest

import oracle
from column_circuits import as_bits, components_of
from makers import columns_in_a_chain, rows_of_kinds
from strudel import Strudel
from strudel.learning.bits.mixture import BitMixture, as_mixture
from strudel.learning.mixtures.finer_structure import on_finer_structure
from strudel.tables.column_codes import ColumnCode

COLUMNS = [ColumnCode(3 * c, np.eye(3, dtype=np.uint8)) for c in range(3)]
CODES = np.hstack([np.eye(3, dtype=np.uint8)[values] for values in columns_in_a_chain(2000)])


def random_mixture(structure, n_components, rng):
    first = structure.node_edges[2 * structure.n_vars : -1]
    weight = rng.exponential(size=(structure.n_edges, n_components))
    total = np.repeat(
        np.add.reduceat(weight, first), np.diff(structure.node_edges[-len(first) - 1 :]), axis=0
    )
    return BitMixture(
        structure, np.log(weight / total), np.log(rng.dirichlet(np.ones(n_components)))
    )


@pytest.mark.parametrize(
    ("search", "lengths"),
    [
        ("greedy", (0, 1)),
        pytest.param("greedy", (3, 12), marks=pytest.mark.compiled),
        pytest.param("best_first", (3, 12), marks=pytest.mark.compiled),
    ],
)
def test_a_longer_prefix_has_the_same_distribution(search, lengths, rng):
    X = rows_of_kinds(n_rows=300, n_vars=9)
    coarse, fine = (
        as_bits(model.circuit_)
        for model in (
            Strudel(n_components=1, search=search, max_splits=n, random_state=0).fit(X)
            for n in lengths
        )
    )
    mixture = random_mixture(coarse, 3, rng)
    same = on_finer_structure(mixture, fine)
    assert same.structure is fine
    first = fine.node_edges[2 * fine.n_vars : -1]
    np.testing.assert_allclose(np.add.reduceat(np.exp(same.edge_log_theta), first), 1.0, atol=1e-12)
    expected = [oracle.probabilities(component) for component in components_of(mixture)]
    found = [oracle.probabilities(component) for component in components_of(same)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_array_equal(same.log_weight, mixture.log_weight)


def test_impossible_choices_stay_impossible(rng):
    X = rows_of_kinds(n_rows=300, n_vars=9)
    coarse, fine = (
        as_bits(model.circuit_)
        for model in (Strudel(n_components=1, max_splits=n, random_state=0).fit(X) for n in (0, 6))
    )
    width = np.diff(coarse.node_edges)[coarse.edge_parent]
    edge = np.flatnonzero(width == 2)[0]
    log_theta = coarse.edge_log_theta.copy()
    log_theta[[edge, edge + 1]] = -np.inf, 0.0
    found = on_finer_structure(as_mixture(coarse.with_parameters(log_theta)), fine)
    expected = oracle.probabilities(coarse.with_parameters(log_theta))
    assert 0.0 in expected
    np.testing.assert_allclose(oracle.probabilities(found.component(0)), expected, rtol=1e-12)


def test_other_structures_are_refused(rng):
    X = rows_of_kinds(n_rows=300, n_vars=9)
    coarse, fine = (
        as_bits(model.circuit_)
        for model in (Strudel(n_components=1, max_splits=n, random_state=0).fit(X) for n in (2, 8))
    )
    with pytest.raises(ValueError, match="not finer than the mixture's own"):
        on_finer_structure(random_mixture(fine, 2, rng), coarse)
