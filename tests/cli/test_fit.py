"""`strudel fit`: which tables and options it takes, what it says, and what it writes."""

import io
import json
import math
import sys

import numpy as np
import pandas as pd
import pytest

import strudel.learning.search.learn_structure
from strudel import (
    EM,
    BestFirst,
    Greedy,
    LearnPSDD,
    Race,
    Strudel,
    Vtree,
    load,
    log_likelihood,
    write,
)
from strudel.circuits import figure_1_circuit
from strudel.cli.fit import default_output
from strudel.cli.main import main
from strudel.io import read_table
from strudel.io.model_file import read_provenance
from strudel.queries.given import circuit_of

ONE = ("--components", 1)
SMALL = ("--components", 3, "--max-splits", 0)
HEAD = "age,smoker,town,since"


@pytest.fixture
def path(tmp_path):
    """Where the model goes."""
    return tmp_path / "out.strudel"


@pytest.fixture
def fit(run, path):
    """The report of a fit that says nothing on stderr."""

    def fit(*arguments):
        code, out, err = run("fit", *arguments, "-o", path, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return fit


def sets(*settings):
    return [word for one in settings for word in ("--set", one)]


# What is written and said


@pytest.mark.parametrize("size", [(*ONE, "--set", "patience=5"), SMALL], ids=["circuit", "mixture"])
def test_writes_a_model_that_scores_as_reported(fit, path, table, rows, unseen, unseen_rows, size):
    report = fit(table, "--valid", unseen, "--test", unseen, *size)
    model = load(path)
    train = float(log_likelihood(model, rows).mean())
    held = float(log_likelihood(model, unseen_rows).mean())
    assert report["log_likelihood"] == pytest.approx({"train": train, "valid": held, "test": held})
    assert report["bits_per_dimension"]["test"] == pytest.approx(-held / math.log(2) / 5)
    assert report["n_rows"] == {"train": 120, "valid": 40, "test": 40}
    assert (report["n_columns"], report["model"]) == (5, str(path))
    assert report["n_edges"] == circuit_of(model).size
    assert report["n_parameters"] == model.circuit_.n_parameters
    assert report["chosen"] == model.chosen_
    assert model.circuit_.columns.names == ("coffee", "tea", "milk", "sugar", "cake")
    facts = read_provenance(path)
    assert facts["log_likelihood"] == report["log_likelihood"]
    assert facts["source"] == "train.csv"


def test_the_model_is_that_of_python(fit, path, table):
    fit(table, *ONE, "--seed", 3)
    same = Strudel(n_components=1, random_state=3).fit(read_table(table))
    theta = load(path).circuit_.edge_log_theta
    np.testing.assert_array_equal(theta, same.circuit_.edge_log_theta)


def test_a_table_needs_no_option(run, survey, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("fit", survey)
    assert (code, err) == (0, "")
    for words in ("train", "valid", "bits per dimension", "components", "chosen", "survey.strudel"):
        assert words in out
    assert "pairs" in load("survey.strudel").chosen_["shares"]


def test_tables_show_what_was_learned_and_where_it_is(run, path, table, unseen):
    code, out, err = run("fit", *ONE, table, "--test", unseen, "-o", path, "--max-splits", 3)
    assert (code, err) == (0, "")
    for words in ("train", "valid", "test", "bits per dimension", "edges", "seconds", str(path)):
        assert words in out
    assert "max_splits" in out
    held_out = json.loads(run("fit", *ONE, table, "-o", path, "--max-splits", 3, "--json")[1])
    assert held_out["n_rows"] == {"train": 108, "valid": 12}
    run("fit", *SMALL, table, "-o", path)
    for words in ("components", "runs", "learning"):
        assert words in run("info", path)[1]


def test_quiet_says_nothing(run, path, table):
    assert run("fit", *ONE, table, "-o", path, "--max-splits", 0, "-q") == (0, "", "")
    assert path.exists()


def test_the_best_model_so_far_is_written_meanwhile(fit, path, table, monkeypatch):
    places, learn = [], Strudel.fit
    monkeypatch.setattr(
        Strudel,
        "fit",
        lambda *args, save_to, **options: (
            places.append(save_to) or learn(*args, save_to=save_to, **options)
        ),
    )
    fit(table, *ONE, "--max-splits", 0)
    assert places == [path]


def test_an_interrupt_keeps_the_best_circuit_and_says_so(run, path, table, monkeypatch):
    pick = strudel.learning.search.learn_structure.pick_edge
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return pick(*arguments)

    monkeypatch.setattr(strudel.learning.search.learn_structure, "pick_edge", interrupted)
    code, out, err = run("fit", *ONE, table, "-o", path, "--json")
    assert (code, err) == (0, "interrupted; wrote the best model so far\n")
    assert json.loads(out)["stopped_because"] == "interrupted"
    assert len(load(path).circuit_.columns) == 5


def test_an_interrupt_outside_the_search_is_exit_code_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("strudel.io.tables.read_parts", interrupted)
    assert main(["fit", "digits"]) == 130
    assert capsys.readouterr() == ("", "strudel: interrupted\n")


# Tables


def test_tables_in_many_formats_are_read(fit, tmp_path):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(2.0, 1.0, 60).round(2), "kind": ["a", "b"] * 30})
    frame.to_csv(tmp_path / "plain.csv", index=False)
    frame.to_csv(tmp_path / "semicolons.csv", sep=";", decimal=",", index=False)
    frame.to_csv(tmp_path / "tabs.tsv", sep="\t", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    names = ("plain.csv", "semicolons.csv", "tabs.tsv", "t.parquet", "t.feather")
    reports = [fit(tmp_path / name, *ONE, "--max-splits", 0) for name in names]
    assert [report["log_likelihood"] for report in reports] == [reports[0]["log_likelihood"]] * 5
    assert reports[0]["n_rows"] == {"train": 54, "valid": 6}


def test_a_spreadsheet_is_refused_with_what_to_do(refused, tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    assert "is a spreadsheet: save it as csv" in refused("fit", tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1\n", "2 names in line 1, but 1 cells in line 2"),
        ("a,b\n\xff,2\n".encode("latin-1"), "Save it again as UTF-8"),
    ],
)
def test_tables_that_are_refused(run, path, tmp_path, text, words):
    table = tmp_path / "a.csv"
    table.write_bytes(text if isinstance(text, bytes) else text.encode())
    code, _, err = run("fit", *ONE, table, "-o", path)
    assert (code, err.count("\n"), path.exists()) == (2, 1, False)
    assert words in err


def test_a_dataset_brings_its_own_parts(run, path):
    code, out, err = run("fit", *ONE, "digits", "-o", path, "--max-splits", 0, "--json")
    assert code == 0
    assert err.startswith("note: The rows show ")  # a tree of 64 pixels has lost pairs
    assert err.endswith("more pairs are lost. `strudel check MODEL` shows all.\n")
    report = json.loads(out)
    assert report["n_rows"] == {"train": 1257, "valid": 180, "test": 360}
    assert set(report["log_likelihood"]) == {"train", "valid", "test"}


def test_a_packed_dataset_brings_its_own_parts_too(fit, rows, tmp_path):
    parts = {name: np.packbits(rows, axis=1) for name in ("train", "valid", "test")}
    np.savez(tmp_path / "packed.npz", n_vars=5, **parts)
    report = fit(tmp_path / "packed.npz", *ONE, "--max-splits", 0)
    assert report["n_rows"] == dict.fromkeys(("train", "valid", "test"), 120)


def test_rows_can_come_from_a_pipe(fit, rows, monkeypatch):
    text = "\n".join(",".join(map(str, row)) for row in rows.tolist())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert fit("-", *ONE, "--max-splits", 0)["n_columns"] == 5


def test_columns_of_other_rows_are_matched_by_name(fit, table, rows, make_table):
    names = ("coffee", "tea", "milk", "sugar", "cake")
    same = make_table("same.csv", rows, names)
    turned = make_table("turned.csv", rows[:, ::-1], names[::-1])
    for option in ("--test", "--valid"):
        one, two = (fit(table, option, other, *ONE) for other in (same, turned))
        assert one["log_likelihood"] == two["log_likelihood"]


def test_parts_of_different_width_are_refused(refused, table, make_table):
    narrow = make_table("narrow.csv", np.ones((3, 2), dtype=int), names=None)
    assert f"narrow.csv has 2 columns, but {table} has 5" in refused(
        "fit", *ONE, table, "--valid", narrow
    )


def test_unknown_values_are_summed_out(run, fit, path, rows, make_table):
    gaps = rows.astype(object)
    gaps[::3, 1] = ""
    table = make_table("gaps.csv", gaps)
    found = fit(table, *ONE, "--max-splits", 2)["log_likelihood"]
    mean = 0.9 * found["train"] + 0.1 * found["valid"]  # of 120 rows, 12 were held out
    scored = json.loads(run("score", path, table, "--json")[1])
    assert mean == pytest.approx(scored["mean_log_likelihood"])


def test_a_table_of_one_row_is_learned(run, path, tmp_path):
    (tmp_path / "one.csv").write_text("a,b\n1,0\n")
    assert run("fit", *ONE, tmp_path / "one.csv", "-o", path)[::2] == (0, "")


def test_columns_can_be_dropped_and_described(run, path, make_lines, tmp_path):
    table = tmp_path / "names.csv"
    lines = [f"{line},p{place}" for place, line in enumerate(make_lines(40))]
    table.write_text("\n".join([f"{HEAD},name", *lines]) + "\n")
    options = (*ONE, "-o", path, "--max-splits", 0, "-q")
    assert run("fit", table, *options, "--drop", "name, since") == (0, "", "")
    assert load(path).feature_names_in_.tolist() == ["age", "smoker", "town"]
    settings = sets("columns.max_categories=40", "columns.age=category", "columns.town=ignore")
    assert run("fit", table, *options, *settings) == (0, "", "")
    columns = load(path).circuit_.columns
    assert columns.names == ("age", "smoker", "since", "name")
    assert (columns[0].kind, columns[3].n_cells) == ("category", 40)
    edges = sets("columns.edges={'age': [40, 61]}")
    assert run("fit", table, *options, *edges) == (0, "", "")
    columns = load(path).circuit_.columns
    labels = columns[columns.place("age")].labels
    assert labels == ("<40", "[40, 61)", ">=61")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--drop", "agee"), "has no column 'agee'. Did you mean 'age'?"),
        (("--drop", HEAD), "X must have at least one column"),
        (("--target", "age", "--drop", "age"), "which is to be predicted"),
        (sets("columns.ag=category"), "'ag'"),
    ],
)
def test_columns_that_are_not_there_are_refused(refused, path, survey, options, words):
    assert words in refused("fit", survey, "-o", path, *options)


# Options


def test_options_reach_the_learner(fit, path, table):
    settings = ("search.edge_score=random", "search.copy_depth=2", "init=independent", "patience=7")
    fit(
        *(table, *ONE, "--seed", 3, "--search", "greedy", "--max-splits", 2, "--max-seconds", 60),
        *sets(*settings, "pseudocount=2.0", "validation_fraction=0.25"),
    )
    wanted = {"max_splits": 2, "max_seconds": 60.0, "random_state": 3, "init": "independent"}
    wanted |= {"search__edge_score": "random", "search__copy_depth": 2}
    wanted |= {"patience": 7, "pseudocount": 2.0, "validation_fraction": 0.25}
    assert wanted.items() <= load(path).get_params().items()
    report = fit(table, *SMALL, *sets("method.patience=4", "method.n_runs=2"))
    assert isinstance(load(path).method, EM)
    assert (load(path).method.patience, report["n_components"]) == (4, 6)


@pytest.mark.parametrize(
    ("options", "search"),
    [
        ((*ONE, "--set", "search.tie_rule=depth_first"), Greedy),
        (("--components", 2, "--set", "search.tie_rule=depth_first"), Greedy),
        (("--search", "best_first", *ONE, "--set", "search.clones=false"), BestFirst),
        ((*ONE, "--set", "search.copies=complete"), LearnPSDD),
        (("--search", "race", *ONE, "--set", "search.learnpsdd.copies=minimal"), Race),
    ],
)
def test_options_of_a_search_choose_it(fit, path, table, options, search):
    fit(table, "--max-splits", 1, *options)
    name, _, value = options[-1].partition("=")
    assert isinstance(load(path).search, search)
    assert str(load(path).get_params()[name.replace(".", "__")]).lower() == value


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["patient=5"], "no option 'patient'. Did you mean 'patience'?"),
        (["search.wdith=5"], "No search has an option 'wdith'"),
        (["search.clones=false"], "goes with search best_first or learnpsdd, not with auto"),
        (["search.copy_depth=far"], "copy_depth must be a whole number"),
        (["patience"], "must be like search.copies=minimal"),
    ],
)
def test_settings_are_checked_before_the_table_is_read(refused, settings, words):
    assert words in refused("fit", *ONE, "no-such-table.csv", *sets(*settings))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*ONE, "--method", "em"), "--method is for mixtures: leave it out"),
        (("--components", "many"), "but is 'many'"),
        (("--components", "3,0"), "n_components must be a whole number of at least 1, but is 0"),
        (("--components", 3, *sets("method.n_bags=2")), "goes with method bagged_em, not with em"),
        (("--components", 3, "--method", "magic"), "method must be one of"),
        (("--components", 2, "--search", "learnpsdd"), "for a mixture, but is 'learnpsdd'"),
        ((*SMALL, *sets("patience=x")), "patience must be a whole number"),
        ((*SMALL, *sets("patience=0")), "patience must be a whole number"),
        ((*ONE, *sets("pseudocount=-1")), "pseudocount"),
        ((*ONE, *sets("validation_fraction=2")), "validation_fraction"),
        ((*ONE, *sets("init=bogus")), "init must be"),
        ((*ONE, "--search", "bogus"), "search must be one of"),
        (("--vtree", "top-down"), "vtree must be a Vtree, or one of chow_liu"),
        (("--preset", "slow"), "preset must be"),
        ((*ONE, "--constraint", "coffee &"), "cannot be read at character"),
        ((*ONE, "--constraint", "bogus"), "'bogus'"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(refused, path, table, arguments, words):
    assert words in refused("fit", table, "-o", path, *arguments)
    assert not path.exists()


def test_the_vtree_has_a_name_or_is_read_from_a_file(run, fit, path, table, tmp_path):
    fit(table, *ONE, "--max-splits", 2, "--vtree", "top_down")
    assert load(path).vtree == "top_down"
    file, vtree = tmp_path / "my.vtree", Vtree.from_nested((((0, 3), (1, 2)), 4))
    write(vtree, file)
    fit(table, *ONE, "--vtree", file)
    assert load(path).vtree == vtree
    write(figure_1_circuit(), tmp_path / "c.psdd")
    code, _, err = run("fit", *ONE, table, "-o", path, "--vtree", tmp_path / "c.psdd")
    assert code == 2
    assert "vtree must be a Vtree" in err


def test_a_constraint_is_a_text_over_columns_or_a_file(
    run, refused, fit, path, table, survey, tmp_path
):
    pytest.importorskip("pysdd")
    for given in ("coffee | ~coffee", "at_least(0, tea, milk)"):
        fit(table, *ONE, "--max-splits", 1, "--constraint", given)
        assert str(load(path).constraint) == given
    (tmp_path / "rule.cnf").write_text("p cnf 5 1\n1 -1 0\n")
    fit(table, *ONE, "--max-splits", 1, "--constraint", tmp_path / "rule.cnf")
    assert run("fit", survey, *ONE, "-o", path, "-q", "--constraint", "age > 10")[0] == 0
    refused("fit", table, "-o", path, "--constraint", "coffee & ~coffee")


# Where the model goes


def test_without_output_the_model_takes_the_name_of_the_data(run, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("fit", *ONE, table, "--max-splits", 0, "-q")[0] == 0
    assert (tmp_path / "train.strudel").exists()
    names = {"-": "model", "nltcs": "nltcs", "20news-grp": "20news-grp"}
    assert {data: default_output(data).stem for data in names} == names


def test_an_older_model_is_replaced_but_nothing_else(run, refused, path, table, tmp_path):
    for _ in range(2):
        assert run("fit", *ONE, table, "-o", path, "--max-splits", 0, "-q")[0] == 0
    other = tmp_path / "thesis.txt"
    other.write_text("do not lose me")
    for wrong in (other, tmp_path, tmp_path / "no" / "folder.strudel", table, tmp_path / "a.psdd"):
        refused("fit", *ONE, table, "-o", wrong)
    assert other.read_text() == "do not lose me"
