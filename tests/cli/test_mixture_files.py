"""Facts about the commands on files that hold a mixture, against enumeration."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from strategies import random_mixture
from strudel import responsibilities
from strudel.circuits.compile import compile_factorized, figure_1_circuit
from strudel.cli.info import _learning
from strudel.io.model_file import save
from strudel.trees.vtree import balanced_vtree

NAMES = ("coffee", "tea", "milk", "sugar")


@pytest.fixture(scope="module")
def mixture():
    return random_mixture(figure_1_circuit(), 3, np.random.default_rng(0)).with_names(NAMES)


@pytest.fixture(scope="module")
def file(mixture, tmp_path_factory):
    path = tmp_path_factory.mktemp("mixture") / "mixture.strudel"
    save(mixture, path)
    return path


def ask(run, *arguments):
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_info_tells_of_the_structure_and_of_the_weights(run, file, mixture):
    report, weights = ask(run, "info", file), np.exp(mixture.log_weight)
    assert report["kind"] == "Circuit"
    assert report["size"]["n_edges"] == mixture.size
    assert report["size"]["n_parameters"] == mixture.n_parameters
    found = report["mixture"]
    assert report["size"]["n_components"] == 3
    assert found["largest_weight"] == pytest.approx(max(weights))
    assert found["smallest_weight"] == pytest.approx(min(weights))
    expected = np.prod(weights**-weights)
    assert found["effective_components"] == pytest.approx(expected)


def test_info_says_that_a_mixture_is_not_deterministic_as_a_whole(run, file, tmp_path):
    properties = ask(run, "info", file)["properties"]
    assert "3 components" in properties.pop("deterministic_as_a_whole")
    assert [*properties.values()] == ["yes"] * 4
    code, out, err = run("info", file)
    assert (code, err, out.count("yes")) == (0, "", 4)
    single = random_mixture(figure_1_circuit(), 1, np.random.default_rng(0))
    save(single, tmp_path / "single.strudel")
    assert "deterministic as a whole" not in run("info", tmp_path / "single.strudel")[1]


def test_the_learning_of_a_mixture_is_told_in_iterations():
    columns = {
        "n_iterations": np.array([1, 10, 20]),
        "train": np.array([-3.0, -2.0, -1.5]),
        "valid": np.array([-3.1, -2.4, -2.6]),
        "seconds": np.array([0.1, 0.2, 0.3]),
    }
    history = SimpleNamespace(columns=lambda: columns, best=1, stopped_because="patience")
    assert _learning(history, final={}) == {
        "n_iterations": 20,
        "best_iteration": 10,
        "train_log_likelihood": -2.0,
        "valid_log_likelihood": -2.4,
        "stopped_because": "patience",
        "seconds": 0.3,
    }


def test_responsibilities_given_a_text_and_the_rows_of_a_table(run, file, mixture, make_table):
    (answer,) = ask(run, "query", file, "responsibilities", "--given", "tea=1")["answers"]
    expected = responsibilities(mixture, {"tea": 1})[0]
    components = answer["components"]
    np.testing.assert_allclose([one["probability"] for one in components], expected)
    before = [one["without_evidence"] for one in components]
    np.testing.assert_allclose(before, np.exp(mixture.log_weight))
    two = make_table("two.csv", [[1], [0]], ("tea",))
    first, second = ask(run, "query", file, "responsibilities", "--given", two)["answers"]
    assert first["components"] == components != second["components"]


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A mixture of many variables."""
    path = tmp_path_factory.mktemp("wide") / "wide.strudel"
    circuit = compile_factorized(balanced_vtree(40))
    save(random_mixture(circuit, 8, np.random.default_rng(0)), path)
    return path


def test_entropy_of_many_variables_is_refused_in_one_line(refused, wide):
    assert "entropy of a mixture needs all states of 40 variables" in refused(
        "query", wide, "entropy"
    )


def test_a_search_that_had_to_stop_says_so(run, wide):
    code, out, err = run("query", wide, "map", "--max-seconds", 0, "--json")
    assert code == 0
    assert err.startswith("note: ")
    assert len(json.loads(out)["answers"][0]["states"]) == 1
