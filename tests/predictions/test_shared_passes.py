"""Facts about `shared_passes`."""

from strudel.predictions.shared_passes import rows_per_block


def test_an_example_of_rows_per_block():
    assert (rows_per_block(10_000, 100_000), rows_per_block(100, 100)) == (1677, 100)
