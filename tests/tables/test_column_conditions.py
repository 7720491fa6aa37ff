"""Facts about `column_conditions`."""

import numpy as np
import pytest

from strudel.tables import TableEncoder
from strudel.tables.coded_column import evidence_shares
from strudel.tables.column import compared_region, region_text, said_region

RNG = np.random.default_rng(0)


def test_a_strict_bound_starts_at_the_next_number():
    age = TableEncoder().fit([[20], [40], [60]]).code_.columns[0]
    [(low, high)] = compared_region(age, ">", 40)
    assert low == np.nextafter(40.0, np.inf)
    assert high == np.inf
    assert said_region(age, [60, 20])[0][0] == 20.0
    assert region_text(age, said_region(age, (30, None))) == "30 <= x0"


@pytest.mark.parametrize("value", [(30.0, 41.5), [33.25, 70.0], 33.25])
def test_shares_say_how_much_of_a_cell_agrees(value):
    numbers = RNG.normal(50.0, 20.0, 400)
    age = TableEncoder(edges={"x0": [30, 40, 60]}).fit(numbers[:, np.newaxis]).code_.columns[0]
    shares = evidence_shares(age, value)
    assert shares.shape == (4,)
    if isinstance(value, tuple):
        assert shares[[0, 1, 3]].tolist() == [0.0, 1.0, 0.0]
        assert 0.0 < shares[2] < 0.2
    else:  # no single number has a probability: in a list, densities tell how much each counts
        assert (shares > 0.0).tolist() == [False, True, False, isinstance(value, list)]
