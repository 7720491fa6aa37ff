"""Facts about conditions of columns."""

import numpy as np

from strudel.tables import TableEncoder
from strudel.tables.column import compared_region, region_text, said_region


def test_a_strict_bound_starts_at_the_next_number():
    age = TableEncoder().fit([[20], [40], [60]]).code_.columns[0]
    [(low, high)] = compared_region(age, ">", 40)
    assert low == np.nextafter(40.0, np.inf)
    assert high == np.inf
    assert said_region(age, [60, 20])[0][0] == 20.0
    assert region_text(age, said_region(age, (30, None))) == "30 <= x0"
