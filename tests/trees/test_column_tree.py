"""Facts about `column_tree`."""

import numpy as np

from makers import columns_in_a_chain
from strudel.data.bits import pack_columns
from strudel.tables.column_codes import ColumnCode
from strudel.trees.column_tree import learn_column_tree, strong_part, vtree_of_variables
from strudel.trees.vtree import Vtree


def test_an_example_of_learn_column_tree():
    columns = [ColumnCode(0, [[0], [1]]), ColumnCode(1, [[0, 0], [1, 0], [1, 1]])]
    bits = pack_columns([[0, 0, 0], [1, 1, 0], [1, 1, 1]] * 5)
    tree, vtree = learn_column_tree(bits, columns)
    assert tree.column_parent.tolist() == [-1, 0]
    assert vtree.to_nested() == (0, (1, 2))


def test_an_example_of_vtree_of_variables():
    columns = [ColumnCode(0, [[0], [1]]), ColumnCode(1, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])]
    assert vtree_of_variables(Vtree.from_nested((1, 0)), columns).to_nested() == ((1, (2, 3)), 0)


def test_the_strong_part_keeps_columns_that_nearly_determine_each_other():
    codes = [np.eye(3, dtype=np.uint8)[values] for values in columns_in_a_chain(2000)]
    columns = [ColumnCode(3 * c, np.eye(3)) for c in range(3)]
    tree, _ = learn_column_tree(pack_columns(np.hstack(codes)), columns)
    edges = {frozenset((c, up)) for c, up in enumerate(tree.column_parent.tolist()) if up >= 0}
    assert edges == {frozenset((0, 1)), frozenset((1, 2))}
    part = strong_part(tree, 0.5)
    kept = {frozenset((c, up)) for c, up in enumerate(part.column_parent.tolist()) if up >= 0}
    assert kept == {frozenset((0, 1))}
    for c, up in enumerate(part.column_parent.tolist()):
        if up < 0:  # what is cut has its shares of all rows
            np.testing.assert_allclose(part.column_table[c][0], codes[c].mean(axis=0), atol=2e-3)
