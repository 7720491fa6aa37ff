"""`strudel query`: answers are those of the library, in lines and in JSON."""

import csv
import io
import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

from strudel import (
    Strudel,
    load,
    log_likelihood,
    marginal_map,
    marginal_probabilities,
    most_probable_state,
    mutual_information,
    probability,
    save,
)
from strudel.circuits import figure_1_circuit
from strudel.io import read_table
from strudel.queries import compare, correlations, log_marginal, posterior, surprise

NAMES = ("coffee", "tea", "milk", "sugar", "cake")
STATES = np.array(list(itertools.product((0, 1), repeat=5)))


@pytest.fixture(scope="module")
def joint(model):
    """The probability of every state, in the order of STATES."""
    return np.exp(log_likelihood(load(model).circuit_, STATES))


def given(joint, **values):
    """The joint given some values."""
    p = joint.copy()
    for name, value in values.items():
        p[STATES[:, NAMES.index(name)] != value] = 0.0
    return p / p.sum()


@pytest.fixture
def ask(run):
    """The answers in JSON."""

    def ask(*arguments):
        code, out, err = run("query", *arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)["answers"]

    return ask


def column(lines, name):
    return [line[name] for line in lines]


# Tables of 0 and 1


def test_marginals_given_values_by_name(ask, model, joint):
    (answer,) = ask(model, "marginal", "--given", "tea=1, cake=0")
    lines = answer["probabilities"]
    assert column(lines, "column") == list(NAMES)
    expected = given(joint, tea=1, cake=0) @ STATES
    assert column(lines, "probability") == pytest.approx(expected.tolist())
    assert column(lines, "without_evidence") == pytest.approx((joint @ STATES).tolist())


def test_a_table_asks_once_for_each_of_its_rows(ask, model, make_table, joint):
    path = make_table("some.csv", np.array([["1", "?"], ["0", "1"]]), ("cake", "tea"))
    first, second = ask(model, "marginal", "--given", path)
    assert (first["given"], second["given"]) == ({"cake": 1}, {"tea": 1, "cake": 0})
    expected = given(joint, cake=1) @ STATES
    assert column(first["probabilities"], "probability") == pytest.approx(expected.tolist())


def test_the_most_probable_states_come_in_order(ask, model, joint):
    (answer,) = ask(model, "map", "--given", "milk=1", "-k", 3)
    p = given(joint, milk=1)
    best = np.argsort(-p)[:3]
    states = answer["states"]
    assert [[*one["state"].values()] for one in states] == STATES[best].tolist()
    assert column(states, "probability_given_evidence") == pytest.approx(p[best].tolist())
    assert column(states, "log_probability") == pytest.approx(np.log(joint[best]).tolist())
    (answer,) = ask(model, "map", "--given", "coffee=1,tea=1,milk=1,sugar=1", "-k", 9)
    assert len(answer["states"]) == 2  # there are no more


def test_marginal_map_sums_the_others_out(ask, model, joint):
    (answer,) = ask(model, "mmap", "--variables", "tea,cake", "--given", "milk=0")
    p = given(joint, milk=0)
    total = {
        state: p[(STATES[:, 1] == state[0]) & (STATES[:, 4] == state[1])].sum()
        for state in itertools.product((0, 1), repeat=2)
    }
    best = max(total, key=total.get)
    assert answer["states"][0]["state"] == {"tea": best[0], "cake": best[1]}
    assert answer["probability_given_evidence"] == pytest.approx(total[best])
    assert answer["proven_to_be_the_best"] is True


def test_numbers_of_a_binary_model(ask, model, joint, tmp_path):
    both = joint[(STATES[:, 1] == 1) & (STATES[:, 4] == 0)].sum()
    (answer,) = ask(model, "evidence", "--given", "tea=1,cake=0")
    assert answer["probability"] == pytest.approx(both)
    assert answer["log_probability"] == pytest.approx(math.log(both))
    (answer,) = ask(model, "probability", "tea=1", "--given", "cake=0")
    assert answer["probability"] == pytest.approx(both / joint[STATES[:, 4] == 0].sum())
    rule = tmp_path / "rule.cnf"
    rule.write_text("p cnf 5 1\n1 -2 0\n")
    (answer,) = ask(model, "probability", rule)
    expected = joint[(STATES[:, 0] == 1) | (STATES[:, 1] == 0)].sum()
    assert answer["probability"] == pytest.approx(expected)
    (answer,) = ask(model, "entropy")
    assert answer["nats"] == pytest.approx(-(joint * np.log(joint)).sum())
    assert answer["bits"] == pytest.approx(answer["nats"] / math.log(2))
    (answer,) = ask(model, "information", "--a", "tea,milk", "--b", "cake")
    found = mutual_information(load(model), ["tea", "milk"], "cake")
    assert answer["nats"] == pytest.approx(found)
    (answer,) = ask(model, "count", "--variables", "tea,milk,cake")
    ones = STATES[:, [1, 2, 4]].sum(axis=1)
    assert column(answer["counts"], "probability") == pytest.approx(
        np.bincount(ones, joint).tolist()
    )
    assert answer["mean"] == pytest.approx(float(joint @ ones))


def test_pairs_start_with_the_strongest(ask, model):
    (answer,) = ask(model, "pairs", "--variables", "tea,milk,cake")
    pairs = answer["pairs"]
    assert {(one["a"], one["b"]) for one in pairs} == {*itertools.combinations(NAMES[1:5:1], 2)} - {
        pair for pair in itertools.combinations(NAMES[1:], 2) if "sugar" in pair
    }
    nats = mutual_information(load(model), pairs[0]["a"], pairs[0]["b"])
    assert pairs[0]["mutual_information"] == pytest.approx(nats)
    sizes = column(pairs, "mutual_information")
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["marginal"], ["coffee", "probability"]),
        (["marginal", "--given", "tea=1"], ["coffee", "without evidence", "change"]),
        (["map", "-k", "2"], ["state", "probability given evidence", "alone"]),
        (["mmap", "--variables", "tea"], ["tea", "proven to be the best"]),
        (["evidence", "--given", "tea=1"], ["probability", "log probability"]),
        (["entropy"], ["nats", "bits"]),
        (["count"], ["ones", "this many or more", "mean"]),
        (["pairs"], ["mutual information", "share"]),
        (["responsibilities", "--given", "tea=1"], ["component", "1.0000"]),
    ],
)
def test_every_question_has_a_table(run, model, arguments, words):
    code, out, err = run("query", model, *arguments)
    assert (code, err) == (0, "")
    for word in words:
        assert word in out


def test_long_answers_start_with_the_largest_changes_of_what_is_not_given(run, model, joint):
    code, out, err = run("query", model, "marginal", "--given", "tea=1", "--top", 2)
    change = np.abs(given(joint, tea=1) @ STATES - joint @ STATES)
    change[1] = 0.0
    assert code == 0
    found = [line.split()[0] for line in out.splitlines()[1:]]
    assert found == [NAMES[i] for i in np.argsort(-change)[:2]]
    assert err == "note: 2 of 5 lines shown; --all or --json gives all\n"
    _, out, err = run("query", model, "map", "-k", 30, "--top", 3)
    assert err == "".join(
        f"note: 3 of {n} lines shown; --all or --json gives all\n" for n in (5, 30)
    )
    _, out, err = run("query", model, "marginal", "--given", "tea=1", "--all")
    assert (len(out.splitlines()), err) == (6, "")


def test_many_rows_are_shown_in_part(run, ask, model, unseen):
    code, out, err = run("query", model, "evidence", "--given", unseen)
    assert (code, out.count("Row "), err.count("\n")) == (0, 5, 1)
    assert "5 of 40 rows" in err
    assert len(ask(model, "evidence", "--given", unseen)) == 40


def test_impossible_evidence_and_variables_without_names(refused, ask, tmp_path):
    path = tmp_path / "sure.strudel"
    save(Strudel(n_components=1, max_splits=0).fit(np.eye(2)[[0] * 9]), path)
    assert ask(path, "evidence", "--given", "x0=0 & x0=1") == [
        {"given": "x0=0 & x0=1", "probability": 0.0, "log_probability": None}
    ]
    for what in ("marginal", "map", "entropy", "count", "pairs"):
        assert "probability zero" in refused("query", path, what, "--given", "x0=0 & x0=1")


# Tables of text, numbers and dates


def test_questions_are_in_the_columns_of_the_table(ask, encoded):
    model = load(encoded)
    (answer,) = ask(encoded, "probability", "smoker = yes & age > 40", "--given", "age>30")
    wanted = probability(model, "smoker = yes & age > 40", {"age": (30, None)})
    assert answer["probability"] == pytest.approx(wanted)
    (answer,) = ask(encoded, "marginal", "--given", "town='Bath, UK', smoker=no")
    wanted = marginal_probabilities(model, {"town": "Bath, UK", "smoker": "no"})["age"]
    found = {line["value"]: line["probability"] for line in answer["probabilities"]}
    assert [found[str(age)] for age in wanted] == pytest.approx([*wanted.values()])
    (answer,) = ask(encoded, "pairs", "--variables", "age,town")
    nats = mutual_information(model, "age", "town")
    assert answer["pairs"][0]["mutual_information"] == pytest.approx(nats)
    (answer,) = ask(encoded, "correlations", "--given", "town=Rome")
    found = correlations(model, {"town": "Rome"})
    for pair in answer["pairs"]:
        i, j = found.names.index(pair["a"]), found.names.index(pair["b"])
        assert pair["correlation"] == pytest.approx(found.values[i, j])
    (answer,) = ask(encoded, "information", "--a", "age", "--b", "smoker", "--beyond", "town")
    wanted = mutual_information(model, "age", "smoker", beyond="town")
    assert answer["nats"] == pytest.approx(wanted)


def test_states_are_in_the_columns_of_the_table(ask, encoded):
    (answer,) = ask(encoded, "map", "-k", "3", "--given", "smoker=yes")
    state = answer["states"][0]["state"]
    assert set(state) == {"age", "smoker", "town", "since"}
    assert state["smoker"] == "yes"
    (answer,) = ask(encoded, "mmap", "--variables", "smoker,town", "-k", "3")
    wanted = marginal_map(load(encoded), ["smoker", "town"], k=3)
    assert column(answer["states"], "state") == [one.state for one in wanted]
    for one in answer["states"]:
        event = " & ".join(f"{name} = '{value}'" for name, value in one["state"].items())
        found = probability(load(encoded), event)
        assert one["probability_given_evidence"] == pytest.approx(found)


def test_bounds_inside_cells_are_given_and_asked_for(ask, coarse):
    model, known = load(coarse), {"age": (60, None), "smoker": "no"}
    text = ("--given", "age>=60, smoker=no")
    (answer,) = ask(coarse, "marginal", *text)
    wanted = marginal_probabilities(model, known)["town"]
    found = {line["value"]: line["probability"] for line in answer["probabilities"]}
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    (answer,) = ask(coarse, "evidence", *text)
    assert answer["log_probability"] == pytest.approx(log_marginal(model, known)[0])
    (answer,) = ask(coarse, "map", *text)
    best = most_probable_state(model, known)[1]
    assert answer["log_probability"] == pytest.approx(best)


def test_what_a_number_makes_likely_is_a_probability(ask, tmp_path):
    """Its density is not: given in a fine unit, it may be above 1."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(0, 1e-3, 400), "y": rng.normal(0, 1, 400)})
    rows["z"] = np.where(rows.x > 0, "up", "down")
    path = tmp_path / "m.strudel"
    save(Strudel(n_components=1, max_splits=0, random_state=0).fit(rows), path)
    for what in (("map",), ("mmap", "--variables", "z")):
        (answer,) = ask(path, *what, "--given", "x=0.0005")
        assert 0.0 < answer["probability_given_evidence"] <= 1.0
    assert answer["probability_given_evidence"] == pytest.approx(
        probability(load(path), "z = up", {"x": 0.0005})
    )


def test_numbers_have_means_and_quantiles(run, ask, coarse):
    (answer,) = ask(coarse, "posterior", "--given", "smoker=no", "--at", "50%,0.9")
    found = posterior(load(coarse), "age", {"smoker": "no"})
    line = next(line for line in answer["columns"] if line["column"] == "age")
    assert line["mean"] == pytest.approx(found.mean)
    assert (line["50%"], line["0.9"]) == (found.quantile(0.5), found.quantile(0.9))
    out = run("query", coarse, "expectation")[1]
    assert "deviation" in out
    assert "20" in out.split("since")[1].split()[0]  # a date


def test_unusual_rows_and_the_column_to_blame(run, ask, encoded, tmp_path):
    rows = ["age,smoker,town,since", "20,yes,Rome,2001-05-01", "70,yes,Oslo,2010-01-31", ",no,,"]
    table = tmp_path / "new.csv"
    table.write_text("\n".join(rows) + "\n")
    (answer,) = ask(encoded, "surprise", table)
    wanted = surprise(load(encoded), read_table(table))
    assert column(answer["rows"], "percentile") == sorted(wanted.percentile)
    for line in answer["rows"]:
        assert line["because_of"] == wanted.because[line["row"]]
    output = tmp_path / "unusual.csv"
    code, out, err = run("query", encoded, "surprise", table, "--top", "2", "-o", output)
    assert (code, err) == (0, "note: 2 of 3 lines shown; --all or --json gives all\n")
    written = list(csv.DictReader(io.StringIO(output.read_text())))
    assert [row["because"] for row in written] == list(wanted.because)
    assert written[2]["age: percentile"] == ""
    assert max(map(len, out.splitlines())) <= 80


def test_groups_are_compared_over_all_other_columns(run, ask, encoded):
    (answer,) = ask(encoded, "compare", "smoker=yes, age>30", "smoker=no")
    wanted = compare(load(encoded), {"smoker": "yes", "age": (30.0001, None)}, {"smoker": "no"})
    assert answer["divergence"] == pytest.approx(wanted.divergence)
    assert column(answer["columns"], "column") == list(wanted.names)
    divergences = pytest.approx(wanted.column_divergence.tolist())
    assert column(answer["columns"], "divergence") == divergences
    code, out, _ = run("query", encoded, "compare", "smoker=yes")
    assert code == 0
    assert "everybody" in out
    assert "20" in out.split("since")[1]  # the mean of dates is a date
    assert max(map(len, out.splitlines())) <= 80


def test_durations_are_told_in_days_and_hours(run, ask, tmp_path):
    pytest.importorskip("pyarrow")
    hours = np.array([-60.0, -60.0, -60.0, 1.5, 30.0] * 12)
    waits = pd.DataFrame({"wait": pd.to_timedelta(hours, unit="h")})
    path, table = tmp_path / "waits.strudel", tmp_path / "waits.parquet"
    save(Strudel(n_components=1, max_splits=0).fit(waits), path)
    waits[:5].to_parquet(table)
    (answer,) = ask(path, "posterior", "--at", "0.3")
    assert answer["columns"][0]["0.3"].startswith("-3 days, ")
    (answer,) = ask(path, "surprise", table)
    told = {line["row"]: line["which_is"] for line in answer["rows"] if line["because_of"]}
    assert told
    assert (
        told.items()
        <= dict(enumerate(["-3 days, 12:00:00"] * 3 + ["1:30:00", "1 day, 6:00:00"])).items()
    )


# What is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mop"], "WHAT is 'mop', which is not known. Did you mean 'map'"),
        (["responsibilty"], "Did you mean 'responsibilities'"),
        (["xyz"], "Choose from 'marginal'"),
        (["marginal", "--given", "teaa=1"], "Did you mean 'tea'"),
        (["marginal", "--given", "tea=2"], "'tea' must be 0 or 1"),
        (["marginal", "--given", "tea=1,tea=0"], "probability zero"),
        (["marginal", "--given", "nowhere.csv"], "nowhere.csv"),
        (["marginal", "-k", "2"], "-k goes with map"),
        (["map", "-k", "0"], "-k"),
        (["mmap"], "mmap needs --variables"),
        (["mmap", "--variables", "tea,beer"], "'beer'"),
        (["count", "--variables", ","], "at least one column"),
        (["count", "--variables", "tea,tea"], "twice"),
        (["information", "--a", "tea"], "--b"),
        (["information", "--a", "tea", "--b", "tea"], "'tea'"),
        (["mmap", "--variables", "tea", "--max-seconds", "-1"], "--max-seconds"),
        (["probability"], "probability needs an EVENT"),
        (["entropy", "tea"], "TEXT goes with probability, surprise, compare, not with entropy"),
        (["probability", "tea & coffe"], "at character 7, 'coffe'"),
        (["probability", "nowhere.cnf"], "nowhere.cnf"),
        (["posterior"], "is about columns of numbers"),
    ],
)
def test_bad_questions_are_refused_in_one_line(refused, model, arguments, words):
    assert words in refused("query", model, *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["marginal", "--given", "smoker=maybe"], "no value 'maybe'"),
        (["marginal", "--given", "age>1000"], "probability zero"),
        (["marginal", "--given", "age>1000 | smoker=yes & smoker=no"], "probability zero"),
        (["marginal", "--given", "town<Rome"], "have no order"),
        (["marginal", "--given", "smokr=no"], "'smokr' is not a column. Did you mean 'smoker'?\n"),
        (
            ["marginal", "--given", "smoker=no, town in [Rome, Bath UK]"],
            "cannot be read at character 32, 'UK]'",
        ),
        (["marginal", "--given", "town=Bath UK"], "needs quotes, as in town='Bad Ems'."),
        (["posterior", "--at", "5"], "between 0 and 1"),
        (["posterior", "--variables", "town"], "but 'town' is a category"),
        (["posterior", "--variables", "ag"], "Did you mean 'age'?"),
        (["correlations", "--variables", "town"], "has no correlation"),
        (["surprise"], "surprise needs a TABLE"),
        (["surprise", "no.csv"], "There is no file 'no.csv'"),
        (["compare", "smoker=yes", "--given", "age=20"], "--given goes with marginal, map"),
        (["surprises", "a.csv", "b.csv"], "OTHER goes with compare"),
        (["compare"], "compare needs one or two groups"),
        (["compare", "smoker"], "cannot be read at character 1"),
        (["compare", "smoker=yes", "smokr=no"], "Did you mean 'smoker'"),
        (["compare", "age=20", "age=35", "age=50"], "extra argument"),
    ],
)
def test_questions_in_columns_that_make_no_sense(refused, encoded, arguments, words):
    assert words in refused("query", encoded, *arguments)


def test_tables_with_other_columns_are_refused(refused, model, make_table):
    for names, words in ((("tea", "beer"), "'beer'"), (None, "has 2 features")):
        path = make_table("other.csv", [[1, 0]], names)
        assert words in refused("query", model, "marginal", "--given", path)


def test_singular_plural_and_names_of_functions_are_the_same(run, model):
    wanted = run("query", model, "marginal", "--json")
    for word in ("marginals", "Marginal", "marginal_probabilities"):
        assert run("query", model, word, "--json") == wanted


def test_a_circuit_without_an_estimator_answers(ask, tmp_path):
    save(figure_1_circuit(), tmp_path / "f.strudel")
    (answer,) = ask(tmp_path / "f.strudel", "probability", "X1 & ~(X2 | X3)")
    assert answer["probability"] == pytest.approx(0.14)
