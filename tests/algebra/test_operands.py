"""Facts about `operands`."""

from strudel.algebra.operands import columns_of
from strudel.circuits import figure_1_circuit


def test_an_example_of_columns_of():
    assert columns_of(figure_1_circuit()).edge_log_theta.shape == (16, 1)
