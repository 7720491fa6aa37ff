"""Facts about `normalize_weights`."""

import numpy as np

from strudel.algebra.normalize_weights import local_parameters
from strudel.circuits import figure_1_circuit


def test_an_example_of_local_parameters():
    circuit = figure_1_circuit()
    log_theta, log_total = local_parameters(circuit.with_parameters(np.zeros(16)))
    np.testing.assert_allclose(np.exp(log_theta[:2]), [0.5, 0.5])
    assert round(np.exp(log_total)) == 16
