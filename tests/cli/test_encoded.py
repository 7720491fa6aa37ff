"""Facts about the commands on tables of text, numbers and dates."""

import csv
import io
import itertools
import json

import numpy as np
import pytest

from strudel import (
    Strudel,
    load,
    log_marginal,
    marginal_map,
    marginal_probabilities,
    most_probable_state,
    mutual_information,
    probability,
    save,
)
from strudel.io.frames import column_of_text, read_frame
from strudel.queries import (
    cdf,
    compare,
    correlations,
    expectation,
    pdf,
    posterior,
    quantile,
    surprise,
    variance,
)

HEAD = "age,smoker,town,since"


def make_lines(n_rows=80, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n_rows):
        age = int(rng.choice([20, 35, 50, 70]))
        smoker = "yes" if rng.random() < (0.7 if age < 40 else 0.2) else "no"
        town = rng.choice(["Rome", "Oslo", "Bath, UK"])
        since = rng.choice(["2001-05-01", "2010-01-31"])
        lines.append(f'{age},{smoker},"{town}",{since}')
    return lines


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoded") / "survey.csv"
    path.write_text("\n".join([HEAD, *make_lines()]) + "\n")
    return path


@pytest.fixture(scope="module")
def encoded(survey):
    from strudel.cli.main import main

    path = survey.with_name("survey.strudel")
    options = ["--components", "1", "--max-splits", "3", "-q"]
    assert main(["fit", "--components", "1", str(survey), "-o", str(path), *options]) == 0
    return path


def answers(run, *arguments):
    code, out, err = run("query", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)["answers"]


def test_questions_are_in_the_columns_of_the_table(run, encoded):
    model = load(encoded)
    [answer] = answers(run, encoded, "probability", "smoker = yes & age > 40", "--given", "age>30")
    wanted = probability(model, "smoker = yes & age > 40", {"age": (30, None)})
    assert answer["probability"] == pytest.approx(wanted)
    assert answer["given"] == {"age": "35 or 50 or 70"}
    [answer] = answers(run, encoded, "marginal", "--given", "town='Bath, UK', smoker=no")
    wanted = marginal_probabilities(model, {"town": "Bath, UK", "smoker": "no"})
    assert answer["probabilities"]["age"] == pytest.approx(
        {str(value): p for value, p in wanted["age"].items()}
    )
    assert answer["given"] == {"town": "Bath, UK", "smoker": "no"}


def test_pairs_are_pairs_of_columns(run, encoded):
    [answer] = answers(run, encoded, "pairs", "--given", "smoker=yes")
    names = load(encoded).circuit_.table_code.names
    assert {frozenset((pair["a"], pair["b"])) for pair in answer["pairs"]} == {
        frozenset(pair) for pair in itertools.combinations(names, 2)
    }
    nats = [pair["nats"] for pair in answer["pairs"]]
    assert nats == sorted(nats, reverse=True)
    assert all(pair["nats"] == 0.0 for pair in answer["pairs"] if "smoker" in pair.values())
    [answer] = answers(run, encoded, "pairs", "--variables", "age,town")
    [pair] = answer["pairs"]
    code = load(encoded).circuit_.table_code
    sets = [list(code.column(name).variable_names) for name in ("age", "town")]
    assert pair["nats"] == pytest.approx(mutual_information(load(encoded), *sets))
    assert 0.0 <= pair["share"] <= 1.0
    _, out, _ = run("query", encoded, "pairs")
    assert "mutual information" in out


def test_states_are_in_the_columns_of_the_table(run, encoded):
    [answer] = answers(run, encoded, "map", "-k", "3", "--given", "smoker=yes")
    state = answer["states"][0]["state"]
    assert set(state) == set(HEAD.split(","))
    assert state["smoker"] == "yes"
    [best] = answers(run, encoded, "mmap", "--variables", "smoker,age")
    assert set(best["state"]) == {"smoker", "age"}
    for what in (["marginal"], ["map", "-k", "3"], ["mmap", "--variables", "age"], ["entropy"]):
        code, out, err = run("query", encoded, *what, "--given", "town=Rome")
        assert (code, err) == (0, "")
        assert out


def test_info_lists_the_columns(run, encoded):
    code, out, _ = run("info", encoded, "--json")
    assert code == 0
    columns = {column["name"]: column for column in json.loads(out)["columns"]}
    assert columns["smoker"] == {"name": "smoker", "kind": "category", "values": ["no", "yes"]}
    assert columns["age"]["values"] == ["20", "35", "50", "70"]
    assert "Bath, UK" in run("info", encoded)[1]


def test_info_gives_the_likelihoods_that_fit_reported(run, tmp_path):
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


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("smoker=maybe", "no value 'maybe'"),
        ("smokr=yes", "Did you mean 'smoker'"),
        ("smoker=yes,smoker=no", "probability zero"),
        ("age>1000", "probability zero"),
        ("age>1000 | smoker=yes & smoker=no", "probability zero"),
        ("town<Rome", "have no order"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(run, encoded, given, words):
    code, out, err = run("query", encoded, "marginal", "--given", given)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


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
    [answer] = answers(run, path, "responsibilities", "--given", "town=Oslo")
    assert sum(answer["responsibilities"]) == pytest.approx(1.0)


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


def test_a_column_with_many_values_can_be_dropped_or_allowed(run, tmp_path):
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


@pytest.fixture(scope="module")
def coarse(survey):
    """A model that separates ages only at 40."""
    from strudel.cli.main import main

    path = survey.with_name("coarse.strudel")
    options = ["--components", "1", "--edges", "age=40", "--max-splits", "2", "-q"]
    assert main(["fit", "--components", "1", str(survey), "-o", str(path), *options]) == 0
    return path


def test_bounds_inside_cells_are_given_and_asked_for(run, coarse):
    pytest.importorskip("pysdd")
    model, given = load(coarse), {"age": (60, None), "smoker": "no"}
    text = ("--given", "age>=60, smoker=no")
    [answer] = answers(run, coarse, "marginal", *text)
    wanted = marginal_probabilities(model, given)
    assert answer["probabilities"]["town"] == pytest.approx(wanted["town"])
    before = marginal_probabilities(model)["town"]
    assert answer["without_evidence"]["town"] == pytest.approx(before)
    assert answer["given"] == {"age": "60 <= age", "smoker": "no"}
    [answer] = answers(run, coarse, "evidence", *text)
    assert answer["log_probability"] == pytest.approx(log_marginal(model, given)[0])
    [answer] = answers(run, coarse, "probability", "age > 65 | town = Rome", *text)
    wanted = probability(model, "age > 65 | town = Rome", given)
    assert answer["probability"] == pytest.approx(wanted)
    [answer] = answers(run, coarse, "conditional", "--of", "age<72, town=Oslo", *text)
    wanted = probability(model, "age < 72 & town = Oslo", given)
    assert answer["probability"] == pytest.approx(wanted)
    [answer] = answers(run, coarse, "map", *text)
    state = answer["states"][0]
    assert state["log_probability"] == pytest.approx(most_probable_state(model, given)[1])
    for what in (["mmap", "--variables", "town"], ["entropy"], ["pairs"]):
        assert run("query", coarse, *what, *text)[0] == 0


def test_numbers_have_means_and_quantiles(run, coarse):
    text = ("--given", "age>=60, smoker=no", "--variables", "since")
    [answer] = answers(run, coarse, "posterior", *text)
    [answer] = answers(run, coarse, "posterior", "--given", "smoker=no")
    found = posterior(load(coarse), "age", {"smoker": "no"})
    assert answer["columns"]["age"]["mean"] == pytest.approx(found.mean)
    assert answer["columns"]["age"]["quantiles"]["0.5"] == found.quantile(0.5)
    _, out, _ = run("query", coarse, "posterior")
    assert "deviation" in out
    assert " days " in out  # of dates
    assert run("query", coarse, "posterior", "--variables", "town")[0] == 2


def test_samples_lie_within_what_is_given(run, coarse):
    code, out, err = run("sample", coarse, "-n", 30, "--given", "age>=60")
    assert (code, err) == (0, "")
    assert {row["age"] for row in csv.DictReader(io.StringIO(out))} == {"70"}
    _, out, _ = run("sample", coarse, "-n", 30, "--given", "age=41")
    assert {row["age"] for row in csv.DictReader(io.StringIO(out))} == {"41"}
    assert run("plot", coarse, "marginals", "--given", "age>=60", "-o", coarse.with_suffix(".svg"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("age>40, age<30", "has probability zero under the model"),
        ("smoker=no, town in [Rome, Bath UK]", "--given cannot be read at character 32, 'UK]'"),
        ("smoker=no, town in [Rome, Bath UK]", "needs quotes, as in town='Bad Ems'."),
        ("town=Bath UK", "needs quotes, as in town='Bad Ems'."),
        ("smokr=no", "'smokr' is not a column. Did you mean 'smoker'?\n"),
    ],
)
def test_conditions_that_cannot_be_read_say_where_and_why(run, encoded, given, words):
    code, _, err = run("query", encoded, "marginal", "--given", given)
    assert (code, err.count("\n")) == (2, 1)
    assert words in err


@pytest.mark.parametrize("command", ["score", "impute", "query"])
def test_a_table_of_something_else_is_refused_in_one_line(run, encoded, tmp_path, command):
    path, output = tmp_path / "loans.csv", tmp_path / "out.csv"
    path.write_text("age,hat,debt\n35,red,1\n40,blue,2\n")
    rest = ["surprise", path] if command == "query" else [path]
    code, out, err = run(command, encoded, *rest, "-o", output)
    assert (code, out, err.count("\n"), output.exists()) == (2, "", 1, False)
    assert "loans.csv has only 1 of the 4 columns of the model: it lacks 'smoker', 'town'" in err
    assert "and has 'hat', 'debt' instead" in err


def test_single_numbers_about_columns(run, encoded):
    model = load(encoded)
    given = ("--given", "smoker=yes")
    known = {"smoker": "yes"}
    [answer] = answers(run, encoded, "expectation", *given)
    assert list(answer["columns"]) == ["age", "since"]
    assert answer["columns"]["age"] == pytest.approx(expectation(model, "age", known))
    assert answer["columns"]["since"] in str(expectation(model, "since", known))
    [answer] = answers(run, encoded, "variance", "--variables", "age", *given)
    assert answer["columns"]["age"] == pytest.approx(variance(model, "age", known))
    [answer] = answers(run, encoded, "quantile", "--variables", "age", "--at", "10%,0.9", *given)
    wanted = quantile(model, "age", [0.1, 0.9], known)
    assert list(answer["columns"]["age"].values()) == pytest.approx(wanted.tolist())
    for what, ask in {"cdf": cdf, "pdf": pdf}.items():
        [answer] = answers(run, encoded, what, "--variables", "age", "--at", "35,40.5", *given)
        wanted = [ask(model, "age", x, known) for x in (35, 40.5)]
        assert list(answer["columns"]["age"].values()) == pytest.approx(wanted)


def test_correlations_and_information_beyond_columns(run, encoded):
    model = load(encoded)
    [answer] = answers(run, encoded, "correlations", "--given", "town=Rome")
    found = correlations(model, {"town": "Rome"})
    sizes = [abs(pair["correlation"]) for pair in answer["pairs"]]
    assert sizes == sorted(sizes, reverse=True)
    for pair in answer["pairs"]:
        i, j = found.names.index(pair["a"]), found.names.index(pair["b"])
        assert pair["correlation"] == pytest.approx(found.values[i, j])
    [answer] = answers(
        run, encoded, "information", "--a", "age", "--b", "smoker", "--beyond", "town"
    )
    assert answer["nats"] == pytest.approx(
        mutual_information(model, "age", "smoker", beyond="town")
    )


def test_the_most_probable_profiles(run, encoded):
    [answer] = answers(run, encoded, "mmap", "--variables", "smoker,town", "-k", "3")
    p = [state["probability_given_evidence"] for state in answer["states"]]
    assert p == sorted(p, reverse=True)
    for state in answer["states"]:
        event = " & ".join(f"{name} = '{value}'" for name, value in state["state"].items())
        assert probability(load(encoded), event) == pytest.approx(
            state["probability_given_evidence"]
        )


def test_durations_are_told_in_days_and_hours(run, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    hours = np.array([-60.0, -60.0, -60.0, 1.5, 30.0] * 12)
    waits = pandas.DataFrame({"wait": pandas.to_timedelta(hours, unit="h")})
    path, table = tmp_path / "waits.strudel", tmp_path / "waits.parquet"
    save(Strudel(n_components=1, max_splits=0).fit(waits), path)
    waits[:5].to_parquet(table)
    [answer] = answers(run, path, "quantile", "--at", "0.3")
    _, out, _ = run("query", path, "quantile", "--at", "0.3")
    assert answer["columns"]["wait"]["0.3"].startswith("-3 days ")
    assert answer["columns"]["wait"]["0.3"] in out
    [answer] = answers(run, path, "surprise", table)
    told = {row["row"]: row["value"] for row in answer["rows"] if row["because"]}
    assert told
    assert told.items() <= dict(enumerate(["-3 days 12:00"] * 3 + ["01:30", "1 day 06:00"])).items()


def test_profiles_are_of_columns_and_not_of_variables(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{c},{d}" for c, d in rng.choice(list("abcdef"), (100, 2))]
    table, path = tmp_path / "table.csv", tmp_path / "table.strudel"
    table.write_text("\n".join(["c,d", *rows]) + "\n")
    options = ["--set", "columns.respect_one_hot=false", "--max-splits", "0", "-q"]
    assert run("fit", "--components", 1, table, "-o", path, "--components", "1", *options)[0] == 0
    [answer] = answers(run, path, "mmap", "--variables", "c,d", "-k", "3")
    wanted = marginal_map(load(path), ["c", "d"], k=3)
    assert [state["state"] for state in answer["states"]] == [one.state for one in wanted]
    for state in answer["states"]:
        assert probability(load(path), state["state"], log=True) == pytest.approx(
            state["log_probability"]
        )


def test_unusual_rows_and_the_column_to_blame(run, encoded, survey, tmp_path):
    rows = [HEAD, "20,yes,Rome,2001-05-01", "70,yes,Oslo,2010-01-31", ",no,,"]
    table = tmp_path / "new.csv"
    table.write_text("\n".join(rows) + "\n")
    [answer] = answers(run, encoded, "surprise", table)
    frame, _ = read_frame(table)
    wanted = surprise(load(encoded), frame)
    shares = [row["percentile"] for row in answer["rows"]]
    assert shares == sorted(shares)
    for row in answer["rows"]:
        assert row["percentile"] == wanted.percentile[row["row"]]
        assert row["because"] == wanted.because[row["row"]]
        assert row["log_probability"] == pytest.approx(wanted.log_probability[row["row"]])
    output = tmp_path / "unusual.csv"
    code, out, err = run("query", encoded, "surprise", table, "--top", "2", "-o", output)
    assert code == 0
    assert "the 2 most unusual of 3 rows" in err
    assert out.count(" %") == 4
    written = list(csv.DictReader(io.StringIO(output.read_text())))
    assert [row["because"] for row in written] == list(wanted.because)
    assert written[2]["age: percentile"] == ""
    assert max(map(len, out.splitlines())) <= 80


def test_groups_are_compared_over_all_other_columns(run, encoded):
    [answer] = answers(run, encoded, "compare", "smoker=yes, age>30", "smoker=no")
    wanted = compare(load(encoded), {"smoker": "yes", "age": (30.0001, None)}, {"smoker": "no"})
    assert answer["divergence"] == pytest.approx(wanted.divergence)
    assert [one["column"] for one in answer["columns"]] == list(wanted.names)
    by_column = [one["divergence"] for one in answer["columns"]]
    assert by_column == pytest.approx(wanted.column_divergence.tolist())
    since = wanted.means[wanted.names.index("since")]
    assert [str(day)[:4] for day in since] == ["2006", "2006"]  # dates, not numbers
    code, out, _ = run("query", encoded, "compare", "smoker=yes")
    assert code == 0
    assert "everybody" in out
    assert "20" in out.split("since")[1]  # the mean of dates is a date
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cdf"], "cdf needs --variables and --at"),
        (["cdf", "--variables", "town", "--at", "3"], "is about columns of numbers, but 'town'"),
        (["pdf", "--variables", "age,since", "--at", "3"], "is about one column"),
        (["cdf", "--variables", "age", "--at", "old"], "holds numbers, but got 'old'"),
        (["quantile", "--at", "5"], "between 0 and 1"),
        (["expectation", "--variables", "ag"], "Did you mean 'age'?"),
        (["correlations", "--variables", "town"], "has no correlation"),
        (["surprise"], "surprise needs a TABLE"),
        (["surprise", "no.csv"], "There is no file 'no.csv'"),
        (["surprise", "a.csv", "--given", "age=20"], "takes no --given"),
        (["compare"], "compare needs one or two groups"),
        (["compare", "smoker"], "A cannot be read at character 1"),
        (["compare", "smoker=yes", "smokr=no"], "Did you mean 'smoker'"),
        (["compare", "age=20", "age=35", "age=50"], "takes only one or two groups"),
        (["map", "age"], "map takes nothing more"),
        (["surprises", "a.csv", "b.csv"], "got 'b.csv' as well"),
        (
            ["information", "--a", "age", "--b", "town", "--beyond", "since", "--given", "age=20"],
            "does not go with --given",
        ),
    ],
)
def test_questions_in_columns_that_make_no_sense(run, encoded, arguments, words):
    code, out, err = run("query", encoded, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


def test_pictures_of_a_column_and_of_correlations(run, encoded, tmp_path):
    for arguments in (["posterior", "--variables", "age", "--given", "smoker=no"], ["correlation"]):
        path = tmp_path / f"{arguments[0]}.svg"
        code, _, err = run("plot", encoded, *arguments, "-o", path)
        assert (code, err) == (0, "")
        assert path.read_text().startswith("<?xml")
    code, _, err = run("plot", encoded, "posterior", "--variables", "town")
    assert code == 2
    assert "must name one column of numbers, but is 'town'" in err
