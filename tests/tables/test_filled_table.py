"""Facts about `filled_table`."""

import numpy as np

from strudel.tables.filled_table import fill_variables


def test_an_example_of_fill_variables():
    rows = np.array([[0.0, np.nan], [1.0, 1.0]])
    assert fill_variables(rows, rows, np.array([[0.0, 0.25], [1.0, 1.0]])).tolist() == [
        [0.0, 0.25],
        [1.0, 1.0],
    ]
