"""Facts about `coded_column`."""

from strudel.tables.coded_column import label_texts


def test_an_example_of_label_texts():
    assert (label_texts(1.0), label_texts("yes")) == (["1.0", "1"], ["yes"])
