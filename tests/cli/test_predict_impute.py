"""Facts about `strudel fit --target`, `strudel predict` and `strudel impute`."""

import csv
import io
import json

import numpy as np
import pytest

from strudel import StrudelClassifier, load, marginal_probabilities, most_probable_state, save


def make_lines(n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    lines = ["age,smoker,town"]
    for _ in range(n_rows):
        age = int(rng.choice([20, 35, 50, 70]))
        smoker = "yes" if rng.random() < (0.9 if age < 40 else 0.1) else "no"
        lines.append(f"{age},{smoker},{rng.choice(['Rome', 'Oslo'])}")
    return lines


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    path = tmp_path_factory.mktemp("predict") / "survey.csv"
    path.write_text("\n".join(make_lines()) + "\n")
    return path


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_a_classifier_predicts_its_column(run, survey, tmp_path):
    path = tmp_path / "a.strudel"
    options = ("--target", "smoker", "--components", 1, "--max-splits", 0)
    code, out, _ = run("fit", survey, "-o", path, *options, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["classes"] == ["no", "yes"]
    model = load(path)
    assert model.target_name_ == "smoker"

    code, out, err = run("predict", path, survey)
    rows = read_csv(out)
    assert code == 0
    right = [row["smoker"] for row in rows] == np.array(
        [line.split(",")[1] for line in make_lines()[1:]]
    )
    assert np.mean(right) == pytest.approx(report["accuracy"]["train"])
    assert f"accuracy {np.mean(right):.4f}" in err

    new, found = tmp_path / "new.csv", tmp_path / "found.csv"
    new.write_text("town,age\nRome,20\nOslo,\n,70\n")
    assert run("predict", path, new, "-o", found)[0] == 0
    chances = [float(row["P(smoker=yes)"]) for row in read_csv(found.read_text())]
    wanted = model.predict_proba(model_frame([[20, "Rome"], [None, "Oslo"], [70, None]]))
    assert chances == pytest.approx(wanted[:, 1].tolist())
    code, out, _ = run("predict", path, new, "--json")
    assert code == 0
    assert json.loads(out)["columns"]["P(smoker=yes)"] == pytest.approx(chances)


def test_a_classifier_has_options_of_its_own(run, survey, tmp_path):
    path = tmp_path / "a.strudel"
    settings = ("scoring=brier", "columns.max_categories=40", "n_folds=2")
    settings += ("columns.edges={'age': [40]}",)
    options = [text for setting in settings for text in ("--set", setting)]
    options += ["--target", "smoker", "--components", 1, "--method", "joint"]
    options += ["--max-splits", 0]
    assert run("fit", survey, "-o", path, *options, "-q")[0] == 0
    model = load(path)
    assert (model.method, model.scoring, model.n_folds) == ("joint", "brier", 2)
    assert model.columns.max_categories == 40
    columns = model.circuit_.columns
    assert columns[columns.place("age")].edges == (40.0,)


def model_frame(rows):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(rows, columns=["age", "town"])


def test_what_a_classifier_cannot_do_is_said(refused, survey, model, table, tmp_path):
    path = tmp_path / "a.strudel"
    for arguments, words in (
        (("fit", survey, "--target", "smokr", "-o", path), "Did you mean 'smoker'"),
        (("fit", survey, "--target", "smoker", "--valid", survey, "-o", path), "--valid"),
        (("fit", survey, "--target", "smoker", "--components", "x", "-o", path), "n_components"),
        (("fit", survey, "--target", "smoker", "--method", "magic", "-o", path), "method must be"),
        (
            ("fit", survey, "--target", "smoker", "--set", "n_fold=3", "-o", path),
            "Did you mean 'n_folds'",
        ),
        (("predict", model, table), "not a classifier"),
    ):
        assert words in refused(*arguments)
    assert not path.exists()


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["per_class", "joint"])
def test_a_classifier_fills_gaps_of_its_target_too(run, tmp_path, method):
    pandas = pytest.importorskip("pandas")
    rows = [line.split(",") for line in make_lines()]
    table = pandas.DataFrame(rows[1:], columns=rows[0]).astype({"age": int})
    options = {"method": method, "n_components": 1, "max_splits": 0, "random_state": 0}
    options |= {"pseudocount": 3.0, "class_pseudocount": 5.0}
    path, gaps = tmp_path / "a.strudel", tmp_path / "gaps.csv"
    binary = table.assign(young=table["age"] < 40, rome=table["town"] == "Rome")
    for inputs, text in (
        (table[["age", "town"]], "age,smoker,town\n20,,Rome\n,no,\n70,yes,Oslo\n"),
        (binary[["young", "rome"]] * 1, "young,smoker,rome\n1,,1\n,no,\n0,yes,0\n"),
    ):
        save(StrudelClassifier(**options).fit(inputs, table["smoker"]), path)
        gaps.write_text(text)
        for strategy in ("map", "mean", "sample"):
            code, out, _ = run("impute", path, gaps, "--strategy", strategy)
            found = read_csv(out)
            assert code == 0
            assert list(found[0]) == text.split()[0].split(",")
            assert [row["smoker"] for row in found][1:] == ["no", "yes"]
            assert strategy == "sample" or found[0]["smoker"] == "yes"
            last = [value.removesuffix(".0") for value in found[2].values()]
            assert last == text.split()[-1].split(",")
            first = float(found[1][inputs.columns[0]])  # who does not smoke is old
            assert strategy != "mean" or (first > 45 if "age" in inputs else first < 0.4)


def test_gaps_of_a_binary_table_are_filled(run, model, tmp_path):
    path, filled = tmp_path / "gaps.csv", tmp_path / "filled.csv"
    path.write_text("coffee,tea,milk,sugar,cake\n1,,0,1,\n,0,,,1\n1,1,1,1,1\n")
    rows = np.array([[1, np.nan, 0, 1, np.nan], [np.nan, 0, np.nan, np.nan, 1], [1] * 5])
    circuit = load(model).circuit_
    assert run("impute", model, path, "-o", filled)[0] == 0
    found = np.loadtxt(filled, delimiter=",", skiprows=1)
    assert np.array_equal(found, most_probable_state(circuit, rows)[0])
    _, out, _ = run("impute", model, path, "--strategy", "mean")
    found = np.loadtxt(io.StringIO(out), delimiter=",", skiprows=1)
    assert found == pytest.approx(marginal_probabilities(circuit, rows))
    code, out, _ = run("impute", model, path, "--strategy", "sample", "--json")
    report = json.loads(out)
    assert (code, report["n_filled"]) == (0, 5)
    drawn = np.column_stack(list(report["columns"].values()))
    assert np.array_equal(drawn[~np.isnan(rows)], rows[~np.isnan(rows)])
    assert np.isin(drawn, (0, 1)).all()


@pytest.mark.parametrize("extra", ["Ann,7.5", "1,0"])
def test_columns_that_a_binary_model_does_not_know_stay(run, refused, model, tmp_path, extra):
    path = tmp_path / "gaps.csv"
    name, number = extra.split(",")
    path.write_text(f"who,coffee,tea,size,milk,sugar,cake\n{name},1,,{number},0,1,\n,,0,,,,1\n")
    for strategy in ("map", "mean"):
        code, out, err = run("impute", model, path, "--strategy", strategy)
        assert (code, err) == (0, "")
        first, second = read_csv(out)
        assert list(first) == ["who", "coffee", "tea", "size", "milk", "sugar", "cake"]
        assert (first["who"], first["size"], second["who"], second["size"]) == (
            name,
            number,
            "",
            "",
        )
        assert first["coffee"].removesuffix(".0") == "1"
        assert all(second[column] for column in ("coffee", "milk", "sugar"))
    path.write_text("who,coffee,tea,milk,sugar,cake\nAnn,2,,0,1,\n")
    assert "coffee" in refused("impute", model, path)


def test_columns_that_the_model_does_not_know_stay_in_their_places(run, survey, tmp_path):
    path, gaps = tmp_path / "a.strudel", tmp_path / "gaps.csv"
    assert run("fit", survey, "-o", path, "--components", "1", "--max-splits", 0, "-q")[0] == 0
    gaps.write_text("town,name,age,born\nRome,Ann,,1980-02-01\n,,20,\n")
    code, out, err = run("impute", path, gaps)
    assert (code, err) == (0, "")
    first, second = read_csv(out)
    assert list(first) == ["town", "name", "age", "born", "smoker"]  # which the table lacks
    assert (first["name"], first["born"], second["name"], second["born"]) == (
        "Ann",
        "1980-02-01",
        "",
        "",
    )
    assert all([first["age"], first["smoker"], second["town"], second["smoker"]])


def test_gaps_of_a_table_are_filled_in_its_columns(run, survey, tmp_path):
    path, gaps = tmp_path / "a.strudel", tmp_path / "gaps.csv"
    assert run("fit", survey, "-o", path, "--components", "1", "--max-splits", 2, "-q")[0] == 0
    gaps.write_text("age,smoker,town\n20,,Rome\n,no,\n")
    for strategy in ("map", "mean", "sample"):
        code, out, err = run("impute", path, gaps, "--strategy", strategy)
        assert (code, err) == (0, "")
        first, second = read_csv(out)
        assert (first["age"], first["town"], second["smoker"]) == ("20", "Rome", "no")
        assert first["smoker"] in ("yes", "no")
        assert second["town"] in ("Rome", "Oslo")
        if strategy == "mean":
            assert 20 < float(second["age"]) < 70
        else:
            assert second["age"] in ("20", "35", "50", "70")


def test_the_class_of_rows_without_names_is_the_last_column(run, refused, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(60, 3))
    y = X[:, 0] ^ (rng.random(60) < 0.1)
    options = {"method": "per_class", "pseudocount": 1.0, "class_pseudocount": 1.0, "max_splits": 0}
    path, rows = tmp_path / "a.strudel", tmp_path / "rows.npy"
    save(StrudelClassifier(1, **options, random_state=0).fit(X, y), path)
    gaps = np.array([[1.0, np.nan, 0.0], [0.0, 1.0, np.nan]])
    filled = []
    for table in (gaps, np.hstack([gaps, np.full((2, 1), np.nan)])):
        np.save(rows, table)
        code, out, err = run("impute", path, rows)
        assert (code, err) == (0, "")
        filled.append(read_csv(out))
    assert filled[0] == filled[1]
    assert [row["class"] for row in filled[0]] == ["1", "0"]
    np.save(rows, gaps[:, :2])
    err = refused("impute", path, rows)


def test_rows_without_the_target_are_left_out(run, refused, survey, tmp_path):
    path, gaps, known = tmp_path / "a.strudel", tmp_path / "gaps.csv", tmp_path / "known.csv"
    lines = make_lines(20)
    known.write_text("\n".join(lines) + "\n")
    gaps.write_text("\n".join([*lines, "35,,Rome", "20,?,Oslo"]) + "\n")
    options = ("--target", "smoker", "--components", 1, "--max-splits", 0, "-o", path)
    code, out, err = run("fit", gaps, *options, "--json")
    assert (code, json.loads(out)["n_rows"]) == (0, {"train": 20})
    assert "note: 'smoker' is unknown in 2 of the 22 rows of" in err
    code, _, wanted = run("predict", path, known)
    code, _, err = run("predict", path, gaps)
    assert (code, err) == (0, f"{wanted.rstrip()} of the 20 rows with 'smoker'\n")
    gaps.write_text("age,smoker,town\n35,,Rome\n")
    assert "is unknown in all 1 rows" in refused("fit", gaps, *options)
