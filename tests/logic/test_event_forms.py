"""Facts about `event_forms`."""

import numpy as np

from strudel.logic.event_forms import as_event, is_formula


def test_an_example_of_as_event():
    assert repr(as_event("a -> b", 2, ("a", "b"))) == "Event('a >> b')"
    assert repr(as_event([1, np.nan, 0], 3)) == "Event('x0 & ~x2')"


def test_an_example_of_is_formula():
    assert (is_formula("a | b"), is_formula({"a": 1})) == (True, False)
