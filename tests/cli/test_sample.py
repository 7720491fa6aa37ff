"""Facts about `strudel sample`."""

import csv
import json

import numpy as np
import pytest

from strudel.io import read_table
from strudel.io.model_file import load
from strudel.queries.sampling import sample

NAMES = ("coffee", "tea", "milk", "sugar", "cake")


def test_rows_go_to_stdout_as_csv(run, model):
    code, out, err = run("sample", model, "-n", 7, "--seed", 3)
    assert (code, err) == (0, "")
    head, *lines = csv.reader(out.splitlines())
    assert tuple(head) == NAMES
    expected = sample(load(model).circuit_, 7, random_state=3)
    assert np.array_equal(np.array(lines, dtype=int), expected)


def test_a_file_can_be_read_back(run, model, tmp_path):
    path = tmp_path / "rows.csv"
    code, out, err = run("sample", model, "-n", 40_000, "-o", path)
    assert (code, out) == (0, "")
    assert err == f"wrote 40,000 rows to {path}\n"
    table = read_table(path)
    assert tuple(table.columns) == NAMES
    assert np.array_equal(table, sample(load(model).circuit_, 40_000, random_state=0))
    assert [file.name for file in tmp_path.iterdir()] == ["rows.csv"]


def test_what_is_given_holds_in_every_row(run, model):
    _, out, _ = run("sample", model, "-n", 20, "--given", "tea=1,cake=0")
    rows = np.array([line.split(",") for line in out.splitlines()[1:]], dtype=int)
    assert rows.shape == (20, 5)
    assert np.all(rows[:, 1] == 1)
    assert np.all(rows[:, 4] == 0)


def test_a_table_is_completed_row_by_row(run, model, make_table):
    path = make_table("some.csv", [[1], [0]], ("cake",))
    _, out, _ = run("sample", model, "-n", 3, "--given", path)
    rows = np.array([line.split(",") for line in out.splitlines()[1:]], dtype=int)
    assert rows[:, 4].tolist() == [1, 1, 1, 0, 0, 0]
    known = np.full((2, 5), np.nan)
    known[:, 4] = 1, 0
    expected = sample(load(model).circuit_, 3, known, random_state=0).reshape(6, 5)
    assert np.array_equal(rows, expected)


def test_no_rows_are_a_line_of_names(run, model):
    assert run("sample", model, "-n", 0) == (0, ",".join(NAMES) + "\n", "")


def test_json(run, model, tmp_path):
    code, out, err = run("sample", model, "-n", 2, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert list(report["columns"]) == list(NAMES)
    rows = np.column_stack(list(report["columns"].values()))
    assert np.array_equal(rows, sample(load(model).circuit_, 2, random_state=0))
    path = tmp_path / "rows.csv"
    report = json.loads(run("sample", model, "-n", 2, "-o", path, "--json")[1])
    assert report == {"n_rows": 2, "seed": 0, "output": str(path)}
    assert len(path.read_text().splitlines()) == 3


def test_names_with_marks_are_quoted(run, table, tmp_path):
    path = tmp_path / "marks.csv"
    path.write_text('"a, b",c\n0,1\n1,0\n1,1\n0,0\n')
    model = tmp_path / "marks.strudel"
    assert run("fit", "--components", 1, path, "-o", model, "--max-splits", 0, "-q")[0] == 0
    _, out, _ = run("sample", model, "-n", 1)
    assert next(csv.reader(out.splitlines())) == ["a, b", "c"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "-1"], "-n"),
        (["-n", "many"], "-n"),
        (["--given", "beer=1"], "'beer'"),
        (["-o", "no/such/folder.csv"], "folder does not exist"),
        (["-o", "."], "is a folder"),
    ],
)
def test_bad_input_is_refused_in_one_line(refused, model, arguments, words):
    assert words in refused("sample", model, *arguments)
