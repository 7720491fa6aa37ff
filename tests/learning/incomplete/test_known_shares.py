"""How often components know values: by hand, and of whole tables."""

from types import SimpleNamespace

import numpy as np
import pytest

from strudel.circuits.compile import compile_factorized
from strudel.circuits.mixture import Mixture
from strudel.learning.incomplete.known_shares import with_known_shares
from strudel.learning.incomplete.partial_rows import partial_rows
from strudel.trees import balanced_vtree


def two_components():
    """Rows begin with 1 in the first component, and with 0 in the second; the rest is even."""
    parts = [compile_factorized(balanced_vtree(2), [p, 0.5]) for p in (1.0 - 1e-9, 1e-9)]
    log_theta = np.column_stack([part.edge_log_theta for part in parts])
    return Mixture(parts[0], log_theta, np.log([0.5, 0.5]))


def gaps_of(rows):
    return SimpleNamespace(train_rows=partial_rows(np.array(rows, dtype=float)))


def test_shares_are_those_of_the_rows_of_each_component():
    rows = [[1, 0]] * 300 + [[1, np.nan]] * 100 + [[0, 1]] * 10 + [[0, np.nan]] * 190
    found = with_known_shares(two_components(), gaps_of(rows)).known
    np.testing.assert_array_equal(found[0], 1.0)
    share = 310 / 600  # of all rows, a thousandth of which counts as more of each component
    expected = [(300 + 0.6 * share) / 400.6, (10 + 0.6 * share) / 200.6]
    np.testing.assert_allclose(found[1], expected, rtol=1e-6)


@pytest.mark.parametrize("gaps", [None, SimpleNamespace(train_rows="in partitions")])
def test_without_rows_in_memory_nothing_is_known(gaps):
    mixture = two_components()
    assert with_known_shares(mixture, gaps) is mixture
