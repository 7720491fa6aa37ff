"""What columns tell about each other, against `mutual_information` and tables counted by hand."""

import numpy as np
import pytest

from strategies import mixed
from strudel import Strudel, mutual_information
from strudel.circuits.compile import figure_1_circuit
from strudel.queries.column_pairs import column_pairs


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    number = rng.integers(0, 60, 400)
    colour = np.where(number < 20, "red", np.where(rng.random(400) < 0.5, "blue", "green"))
    rows = [[int(n), str(c), bool(n > 30)] for n, c in zip(number, colour, strict=True)]
    return Strudel(n_components=1, random_state=0, max_splits=5).fit(rows)


@pytest.mark.parametrize("given", [None, {"x1": "blue"}])
def test_columns_have_the_information_of_both(model, given):
    found = column_pairs(model, given)
    assert found.names == ("x0", "x1", "x2")
    for i, one in enumerate(found.names):
        for j, other in enumerate(found.names):
            if i != j:
                expected = mutual_information(model, one, other, given)
                assert found.information[i, j] == pytest.approx(expected, abs=1e-12)


def test_a_column_that_tells_another_has_share_one():
    rows = [["a", 0], ["b", 1], ["c", 1]] * 40
    model = Strudel(n_components=1, pseudocount=0, max_splits=0, validation_fraction=None).fit(rows)
    assert column_pairs(model).share[0, 1] == pytest.approx(1.0)


def test_0_1_variables_and_mixtures_are_columns_of_themselves():
    circuit = figure_1_circuit()
    expected = mutual_information(circuit, "X1", "X3")
    assert column_pairs(circuit).information[0, 2] == pytest.approx(expected)
    twice = mixed([circuit] * 2)
    assert column_pairs(twice).information == pytest.approx(column_pairs(circuit).information)
