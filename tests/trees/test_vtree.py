from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import vtrees
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import (
    MeetingPlaces,
    Vtree,
    balanced_vtree,
    linear_vtree,
    random_vtree,
    vtree_from_chow_liu,
)

NONE = -1


def leaves(nested):
    """The variables of nested pairs, from left to right."""
    return [nested] if isinstance(nested, int) else leaves(nested[0]) + leaves(nested[1])


@st.composite
def nested_pairs(draw, max_vars=8):
    """Any binary tree over the variables 0, 1, ..., in any order."""
    trees = list(draw(st.permutations(range(draw(st.integers(1, max_vars))))))
    while len(trees) > 1:
        left = trees.pop(draw(st.integers(0, len(trees) - 1)))
        right = trees.pop(draw(st.integers(0, len(trees) - 1)))
        trees.append((left, right))
    return trees[0]


@st.composite
def forests(draw, max_vars=9):
    """Trees or forests over variables numbered at random, as parents."""
    n_vars = draw(st.integers(1, max_vars))
    label = draw(st.permutations(range(n_vars)))
    parent = np.full(n_vars, NONE, dtype=np.int32)
    for v in range(1, n_vars):
        up = draw(st.integers(-1, v - 1))
        parent[label[v]] = label[up] if up >= 0 else NONE
    return ChowLiuTree(parent, np.full((n_vars, 2), 0.5))


def combined(items, shape):
    """Section 2 of the reference, word for word: halves at floor(n / 2), or last item innermost."""
    if len(items) == 1:
        return items[0]
    middle = len(items) // 2 if shape == "balanced" else 1
    return combined(items[:middle], shape), combined(items[middle:], shape)


def reference_vtree(tree, shape):
    parent = tree.var_parent.tolist()

    def below(var):
        children = [child for child, up in enumerate(parent) if up == var]
        return (var, combined([below(c) for c in children], shape)) if children else var

    return combined([below(v) for v, up in enumerate(parent) if up == NONE], shape)


@given(nested_pairs())
def test_from_nested_and_back(nested):
    assert Vtree.from_nested(nested).to_nested() == nested


@given(vtrees(max_vars=8))
def test_every_node_knows_its_scope_its_parent_and_its_depth(vtree):
    scope = {}
    for node in range(vtree.n_nodes):  # children come first
        left, right = int(vtree.node_left[node]), int(vtree.node_right[node])
        scope[node] = scope[left] + scope[right] if left != NONE else [int(vtree.node_var[node])]
        assert vtree.scope(node) == scope[node]
        if left != NONE:
            assert vtree.node_parent[left] == vtree.node_parent[right] == node
            assert vtree.node_depth[left] == vtree.node_depth[right] == vtree.node_depth[node] + 1
    assert vtree.node_parent[vtree.root] == NONE
    assert vtree.node_depth[vtree.root] == 0
    assert [int(vtree.node_var[leaf]) for leaf in vtree.var_leaf] == list(range(vtree.n_vars))


@given(forests(), st.sampled_from(["balanced", "linear"]))
def test_a_chow_liu_tree_gives_the_vtree_of_the_reference(tree, shape):
    assert vtree_from_chow_liu(tree, shape).to_nested() == reference_vtree(tree, shape)


def test_a_cycle_is_refused():
    tree = ChowLiuTree(np.array([NONE, 2, 1], dtype=np.int32), np.full((3, 2), 0.5))
    with pytest.raises(ValueError, match="cycle"):
        vtree_from_chow_liu(tree)


@pytest.mark.parametrize("make", [balanced_vtree, linear_vtree, random_vtree])
def test_no_variables_make_no_vtree(make):
    with pytest.raises(ValueError, match="at least one variable"):
        make(0)


@given(st.integers(1, 20), st.integers(0, 100))
def test_a_random_vtree_holds_every_variable_and_repeats_with_its_seed(n_vars, seed):
    vtree = random_vtree(n_vars, seed)
    assert sorted(leaves(vtree.to_nested())) == list(range(n_vars))
    assert vtree == random_vtree(n_vars, seed)


def test_a_chain_may_be_deeper_than_pythons_stack():
    n_vars = 3000
    chain = ChowLiuTree(np.arange(-1, n_vars - 1, dtype=np.int32), np.full((n_vars, 2), 0.5))
    vtree = vtree_from_chow_liu(chain)
    assert vtree.depth == n_vars - 1
    assert vtree == linear_vtree(n_vars)
    assert Vtree.from_nested(vtree.to_nested()) == vtree


def test_equality_ignores_the_numbering_of_nodes():
    def ints(*values):
        return np.array(values, dtype=np.int32)

    first = Vtree(ints(-1, -1, 0, -1, 2), ints(-1, -1, 1, -1, 3), ints(0, 1, -1, 2, -1))
    second = Vtree(ints(-1, -1, -1, 1, 3), ints(-1, -1, -1, 2, 0), ints(2, 0, 1, -1, -1))
    assert first.to_nested() == second.to_nested() == ((0, 1), 2)
    assert first == second
    assert hash(first) == hash(second)
    assert first != linear_vtree(3)
    assert first != "((0, 1), 2)"


@pytest.mark.parametrize(
    ("left", "right", "var", "reason"),
    [
        ([], [], [], "odd number of nodes, not 0"),
        ([-1, -1], [-1, -1], [0, 1], "odd number of nodes, not 2"),
        ([-1, -1, 0], [-1, -1, 1], [0, 0, -1], "each once"),
        ([-1, -1, 0], [-1, -1], [0, 1, -1], "equally long"),
        ([-1, 0, 0], [-1, -1, 1], [0, 1, -1], "a leaf must not have children"),
        ([-1, -1, 0], [-1, -1, 2], [0, 1, -1], "children must come before"),
        ([-1, -1, 0], [-1, -1, -1], [0, 1, -1], "children must come before"),
        ([-1, -1, 0], [-1, -1, 0], [0, 1, -1], "the child of exactly one node"),
    ],
)
def test_arrays_that_are_no_vtree_say_why(left, right, var, reason):
    arrays = [np.array(values, dtype=np.int32) for values in (left, right, var)]
    with pytest.raises(ValueError, match=reason):
        Vtree(*arrays)


@given(vtrees(max_vars=12), st.data())
def test_top_is_the_smallest_node_above_both_leaves(vtree, data):
    places = MeetingPlaces(vtree)
    order = vtree.scope(vtree.root)
    assert [order[place] for place in places.var_place] == list(range(vtree.n_vars))
    first = data.draw(st.integers(0, vtree.n_vars - 1))
    last = data.draw(st.integers(first, vtree.n_vars - 1))
    above = [v for v in range(vtree.n_nodes) if {order[first], order[last]} <= set(vtree.scope(v))]
    assert places.top(first, last) == min(above, key=lambda v: len(vtree.scope(v)))
