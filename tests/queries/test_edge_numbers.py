"""Numbers at the edge: the smallest floats, extreme weights, infinite cells, a row alone."""

import numpy as np
import pandas as pd
import pytest

from strudel import (
    Strudel,
    entropy,
    log_likelihood,
    log_marginal,
    marginal_probabilities,
    most_probable_state,
    mutual_information,
)
from strudel.circuits import compile_factorized
from strudel.tables import TableEncoder
from strudel.trees.vtree import balanced_vtree

ROWS = np.array(list(np.ndindex(2, 2, 2, 2)))


def coins(p):
    """Four independent variables that are 1 with probability p."""
    circuit = compile_factorized(balanced_vtree(4))
    log_theta = circuit.edge_log_theta.copy()
    for node in range(8, circuit.n_nodes):
        edges = range(circuit.node_edges[node], circuit.node_edges[node + 1])
        for edge in edges if len(edges) == 2 else ():
            is_one = circuit.edge_left[edge] % 2
            log_theta[edge] = np.log(p) if is_one else np.log1p(-p)
    return circuit.with_parameters(log_theta)


@pytest.mark.parametrize("p", [1e-10, 1e-160, 1e-300, 1e-308, 5e-324])
def test_information_and_marginals_at_the_smallest_floats(p):
    circuit = coins(p)
    assert mutual_information(circuit, [0], [1]) == pytest.approx(0.0, abs=1e-12)
    assert mutual_information(circuit, [0, 1], [2], given={3: 1}) == pytest.approx(0.0, abs=1e-12)
    assert entropy(circuit) == pytest.approx(4 * p * (1 - np.log(p)), rel=0.1)
    wanted = ROWS @ np.full(4, np.log(p)) + (1 - ROWS) @ np.full(4, np.log1p(-p))
    np.testing.assert_allclose(log_likelihood(circuit, ROWS), wanted, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(log_marginal(circuit, ROWS), wanted, rtol=1e-9, atol=1e-15)
    found = marginal_probabilities(circuit, given=[1, 1, 1, np.nan])
    np.testing.assert_allclose(found, [1, 1, 1, p])
    assert most_probable_state(circuit, given=[1, 1, 1, np.nan])[0].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("weight", [1e-300, 1e300, 5e-324, 1.0])
@pytest.mark.parametrize(
    "model",
    [Strudel(n_components=1, max_splits=2), Strudel(n_components=2, max_splits=1)],
    ids=["circuit", "mixture"],
)
def test_weights_of_any_size_give_a_distribution(model, weight):
    X = np.random.default_rng(0).integers(0, 2, size=(40, 4))
    model.set_params(random_state=0).fit(X, sample_weight=np.full(40, weight))
    assert log_marginal(model, [[np.nan] * 4])[0] == pytest.approx(0.0, abs=1e-9)
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize(
    "values",
    [[1.0, 2.0, np.inf, -np.inf, np.nan, 5.0], [np.inf, np.inf, 1.0], [1e150, -1e150, np.inf, 0]],
)
def test_infinite_cells_come_back_to_the_same_bits(values):
    frame = pd.DataFrame({"a": values})
    encoder = TableEncoder().fit(frame)
    bits = encoder.transform(frame)
    again = encoder.transform(encoder.inverse_transform(bits))
    np.testing.assert_array_equal(again, bits)


def test_a_row_alone():
    for model in (
        Strudel(n_components=1, random_state=0),
        Strudel(n_components=2, max_splits=0, random_state=0),
    ):
        model.fit([[0, 1, 1]])
        assert log_marginal(model, [[np.nan] * 3])[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.compiled
def test_twenty_thousand_variables():
    circuit = compile_factorized(balanced_vtree(20_000))
    row = np.full(20_000, np.nan)
    row[:10_000] = 1.0
    assert log_marginal(circuit, [row])[0] == pytest.approx(-10_000 * np.log(2.0))
    assert entropy(circuit) == pytest.approx(20_000 * np.log(2.0))
    assert mutual_information(circuit, [0], [19_999]) == pytest.approx(0.0, abs=1e-12)
