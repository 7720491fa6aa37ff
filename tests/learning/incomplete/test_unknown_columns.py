"""Facts about `unknown_columns`."""

import numpy as np

from strudel import log_marginal
from strudel.circuits import compile_factorized
from strudel.learning.incomplete.unknown_columns import with_coins
from strudel.trees.vtree import Vtree


def test_an_example_of_with_coins():
    one = compile_factorized(Vtree.from_nested((0, 1)))
    three = with_coins(one, np.array([True, False, True]))
    assert np.exp(log_marginal(three, [[np.nan, 1, np.nan]])).tolist() == [0.5]
