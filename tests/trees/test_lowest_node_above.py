"""Where variables meet in a vtree."""

from hypothesis import given
from hypothesis import strategies as st

from strategies import vtrees
from strudel.trees.lowest_node_above import MeetingPlaces
from strudel.trees.vtree import Vtree


@given(vtrees(max_vars=12), st.data())
def test_top_is_the_smallest_node_above_both_leaves(vtree, data):
    places = MeetingPlaces(vtree)
    order = vtree.scope(vtree.root)
    assert [order[place] for place in places.var_place] == list(range(vtree.n_vars))
    first = data.draw(st.integers(0, vtree.n_vars - 1))
    last = data.draw(st.integers(first, vtree.n_vars - 1))
    above = [v for v in range(vtree.n_nodes) if {order[first], order[last]} <= set(vtree.scope(v))]
    assert places.top(first, last) == min(above, key=lambda v: len(vtree.scope(v)))


def test_an_example_of_meeting_places():
    vtree = Vtree.from_nested(((2, 0), 1))
    places = MeetingPlaces(vtree)
    assert places.var_place == [1, 2, 0]
    assert vtree.scope(places.top(0, 1)) == [2, 0]
