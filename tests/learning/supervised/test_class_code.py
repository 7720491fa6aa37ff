"""Facts about `class_code`."""

import numpy as np
import pandas as pd

from strudel.circuits import figure_1_circuit
from strudel.circuits.mixture import as_mixture
from strudel.learning.supervised.class_code import (
    class_codewords,
    class_names,
    target_name,
    with_class,
    with_class_variables,
)
from strudel.tables import TableEncoder


def test_an_example_of_class_names():
    assert class_names(["no", "yes"], ["age"]) == ["class=yes"]
    assert class_names([0, 1], ["age"], "smoker") == ["smoker"]


def test_an_example_of_with_class():
    code = TableEncoder().fit([[1], [2], [3]]).code_
    assert with_class(code, ["no", "yes"]).variable_names == ("x0>=2", "x0>=3", "class=yes")


def test_an_example_of_with_class_variables():
    one = as_mixture(figure_1_circuit())
    assert (
        repr(with_class_variables(one, np.array([1]), class_codewords(2)))
        == "Mixture(n_components=1, n_vars=5, n_nodes=21, n_edges=19)"
    )


def test_an_example_of_class_codewords():
    assert (class_codewords(2).tolist(), class_codewords(3).tolist()) == (
        [[0], [1]],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    )


def test_an_example_of_target_name():
    assert (target_name(pd.Series([0, 1], name="smoker")), target_name([0, 1])) == (
        "smoker",
        "class",
    )
