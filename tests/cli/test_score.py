"""Facts about `strudel score`."""

import csv
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from strudel.circuits.builder import CircuitBuilder
from strudel.cli.main import main
from strudel.io.model_file import load, save
from strudel.queries.likelihood import log_likelihood
from strudel.trees.vtree import balanced_vtree


def score_json(run, *arguments):
    code, out, err = run("score", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def log_sum_over_completions(circuit, row):
    """Log-probability of a partly observed row, by enumeration."""
    values = [(0, 1) if np.isnan(cell) else (int(cell),) for cell in row]
    completions = np.array(list(itertools.product(*values)))
    return np.logaddexp.reduce(log_likelihood(circuit, completions))


def test_prints_the_mean_log_likelihood(run, model, unseen, unseen_rows):
    mean = float(log_likelihood(load(model).circuit_, unseen_rows).mean())
    code, out, err = run("score", model, unseen)
    assert (code, err) == (0, "")
    assert f"{mean:.4f}" in out
    assert f"{-mean / math.log(2) / 5:.4f}" in out
    report = score_json(run, model, unseen)
    assert report["mean_log_likelihood"] == pytest.approx(mean, rel=1e-12)
    assert (
        report["rows"],
        report["rows_with_probability_zero"],
        report["rows_with_unknown_values"],
    ) == (40, 0, 0)


def test_values_per_row_are_written_with_all_digits(run, model, unseen, unseen_rows, tmp_path):
    path = tmp_path / "rows.csv"
    assert run("score", model, unseen, "-o", path)[0] == 0
    with path.open() as file:
        lines = list(csv.DictReader(file))
    assert [int(line["row"]) for line in lines] == list(range(40))
    written = np.array([float(line["log_likelihood"]) for line in lines])
    assert np.array_equal(written, log_likelihood(load(model).circuit_, unseen_rows))


def test_unknown_values_are_summed_out(run, model, make_table, unseen_rows):
    cells = unseen_rows[:10].astype(float)
    cells[range(5), range(5)] = np.nan  # one gap in each of five rows, and in every column
    cells[5] = np.nan
    text = [["" if np.isnan(cell) else int(cell) for cell in row] for row in cells]
    report = score_json(run, model, make_table("gaps.csv", np.array(text, dtype=object)))
    expected = np.mean([log_sum_over_completions(load(model).circuit_, row) for row in cells])
    assert report["mean_log_likelihood"] == pytest.approx(float(expected))
    assert report["rows_with_unknown_values"] == 6


def test_columns_are_matched_by_name(run, model, make_table, unseen, unseen_rows):
    names = ("coffee", "tea", "milk", "sugar", "cake")
    order = [3, 1, 0, 4, 2]
    turned = make_table("turned.csv", unseen_rows[:, order], [names[place] for place in order])
    expected = score_json(run, model, unseen)["mean_log_likelihood"]
    assert score_json(run, model, turned)["mean_log_likelihood"] == expected


def test_columns_that_the_model_does_not_know_are_left_out_and_said(
    run, model, make_table, unseen, unseen_rows
):
    wide = np.concatenate([unseen_rows[:, :1], unseen_rows], axis=1)
    names = ("id", "coffee", "tea", "milk", "sugar", "cake")
    code, out, err = run("score", model, make_table("wide.csv", wide, names), "--json")
    assert code == 0
    assert "wide.csv has 'id', which the model does not know and ignores.\n" in err
    expected = score_json(run, model, unseen)["mean_log_likelihood"]
    assert json.loads(out)["mean_log_likelihood"] == expected


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            ("coffee", "tea", "ale", "wine", "beer"),
            "it lacks 'milk', 'sugar', 'cake', and has 'ale'",
        ),
        (("coffee", "tea"), "has only 2 of the 5 columns of the model"),
        (None, "has 4 features, but Strudel is expecting 5 features"),
    ],
)
def test_other_columns_are_refused(refused, model, make_table, unseen_rows, names, words):
    width = 4 if names is None else len(names)
    path = make_table("other.csv", unseen_rows[:, :width], names)
    assert words in refused("score", model, path)


def test_columns_that_a_table_lacks_are_unknown(run, model, make_table, unseen_rows):
    names = ("coffee", "tea", "milk", "sugar")
    lacking = make_table("lacking.csv", unseen_rows[:, :4], names)
    rows = unseen_rows.astype(object)
    rows[:, 4] = ""
    unknown = make_table("unknown.csv", rows, (*names, "cake"))
    assert score_json(run, model, lacking) | {"data": ""} == (
        score_json(run, model, unknown) | {"data": ""}
    )


def test_impossible_rows_are_counted_and_json_stays_valid(run, make_table, tmp_path):
    builder = CircuitBuilder(balanced_vtree(2))
    root = builder.add_sum([(builder.literal(0, 1), builder.add_leaf_sum(1, 0.5), 1.0)])
    path = tmp_path / "sure.strudel"
    save(builder.build(root), path)
    report = score_json(run, path, make_table("t.csv", [[1, 0], [0, 1], [0, 0]], ("x0", "x1")))
    assert report["rows_with_probability_zero"] == 2
    assert report["mean_log_likelihood"] is None


def test_a_dataset_is_scored_on_the_part_that_is_named(run, tmp_path):
    path = tmp_path / "d.strudel"
    assert run("fit", "--components", 1, "digits", "-o", path, "--max-splits", 0, "-q")[0] == 0
    rows = [score_json(run, path, name)["rows"] for name in ("digits", "digits:train")]
    assert rows == [360, 1257]


def test_values_never_overwrite_an_input_however_it_is_written(tmp_path, monkeypatch, capsys):
    from strudel import save
    from strudel.circuits import figure_1_circuit

    monkeypatch.chdir(tmp_path)
    save(figure_1_circuit(), "model.strudel")
    Path("rows.csv").write_text("X1,X2,X3,X4\n1,0,1,0\n")
    Path("link.csv").symlink_to("rows.csv")
    for output in ("rows.csv", str(tmp_path / "rows.csv"), "link.csv"):
        assert main(["score", "model.strudel", "rows.csv", "-o", output]) == 2
        assert "overwrite an input" in capsys.readouterr().err
    assert Path("rows.csv").read_text().startswith("X1,X2")
    Path("notes.txt").write_text("mine")
    assert main(["score", "model.strudel", "rows.csv", "-o", "notes.txt"]) == 2
    assert Path("notes.txt").read_text() == "mine"
