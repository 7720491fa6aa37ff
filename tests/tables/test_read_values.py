"""Values that were read as another type than at fit, and values that are given."""

import numpy as np
import pandas as pd
import pytest

from strudel.models.classifier import class_scores
from strudel.tables import TableEncoder


def sizes(*values):
    return pd.DataFrame({"size": list(values)})


@pytest.mark.parametrize("unknown", ["error", "missing"])
@pytest.mark.parametrize("read", [int, float, str, np.int64])
def test_categories_that_were_read_as_numbers(unknown, read):
    code = TableEncoder(unknown=unknown).fit(sizes("1", "2", "L")).code_
    expected = code.encode(sizes("1", "2", "1"))
    np.testing.assert_array_equal(code.encode(sizes(*map(read, (1, 2, 1)))), expected)


def test_categories_that_were_read_as_numbers_beside_gaps():
    code = TableEncoder().fit(sizes("1", "2", "L")).code_
    np.testing.assert_array_equal(
        code.encode(sizes(2, None)), [[0, 1, 0], [np.nan, np.nan, np.nan]]
    )


def test_numbers_that_were_read_as_categories():
    code = TableEncoder(kinds={"size": [1, 2, 3]}, unknown="error").fit(sizes(1, 2, 3)).code_
    np.testing.assert_array_equal(code.encode(sizes("3", "1")), [[1, 1], [0, 0]])
    with pytest.raises(ValueError, match="'4' at row 0"):
        code.encode(sizes("4"))


def test_classes_that_were_read_as_numbers():
    chances = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]])
    assert class_scores(np.array(["1", "2", "L"]), chances, [1, 2.0])["accuracy"] == 1.0
    assert class_scores(np.array(["1", "2", "L"]), chances, [1, 7])["accuracy"] == 0.5


def code():
    table = pd.DataFrame({"flag": [False, True, True], "n": [1, 30, 50], "c": ["1", "x", "1"]})
    return TableEncoder().fit(table).code_


@pytest.mark.parametrize(
    ("column", "given", "shown"),
    [
        ("flag", "False", False),
        ("flag", "true", True),
        ("flag", 0, False),
        ("c", 1, "1"),
        ("n", "30.0", 30),
        ("n", 31.0, 31),
        ("n", 33.5, 33.5),
        ("n", np.inf, np.inf),
        ("n", 1e300, 1e300),
    ],
)
def test_what_is_given_is_shown_as_the_column_holds_it(column, given, shown):
    found = code().column(column).own_value(given)
    assert found == shown
    assert isinstance(found, float) == isinstance(shown, float)


def test_an_order_as_an_array():
    column = np.array([3, 1, 2])
    code = TableEncoder(kinds={"size": np.unique(column)}).fit(sizes(*column)).code_
    assert code.columns[0].values == (1, 2, 3)
    assert type(code.columns[0].values[0]) is int
