"""Facts about `class_tree`."""

import numpy as np

from strudel.data.bits import pack_columns
from strudel.trees.class_tree import learn_class_tree


def test_an_example_of_learn_class_tree():
    rows = np.array([[0, 0, 1], [0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=np.uint8)
    assert learn_class_tree([pack_columns(rows), pack_columns(1 - rows)]).var_parent.tolist() == [
        1,
        -1,
        1,
    ]
