"""Facts about `strudel plot`."""

import json

import numpy as np
import pytest
from PIL import Image

from strategies import mixed
from strudel.circuits.compile import figure_1_chow_liu_tree, figure_1_circuit
from strudel.io.model_file import save
from strudel.io.read_write import write
from strudel.trees.vtree import balanced_vtree


@pytest.fixture
def figure_1(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(figure_1_circuit(), tmp_path / "figure.strudel")
    return tmp_path / "figure.strudel"


@pytest.fixture
def mixture(tmp_path):
    circuit = figure_1_circuit()
    save(mixed([circuit] * 2, [0.3, 0.7]), tmp_path / "mix.strudel")
    return tmp_path / "mix.strudel"


def corner(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("L"))[0, 0]


def test_a_picture_gets_the_name_of_the_model_and_of_what_it_shows(run, figure_1):
    assert run("plot", figure_1) == (0, "wrote figure-circuit.png\n", "")
    assert run("plot", figure_1, "marginals") == (0, "wrote figure-marginals.png\n", "")
    assert sorted(path.name for path in figure_1.parent.iterdir()) == [
        "figure-circuit.png",
        "figure-marginals.png",
        "figure.strudel",
    ]


def test_singular_and_plural_are_the_same_and_slips_get_a_suggestion(run, refused, figure_1):
    assert run("plot", figure_1, "marginal") == (0, "wrote figure-marginals.png\n", "")
    assert run("plot", figure_1, "dependency") == (0, "wrote figure-dependencies.png\n", "")
    assert "WHAT is 'dependancies', which is not known. Did you mean 'dependencies'?" in refused(
        "plot", figure_1, "dependancies"
    )


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["circuit", "--row", "X1=1,X3=1", "-o", "a.svg"], b"<?xml"),
        (["circuit", "--row", "X1=1,X2=0,X3=1,X4=0", "-o", "a.png"], b"\x89PNG"),
        (["vtree", "-o", "a.pdf"], b"%PDF"),
        (["tree", "-o", "a.dot"], b"digraph chow_liu_tree"),
        (["vtree", "-o", "a.dot"], b"digraph vtree"),
        (["dependencies", "--given", "X3=1", "-o", "a.svg"], b"<?xml"),
        (
            ["marginals", "--given", "X3=1", "--top", "2", "--size", "3", "2", "-o", "a.svg"],
            b"<?xml",
        ),
    ],
)
def test_the_ending_chooses_the_format(run, figure_1, arguments, start):
    code, _, err = run("plot", figure_1, *arguments)
    assert (code, err) == (0, "")
    assert (figure_1.parent / arguments[-1]).read_bytes().startswith(start)


def test_dark_pictures_are_dark(run, figure_1):
    run("plot", figure_1, "vtree", "-o", "light.png")
    run("plot", figure_1, "vtree", "--dark", "-o", "dark.png")
    assert (corner("light.png"), corner("dark.png")) == (255, 0)


def test_size_is_in_inches(run, figure_1):
    run("plot", figure_1, "--size", 4, 2.5, "-o", "a.png")
    with Image.open("a.png") as image:
        assert image.size == (600, 375)


def test_a_row_of_a_table_can_be_marked(run, figure_1, make_table):
    table = make_table("rows.csv", [[1, 0, 1, 0]], ("X1", "X2", "X3", "X4"))
    code, _, err = run("plot", figure_1, "--row", table, "-o", "a.dot")
    assert (code, err) == (0, "")
    run("plot", figure_1, "--row", "X1=1,X2=0,X3=1,X4=0", "-o", "b.dot")
    assert figure_1.with_name("a.dot").read_text() == figure_1.with_name("b.dot").read_text()
    assert "color=red" in figure_1.with_name("a.dot").read_text()


def test_json_says_where_the_picture_is(run, figure_1):
    code, out, _ = run("plot", figure_1, "tree", "-o", "a.svg", "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["picture"], report["output"], report["kind"]) == ("tree", "a.svg", "Circuit")
    assert report["bytes"] == figure_1.with_name("a.svg").stat().st_size


@pytest.mark.parametrize(
    ("thing", "name", "picture"),
    [
        (figure_1_circuit(), "a.psdd", "circuit"),
        (balanced_vtree(5), "a.vtree", "vtree"),
        (figure_1_chow_liu_tree(), "a.clt", "tree"),
        (figure_1_circuit(), "a.psdd.gz", "circuit"),
    ],
)
def test_files_of_other_programs_are_drawn(run, tmp_path, monkeypatch, thing, name, picture):
    monkeypatch.chdir(tmp_path)
    write(thing, tmp_path / name)
    assert run("plot", name) == (0, f"wrote a-{picture}.png\n", "")


def test_learning_curves_and_components(run, model, mixture, tmp_path):
    assert run("plot", model, "curve", "-o", tmp_path / "curve.svg")[0] == 0
    assert "splits" in (tmp_path / "curve.svg").read_text()
    assert run("plot", mixture, "components", "-o", tmp_path / "parts.svg")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["curve"], "holds no history"),
        (
            ["vtree", "--given", "X3=1"],
            "--given goes with marginals, dependencies, posterior, correlations, not",
        ),
        (["marginals", "--row", "X1=1"], "--row goes with circuit"),
        (["circuit", "--row", "rows.csv"], "rows.csv"),
        (["marginals", "--given", "X9=1"], "X9"),
        (["marginals", "-o", "a.dot"], ".png, .svg or .pdf"),
        (["circuit", "-o", "a.jpg"], ".png, .svg, .pdf or .dot"),
        (["circuit", "-o", "nowhere/a.png"], "folder does not exist"),
        (["circuit", "--size", "0", "3"], "--size must be from 1 1"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_input_is_one_clear_line(refused, figure_1, arguments, words):
    assert words in refused("plot", figure_1, *arguments)
    assert [path.name for path in figure_1.parent.iterdir()] == ["figure.strudel"]


def test_a_missing_file_and_a_file_without_such_a_picture(run, figure_1):
    assert run("plot", "nothing.psdd")[0] == 2
    write(balanced_vtree(3), figure_1.with_name("a.vtree"))
    code, _, err = run("plot", "a.vtree", "marginals")
    assert code == 2
    assert "A circuit cannot be made from a Vtree" in err


def test_a_table_is_shown_by_its_columns(run, tmp_path, monkeypatch):
    import pandas as pd

    from strudel import Strudel

    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"size": ["small", "large"] * 20, "sold": [0, 0, 1, 1] * 10})
    save(Strudel(n_components=1, random_state=0).fit(table), tmp_path / "shop.strudel")
    assert run("plot", "shop.strudel") == (0, "wrote shop-marginals.png\n", "")
    assert run("plot", "shop.strudel", "--row", "size=small,sold=1")[1].startswith(
        "wrote shop-circuit.png"
    )
