"""Mixtures on one structure: their arrays, their components, and the circuit they amount to."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given

import oracle
from strategies import examples, mixtures, random_mixture
from strudel.circuits.examples import figure_1_circuit
from strudel.learning.bits.mixture import BitMixture, average


def density(mixture):
    """The weighted sum of the components' probabilities, state by state."""
    parts = [oracle.probabilities(component) for component in mixture.components()]
    return mixture.weights @ np.array(parts)


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_circuit_of_a_mixture_has_its_distribution(deterministic):
    @examples(60)
    @given(mixture=mixtures(deterministic=deterministic))
    def check(mixture):
        merged = mixture.to_circuit()
        np.testing.assert_allclose(oracle.probabilities(merged), density(mixture), rtol=1e-10)
        assert merged.is_in_normal_form
        assert merged.n_edges <= mixture.n_components * mixture.n_edges

    check()


def test_average_is_the_mean_of_the_densities():
    rng = np.random.default_rng(0)
    one, two = (random_mixture(figure_1_circuit(), k, rng) for k in (2, 3))
    expected = (density(one) + density(two)) / 2.0
    np.testing.assert_allclose(density(average([one, two])), expected, rtol=1e-12)


def test_sizes_names_and_pickle():
    circuit = figure_1_circuit()
    mixture = random_mixture(circuit, 3, np.random.default_rng(0)).with_names(tuple("abcd"))
    again = pickle.loads(pickle.dumps(mixture))
    assert again.feature_names == ("a", "b", "c", "d")
    assert again.n_parameters == 3 * circuit.n_parameters + 3
    np.testing.assert_array_equal(again.edge_log_theta, mixture.edge_log_theta)
    with pytest.raises(ValueError, match="read-only"):
        again.log_weight[0] = 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edge_log_theta": np.zeros((3, 2))}, r"must have shape \(16, 2\)"),
        ({"log_weight": np.log([0.3, 0.3])}, "add up to 0.6"),
        ({"log_weight": np.array([np.nan, 0.0])}, "logs of the weights"),
        ({"edge_log_theta": np.full((16, 2), np.inf)}, "logs of the parameters"),
        ({"known": np.ones((4, 3))}, r"per variable and component, not \(4, 3\)"),
        ({"known": np.full((4, 2), np.nan)}, "between 0 and 1"),
        ({"log_weight": np.zeros(0), "edge_log_theta": np.zeros((16, 0))}, "at least one"),
    ],
)
def test_what_is_not_a_mixture_is_refused(change, words):
    mixture = random_mixture(figure_1_circuit(), 2, np.random.default_rng(0))
    arrays = {"edge_log_theta": mixture.edge_log_theta, "log_weight": mixture.log_weight} | change
    with pytest.raises(ValueError, match=words):
        BitMixture(mixture.structure, **arrays)
