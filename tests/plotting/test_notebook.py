"""Facts about what notebooks show."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from strudel.circuits.compile import compile_factorized
from strudel.circuits.examples import figure_1_chow_liu_tree, figure_1_circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.history import History
from strudel.models.strudel import Strudel
from strudel.plotting.notebook import html_of, svg_of
from strudel.tables.encoder import TableEncoder
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import balanced_vtree, linear_vtree

SVG = "{http://www.w3.org/2000/svg}"


def mixture_with(weights):
    circuit = figure_1_circuit()
    log_theta = np.repeat(circuit.edge_log_theta[:, np.newaxis], len(weights), axis=1)
    with np.errstate(divide="ignore"):
        return Mixture(circuit, log_theta, np.log(weights))


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
def test_html_is_well_formed_small_and_in_the_colours_of_the_page(thing):
    html = thing._repr_html_()
    ElementTree.fromstring(html)
    assert len(html) < 100_000
    assert "white" not in html
    assert "#fff" not in html
    for link in ("href", "src=", "<script"):
        assert link not in html


@pytest.mark.parametrize("thing", THINGS.values(), ids=THINGS)
def test_everything_lies_inside_the_svg(thing):
    svg = svg_of(thing)
    if svg is None:
        assert isinstance(thing, History)
        assert len(thing) < 2
        return
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width")), float(root.get("height"))
    points = []
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.get("x")), float(box.get("y"))
        points += [(x, y), (x + float(box.get("width")), y + float(box.get("height")))]
    for disc in root.iter(f"{SVG}circle"):
        x, y, radius = (float(disc.get(name)) for name in ("cx", "cy", "r"))
        points += [(x - radius, y - radius), (x + radius, y + radius)]
    points += [(float(text.get("x")), float(text.get("y"))) for text in root.iter(f"{SVG}text")]
    for path in root.iter(f"{SVG}path"):
        found = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d"))
        points += [(float(x), float(y)) for x, y in found]
    x, y = np.array(points).T
    assert x.min() >= -0.5
    assert y.min() >= -0.5
    assert x.max() <= width + 0.5
    assert y.max() <= height + 0.5


def test_svg_shows_all_names_and_parameters_of_a_small_circuit():
    root = ElementTree.fromstring(figure_1_circuit()._repr_svg_())
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"X1", "¬X1", "X4", "¬X4", "0.9"} <= set(texts)
    assert len(list(root.iter(f"{SVG}circle"))) == 15


def test_a_large_circuit_has_a_disc_for_every_part_of_its_vtree():
    circuit = compile_factorized(balanced_vtree(60))
    root = ElementTree.fromstring(svg_of(circuit))
    assert len(list(root.iter(f"{SVG}circle"))) == circuit.vtree.n_nodes
    assert ">60<" in html_of(circuit)


def test_a_mixture_shows_its_size_and_weights():
    root = ElementTree.fromstring(mixture_with([0.2, 0.5, 0.3])._repr_html_())
    cells = {row.find("th").text: row.find("td").text for row in root.iter("tr")}
    assert (cells["components"], cells["edges"], cells["parameters"]) == ("3", "16", "45")
    bars = [float(bar.get("height")) for bar in root.iter(f"{SVG}rect")]
    np.testing.assert_allclose(np.array(bars) / sum(bars), [0.5, 0.3, 0.2], atol=1e-3)
    (text,) = root.iter(f"{SVG}text")
    assert text.text == "weights: 0.5 to 0.2"


def test_a_history_says_what_was_kept_and_why_it_stopped():
    root = ElementTree.fromstring(history_of(50)._repr_html_())
    cells = {row.find("th").text: row.find("td").text for row in root.iter("tr")}
    assert (cells["splits"], cells["kept"], cells["stopped because"]) == ("49", "48", "patience")
    assert "validation" not in history_of(9, valid=np.nan)._repr_html_().split("<svg")[0]


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


def test_a_large_circuit_of_a_table_is_shown_by_column():
    rows = [[f"town {number % 9} of the north", number % 50] for number in range(200)]
    encoder = TableEncoder(n_bins=8)
    model = Strudel(n_components=1, columns=encoder, random_state=0, max_splits=0).fit(rows)
    assert model.circuit_.n_edges > 60
    drawing = ElementTree.fromstring(svg_of(model.circuit_))
    assert [text.text for text in drawing.iter(f"{SVG}text")] == ["x0", "x1"]
