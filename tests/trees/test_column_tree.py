"""Facts about `column_tree`."""

from strudel.data.bits import pack_columns
from strudel.tables.column_codes import ColumnCode
from strudel.trees.column_tree import (
    learn_column_tree,
    vtree_of_variables,
)
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
