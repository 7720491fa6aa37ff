"""Facts about `arguments`."""

import numpy as np

from strudel.circuits import figure_1_circuit
from strudel.queries.arguments import check_limits, given_rows, variable_indices


def test_an_example_of_variable_indices():
    assert variable_indices(figure_1_circuit(), ["X4", 0], "variables").tolist() == [3, 0]


def test_an_example_of_check_limits():
    assert repr(check_limits(2.5, None)) == "(2.5, inf)"


def test_an_example_of_given_rows():
    rows, is_single = given_rows(figure_1_circuit(), {"X2": 1})
    np.testing.assert_allclose(rows, [[np.nan, 1.0, np.nan, np.nan]])
    assert is_single
