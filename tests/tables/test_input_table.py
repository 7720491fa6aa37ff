"""Facts about `input_table`."""

from strudel.tables.input_table import look_at_table


def test_an_example_of_look_at_table():
    assert look_at_table([[0, 1], [None, 1]], None).encoders == (None,)
    assert repr(look_at_table([[0.5, 1], [None, 2]], None).encoders) == "(TableEncoder(),)"
