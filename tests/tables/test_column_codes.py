"""Facts about `column_codes`."""

from strudel.data.bits import pack_columns
from strudel.tables.column_codes import ColumnCode, column_values, complete_columns


def test_an_example_of_column_values():
    columns = [ColumnCode(0, [[0], [1]]), ColumnCode(1, [[0, 0], [1, 0], [1, 1]])]
    assert column_values(pack_columns([[1, 1, 0], [0, 1, 1]]), columns).tolist() == [[1, 0], [1, 2]]


def test_an_example_of_complete_columns():
    columns = complete_columns([ColumnCode(1, [[1, 0], [0, 1]])], 4)
    assert [(column.start, column.stop) for column in columns] == [(0, 1), (1, 3), (3, 4)]
