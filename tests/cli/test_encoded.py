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
from strudel.io.frames import column_of_text, read_frame

HEAD = "age,smoker,town,since"


def test_info_lists_the_columns(run, encoded):
    code, out, _ = run("info", encoded, "--json")
    assert code == 0
    columns = {column["name"]: column for column in json.loads(out)["columns"]}
    assert columns["smoker"] == {"name": "smoker", "kind": "category", "values": ["no", "yes"]}
    assert columns["age"]["values"] == ["20", "35", "50", "70"]
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
    assert learning["train log-likelihood"] == reported["train"]
    assert learning["valid log-likelihood"] == reported["valid"]


def test_a_row_with_gaps_is_scored_as_its_marginal(run, encoded, tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("smoker,age,shoe\nyes,,40\nno,70,41\n")
    code, out, err = run("score", encoded, path, "--json")
    assert code == 0
    assert err == f"note: {path} has 'shoe', which the model does not know and ignores.\n"
    model = load(encoded)
    wanted = [probability(model, event) for event in ("smoker = yes", "smoker = no & age = 70")]
    assert json.loads(out)["log_likelihood"] == pytest.approx(np.log(wanted).mean())


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


def test_bounds_can_be_chosen(run, survey, tmp_path):
    path = tmp_path / "a.strudel"
    options = ("--components", "1", "--max-splits", 0, "-q")
    assert run("fit", "--components", 1, survey, "-o", path, *options, "--edges", "age=40,61") == (
        0,
        "",
        "",
    )
    assert load(path).circuit_.table_code.column("age").labels == ("<40", "[40, 61)", ">=61")
    for wrong in ("age", "age=", "shoe=40"):
        code, _, err = run("fit", "--components", 1, survey, "-o", path, *options, "--edges", wrong)
        assert (code, err.count("\n")) == (2, 1)


@pytest.mark.compiled
def test_a_mixture_and_a_constraint_are_in_columns_too(run, survey, tmp_path):
    path = tmp_path / "a.strudel"
    options = ("--components", 2, "--max-splits", 1, "-q")
    assert (
        run("fit", "--components", 1, survey, "-o", path, *options, "--constraint", "age > 10")[0]
        == 0
    )
    code, out, _ = run("query", path, "responsibilities", "--given", "town=Oslo", "--json")
    assert code == 0
    (answer,) = json.loads(out)["answers"]
    assert sum(line["probability"] for line in answer["components"]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        (["1", "2", ""], "integer"),
        (["1", "2.5", "NA"], "float"),
        (["1e3", "-.5"], "float"),
        (["true", "False"], "boolean"),
        (["2020-01-31", "?"], "date"),
        (["2020-01-31T10:00", "2020-01-31"], "datetime"),
        (["007", "1"], "text"),
        (["1", "x"], "text"),
        (["inf", "1"], "float"),
        (["", "nan"], "float"),
        (["12345678901234567890", "1"], "float"),
    ],
)
def test_types_of_columns(cells, dtype):
    assert column_of_text("a", cells).dtype == dtype


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("a,b\n", "names but no rows"),
        ("a,b\n1\n", "2 names in line 1, but 1 cells in line 2"),
        ("a,a\n1,2\n", "more than once. Rename one."),
        (",a\n1,2\n", "row numbers"),
        ('a,b\n"1,2\n', "not csv"),
        ("a,b\n\xff,2\n".encode("latin-1"), "Save it again as UTF-8"),
    ],
)
def test_tables_that_are_refused(run, tmp_path, text, words):
    path, model = tmp_path / "a.csv", tmp_path / "a.strudel"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    code, _, err = run("fit", "--components", 1, path, "--components", "1", "-o", model)
    assert (code, err.count("\n")) == (2, 1)
    assert words in err
    assert not model.exists()


def test_arrays_and_parquet_are_tables_too(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame({"a": [1.5, None], "b": ["x", "y"]}).to_parquet(tmp_path / "a.parquet")
    table, _ = read_frame(tmp_path / "a.parquet")
    assert [(column.name, column.dtype) for column in table.columns] == [
        ("a", "float"),
        ("b", "text"),
    ]
    np.save(tmp_path / "a.npy", np.array([[1, 5], [2, 6]]))
    table, _ = read_frame(tmp_path / "a.npy")
    assert [column.dtype for column in table.columns] == ["integer", "integer"]


def test_a_column_with_many_values_can_be_dropped_or_allowed(run, make_lines, tmp_path):
    path, model = tmp_path / "names.csv", tmp_path / "a.strudel"
    lines = [f"{line},p{place}" for place, line in enumerate(make_lines(40))]
    path.write_text("\n".join([f"{HEAD},name", *lines]) + "\n")
    options = ("-o", model, "--components", "1", "--max-splits", 0, "-q")
    assert run("fit", "--components", 1, path, *options) == (0, "", "")
    column = load(model).encoder_.code_.column("name")
    assert (column.n_values, column.stop - column.start) == (40, 1)  # all come once
    assert run("fit", "--components", 1, path, *options, "--drop", "name, since") == (0, "", "")
    assert load(model).feature_names_in_.tolist() == ["age", "smoker", "town"]
    assert run("fit", "--components", 1, path, *options, "--set", "columns.max_categories=40") == (
        0,
        "",
        "",
    )
    assert len(load(model).feature_names_in_) == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--components", "1", "--drop", "agee"), "has no column 'agee'. Did you mean 'age'?"),
        (("--components", "1", "--drop", ","), "at least one column"),
        (("--components", "1", "--drop", HEAD), "--drop leaves no column"),
        (("--target", "age", "--drop", "age"), "which is to be predicted"),
    ],
)
def test_columns_that_cannot_be_dropped_are_refused(run, survey, tmp_path, options, words):
    code, _, err = run("fit", "--components", 1, survey, "-o", tmp_path / "a.strudel", *options)
    assert code == 2
    assert words in err


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_tables_are_written_as_their_ending_says(run, encoded, survey, model, unseen, ending):
    gaps, path = survey.with_name("gaps.csv"), survey.with_name(f"out{ending}")
    gaps.write_text(f"{HEAD}\n35,,Rome,2001-05-01\n,no,,\n")
    assert run("impute", encoded, gaps, "-o", path)[0] == 0
    columns = {column.name: column for column in read_frame(path)[0].columns}
    assert list(columns) == HEAD.split(",")
    assert columns["age"].objects()[0] == 35
    assert columns["since"].dtype == "date"
    for arguments in (("sample", encoded, "-n", 3), ("sample", model, "-n", 3)):
        _, printed, _ = run(*arguments)
        assert run(*arguments, "-o", path)[0] == 0
        read = {column.name: column.objects() for column in read_frame(path)[0].columns}
        printed = list(csv.DictReader(io.StringIO(printed)))
        assert list(read) == list(printed[0])
        assert len(next(iter(read.values()))) == 3
    assert run("score", model, unseen, "-o", path)[0] == 0
    values = read_frame(path)[0].columns[1]
    assert (values.name, values.dtype, len(values.values)) == ("log_likelihood", "float", 40)


def test_other_endings_are_refused_before_the_work(run, encoded, survey, tmp_path, monkeypatch):
    for arguments in (("sample", encoded), ("impute", encoded, survey), ("score", encoded, survey)):
        code, _, err = run(*arguments, "-o", tmp_path / "a.xlsx")
        assert code == 2
        assert "a table is a .csv, .tsv or .parquet file, but -o says" in err
    code, _, err = run(
        "fit", "--components", 1, survey, "--components", "1", "-o", tmp_path / "a.txt"
    )
    assert (code, err.count("\n")) == (2, 1)
    assert "a model is a .strudel file, but -o says" in err
    monkeypatch.setattr("strudel.cli.files.find_spec", lambda name: None)
    code, _, err = run("sample", encoded, "-o", tmp_path / "a.parquet")
    assert code == 2
    assert "needs pyarrow" in err
    assert not list(tmp_path.iterdir())


def test_infinite_numbers_belong_to_the_end_cells(run, tmp_path):
    assert column_of_text("a", ["1", "inf", "-Infinity"]).values.tolist() == [1, np.inf, -np.inf]
    assert column_of_text("a", ["1", "1e400"]).dtype == "float"
    assert column_of_text("a", ["inf", "Inf"]).dtype == "text"
    path, model = tmp_path / "a.csv", tmp_path / "a.strudel"
    path.write_text("pay\n" + "10\n20\n30\n" * 10 + "inf\n-inf\n")
    options = ("--components", "1", "--max-splits", 0, "-q", "-o", model)
    code, out, err = run("fit", "--components", 1, path, *options)
    assert (code, out) == (0, "")
    assert err == (
        f"note: column 'pay' of {path} is infinite in 2 of 32 rows, which are counted in its "
        "first or last cell\n"
    )
    assert load(model).circuit_.table_code.columns[0].labels == ("10", "20", "30")
    assert run("impute", model, path)[1].splitlines()[-2:] == ["inf", "-inf"]


def test_advice_speaks_of_options(run, survey, tmp_path):
    path = tmp_path / "a.strudel"
    options = ("--components", "1", "--edges", "age=40", "--max-splits", 0, "-q")
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
    assert "must name one column of numbers, but is 'town'" in err
