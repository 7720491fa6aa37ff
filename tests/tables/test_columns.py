"""Facts about `columns`."""

from strudel.tables.columns import is_missing, read_columns


def test_an_example_of_read_columns():
    table = read_columns([["red", 3], [None, 4]])
    assert [(column.name, column.dtype) for column in table.columns] == [
        ("x0", "text"),
        ("x1", "integer"),
    ]


def test_an_example_of_is_missing():
    assert (is_missing(None), is_missing(float("nan")), is_missing(0)) == (True, True, False)
