"""Facts about `event_forms`."""

import numpy as np

from strudel.logic.event_forms import as_event


def test_an_example_of_as_event():
    assert repr(as_event("a -> b", 2, ("a", "b"))) == "Event('a >> b')"
    assert repr(as_event([1, np.nan, 0], 3)) == "Event('x0 & ~x2')"
