"""Facts about `column_conditions`."""

from strudel import TableEncoder
from strudel.tables.column_conditions import compare


def test_an_example_of_compare():
    age = TableEncoder().fit([[20], [40], [60]]).code_.columns[0]
    assert compare(age, ">=", 40).tolist() == [False, True, True]
