"""Facts about `experiments/measures`."""

import numpy as np
from reproduce.experiments.measures import with_early_stopping


def test_a_search_that_stops_early_stays_at_the_circuit_it_keeps():
    valid = np.array([-3.0, -2.0, -2.5, -2.6, -1.0])
    test = np.array([-3.1, -2.1, -2.2, -2.3, -1.1])
    curve, last = with_early_stopping(valid, test, patience=2)
    assert (curve.tolist(), last) == ([-3.1, -2.1, -2.2, -2.3, -2.1], 3)
