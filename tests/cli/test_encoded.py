"""Facts about the commands on tables of text, numbers and dates."""

import csv
import io
import json

import numpy as np
import pytest

from strudel import (
    load,
    probability,
)
from strudel.io import read_table
from strudel.tables.columns import read_columns

HEAD = "age,smoker,town,since"


def test_info_lists_the_columns(run, encoded):
    code, out, _ = run("info", encoded, "--json")
    assert code == 0
    columns = {column["name"]: column for column in json.loads(out)["columns"]}
    assert columns["smoker"] == {"name": "smoker", "kind": "category", "values": "no, yes"}
    assert columns["age"]["values"] == "20, 35, 50, 70"
    assert "Bath, UK" in run("info", encoded)[1]


def test_info_gives_the_likelihoods_that_fit_reported(run, make_lines, tmp_path):
    table, model = tmp_path / "gaps.csv", tmp_path / "gaps.strudel"
    lines = make_lines(60)
    table.write_text(
        "\n".join([HEAD, *lines[:40], *(f",{line.partition(',')[2]}" for line in lines[40:])])
    )
    code, out, _ = run(
        "fit", table, "-o", model, "--components", "1", "--max-splits", "2", "--json"
    )
    assert code == 0
    reported = json.loads(out)["log_likelihood"]
    learning = json.loads(run("info", model, "--json")[1])["learning"]
    assert learning["train_log_likelihood"] == reported["train"]
    assert learning["valid_log_likelihood"] == reported["valid"]


def test_a_row_with_gaps_is_scored_as_its_marginal(run, encoded, tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("smoker,age,shoe\nyes,,40\nno,70,41\n")
    code, out, err = run("score", encoded, path, "--json")
    assert code == 0
    assert err == f"note: {path} has 'shoe', which the model does not know and ignores.\n"
    model = load(encoded)
    wanted = [probability(model, event) for event in ("smoker = yes", "smoker = no & age = 70")]
    assert json.loads(out)["mean_log_likelihood"] == pytest.approx(np.log(wanted).mean())


def test_samples_are_rows_of_the_table(run, encoded, tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("age,town\n36,\n,Oslo\n")
    code, out, _ = run("sample", encoded, "-n", 5, "--given", path)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["age"] for row in rows[:5]] == ["36"] * 5  # as it was given
    assert {row["town"] for row in rows[5:]} == {"Oslo"}
    assert {row["since"] for row in rows} <= {"2001-05-01", "2010-01-31"}
    again = tmp_path / "again.csv"
    again.write_text(out)
    assert run("score", encoded, again)[0] == 0


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_tables_are_written_as_their_ending_says(run, encoded, survey, model, unseen, ending):
    gaps, path = survey.with_name("gaps.csv"), survey.with_name(f"out{ending}")
    gaps.write_text(f"{HEAD}\n35,,Rome,2001-05-01\n,no,,\n")
    assert run("impute", encoded, gaps, "-o", path)[0] == 0
    columns = {column.name: column for column in read_columns(read_table(path)).columns}
    assert list(columns) == HEAD.split(",")
    assert columns["age"].objects()[0] == 35
    assert columns["since"].dtype == "date"
    for arguments in (("sample", encoded, "-n", 3), ("sample", model, "-n", 3)):
        _, printed, _ = run(*arguments)
        assert run(*arguments, "-o", path)[0] == 0
        read = {column.name: column.objects() for column in read_columns(read_table(path)).columns}
        printed = list(csv.DictReader(io.StringIO(printed)))
        assert list(read) == list(printed[0])
        assert len(next(iter(read.values()))) == 3
    assert run("score", model, unseen, "-o", path)[0] == 0
    values = read_columns(read_table(path)).columns[1]
    assert (values.name, values.dtype, len(values.values)) == ("log_likelihood", "float", 40)


def test_other_endings_are_refused_before_the_work(
    run, refused, encoded, survey, tmp_path, monkeypatch
):
    for arguments in (("sample", encoded), ("impute", encoded, survey), ("score", encoded, survey)):
        code, _, err = run(*arguments, "-o", tmp_path / "a.xlsx")
        assert code == 2
        assert "a table is a .csv, .tsv or .parquet file, but -o says" in err
    assert "a model is a .strudel file, but -o says" in refused(
        "fit", "--components", 1, survey, "--components", "1", "-o", tmp_path / "a.txt"
    )
    monkeypatch.setattr("strudel.cli.files.find_spec", lambda name: None)
    code, _, err = run("sample", encoded, "-o", tmp_path / "a.parquet")
    assert code == 2
    assert "needs pyarrow" in err
    assert not list(tmp_path.iterdir())


def test_advice_speaks_of_options(run, survey, tmp_path):
    path = tmp_path / "a.strudel"
    options = ("--components", "1", "--set", "columns.edges={'age': [40]}", "--max-splits", 0, "-q")
    assert run("fit", "--components", 1, survey, "-o", path, *options)[0] == 0
    _, _, err = run("sample", path, "--given", "smoker<yes")
    assert err.endswith("so < does not apply. Use =, != or in [a, b].\n")


def test_samples_lie_within_what_is_given(run, coarse):
    code, out, err = run("sample", coarse, "-n", 30, "--given", "age>=60")
    assert (code, err) == (0, "")
    assert {row["age"] for row in csv.DictReader(io.StringIO(out))} == {"70"}
    _, out, _ = run("sample", coarse, "-n", 30, "--given", "age=41")
    assert {row["age"] for row in csv.DictReader(io.StringIO(out))} == {"41"}
    assert run("plot", coarse, "marginals", "--given", "age>=60", "-o", coarse.with_suffix(".svg"))


@pytest.mark.parametrize("command", ["score", "impute", "query"])
def test_a_table_of_something_else_is_refused_in_one_line(run, encoded, tmp_path, command):
    path, output = tmp_path / "loans.csv", tmp_path / "out.csv"
    path.write_text("age,hat,debt\n35,red,1\n40,blue,2\n")
    rest = ["surprise", path] if command == "query" else [path]
    code, out, err = run(command, encoded, *rest, "-o", output)
    assert (code, out, err.count("\n"), output.exists()) == (2, "", 1, False)
    assert "loans.csv has only 1 of the 4 columns of the model: it lacks 'smoker', 'town'" in err
    assert "and has 'hat', 'debt' instead" in err


def test_pictures_of_a_column_and_of_correlations(run, encoded, tmp_path):
    for arguments in (["posterior", "--variables", "age", "--given", "smoker=no"], ["correlation"]):
        path = tmp_path / f"{arguments[0]}.svg"
        code, _, err = run("plot", encoded, *arguments, "-o", path)
        assert (code, err) == (0, "")
        assert path.read_text().startswith("<?xml")
    code, _, err = run("plot", encoded, "posterior", "--variables", "town")
    assert code == 2
    assert "needs a column of numbers or dates, but 'town' is a category" in err
