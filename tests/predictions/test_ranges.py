"""Facts about `ranges`."""

import numpy as np

from strudel.predictions.predictor_forms import UNKNOWN, LinearForm, Ranges, mentioned_variables


def test_an_example_of_mentioned_variables():
    assert mentioned_variables(
        LinearForm(np.array([[1.0], [0.0], [2.0]]), np.zeros(1))
    ).tolist() == [0, 2]


def test_an_example_of_ranges():
    form = LinearForm(np.array([[1.0], [-2.0]]), np.array([0.5]))
    low, high = Ranges(form).bounds(np.array([[1, UNKNOWN]], dtype=np.uint8))
    np.testing.assert_allclose((low, high), (([[-0.5]]), [[1.5]]))
