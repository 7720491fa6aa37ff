"""Facts about `vtree_recovery`."""

from strudel.circuits.sum_product_graph import SumProductGraph
from strudel.circuits.vtree_recovery import recover_vtree


def test_an_example_of_recover_vtree():
    graph = SumProductGraph()
    a, b, c = (graph.add_literal(2 * var + 1) for var in range(3))
    graph.add_product([graph.add_product([a, c]), b])
    assert recover_vtree(graph).to_nested() == ((0, 2), 1)
