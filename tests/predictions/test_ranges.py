"""Facts about `ranges`."""

import numpy as np

from strudel.predictions.predictor_forms import LinearForm
from strudel.predictions.ranges import mentioned_variables


def test_an_example_of_mentioned_variables():
    assert mentioned_variables(
        LinearForm(np.array([[1.0], [0.0], [2.0]]), np.zeros(1))
    ).tolist() == [0, 2]
