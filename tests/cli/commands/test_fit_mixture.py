"""Facts about `strudel fit --mixture`."""

import json
import math
import sys

import numpy as np
import pytest

import strudel.learning.mixtures.em
from strudel import Continuous
from strudel.cli.progress import MixtureProgress
from strudel.io.model_file import load, read_provenance
from strudel.learning.progress import Progress
from strudel.queries.likelihood import log_likelihood

SMALL = ("--components", 3, "--max-splits", 0)


def fit_json(run, *arguments):
    code, out, err = run("fit", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.fixture
def short(make_table, rows):
    """Sixty rows, enough for a search that is soon over."""
    return make_table("short.csv", rows[:60])


def test_writes_a_mixture_that_scores_as_reported(run, table, rows, unseen, unseen_rows, tmp_path):
    path = tmp_path / "out.strudel"
    report = fit_json(run, table, "--valid", unseen, "--test", unseen, "-o", path, *SMALL)
    model = load(path)
    mixture = model.circuit_
    assert mixture.feature_names == ("coffee", "tea", "milk", "sugar", "cake")
    train = float(log_likelihood(mixture, rows).mean())
    held = float(log_likelihood(mixture, unseen_rows).mean())
    assert report["log_likelihood"] == pytest.approx({"train": train, "valid": held, "test": held})
    assert report["bits_per_dimension"]["test"] == pytest.approx(-held / math.log(2) / 5)
    assert report["n_components"] == mixture.n_components == 3
    assert report["n_edges"] == mixture.n_edges
    assert report["n_parameters"] == mixture.n_parameters
    assert report["chosen"] == model.chosen_
    assert report["chosen"]["n_splits"] == report["n_trials"] == 0
    assert report["choice"] == "3 components on a 0-split structure, as asked"
    assert report["n_rows"] == {"train": 120, "valid": 40, "test": 40}
    assert read_provenance(path)["log_likelihood"] == report["log_likelihood"]


@pytest.mark.compiled
def test_a_continuous_mixture_by_options_of_its_own(run, table, unseen, tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "out.strudel"
    options = ("max_iter=80", "batch_size=64", "n_points=32", "width=16", "learning_rate=0.01")
    settings = [word for one in options for word in ("--set", f"method.{one}")]
    report = fit_json(
        run,
        table,
        "--valid",
        unseen,
        "-o",
        path,
        "--components",
        "auto",
        "--method",
        "continuous",
        *settings,
    )
    assert load(path).method == Continuous(
        max_iter=80, batch_size=64, n_points=32, width=16, learning_rate=0.01
    )
    assert report["n_components"] == load(path).circuit_.n_components
    assert report["n_trials"] == 0 or "won on validation" in report["choice"]


def test_held_out_rows_are_scored_apart(run, table, rows, tmp_path):
    path = tmp_path / "out.strudel"
    report = fit_json(run, table, "-o", path, "--set", "validation_fraction=0.25", *SMALL)
    found = report["log_likelihood"]
    of_all = float(log_likelihood(load(path).circuit_, rows).mean())
    assert 0.75 * found["train"] + 0.25 * found["valid"] == pytest.approx(of_all)
    assert found["train"] != found["valid"]


@pytest.mark.compiled
@pytest.mark.parametrize("search", ["greedy", "best_first"])
def test_the_structure_grows_by_the_search_that_is_asked_for(run, short, tmp_path, search):
    path, other = tmp_path / "out.strudel", tmp_path / "b.strudel"
    options = ("--components", 2, "--max-splits", 4)
    fit_json(run, short, *options, "--search", search, "-o", path)
    assert load(path).search == search
    fit_json(run, short, *options, "-o", other)  # greedy, for so many splits
    log_theta = [load(one).circuit_.edge_log_theta for one in (path, other)]
    assert np.array_equal(*log_theta) == (search == "greedy")


def test_options_of_a_search_choose_it(run, short, tmp_path):
    path = tmp_path / "out.strudel"
    options = ("--components", 2, "--max-splits", 1, "-o", path)
    for setting, search in (
        ("search.tie_rule=depth_first", "greedy"),
        ("search.clones=false", "best_first"),
    ):
        name = ("--search", search) if search == "best_first" else ()
        report = fit_json(run, short, *options, *name, "--set", setting)
        assert report["options"]["search"] == search


@pytest.mark.compiled
def test_auto_explains_what_won_and_by_how_much(run, short, tmp_path):
    path = tmp_path / "out.strudel"
    options = ("--components", "auto", "--search", "greedy", "--max-splits", 3, "--method", "em")
    report = fit_json(run, short, *options, "-o", path)
    chosen = report["chosen"]
    size, n_runs = chosen["n_components"], chosen["n_runs"]
    assert report["n_components"] == load(path).circuit_.n_components == size * n_runs
    assert report["n_trials"] > 3
    setting = f"{size} components x {n_runs} runs on a {chosen['n_splits']}-split structure"
    assert report["choice"].startswith(f"{setting} won on validation, among ")
    assert "; next came " in report["choice"]
    assert report["choice"].endswith(" nats per row behind")
    assert report["log_likelihood"]["valid"] == pytest.approx(chosen["valid"])
    assert report["stopped_because"] == "all rounds are done"


@pytest.mark.compiled
def test_auto_says_how_much_each_kind_counts(run, short, tmp_path):
    path = tmp_path / "out.strudel"
    report = fit_json(run, short, "--max-splits", 3, "-o", path)
    shares = report["chosen"]["shares"]
    assert report["n_components"] == load(path).circuit_.n_components
    words = {
        "em": "-split structure",
        "independent": "on independent columns",
        "tilted": "tilted component",
    }
    assert len(shares) > 1
    for kind, share in shares.items():
        assert words[kind] in report["choice"]
        assert f" with {100 * share:.0f} % of the weight" in report["choice"]
    assert report["log_likelihood"]["valid"] == pytest.approx(report["chosen"]["valid"])
    assert load(path).chosen_ == report["chosen"]


@pytest.mark.parametrize(
    ("arguments", "n_components", "words"),
    [
        (("--set", "method.n_runs=2"), 6, "3 components x 2 runs on a 0-split structure, as asked"),
        (
            ("--method", "bagged_em", "--set", "method.n_bags=2"),
            6,
            "3 components x 2 bags on a 0-split structure, as asked",
        ),
        (("--method", "boosting"), None, "on a 0-split structure"),
    ],
)
def test_methods(run, table, tmp_path, arguments, n_components, words):
    report = fit_json(run, table, "-o", tmp_path / "out.strudel", *SMALL, *arguments)
    assert words in report["choice"]
    if n_components is None:
        assert 1 <= report["n_components"] <= 3
    else:
        assert report["n_components"] == n_components


def test_options_reach_the_learner(run, table, tmp_path):
    options = ("--set", "method.patience=4", "--set", "pseudocount=2", "--max-seconds", 60)
    options += ("--seed", 3)
    report = fit_json(run, table, "-o", tmp_path / "out.strudel", *SMALL, *options)
    expected = {
        "n_components": 3,
        "max_splits": 0,
        "method": "em",
        "method.patience": 4,
        "pseudocount": 2,
        "max_seconds": 60.0,
        "random_state": 3,
    }
    assert {name: report["options"][name] for name in expected} == expected


def test_tables_show_sizes_scores_and_the_choice(run, table, unseen, tmp_path):
    path = tmp_path / "out.strudel"
    code, out, err = run("fit", table, "--test", unseen, "-o", path, *SMALL)
    assert (code, err) == (0, "")
    for words in ("train", "valid", "test", "components", "shared by all", "as asked", str(path)):
        assert words in out
    code, out, err = run("info", path)
    assert (code, err) == (0, "")
    for words in ("components of one run", "runs averaged", "Learning, the last runs"):
        assert words in out


def test_quiet_says_nothing(run, table, tmp_path):
    path = tmp_path / "out.strudel"
    assert run("fit", table, "-o", path, *SMALL, "-q") == (0, "", "")
    assert path.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--components", 1, "--method", "em"), "--method is for mixtures: leave it out"),
        (("--set", "n_splits=3"), "there is no option 'n_splits'"),
        (("--components", "many"), "--components must be auto, a whole number of at least 1"),
        (("--components", 0), "but is '0'"),
        (("--components", "3,0"), "but is '3,0'"),
        (("--components", 3, "--set", "method.n_bags=2"), "goes with --method bagged_em, not"),
        (
            ("--components", 3, "--method", "boosting", "--set", "method.n_runs=2"),
            "goes with --method em or continuous, not with boosting",
        ),
        (("--components", 3, "--method", "magic"), "'magic' is not one of"),
        (("--components", 3, "--method", "joint"), "--method joint is for classifiers"),
        ((*SMALL, "--set", "method.patience=0"), "patience must be a whole number"),
        ((*SMALL, "--set", "patience=x"), "patience must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(run, table, tmp_path, arguments, words):
    path = tmp_path / "out.strudel"
    code, out, err = run("fit", table, "-o", path, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert not path.exists()


def test_an_interrupt_keeps_the_best_mixture_and_says_so(run, table, tmp_path, monkeypatch):
    maximise = strudel.learning.mixtures.em.Ensemble.maximise
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return maximise(*arguments)

    monkeypatch.setattr(strudel.learning.mixtures.em.Ensemble, "maximise", interrupted)
    path = tmp_path / "out.strudel"
    code, out, err = run("fit", table, "-o", path, *SMALL, "--json")
    assert code == 0
    assert err == "interrupted; wrote the best model so far\n"
    assert json.loads(out)["stopped_because"] == "interrupted"
    assert load(path).circuit_.n_components == 3


def news(message):
    return Progress("training", 3, -6.1, -6.2, 3, -6.2, 0, 1.0, message)


def test_the_line_shows_the_latest_news_and_the_seconds(monkeypatch, capsys):
    with MixtureProgress() as progress:
        progress.update(news("not a terminal"))
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    with MixtureProgress() as progress:
        progress.update(news("iteration 3: [train] -6.1"))
        (task,) = progress._progress.tasks
        progress.update(news("too soon after the last update"))
        assert task.description == "iteration 3: [train] -6.1"
    out, err = capsys.readouterr()
    assert out == ""
    assert "iteration 3: [train] -6.1" in err
    assert " s " in err
    with MixtureProgress(is_quiet=True) as progress:
        progress.update(news("quiet"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.compiled
def test_networks_of_the_automatic_mixture_take_options(run, short, tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "out.strudel"
    small = [
        f"method.continuous.{name}={value}"
        for name, value in {"max_iter": 30, "n_points": 16, "width": 8, "depth": 1}.items()
    ]
    options = [word for one in (*small, "max_components=60") for word in ("--set", one)]
    report = fit_json(run, short, "--method", "auto", "--max-splits", 2, *options, "-o", path)
    assert "validation rows" in report["choice"]
    assert "network" in report["choice"]
    assert report["n_components"] == load(path).circuit_.n_components <= 60
