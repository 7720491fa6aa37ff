"""Facts about `arguments`."""

from strudel.circuits import figure_1_circuit
from strudel.queries.arguments import check_limits, variable_indices


def test_an_example_of_variable_indices():
    assert variable_indices(figure_1_circuit(), ["X4", 0], "variables").tolist() == [3, 0]


def test_an_example_of_check_limits():
    assert repr(check_limits(2.5, None)) == "(2.5, inf)"
