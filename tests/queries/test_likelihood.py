from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import oracle
from joint import REL, special_circuits
from strategies import random_mixture
from strudel import log_likelihood, log_marginal
from strudel.circuits import figure_1_circuit, why_not_deterministic
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.flows import flow_logs
from strudel.queries import observed_log_likelihood
from strudel.trees.vtree import Vtree


def test_a_row_that_takes_two_edges_is_evaluated():
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    mild, steep = builder.add_leaf_sum(0, 0.5), builder.add_leaf_sum(0, 0.9)
    other = builder.add_leaf_sum(1, 0.3)
    circuit = builder.build(builder.add_sum([(mild, other, 0.4), (steep, other, 0.6)]))
    assert why_not_deterministic(circuit) is not None
    p = math.exp(log_likelihood(circuit, [[1, 0]])[0])
    assert p == pytest.approx((0.4 * 0.5 + 0.6 * 0.9) * 0.7, rel=REL)


def test_rows_with_gaps_among_others_have_the_probability_of_what_is_known(rng):
    circuit = special_circuits()["learned 0"]
    X = rng.integers(0, 2, (40, circuit.vtree.n_vars)).astype(float)
    X[::3, 0] = X[::5, 1] = np.nan
    found = observed_log_likelihood(circuit, X)
    np.testing.assert_allclose(found, log_marginal(circuit, X), rtol=REL)
    is_complete = ~np.isnan(X).any(axis=1)
    np.testing.assert_allclose(
        found[is_complete], log_likelihood(circuit, X[is_complete].astype(np.uint8)), rtol=REL
    )


@pytest.mark.parametrize("n_components", [1, 3])
def test_what_most_rows_take_is_added_once_and_zeros_stay_zeros(n_components, rng):
    mixture = random_mixture(special_circuits()["learned 0"], n_components, rng)
    states = np.array(list(np.ndindex(*[2] * 8)))
    rows = np.concatenate([states, np.repeat(states[[3, 9]], [60, 10], axis=0)])  # 3 is usual
    expected = np.column_stack(
        [oracle.log_likelihoods(mixture.components([c]), rows) for c in range(n_components)]
    )
    found = flow_logs(mixture, rows.astype(np.uint8))
    assert np.any(expected == -np.inf)
    assert np.any(expected > -np.inf)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_columns_of_a_frame_are_put_in_order():
    frame = pd.DataFrame({"X4": [0], "X3": [1], "X2": [0], "X1": [1]})
    assert np.exp(log_likelihood(figure_1_circuit(), frame))[0] == pytest.approx(0.0192)


def test_unknown_values_are_refused():
    with pytest.raises(ValueError, match="must hold only 0 and 1"):
        log_likelihood(figure_1_circuit(), [[1, np.nan, 0, 0]])
