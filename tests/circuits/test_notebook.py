"""Facts about what notebooks show."""

from xml.etree import ElementTree

import numpy as np
import pytest

from strudel.circuits.compile import compile_factorized
from strudel.circuits.examples import figure_1_circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.notebook import circuit_html, circuit_svg, weights_svg
from strudel.trees.vtree import balanced_vtree

SVG = "{http://www.w3.org/2000/svg}"


def test_svg_is_well_formed_and_shows_all_names():
    root = ElementTree.fromstring(circuit_svg(figure_1_circuit()))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"X1", "¬X1", "X4", "¬X4", "0.9"} <= set(texts)
    assert len(list(root.iter(f"{SVG}circle"))) == 15


def mixture_with(weights):
    circuit = figure_1_circuit()
    log_theta = np.repeat(circuit.edge_log_theta[:, np.newaxis], len(weights), axis=1)
    with np.errstate(divide="ignore"):
        return Mixture(circuit, log_theta, np.log(weights))


@pytest.mark.parametrize(
    "svg",
    [
        circuit_svg(figure_1_circuit().with_names(("a rather long name", "b", "c", "d"))),
        weights_svg(mixture_with([1.0])),
        weights_svg(mixture_with([0.1, 0.0, 0.9])),
        weights_svg(mixture_with(np.full(1000, 1e-3))),
    ],
)
def test_everything_lies_inside_the_svg(svg):
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width")), float(root.get("height"))
    for rectangle in root.iter(f"{SVG}rect"):
        left, top = float(rectangle.get("x", 0)), float(rectangle.get("y", 0))
        assert left >= 0
        assert top >= 0
        assert left + float(rectangle.get("width")) <= width
        assert top + float(rectangle.get("height")) <= height


def test_a_large_circuit_has_a_table_but_no_drawing():
    circuit = compile_factorized(balanced_vtree(60))
    assert circuit_svg(circuit) is None
    assert "<svg" not in circuit_html(circuit)
    assert ">60<" in circuit_html(circuit)


def test_names_are_escaped():
    circuit = figure_1_circuit().with_names(("<script>", "a&b", "c", "d"))
    html = circuit_html(circuit)
    assert "<script>" not in html
    assert "a&amp;b" in html
    ElementTree.fromstring(html)


def test_a_mixture_shows_its_size_and_weights():
    html = mixture_with([0.2, 0.5, 0.3])._repr_html_()
    root = ElementTree.fromstring(html)
    cells = {row.find("th").text: row.find("td").text for row in root.iter("tr")}
    assert (cells["components"], cells["edges"], cells["parameters"]) == ("3", "16", "45")
    bars = [float(bar.get("height")) for bar in root.iter(f"{SVG}rect")][1:]
    np.testing.assert_allclose(np.array(bars) / sum(bars), [0.5, 0.3, 0.2], atol=1e-3)
    (text,) = root.iter(f"{SVG}text")
    assert text.text == "weights: 0.5 to 0.2"


def test_of_many_weights_the_largest_are_drawn():
    weights = np.arange(1.0, 301.0) / np.arange(1.0, 301.0).sum()
    root = ElementTree.fromstring(weights_svg(mixture_with(weights)))
    assert len(list(root.iter(f"{SVG}rect"))) == 101
    (text,) = root.iter(f"{SVG}text")
    assert text.text == f"100 largest weights: {weights[-1]:.3g} to {weights[200]:.3g}"
