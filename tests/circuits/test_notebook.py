"""Facts about what notebooks show."""

from xml.etree import ElementTree

from strudel.circuits.compile import compile_factorized
from strudel.circuits.examples import figure_1_circuit
from strudel.circuits.notebook import circuit_html, circuit_svg
from strudel.trees.vtree import balanced_vtree

SVG = "{http://www.w3.org/2000/svg}"


def test_svg_is_well_formed_and_shows_all_names():
    root = ElementTree.fromstring(circuit_svg(figure_1_circuit()))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"X1", "¬X1", "X4", "¬X4", "0.9"} <= set(texts)
    assert len(list(root.iter(f"{SVG}circle"))) == 15


def test_everything_lies_inside_the_svg():
    names = ("a rather long name", "b", "c", "d")
    root = ElementTree.fromstring(circuit_svg(figure_1_circuit().with_names(names)))
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
