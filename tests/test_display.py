import re
from pathlib import Path

import numpy as np
import pytest

import strudel
from strudel.circuits.compile import compile_factorized
from strudel.circuits.examples import figure_1_chow_liu_tree, figure_1_circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.history import History
from strudel.trees.vtree import balanced_vtree

SOURCE = Path(strudel.__file__).parent


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


def test_only_one_module_of_the_early_layers_imports_a_later_one_by_name():
    late = ("plotting", "io", "cli", "models")
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in late
        and re.search(r"""import_module\(f?["']strudel""", path.read_text(encoding="utf-8"))
    }
    assert found == {"_display.py", "_lazy.py"}
