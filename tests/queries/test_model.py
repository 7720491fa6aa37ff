"""Facts about `model`."""

from strudel.circuits import figure_1_circuit
from strudel.queries.model import model_of


def test_an_example_of_model_of():
    assert repr(model_of(figure_1_circuit())) == "Circuit(n_vars=4, n_nodes=17, n_edges=16)"
