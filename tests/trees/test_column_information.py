"""Facts about `column_information`."""

import numpy as np

from strudel.data.bits import pack_columns
from strudel.tables.column_codes import ColumnCode
from strudel.trees.column_information import column_information, value_counts


def test_an_example_of_column_information():
    columns = [ColumnCode(0, [[0, 0], [1, 0], [1, 1]]), ColumnCode(2, [[0], [1]])]
    values = np.array([[0, 1, 2] * 100, [0, 1, 1] * 100], dtype=np.int32)
    assert column_information(columns, values, np.ones(300)).round(3).tolist() == [
        [0.0, 0.598],
        [0.598, 0.0],
    ]


def test_an_example_of_value_counts():
    columns = [ColumnCode(0, [[0], [1]]), ColumnCode(1, [[0, 0], [1, 0], [1, 1]])]
    assert value_counts(pack_columns([[1, 1, 0], [1, 1, 1], [0, 1, 1]]), columns)[
        :2, 2:
    ].tolist() == [[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
