"""Facts about `moments`."""

import numpy as np

from strudel.predictions.moments import Moments


def test_an_example_of_raw():
    dice = Moments(np.array([[3.5]]), np.array([[[35 / 12]]]))
    assert dice.raw(2).round(4).tolist() == [[15.1667]]
