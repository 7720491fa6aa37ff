from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from strudel import count_distribution
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.trees.vtree import balanced_vtree, linear_vtree, random_vtree


def test_names_and_numbers_mean_the_same():
    found = count_distribution(figure_1_circuit(), ["X4", "X2"], {"X3": 1})
    p = np.convolve([0.8, 0.2], [0.1, 0.9])
    np.testing.assert_allclose(found, p, rtol=1e-14)
    np.testing.assert_array_equal(count_distribution(figure_1_circuit(), (1, 3), {2: 1}), found)
    np.testing.assert_array_equal(
        count_distribution(figure_1_circuit(), pd.Index(["X2", "X4"]), {2: 1}), found
    )


@pytest.mark.parametrize("make", [balanced_vtree, linear_vtree, lambda n: random_vtree(n, 0)])
@pytest.mark.parametrize("n_vars", [30, pytest.param(1000, marks=pytest.mark.compiled)])
def test_independent_variables_are_poisson_binomial(make, n_vars, rng):
    p = rng.random(n_vars)
    expected = np.ones(1)
    for x in p:
        expected = np.convolve(expected, [1 - x, x])
    found = count_distribution(compile_factorized(make(n_vars), p))
    is_large = expected > 1e-290
    np.testing.assert_allclose(found[is_large], expected[is_large], rtol=1e-12)
    assert np.all(found[~is_large] < 1e-289)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ([], "variables must name at least one column, but is empty"),
        (["X1", "X9"], "variables names 'X9', which is not a variable. Choose from 'X1', 'X2'"),
        (["X1", 0], "variables must name each column once, but has 0 twice"),
        ([4], "variables names 4, which is not a variable"),
        ([-1], "variables names -1, which is not a variable"),
        ([0.5], "variables names 0.5, which is not a variable"),
        ([True], "variables names True, which is not a variable"),
    ],
)
def test_bad_variables_are_refused(variables, message):
    with pytest.raises(ValueError, match=message):
        count_distribution(figure_1_circuit(), variables)
