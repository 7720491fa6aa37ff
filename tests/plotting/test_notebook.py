"""Facts about what notebooks show."""

from xml.etree import ElementTree

import numpy as np
import pytest

from strategies import mixed
from strudel.circuits.compile import compile_factorized, figure_1_chow_liu_tree, figure_1_circuit
from strudel.learning.progress import History
from strudel.models.strudel import Strudel
from strudel.plotting.notebook import html_of
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import balanced_vtree, linear_vtree


def mixture_with(weights):
    circuit = figure_1_circuit()
    return mixed([circuit] * len(weights), weights)


def history_of(n_rows, valid=None):
    columns = {name: np.zeros(n_rows) for name in ("n_edges", "rows_moved", "seconds")}
    columns |= {"n_splits": np.arange(n_rows), "train": np.linspace(-3, -2, n_rows)}
    columns["valid"] = np.linspace(-3, -2.5, n_rows) if valid is None else np.full(n_rows, valid)
    return History.from_columns(columns, best=max(n_rows - 2, 0), stopped_because="patience")


def bush(n_vars):
    """A tree whose first variable is the parent of all others."""
    parent = np.zeros(n_vars, dtype=np.int32)
    parent[0] = -1
    return ChowLiuTree(parent, np.full((n_vars, 2), 0.5))


THINGS = {
    "figure 1": figure_1_circuit().with_names(("a rather long name", "b", "c", "d")),
    "literal": compile_factorized(balanced_vtree(1)),
    "large circuit": compile_factorized(balanced_vtree(3000)),
    "mixture": mixture_with([0.1, 0.0, 0.9]),
    "large mixture": mixture_with(np.full(1000, 1e-3)),
    "one vtree node": balanced_vtree(1),
    "vtree": balanced_vtree(40),
    "deep vtree": linear_vtree(60),
    "large vtree": balanced_vtree(5000),
    "chain": linear_vtree(3000),
    "tree": figure_1_chow_liu_tree(),
    "one variable": bush(1),
    "bush": bush(1500),
    "history": history_of(50),
    "history without validation": history_of(5000, valid=np.nan),
    "history of one": history_of(1),
    "empty history": History(),
}


@pytest.mark.parametrize("thing", THINGS.values(), ids=THINGS)
def test_html_is_well_formed_small_and_has_a_table_and_a_picture(thing):
    html = thing._repr_html_()
    root = ElementTree.fromstring(html)
    assert len(html) < 250_000
    assert root.find("table/caption").text == type(thing).__name__
    has_steps = not isinstance(thing, History) or len(thing) > 1
    assert [image.get("src")[:22] for image in root.iter("img")] == [
        "data:image/png;base64,"
    ] * has_steps


def cells_of(thing):
    root = ElementTree.fromstring(thing._repr_html_())
    return {row.find("th").text: row.find("td").text for row in root.iter("tr")}


def test_a_mixture_shows_its_size():
    cells = cells_of(mixture_with([0.2, 0.5, 0.3]))
    assert (cells["components"], cells["edges"], cells["parameters"]) == ("3", "16", "45")


def test_a_history_says_what_was_kept_and_why_it_stopped():
    cells = cells_of(history_of(50))
    assert (cells["splits"], cells["kept"], cells["stopped because"]) == ("49", "48", "patience")
    assert "validation" not in cells_of(history_of(9, valid=np.nan))


def test_a_fitted_estimator_adds_what_it_learned_to_the_diagram_of_scikit_learn():
    model = Strudel(n_components=1, max_splits=1)
    before = model._repr_html_()
    model.circuit_, model.history_ = figure_1_circuit(), history_of(5)
    after = model._repr_mimebundle_()["text/html"]
    assert "sk-top-container" in after
    assert html_of(model.circuit_) in after
    assert html_of(model.history_) in after
    assert html_of(model.circuit_) in model._repr_html_()
    assert html_of(model.circuit_) not in before
