"""Facts about `pairs`."""

import itertools

import pytest

from strudel import multiply
from strudel.algebra import inner_product, pairs
from strudel.circuits import CircuitBuilder
from strudel.errors import SizeLimitError
from strudel.trees.vtree import balanced_vtree


def wide_circuit():
    """Independent halves: x0 to x3 as a sum over all 16 states, x4 to x7 as a sum over two."""
    vtree = balanced_vtree(8)
    builder = CircuitBuilder(vtree, tuple("abcdefgh"))

    def state(first, values):
        pairs = [
            builder.add_sum(
                [
                    (
                        builder.literal(v, values[v - first]),
                        builder.literal(v + 1, values[v + 1 - first]),
                        1.0,
                    )
                ]
            )
            for v in (first, first + 2)
        ]
        return (*pairs, 1.0)

    left = builder.add_sum([state(0, values) for values in itertools.product((0, 1), repeat=4)])
    right = builder.add_sum([state(4, (0, 0, 0, 0)), state(4, (1, 1, 1, 1))])
    return builder.build(builder.add_sum([(left, right, 1.0)]))


@pytest.mark.parametrize("limit", ["size", "time"])
def test_a_limit_names_the_variables_whose_sums_grew(limit, monkeypatch):
    p = wide_circuit()
    most = {"max_pairs": 40} if limit == "size" else {}
    if limit == "time":
        monkeypatch.setattr(pairs, "STEPS_PER_SECOND", 1)  # 60 comparisons, and the sum has 256
    words = {"size": "more than max_pairs = 40 pairs", "time": "longer than 60 s"}[limit]
    with pytest.raises(SizeLimitError, match=f"{words}.* their sums over a, b, c, d") as caught:
        multiply(p, p, **most)
    assert caught.value.part == (0, 1, 2, 3)


def test_more_time_is_given_by_the_environment(monkeypatch):
    p = wide_circuit()
    monkeypatch.setattr(pairs, "STEPS_PER_SECOND", 1)
    monkeypatch.setenv("STRUDEL_COMPILE_SECONDS", "100000")
    assert inner_product(p, p) == 32  # rows, of weight one
