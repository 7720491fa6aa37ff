"""Facts about `partial_rows`."""

from strudel.learning.incomplete.partial_rows import partial_rows


def test_an_example_of_partial_rows():
    rows = partial_rows([[0, None], [1, 1], [0, None]])
    assert rows.codes.tolist() == [[0, 2], [1, 1]]
    assert rows.weight.tolist() == [2.0, 1.0]
