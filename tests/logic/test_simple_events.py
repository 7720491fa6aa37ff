"""Facts about `simple_events`."""

from strudel.logic.event_grammar import parse_event
from strudel.logic.simple_events import SimpleEvent, simple_event, simple_sdd
from strudel.trees import balanced_vtree


def test_an_example_of_simple_event():
    place = {"a": 0, "b": 1, "c": 2}
    assert (
        repr(simple_event(parse_event("a & at_least(2, a, b, ~c)"), place))
        == "SimpleEvent(literals=(1,), counted=(3, 4), low=1, high=2)"
    )


def test_an_example_of_simple_sdd():
    at_least_2 = SimpleEvent((), (1, 3, 5, 7), 2, 4)
    assert simple_sdd(at_least_2, balanced_vtree(4)).holds(
        [[0, 1, 1, 0], [0, 0, 0, 1]]
    ).tolist() == [True, False]
