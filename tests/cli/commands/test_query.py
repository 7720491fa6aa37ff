"""Facts about `strudel query`."""

import itertools
import json
import math

import numpy as np
import pytest

from strudel.circuits.builder import CircuitBuilder
from strudel.io.model_file import load, save
from strudel.queries.likelihood import log_likelihood
from strudel.trees.vtree import balanced_vtree

NAMES = ("coffee", "tea", "milk", "sugar", "cake")

STATES = np.array(list(itertools.product((0, 1), repeat=5)))


@pytest.fixture(scope="module")
def joint(model):
    """The probability of every state, in the order of STATES."""
    return np.exp(log_likelihood(load(model).circuit_, STATES))


def ask(run, *arguments):
    """The answers in JSON."""
    code, out, err = run("query", *arguments, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["query"] == arguments[1]
    return report["answers"]


def conditioned(joint, **values):
    """The joint given some values."""
    p = joint.copy()
    for name, value in values.items():
        p[STATES[:, NAMES.index(name)] != value] = 0.0
    return p / p.sum()


def test_marginals_given_values_by_name(run, model, joint):
    (answer,) = ask(run, model, "marginal", "--given", "tea=1, cake=0")
    expected = conditioned(joint, tea=1, cake=0) @ STATES
    assert list(answer["probabilities"]) == list(NAMES)
    assert list(answer["probabilities"].values()) == pytest.approx(expected.tolist())
    assert list(answer["without_evidence"].values()) == pytest.approx((joint @ STATES).tolist())
    assert answer["given"] == {"tea": 1, "cake": 0}


def test_a_table_may_have_some_of_the_columns_and_gaps(run, model, make_table, joint):
    path = make_table("some.csv", np.array([["1", "?"], ["0", "1"]]), ("cake", "tea"))
    first, second = ask(run, model, "marginal", "--given", path)
    assert first["given"] == {"cake": 1}
    assert second["given"] == {"tea": 1, "cake": 0}
    expected = conditioned(joint, cake=1) @ STATES
    assert list(first["probabilities"].values()) == pytest.approx(expected.tolist())


def test_the_most_probable_states_come_in_order(run, model, joint):
    (answer,) = ask(run, model, "map", "--given", "milk=1", "-k", 3)
    p = conditioned(joint, milk=1)
    best = np.argsort(-p)[:3]
    assert [list(s["state"].values()) for s in answer["states"]] == STATES[best].tolist()
    found = [s["probability_given_evidence"] for s in answer["states"]]
    assert found == pytest.approx(p[best].tolist())
    found = [s["log_probability"] for s in answer["states"]]
    assert found == pytest.approx(np.log(joint[best]).tolist())


def test_states_past_the_last_are_left_out(run, model):
    known = "coffee=1,tea=1,milk=1,sugar=1"
    (answer,) = ask(run, model, "map", "--given", known, "-k", 9)
    assert len(answer["states"]) == 2


def test_marginal_map_sums_the_others_out(run, model, joint):
    (answer,) = ask(run, model, "mmap", "--variables", "tea,cake", "--given", "milk=0")
    p = conditioned(joint, milk=0)
    total = {
        state: p[(STATES[:, 1] == state[0]) & (STATES[:, 4] == state[1])].sum()
        for state in itertools.product((0, 1), repeat=2)
    }
    best = max(total, key=total.get)
    assert answer["state"] == {"tea": best[0], "cake": best[1]}
    assert answer["probability_given_evidence"] == pytest.approx(total[best])
    assert answer["is_optimal"] is True
    assert answer["upper_bound"] == answer["log_probability"]


def test_probability_of_evidence_and_conditional(run, model, joint):
    (answer,) = ask(run, model, "evidence", "--given", "tea=1,cake=0")
    both = joint[(STATES[:, 1] == 1) & (STATES[:, 4] == 0)].sum()
    assert answer["probability"] == pytest.approx(both)
    assert answer["log_probability"] == pytest.approx(math.log(both))
    (answer,) = ask(run, model, "conditional", "--of", "tea=1", "--given", "cake=0")
    assert answer["probability"] == pytest.approx(both / joint[STATES[:, 4] == 0].sum())


def test_entropy_and_information_in_nats_and_bits(run, model, joint):
    (answer,) = ask(run, model, "entropy")
    assert answer["nats"] == pytest.approx(-(joint * np.log(joint)).sum())
    assert answer["bits"] == pytest.approx(answer["nats"] / math.log(2))
    (answer,) = ask(run, model, "information", "--a", "tea,milk", "--b", "cake")
    table = np.zeros((4, 2))
    np.add.at(table, (2 * STATES[:, 1] + STATES[:, 2], STATES[:, 4]), joint)
    independent = np.outer(table.sum(axis=1), table.sum(axis=0))
    assert answer["nats"] == pytest.approx((table * np.log(table / independent)).sum())


def test_counts(run, model, joint):
    (answer,) = ask(run, model, "count", "--variables", "tea,milk,cake")
    ones = STATES[:, [1, 2, 4]].sum(axis=1)
    assert answer["probabilities"] == pytest.approx(np.bincount(ones, joint).tolist())
    assert answer["mean"] == pytest.approx(float(joint @ ones))


def test_pairs_start_with_the_strongest(run, model, joint):
    (answer,) = ask(run, model, "pairs", "--variables", "tea,milk,cake")
    pairs = answer["pairs"]
    assert {(pair["a"], pair["b"]) for pair in pairs} == {
        ("tea", "milk"),
        ("tea", "cake"),
        ("milk", "cake"),
    }
    for pair in pairs:
        x, y = (STATES[:, NAMES.index(pair[end])] for end in "ab")
        covariance = joint @ (x * y) - (joint @ x) * (joint @ y)
        assert pair["probability"] == pytest.approx(joint @ (x * y))
        assert pair["covariance"] == pytest.approx(covariance)
        deviations = math.sqrt((joint @ x) * (1 - joint @ x) * (joint @ y) * (1 - joint @ y))
        assert pair["correlation"] == pytest.approx(covariance / deviations)
    sizes = [abs(pair["covariance"]) for pair in pairs]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["marginal"], ["coffee", "probability of 1"]),
        (["marginal", "--given", "tea=1"], ["coffee", "without evidence", "change"]),
        (["map"], ["cake", "value", "alone"]),
        (["map", "-k", "2"], ["state 1", "unlike state 1", "probability given evidence"]),
        (["mmap", "--variables", "tea"], ["tea", "proven to be the best"]),
        (["evidence", "--given", "tea=1"], ["probability", "log-probability"]),
        (["conditional", "--of", "tea=1"], ["probability"]),
        (["entropy"], ["nats", "bits"]),
        (["information", "--a", "tea", "--b", "milk"], ["nats"]),
        (["count"], ["ones", "this many or more", "mean"]),
        (["pairs"], ["covariance", "correlation"]),
    ],
)
def test_every_question_has_a_table(run, model, arguments, words):
    code, out, err = run("query", model, *arguments)
    assert (code, err) == (0, "")
    for word in words:
        assert word in out


def test_variables_that_are_given_are_not_repeated(run, model):
    _, out, _ = run("query", model, "marginal", "--given", "tea=1")
    assert "tea" not in out
    _, out, _ = run("query", model, "map", "--given", "tea=1")
    assert "tea" not in out


def test_long_answers_start_with_the_largest_changes(run, model, joint):
    code, out, err = run("query", model, "marginal", "--given", "tea=1", "--top", 2)
    change = np.abs(conditioned(joint, tea=1) @ STATES - joint @ STATES)
    change[1] = 0.0
    expected = [NAMES[i] for i in np.argsort(-change)[:2]]
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == expected
    assert err == "note: 2 of 4 lines shown; --all or --json gives all\n"
    _, out, err = run("query", model, "marginal", "--given", "tea=1", "--all")
    assert (len(out.splitlines()), err) == (5, "")


def test_many_rows_are_shown_in_part(run, model, unseen):
    code, out, err = run("query", model, "evidence", "--given", unseen)
    assert code == 0
    assert (out.count("Row "), err.count("\n")) == (5, 1)
    assert "5 of 40 rows" in err
    assert len(ask(run, model, "evidence", "--given", unseen)) == 40


def test_variables_without_names_are_called_by_number(run, tmp_path):
    builder = CircuitBuilder(balanced_vtree(2))
    leaves = builder.add_leaf_sum(0, 0.25), builder.add_leaf_sum(1, 0.75)
    path = tmp_path / "plain.strudel"
    save(builder.build(builder.add_sum([(*leaves, 1.0)])), path)
    (answer,) = ask(run, path, "marginal", "--given", "x1=0")
    assert answer["probabilities"] == pytest.approx({"x0": 0.25, "x1": 0.0})


def test_impossible_evidence(run, tmp_path):
    builder = CircuitBuilder(balanced_vtree(2))
    root = builder.add_sum([(builder.literal(0, 1), builder.add_leaf_sum(1, 0.5), 1.0)])
    path = tmp_path / "sure.strudel"
    save(builder.build(root), path)
    (answer,) = ask(run, path, "evidence", "--given", "x0=0")
    assert (answer["probability"], answer["log_probability"]) == (0.0, None)
    for what in ("marginal", "map", "entropy", "count", "pairs"):
        code, out, err = run("query", path, what, "--given", "x0=0")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "probability zero" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mop"], "'mop'"),
        (["marginal", "--given", "teaa=1"], "Did you mean 'tea'"),
        (["marginal", "--given", "tea=2"], "'tea' must be 0 or 1"),
        (["marginal", "--given", "tea=1,tea=0"], "probability zero"),
        (["marginal", "--given", "nowhere.csv"], "nowhere.csv"),
        (["marginal", "-k", "2"], "-k goes with map"),
        (["map", "-k", "0"], "-k"),
        (["mmap"], "mmap needs --variables"),
        (["mmap", "--variables", "tea,beer"], "'beer'"),
        (["count", "--variables", ","], "at least one variable"),
        (["count", "--variables", "tea,tea"], "twice"),
        (["conditional"], "--of"),
        (["information", "--a", "tea"], "--b"),
        (["information", "--a", "tea", "--b", "tea"], "'tea'"),
        (["mmap", "--variables", "tea", "--max-seconds", "-1"], "--max-seconds"),
    ],
)
def test_bad_questions_are_refused_in_one_line(run, model, arguments, words):
    code, out, err = run("query", model, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_tables_with_other_columns_are_refused(run, model, make_table):
    path = make_table("other.csv", [[1, 0]], ("tea", "beer"))
    code, out, err = run("query", model, "marginal", "--given", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'beer'" in err
    path = make_table("narrow.csv", [[1, 0]], None)
    code, out, err = run("query", model, "marginal", "--given", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "2 columns" in err


def test_help_has_an_example(run):
    code, out, err = run("query", "--help")
    assert (code, err) == (0, "")
    assert "Examples: strudel query" in " ".join(out.split())
    assert "--json" in out


def test_the_probability_of_an_event(run, model, joint):
    coffee, tea, milk, sugar, _ = STATES.T.astype(bool)
    event = "coffee & ~(tea | milk)"
    (answer,) = ask(run, model, "probability", event)
    assert answer["probability"] == pytest.approx(joint[coffee & ~tea & ~milk].sum())
    assert answer["event"] == event
    (answer,) = ask(
        run, model, "probability", "at_least(2, coffee, tea, milk)", "--given", "sugar=1"
    )
    few = joint[sugar & (coffee.astype(int) + tea + milk >= 2)].sum()
    assert answer["probability"] == pytest.approx(few / joint[sugar].sum())
    code, out, _ = run("query", model, "probability", "coffee | tea")
    assert code == 0
    assert f"{joint[coffee | tea].sum():.4g}" in out


def test_the_probability_of_a_formula_in_a_file(run, model, joint, tmp_path):
    path = tmp_path / "rule.cnf"
    path.write_text("p cnf 5 1\n1 -2 0\n")
    (answer,) = ask(run, model, "probability", str(path))
    coffee, tea = STATES[:, 0] == 1, STATES[:, 1] == 1
    assert answer["probability"] == pytest.approx(joint[coffee | ~tea].sum())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["probability"], "probability needs an EVENT"),
        (["entropy", "tea"], "entropy takes nothing more, but got 'tea'"),
        (["probability", "tea & coffe"], "at character 7, 'coffe'"),
        (["probability", "tea &"], "at character 6, the end"),
        (["probability", "nowhere.cnf"], "nowhere.cnf"),
    ],
)
def test_events_that_cannot_be_answered_are_one_line(run, model, arguments, message):
    code, out, err = run("query", model, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("word", ["marginals", "Marginal", "marginal"])
def test_singular_and_plural_are_the_same(run, model, word):
    assert run("query", model, word, "--json") == run("query", model, "marginal", "--json")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("margnal", "Did you mean 'marginal'?"),
        ("responsibilty", "Did you mean 'responsibilities'"),
        ("xyz", "Choose from 'marginal'"),
    ],
)
def test_a_slip_gets_a_suggestion(run, model, word, meant):
    code, out, err = run("query", model, word)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"WHAT is {word!r}, which is not known. {meant}" in err
