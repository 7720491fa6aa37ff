"""Facts about the commands on files that hold a mixture, against enumeration."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import oracle
from strategies import random_mixture
from strudel.circuits.compile import compile_factorized
from strudel.circuits.examples import figure_1_circuit
from strudel.cli.commands.info import _learning
from strudel.io.model_file import save
from strudel.trees.vtree import balanced_vtree

NAMES = ("coffee", "tea", "milk", "sugar")
STATES = np.array(oracle.all_rows(4))


@pytest.fixture(scope="module")
def mixture():
    return random_mixture(figure_1_circuit(), 3, np.random.default_rng(0)).with_names(NAMES)


@pytest.fixture(scope="module")
def file(mixture, tmp_path_factory):
    path = tmp_path_factory.mktemp("mixture") / "mixture.strudel"
    save(mixture, path)
    return path


@pytest.fixture(scope="module")
def joint(mixture):
    """The probability of every state, in the order of `STATES`."""
    parts = [oracle.probabilities(component) for component in mixture.components()]
    return mixture.weights @ np.array(parts)


def ask(run, *arguments):
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_info_tells_of_the_structure_and_of_the_weights(run, file, mixture):
    report = ask(run, "info", file)
    structure = mixture.structure
    assert report["kind"] == "Mixture"
    assert report["size"]["nodes"] == structure.n_nodes
    assert report["size"]["edges"] == structure.n_edges
    assert report["size"]["parameters"] == structure.n_parameters
    assert report["size"]["depth"] == structure.depth
    found = report["mixture"]
    assert found["components"] == 3
    assert found["parameters of all"] == 3 * structure.n_parameters + 3
    assert found["largest weight"] == pytest.approx(max(mixture.weights))
    assert found["smallest weight"] == pytest.approx(min(mixture.weights))
    expected = np.prod(mixture.weights**-mixture.weights)
    assert found["effective components"] == pytest.approx(expected)


def test_info_says_that_a_mixture_is_not_deterministic_as_a_whole(run, file, tmp_path):
    properties = ask(run, "info", file)["properties"]
    assert "3 components" in properties.pop("deterministic as a whole")
    assert list(properties.values()) == [None] * 4
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
        "iterations": 20,
        "best after iterations": 10,
        "train log-likelihood": -2.0,
        "valid log-likelihood": -2.4,
        "stopped because": "patience",
        "seconds": 0.3,
    }


def test_score_is_the_mean_log_likelihood(run, file, joint, make_table):
    possible = joint > 0
    report = ask(run, "score", file, make_table("rows.csv", STATES[possible], NAMES))
    assert report["log_likelihood"] == pytest.approx(np.log(joint[possible]).mean())


def test_score_sums_out_what_is_unknown(run, file, joint, make_table):
    table = make_table("gaps.csv", np.array([["", "1", "", "0"]], dtype=object), NAMES)
    agrees = (STATES[:, 1] == 1) & (STATES[:, 3] == 0)
    report = ask(run, "score", file, table)
    assert report["log_likelihood"] == pytest.approx(np.log(joint[agrees].sum()))


def test_queries(run, file, joint):
    def answer(*arguments):
        return ask(run, "query", file, *arguments)["answers"][0]

    has_tea = STATES[:, 1] == 1
    given = joint * has_tea / joint[has_tea].sum()
    ones = answer("marginal", "--given", "tea=1")["probabilities"]
    np.testing.assert_allclose(list(ones.values()), given @ STATES)
    assert answer("evidence", "--given", "tea=1")["probability"] == pytest.approx(
        joint[has_tea].sum()
    )
    found = answer("conditional", "--of", "milk=1", "--given", "tea=1")
    assert found["probability"] == pytest.approx(given[STATES[:, 2] == 1].sum())
    counts = answer("count")["probabilities"]
    np.testing.assert_allclose(counts, np.bincount(STATES.sum(axis=1), joint))
    positive = joint[joint > 0]
    assert answer("entropy")["nats"] == pytest.approx(-positive @ np.log(positive))
    pairs = {(pair["a"], pair["b"]): pair["probability"] for pair in answer("pairs")["pairs"]}
    both = joint[(STATES[:, 0] == 1) & (STATES[:, 3] == 1)].sum()
    assert pairs["coffee", "sugar"] == pytest.approx(both)
    most = answer("mmap", "--variables", "coffee,milk")
    of_two = np.bincount(2 * STATES[:, 0] + STATES[:, 2], joint)
    assert most["log_probability"] == pytest.approx(np.log(of_two.max()))


def test_the_most_probable_state(run, file, joint):
    has_tea = STATES[:, 1] == 1
    (answer,) = ask(run, "query", file, "map", "--given", "tea=1")["answers"]
    (state,) = answer["states"]
    assert state["log_probability"] == pytest.approx(np.log(joint[has_tea].max()))
    assert list(state["state"].values()) == STATES[np.argmax(joint * has_tea)].tolist()


@pytest.mark.parametrize(
    "arguments",
    [
        ("marginal", "--given", "tea=1"),
        ("map",),
        ("mmap", "--variables", "milk"),
        ("evidence", "--given", "tea=1"),
        ("conditional", "--of", "milk=1"),
        ("entropy",),
        ("information", "--a", "tea", "--b", "milk,sugar"),
        ("count",),
        ("pairs",),
        ("responsibilities",),
        ("responsibilities", "--given", "tea=1"),
    ],
)
def test_every_answer_can_be_shown(run, file, arguments):
    code, out, err = run("query", file, *arguments)
    assert (code, err) == (0, "")
    assert out


def test_samples_follow_the_mixture(run, file, joint):
    report = ask(run, "sample", file, "-n", "4000", "--given", "tea=1")
    rows = np.array(report["rows"])
    assert (rows[:, 1] == 1).all()
    has_tea = STATES[:, 1] == 1
    given = joint * has_tea / joint[has_tea].sum()
    share = np.bincount(rows @ [8, 4, 2, 1], minlength=16) / len(rows)
    np.testing.assert_allclose(share, given, atol=0.04)  # five standard deviations


def test_responsibilities(run, file, mixture, make_table):
    (answer,) = ask(run, "query", file, "responsibilities", "--given", "tea=1")["answers"]
    has_tea = STATES[:, 1] == 1
    parts = [oracle.probabilities(component) for component in mixture.components()]
    share = mixture.weights * np.array(parts)[:, has_tea].sum(axis=1)
    np.testing.assert_allclose(answer["responsibilities"], share / share.sum())
    np.testing.assert_allclose(answer["without_evidence"], mixture.weights)
    two = make_table("two.csv", [[1], [0]], ("tea",))
    first, second = ask(run, "query", file, "responsibilities", "--given", two)["answers"]
    assert first["responsibilities"] == pytest.approx(answer["responsibilities"])
    assert second["responsibilities"] != pytest.approx(answer["responsibilities"])
    (alone,) = ask(run, "query", file, "responsibilities")["answers"]
    np.testing.assert_allclose(alone["responsibilities"], mixture.weights)


def test_a_circuit_is_one_component(run, tmp_path):
    save(figure_1_circuit(), tmp_path / "circuit.strudel")
    (answer,) = ask(run, "query", tmp_path / "circuit.strudel", "responsibilities")["answers"]
    assert answer["responsibilities"] == [1.0]


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A mixture of many variables."""
    path = tmp_path_factory.mktemp("wide") / "wide.strudel"
    circuit = compile_factorized(balanced_vtree(40))
    save(random_mixture(circuit, 8, np.random.default_rng(0)), path)
    return path


def test_entropy_of_many_variables_is_refused_in_one_line(run, wide):
    code, out, err = run("query", wide, "entropy")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "entropy of a mixture needs all states of 40 variables" in err


def test_a_search_that_had_to_stop_says_so(run, wide):
    code, out, err = run("query", wide, "map", "--max-seconds", 0, "--json")
    assert code == 0
    assert err.startswith("note: ")
    assert len(json.loads(out)["answers"][0]["states"]) == 1
