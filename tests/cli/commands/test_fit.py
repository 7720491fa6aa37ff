"""Facts about `strudel fit`."""

import io
import json
import math
import sys

import numpy as np
import pytest

import strudel.learning.search.learn_structure
from strudel import Strudel, write
from strudel.circuits import figure_1_circuit
from strudel.cli.commands.fit import default_output
from strudel.io.model_file import load
from strudel.queries.likelihood import log_likelihood
from strudel.trees.vtree import Vtree


def fit_json(run, *arguments):
    code, out, err = run("fit", "--components", 1, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_writes_a_model_that_scores_as_reported(run, table, unseen, unseen_rows, tmp_path):
    path = tmp_path / "out.strudel"
    report = fit_json(run, table, "--test", unseen, "-o", path, "--set", "patience=5")
    circuit = load(path).circuit_
    mean = float(log_likelihood(circuit, unseen_rows).mean())
    assert report["log_likelihood"]["test"] == pytest.approx(mean)
    assert report["bits_per_dimension"]["test"] == pytest.approx(-mean / math.log(2) / 5)
    assert report["n_edges"] == circuit.n_edges
    assert report["n_vars"] == 5
    assert report["n_rows"]["test"] == 40
    assert report["model"] == str(path)
    assert report["stopped_because"]


def test_independent_columns_are_the_baseline(run, table, unseen, tmp_path):
    report = fit_json(run, table, "--test", unseen, "-o", tmp_path / "out.strudel")
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    model = Strudel(n_components=1, random_state=0, max_splits=0).fit(
        rows
    )  # holds out the same rows
    is_held_out = np.isin(np.arange(len(rows)), model.held_out_rows_)
    train = rows[~is_held_out]
    one = (train.sum(axis=0) + 0.5) / (len(train) + 1)
    parts = {
        "train": train,
        "valid": rows[is_held_out],
        "test": np.loadtxt(unseen, delimiter=",", skiprows=1),
    }
    expected = {
        part: np.log(np.where(own == 1, one, 1 - one)).sum(axis=1).mean()
        for part, own in parts.items()
    }
    assert report["independent_columns"] == pytest.approx(expected)
    assert set(report["log_likelihood"]) == set(expected)
    assert report["log_likelihood"]["train"] > expected["train"]


def test_the_baseline_of_a_table_is_of_columns_and_of_known_values(run, tmp_path):
    path = tmp_path / "own.csv"
    lines = [f"{colour},{size}" for colour in ("red", "blue", "") for size in ("small", "large")]
    path.write_text("\n".join(["colour,size", *lines * 10]) + "\n")
    options = ["--components", "1", "--valid", path, "-o", tmp_path / "o.strudel"]
    report = fit_json(run, path, *options)
    of_both = np.log(0.5) * (2 / 3 + 1)  # a third of the colours is unknown
    assert report["independent_columns"] == pytest.approx({"train": of_both, "valid": of_both})


def test_the_baseline_has_the_densities_of_numbers(run, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "numbers.csv"
    np.savetxt(path, rng.normal(size=(2000, 2)), "%.3f", ",", header="x,y", comments="")
    options = ["--components", "1", "--set", "init=independent", "--max-splits", 0]
    report = fit_json(run, path, *options, "-o", tmp_path / "o.strudel")
    wanted = report["log_likelihood"]  # the columns of this model are independent
    assert report["independent_columns"] == pytest.approx(wanted, abs=0.01)


def test_names_of_columns_are_kept(run, table, tmp_path):
    path = tmp_path / "out.strudel"
    fit_json(run, table, "-o", path, "--max-splits", 0)
    assert load(path).circuit_.feature_names == ("coffee", "tea", "milk", "sugar", "cake")


def test_tables_show_what_was_learned_and_where_it_is(run, table, unseen, tmp_path):
    path = tmp_path / "out.strudel"
    code, out, err = run(
        "fit", "--components", 1, table, "--test", unseen, "-o", path, "--max-splits", 3
    )
    assert (code, err) == (0, "")
    for words in ("train", "valid", "test", "bits per dimension", "edges", "seconds", str(path)):
        assert words in out
    assert "independent columns" in out
    assert "--max-splits was reached" in out


def test_quiet_says_nothing(run, table, tmp_path):
    path = tmp_path / "out.strudel"
    assert run("fit", "--components", 1, table, "-o", path, "--max-splits", 0, "-q") == (0, "", "")
    assert path.exists()


def test_validation_rows_can_be_given(run, table, unseen, tmp_path):
    path = tmp_path / "out.strudel"
    report = fit_json(run, table, "--valid", unseen, "-o", path, "--max-splits", 0)
    assert report["n_rows"]["train"] == 120
    assert report["n_rows"]["valid"] == 40


def test_options_reach_the_learner(run, table, tmp_path):
    path = tmp_path / "out.strudel"
    options = {"max_splits": 2, "max_seconds": 60.0, "search": "greedy"}
    others = {
        "search.edge_score": "random",
        "search.variable_score": "random",
        "search.copy_depth": 2,
        "init": "independent",
        "pseudocount": 2.0,
        "patience": 7,
        "validation_fraction": 0.25,
    }
    arguments = [
        *(text for name, value in options.items() for text in (as_option(name), value)),
        *(text for name, value in others.items() for text in ("--set", f"{name}={value}")),
    ]
    report = fit_json(run, table, "-o", path, "--seed", 3, *arguments)
    assert {name: report["options"][name] for name in options | others} == options | others
    assert report["options"]["random_state"] == 3


def as_option(name):
    return f"--{name.replace('_', '-')}"


def test_what_a_preset_says_is_reported(run, table, tmp_path):
    options = ("--preset", "fast", "--set", "search.tie_rule=depth_first", "--max-splits", 1)
    found = fit_json(run, table, "-o", tmp_path / "out.strudel", *options)["options"]
    assert (found["patience"], found["max_seconds"], found["smoothing"]) == (30, 2.0, "uniform")
    assert (found["search"], found["search.tie_rule"]) == ("greedy", "depth_first")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("patient=5", "there is no option 'patient'. Did you mean 'patience'?"),
        ("search.wdith=5", "there is no option 'search.wdith'"),
        ("max_splits=5", "use --max-splits instead"),
        ("search=race", "use --search instead"),
        ("warm_start=True", "there is no option 'warm_start'"),
        ("search.copies=minimal", "goes with --search learnpsdd, not with greedy"),
        ("search.copy_depth=far", "copy_depth must be a whole number"),
        ("method.n_bags=3", "there is no option 'method.n_bags'"),
        ("patience", "must be like search.copies=minimal"),
    ],
)
def test_settings_are_checked_before_the_table_is_read(run, setting, words):
    code, out, err = run("fit", "--components", 1, "no-such-table.csv", "--set", setting)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.mark.compiled
def test_settings_reach_the_searches_of_a_race(run, table, tmp_path):
    path = tmp_path / "out.strudel"
    setting = ("--set", "search.learnpsdd.copies=minimal")
    report = fit_json(run, table, "-o", path, "--search", "race", "--max-splits", 1, *setting)
    assert report["options"]["search.learnpsdd.copies"] == "minimal"
    assert load(path).search.learnpsdd.copies == "minimal"


def test_settings_are_python_values_or_text(run, table, tmp_path):
    path = tmp_path / "out.strudel"
    settings = ("search.clones=false", "validation_fraction=0.2", "smoothing=hierarchical")
    options = [text for setting in settings for text in ("--set", setting)]
    fit_json(run, table, "-o", path, "--search", "best_first", "--max-splits", 2, *options)
    model = load(path)
    assert (model.search.clones, model.validation_fraction) == (False, 0.2)
    assert model.smoothing == "hierarchical"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "search.copies=minimal"], "--search learnpsdd"),
        (["--search", "learnpsdd", "--set", "search.tie_rule=depth_first"], "--search greedy"),
        (["--search", "learnpsdd", "--components", 2], "mixture"),
        (["--search", "learnpsdd", "--set", "search.copy_levels=-1"], "copy_levels must be"),
    ],
)
def test_options_of_a_search_where_they_have_no_meaning_are_refused(run, table, arguments, words):
    code, out, err = run("fit", "--components", 1, table, *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_the_same_seed_gives_the_same_circuit(run, table, tmp_path):
    arguments = (table, "--set", "search.edge_score=random", "--max-splits", 5, "--seed", 7)
    first, second = (
        fit_json(run, *arguments, "-o", tmp_path / f"{name}.strudel") for name in ("a", "b")
    )
    assert first["log_likelihood"] == second["log_likelihood"]
    assert first["n_edges"] == second["n_edges"]


def test_a_dataset_brings_its_own_parts(run, tmp_path):
    arguments = ("digits", "-o", tmp_path / "d.strudel", "--max-splits", 0, "--json")
    code, out, err = run("fit", "--components", 1, *arguments)
    assert code == 0
    assert err.startswith("note: The rows show ")  # a tree of 64 pixels has lost pairs
    assert err.endswith("more pairs are lost. `strudel check MODEL` shows all.\n")
    report = json.loads(out)
    assert report["n_rows"] == {"train": 1257, "valid": 180, "test": 360}
    assert set(report["log_likelihood"]) == {"train", "valid", "test"}


def test_rows_can_come_from_a_pipe(run, rows, tmp_path, monkeypatch):
    text = "\n".join(",".join(map(str, row)) for row in rows.tolist())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    report = fit_json(run, "-", "-o", tmp_path / "p.strudel", "--max-splits", 0)
    assert report["n_vars"] == 5


def test_without_output_the_model_takes_the_name_of_the_data(run, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = fit_json(run, table, "--max-splits", 0)
    assert report["model"] == "train.strudel"
    assert (tmp_path / "train.strudel").exists()


@pytest.mark.parametrize(
    ("data", "expected"),
    [("-", "model.strudel"), ("nltcs", "nltcs.strudel"), ("20news-grp", "20news-grp.strudel")],
)
def test_default_names_of_models(data, expected):
    assert str(default_output(data)) == expected


def test_an_older_model_is_replaced_but_nothing_else(run, table, tmp_path):
    model = tmp_path / "out.strudel"
    for _ in range(2):
        assert run("fit", "--components", 1, table, "-o", model, "--max-splits", 0, "-q")[0] == 0
    other = tmp_path / "thesis.txt"
    other.write_text("do not lose me")
    code, out, err = run("fit", "--components", 1, table, "-o", other)
    assert (code, out) == (2, "")
    assert "thesis.txt" in err
    assert other.read_text() == "do not lose me"


def test_bad_places_for_a_model_are_found_before_learning(run, table, tmp_path):
    for path in (tmp_path, tmp_path / "no" / "such" / "folder.strudel", table):
        code, out, err = run("fit", "--components", 1, table, "-o", path)
        assert (code, out, err.count("\n")) == (2, "", 1)


def test_unknown_values_are_summed_out(run, rows, make_table, tmp_path):
    gaps = rows.astype(object)
    gaps[::3, 1] = ""
    table, path = make_table("gaps.csv", gaps), tmp_path / "a.strudel"
    report = fit_json(run, table, "-o", path, "--max-splits", 2)
    code, out, _ = run("score", path, table, "--json")
    assert code == 0
    found = report["log_likelihood"]
    mean = 0.9 * found["train"] + 0.1 * found["valid"]  # of 120 rows, 12 were held out
    assert mean == pytest.approx(json.loads(out)["log_likelihood"])


def test_gaps_of_other_rows_do_not_change_what_is_reported(run, table, rows, make_table, tmp_path):
    gaps = rows.astype(object)
    gaps[::3, 1] = ""
    other, path = make_table("gaps.csv", gaps), tmp_path / "a.strudel"
    options = ("-o", path, "--max-splits", 2)
    plain = fit_json(run, table, *options)["log_likelihood"]
    tested = fit_json(run, table, "--test", other, *options)["log_likelihood"]
    assert {part: tested[part] for part in plain} == plain
    stopped = fit_json(run, table, "--valid", other, *options)["log_likelihood"]
    for part, data in (("train", table), ("valid", other)):
        found = json.loads(run("score", path, data, "--json")[1])["log_likelihood"]
        assert stopped[part] == pytest.approx(found)


def test_parts_of_different_width_are_refused(run, table, make_table):
    narrow = make_table("narrow.csv", np.ones((3, 2), dtype=int), names=None)
    code, out, err = run("fit", "--components", 1, table, "--valid", narrow)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "2 columns" in err


def test_columns_of_the_test_rows_are_matched_by_name(run, table, rows, make_table, tmp_path):
    names = ("coffee", "tea", "milk", "sugar", "cake")
    same = make_table("same.csv", rows, names)
    turned = make_table("turned.csv", rows[:, ::-1], names[::-1])
    scores = []
    for test in (same, turned):
        path = tmp_path / "m.strudel"
        report = fit_json(run, table, "--test", test, "-o", path, "--max-splits", 0)
        scores.append(report["log_likelihood"]["test"])
    assert scores[0] == scores[1]


def test_an_interrupt_keeps_the_best_circuit_and_says_so(run, table, tmp_path, monkeypatch):
    pick = strudel.learning.search.learn_structure.pick_edge
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return pick(*arguments)

    monkeypatch.setattr(strudel.learning.search.learn_structure, "pick_edge", interrupted)
    path = tmp_path / "out.strudel"
    code, out, err = run("fit", "--components", 1, table, "-o", path, "--json")
    assert code == 0
    assert err == "interrupted; wrote the best model so far\n"
    assert json.loads(out)["stopped_because"] == "interrupted"
    assert load(path).circuit_.n_vars == 5


@pytest.mark.parametrize("name", ["top_down", "bottom_up", "random"])
def test_the_vtree_has_a_name(run, table, tmp_path, name):
    path = tmp_path / "out.strudel"
    report = fit_json(run, table, "-o", path, "--max-splits", 2, "--vtree", name)
    assert report["options"]["vtree"] == name
    assert load(path).vtree == name


def test_learnpsdd_has_its_own_start_and_options(run, table, tmp_path):
    path = tmp_path / "out.strudel"
    more = ("--set", "search.copies=complete", "--set", "search.operation_score=gain")
    options = ("--max-splits", 3, "--search", "learnpsdd", *more)
    report = fit_json(run, table, "-o", path, *options)
    assert report["options"]["search"] == "learnpsdd"
    options = load(path).get_params()
    assert (options["search__copies"], options["search__operation_score"]) == ("complete", "gain")
    assert (options["init"], options["vtree"]) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "search.copy_levels=2"), "goes with --search learnpsdd"),
        (("--search", "learnpsdd", "--components", 2), "for single circuits"),
    ],
)
def test_options_of_learnpsdd_where_they_do_not_belong(run, table, arguments, message):
    code, _, err = run("fit", "--components", 1, table, *arguments)
    assert code == 2
    assert message in err


def test_the_vtree_is_read_from_a_file(run, table, tmp_path):
    path, file = tmp_path / "out.strudel", tmp_path / "my.vtree"
    vtree = Vtree.from_nested((((0, 3), (1, 2)), 4))
    write(vtree, file)
    for more in ((), ("--set", "init=independent"), ("--components", 2, "--max-splits", 1)):
        fit_json(run, table, "-o", path, "--vtree", file, *more)
        assert load(path).vtree == vtree
    code, out, err = run("fit", "--components", 1, table, "-o", path, "--vtree", "top-down")
    assert (code, out) == (2, "")
    assert "--vtree must be one of chow_liu, bottom_up" in err
    write(figure_1_circuit(), tmp_path / "c.psdd")
    code, out, err = run(
        "fit", "--components", 1, table, "-o", path, "--vtree", tmp_path / "c.psdd"
    )
    assert code == 2
    assert "not a vtree" in err


def test_a_table_of_one_row_is_reported(run, tmp_path):
    (tmp_path / "one.csv").write_text("a,b\n1,0\n")
    code, out, err = run(
        "fit", "--components", 1, tmp_path / "one.csv", "-o", tmp_path / "one.strudel"
    )
    assert code == 0, err
    assert "independent columns" in out
