"""Facts about `mixture_likelihood`."""

import numpy as np

from strudel import Mixture
from strudel.circuits import figure_1_circuit
from strudel.circuits.mixture import as_mixture
from strudel.queries.mixture_likelihood import class_logs, class_logs_of_joint


def test_an_example_of_class_logs():
    circuit = figure_1_circuit()
    log_theta = np.column_stack([circuit.edge_log_theta, circuit.edge_log_theta])
    mixture = Mixture(circuit, log_theta, np.log([0.25, 0.75]))
    assert np.exp(class_logs(mixture, np.array([0, 1]), np.full((1, 4), np.nan))).round(
        3
    ).tolist() == [[0.25, 0.75]]


def test_an_example_of_class_logs_of_joint():
    mixture = as_mixture(figure_1_circuit())
    codewords = np.array([[0], [1]], dtype=np.uint8)
    assert np.exp(class_logs_of_joint(mixture, codewords, np.full((1, 3), np.nan))).round(
        3
    ).tolist() == [[0.6, 0.4]]
