"""Facts about `pairs`."""

from strudel.algebra.pairs import find_pairs
from strudel.circuits import figure_1_circuit


def test_an_example_of_find_pairs():
    pairs = find_pairs(figure_1_circuit(), figure_1_circuit(), "multiply")
    assert len(pairs.pair_p) == 13
