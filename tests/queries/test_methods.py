"""Estimators have every query as a method, of the model that they learned."""

from types import SimpleNamespace

import numpy as np
import pytest

import strudel
from joint import special_mixtures
from strudel import Strudel, log_marginal, queries
from strudel.queries.given import circuit_of

GIVEN = [np.nan, 1.0, np.nan]
CALLS = {
    "log_likelihood": lambda ask: ask([[0, 1, 1], [1, 1, 0]]),
    "log_marginal": lambda ask: ask(GIVEN),
    "log_conditional": lambda ask: ask([0.0, np.nan, np.nan], GIVEN),
    "marginal_probabilities": lambda ask: ask(GIVEN),
    "pair_probabilities": lambda ask: ask(GIVEN),
    "covariance": lambda ask: ask(GIVEN),
    "count_distribution": lambda ask: ask([0, 2], GIVEN),
    "entropy": lambda ask: ask({0: 1}),
    "mutual_information": lambda ask: ask(0, [1, 2]),
    "sample": lambda ask: ask(9, {1: 1}, random_state=3),
    "most_probable_state": lambda ask: np.hstack([np.c_[a] for a in ask({1: 1}, k=2)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_method_is_the_function_of_its_circuit(name, rng):
    model = Strudel(n_components=1, max_splits=2, random_state=0).fit(rng.integers(0, 2, (50, 3)))
    function = getattr(strudel, name, None) or getattr(queries, name)
    expected = CALLS[name](lambda *args, **options: function(model.circuit_, *args, **options))
    np.testing.assert_array_equal(CALLS[name](getattr(model, name)), expected)


def test_what_a_model_is():
    mixture = special_mixtures()["figure 1"]
    fitted = SimpleNamespace(circuit_=mixture)
    assert circuit_of(mixture) is circuit_of(fitted)
    assert log_marginal(fitted, {"X1": 1}) == log_marginal(mixture, {"X1": 1})
    circuit = circuit_of(mixture)
    assert circuit_of(circuit) is circuit
    with pytest.raises(ValueError, match="This Strudel is not fitted yet"):
        circuit_of(Strudel(n_components=1))
    with pytest.raises(TypeError, match="a Circuit or a fitted estimator, but got list"):
        circuit_of([1])
