"""Facts about `frames`."""

import pathlib
import tempfile

import numpy as np

from strudel.io.frames import column_of_text, read_frame


def test_an_example_of_read_frame():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "people.csv")
        _ = path.write_text("age,smoker,since\n31,no,\n,yes,2001-05-01\n")
        table, _ = read_frame(path)
    assert [(column.name, column.dtype) for column in table.columns] == [
        ("age", "integer"),
        ("smoker", "text"),
        ("since", "date"),
    ]


def test_an_example_of_column_of_text():
    np.testing.assert_allclose(
        column_of_text("age", ["31", "", "7.5"]).values, ([31.0, np.nan, 7.5])
    )
    assert column_of_text("place", ["01067", "80331"]).dtype == "text"
