"""Facts about `strudel convert`."""

import json

import numpy as np
import pytest

import oracle
from strudel import load, read, save, write
from strudel.circuits.compile import figure_1_circuit
from strudel.logic import Nnf
from strudel.queries.given import circuit_of
from strudel.trees.vtree import Vtree


@pytest.fixture
def figure(tmp_path):
    path = tmp_path / "figure.strudel"
    save(figure_1_circuit(), path)
    return path


def test_a_circuit_goes_through_all_its_formats(run, figure, tmp_path):
    before = oracle.probabilities(figure_1_circuit())
    source = figure
    for name in ("a.psdd", "b.jpc", "c.spn.gz", "d.psdd.gz", "e.strudel"):
        code, out, err = run("convert", source, tmp_path / name)
        assert (code, err) == (0, "")
        assert "Circuit(n_" in out
        source = tmp_path / name
    assert oracle.probabilities(load(source)) == pytest.approx(before)


def test_json(run, figure, tmp_path):
    code, out, _ = run("convert", figure, tmp_path / "a.vtree", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["how"] == "the vtree only"
    assert report["output"] == str(tmp_path / "a.vtree")
    assert read(tmp_path / "a.vtree") == figure_1_circuit().vtree


def test_estimators_and_names(run, model, tmp_path):
    circuit = load(model).circuit_
    assert run("convert", model, tmp_path / "a.psdd")[0] == 0
    assert read(tmp_path / "a.psdd").columns.names == circuit_of(circuit).columns.names
    assert run("convert", model, tmp_path / "a.spn")[0] == 0
    assert run("convert", model, tmp_path / "copy.strudel")[0] == 0
    assert hasattr(load(tmp_path / "copy.strudel"), "history_")


def test_logic_becomes_circuits(run, tmp_path):
    (tmp_path / "a.sdd").write_text("sdd 5\nL 0 0 1\nL 1 0 -1\nL 2 2 2\nT 3\nD 4 1 2 0 2 1 3\n")
    assert run("convert", tmp_path / "a.sdd", tmp_path / "a.psdd")[0] == 0
    assert oracle.probabilities(read(tmp_path / "a.psdd")) == pytest.approx(
        [1 / 3, 1 / 3, 0, 1 / 3]
    )
    assert run("convert", tmp_path / "a.sdd", tmp_path / "a.nnf")[0] == 0
    nnf = read(tmp_path / "a.nnf")
    assert isinstance(nnf, Nnf)
    assert nnf.holds(oracle.all_rows(2)).tolist() == [True, True, False, True]
    assert run("convert", tmp_path / "a.nnf", tmp_path / "a.strudel")[0] == 0
    write(Vtree.from_nested(((0, 1), 2)), tmp_path / "wide.vtree")
    code, _, _ = run(
        "convert", tmp_path / "a.sdd", tmp_path / "b.psdd", "--vtree", tmp_path / "wide.vtree"
    )
    assert code == 0
    assert len(read(tmp_path / "b.psdd").columns) == 3


def test_chow_liu_trees_become_circuits_and_vtrees(run, tmp_path):
    (tmp_path / "a.clt").write_text("2\n1\n2 0.25\n1 2 0.9 0.2\n")
    assert run("convert", tmp_path / "a.clt", tmp_path / "a.psdd")[0] == 0
    wanted = [0.75 * 0.8, 0.25 * 0.1, 0.75 * 0.2, 0.25 * 0.9]
    assert oracle.probabilities(read(tmp_path / "a.psdd")) == pytest.approx(wanted)
    assert run("convert", tmp_path / "a.clt", tmp_path / "a.vtree")[0] == 0
    assert read(tmp_path / "a.vtree").to_nested() == (1, 0)


def test_parameters_may_be_normalised(run, refused, tmp_path):
    (tmp_path / "a.psdd").write_text(f"psdd 1\nT 0 0 1 {np.log(0.2)} {np.log(0.2)}\n")
    err = refused("convert", tmp_path / "a.psdd", tmp_path / "b.psdd")
    assert "line 2" in err
    assert "--normalize" in err
    assert run("convert", tmp_path / "a.psdd", tmp_path / "b.psdd", "--normalize")[0] == 0
    assert oracle.probabilities(read(tmp_path / "b.psdd")) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("nowhere.psdd", "a.jpc", "No such file"),
        ("figure.strudel", "a.uai", "'.uai' is not one of"),
        ("figure.strudel", "a.cnf", "cannot be made from a Circuit"),
        ("figure.strudel", "figure.strudel", "overwrite an input"),
        ("figure.strudel", "nowhere/a.psdd", "folder does not exist"),
        ("bad.psdd", "a.jpc", "bad.psdd, line 2: "),
        ("bad.psdd", "a.vtree", "bad.psdd, line 2: "),
    ],
)
def test_bad_input_gives_one_line_and_no_file(refused, figure, tmp_path, source, target, words):
    (tmp_path / "bad.psdd").write_text("psdd 1\nL 0 0 zero\n")
    before = sorted(tmp_path.iterdir())
    assert words in refused("convert", tmp_path / source, tmp_path / target)
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_of_another_kind_is_not_overwritten(run, figure, tmp_path):
    (tmp_path / "a.psdd.gz").write_text("mine")
    assert run("convert", figure, tmp_path / "a.psdd.gz")[0] == 0  # the same ending: an older one
    code, _, err = run("convert", figure, tmp_path / "a.strudel", "--normalize")
    assert code == 2
    assert "needs neither" in err
