"""Facts about `random_state`."""

from strudel.data.random_state import generator_from


def test_an_example_of_generator_from():
    assert (int(generator_from(0).integers(10)), int(generator_from(None).integers(1))) == (8, 0)
