import numpy as np
import pytest

from strudel.circuits.compile import compile_factorized
from strudel.circuits.examples import figure_1_chow_liu_tree, figure_1_circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.history import History
from strudel.trees.vtree import balanced_vtree


def mixture():
    circuit = compile_factorized(balanced_vtree(3))
    return Mixture(circuit, circuit.edge_log_theta[:, np.newaxis], np.zeros(1))


@pytest.mark.parametrize(
    "thing",
    [figure_1_chow_liu_tree(), balanced_vtree(3), figure_1_circuit(), mixture(), History()],
    ids=lambda thing: type(thing).__name__,
)
def test_everything_is_shown_as_a_table_and_a_drawing(thing):
    assert f"<caption>{type(thing).__name__}</caption>" in thing._repr_html_()
    svg = thing._repr_svg_()
    assert svg is None or svg.startswith("<svg")
