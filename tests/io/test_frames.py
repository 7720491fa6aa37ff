"""Facts about `frames`."""

import pathlib
import tempfile

from strudel.io.frames import read_frame


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
