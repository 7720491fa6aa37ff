"""Facts about `sdd`."""

from strudel import Vtree
from strudel.logic.sdd import Sdd, nnf_from_sdd, reached_nodes, without_unused


def test_an_example_of_reached_nodes():
    sdd = Sdd.from_decisions(Vtree.from_nested((0, 1)), [(2, [(2, 4), (3, 1)])], root=6)
    assert reached_nodes(sdd).tolist() == [1, 2, 3, 4, 6]


def test_an_example_of_without_unused():
    decisions = [(2, [(2, 4), (3, 1)]), (2, [(2, 1), (3, 5)])]
    assert (
        repr(without_unused(Sdd.from_decisions(Vtree.from_nested((0, 1)), decisions, root=7)))
        == "Sdd(n_vars=2, n_decisions=1, n_elements=2)"
    )


def test_an_example_of_nnf_from_sdd():
    sdd = Sdd.from_decisions(Vtree.from_nested((0, 1)), [(2, [(2, 4), (3, 1)])], root=6)
    assert nnf_from_sdd(sdd).holds([[0, 0], [0, 1], [1, 1]]).tolist() == [True, False, True]
