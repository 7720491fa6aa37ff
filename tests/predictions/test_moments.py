"""Facts about `moments`."""

import numpy as np

from strudel.predictions.moments import Moments, mix_moments, moments_of_points


def test_a_coin_of_0_and_2_has_mean_1_and_variance_1():
    coin = Moments(np.array([[[0.0], [2.0]]]), np.zeros((1, 2, 1, 1)))
    even = np.array([[0.5, 0.5]])
    for found in (mix_moments(even, coin), moments_of_points(even, coin.mean, 2)):
        assert (found.mean.tolist(), found.central.tolist()) == ([[1.0]], [[[1.0]]])
