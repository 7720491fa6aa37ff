"""`strudel explore`."""

import json

import pytest

from strudel import save
from strudel.circuits import figure_1_circuit
from strudel.cli.main import main
from strudel.io.read_write import write


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(figure_1_circuit(), "figure.strudel")
    return "figure.strudel"


def test_a_page_is_written_and_named(model, tmp_path, capsys):
    assert main(["explore", model, "-o", "page.html", "--target", "X1", "--title", "A <b>"]) == 0
    assert "wrote page.html (0.1 MB); open it in a browser" in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>A &lt;b&gt;</title>" in page
    assert '"target":0' in page


def test_the_name_comes_from_the_model(model, tmp_path, capsys):
    assert main(["explore", model, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["output"] == "figure.html"
    assert report["title"] == "figure"
    assert (tmp_path / "figure.html").stat().st_size == report["bytes"]


def test_a_circuit_of_another_program_has_a_page(model, tmp_path):
    write(figure_1_circuit(), "figure.psdd")
    write(figure_1_circuit().vtree, "figure.vtree")
    assert main(["explore", "figure.psdd"]) == 0
    assert (tmp_path / "figure.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "page.png"], "a page is a .html or .htm file"),
        (["--target", "X9"], "not a column"),
        (["-o", "no/page.html"], "folder does not exist"),
    ],
)
def test_bad_input_is_one_line_and_no_file(model, tmp_path, capsys, arguments, words):
    assert main(["explore", model, *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.glob("*.html"))
