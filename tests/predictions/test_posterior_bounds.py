"""Facts about `posterior_bounds`."""

import numpy as np

from strudel.circuits import figure_1_circuit
from strudel.predictions.decision import UNKNOWN, PosteriorBounds, split_posteriors


def test_an_example_of_posterior_bounds():
    bounds = PosteriorBounds(figure_1_circuit(), np.array([2, 3]))
    weight = np.array([1.0, 0.0, 0.0, 0.0])
    row = np.full((1, 4), UNKNOWN, dtype=np.uint8)
    np.testing.assert_allclose(bounds.of_sum(weight, row), (([0.4]), [0.7]))


def test_an_example_of_split_posteriors():
    row = np.full(4, UNKNOWN, dtype=np.uint8)
    weight = np.array([1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(
        split_posteriors(figure_1_circuit(), weight, np.array([2, 3]), row, "example"),
        (([0.6, 0.4]), [0.4, 0.7]),
    )
