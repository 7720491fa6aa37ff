"""Facts about `class_mixtures`."""

import numpy as np

from strudel.learning.supervised.class_mixtures import fold_of_rows


def test_an_example_of_fold_of_rows():
    assert fold_of_rows(np.array([0, 0, 1, 0, 0]), 2, np.random.default_rng(0)).tolist() == [
        1,
        0,
        -1,
        0,
        1,
    ]
