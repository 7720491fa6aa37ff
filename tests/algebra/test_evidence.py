"""What is given, in every form and to every question, against sums over all rows."""

import math

import numpy as np
import pandas as pd
import pytest

import oracle
from strategies import mixed
from strudel import (
    Strudel,
    condition,
    count_distribution,
    entropy,
    expected_prediction,
    log_likelihood,
    log_marginal,
    marginal_map,
    marginal_probabilities,
    most_probable_state,
    mutual_information,
    pair_probabilities,
    probability,
    responsibilities,
    same_decision_probability,
    sample,
    shap_values,
    sufficient_explanation,
    variables,
)
from strudel.circuits import compile_factorized, even_structure, figure_1_circuit
from strudel.predictions import classifier_agreement, prediction_variance
from strudel.queries import (
    cdf,
    compare,
    correlations,
    covariance,
    expectation,
    log_conditional,
    posterior,
    quantile,
    surprise,
    variance,
)
from strudel.tables import TableEncoder

NAN = np.nan
CIRCUIT = figure_1_circuit()
X = variables(CIRCUIT)
ROWS = np.array(oracle.all_rows(4))
X1, X2, X3, X4 = ROWS.T == 1


def mixture():
    """The circuit, and the same structure with even parameters."""
    return mixed([CIRCUIT, even_structure(CIRCUIT)], [0.3, 0.7])


MODELS = {"circuit": CIRCUIT, "mixture": mixture()}
# What is given in several forms, and the rows that agree with it.
SAME = {
    "a row": (
        X1 & ~X3,
        ["X1 = 1 & X3 = 0", "X1, !X3", "X1 > 0.5 & 0 <= X3 < 1", {"X1": 1, "X3": 0}]
        + [{"X1": (1, None), "X3": (None, 0.5)}, {"X1": {1}, "X2": {0, 1}, "X3": [0]}]
        + [[1, NAN, 0, NAN], X["X1"] & ~X["X3"], "X1 in {1} & X3 != 1"],
    ),
    "a choice": (
        X1 | ~X3 & X4,
        ["X1 | ~X3 & X4", X["X1"] | ~X["X3"] & X["X4"], "~(~X1 & X3 > 0) & (X1 == 1 | X4)"],
    ),
    "a count": ((X1 * 1 + X2 + X4) >= 2, ["at_least(2, X1, X2, X4)"]),
    "a parity": (X1 ^ X2 ^ X4, ["X1 ^ X2 ^ X4"]),
    "nothing": (X1 | True, [None, {}, True, "X1 in {0, 1}", {"X2": {0, 1}}, {"X2": (None, None)}]),
}
CASES = [(name, form, "circuit") for name, (_, forms) in SAME.items() for form in range(len(forms))]
CASES += [(name, 0, "mixture") for name in SAME]


def chances(model):
    """The probability of every row."""
    return np.array(oracle.probabilities(model))


def entropy_of(p):
    p = p[p > 0.0]
    return float(-(p * np.log(p)).sum())


def table_of(p, *columns):
    """The probability of every state of some variables."""
    return np.array(
        [
            p[np.all(ROWS[:, columns] == state, axis=1)].sum()
            for state in np.ndindex(*(2,) * len(columns))
        ]
    )


@np.errstate(divide="ignore")
def by_rows(p, holds):
    """All answers as sums over rows, given those that hold."""
    q = np.where(holds, p, 0.0)
    total, q = q.sum(), q / q.sum()
    pairs = ROWS.T @ (q[:, np.newaxis] * ROWS)
    ones = pairs.diagonal()
    best = table_of(q, 0, 1)
    return {
        "log_marginal": [math.log(total)],
        "probability": q[X2 | X4].sum(),
        "log_conditional": [np.log(q[X2].sum())],
        "marginal_probabilities": ones,
        "pair_probabilities": pairs,
        "covariance": pairs - np.outer(ones, ones),
        "entropy": entropy_of(q),
        "mutual_information": entropy_of(table_of(q, 0, 1))
        + entropy_of(table_of(q, 3))
        - entropy_of(table_of(q, 0, 1, 3)),
        "count_distribution": np.bincount(ROWS.sum(axis=1), q, 5),
        "most_probable_state": np.log(q.max() * total),
        "marginal_map": np.log(best.max() * total),
        "expected_prediction": q[X2 | X4].sum(),
        "prediction_variance": q[X2 | X4].sum() * (1.0 - q[X2 | X4].sum()),
        "classifier_agreement": q[(X2 | X4) == X1].sum(),
        "surprise": [np.log(q[-1])],
        "condition": q,
    }


def asked(model, given):
    """The same from the library."""
    with np.errstate(divide="ignore"):
        conditioned = condition(model, given) if given is not None else model
        return {
            "log_marginal": log_marginal(model, {} if given is None else given),
            "probability": probability(model, "X2 | X4", given),
            "log_conditional": log_conditional(model, {"X2": 1}, given),
            "marginal_probabilities": marginal_probabilities(model, given),
            "pair_probabilities": pair_probabilities(model, given),
            "covariance": covariance(model, given),
            "entropy": entropy(model, given),
            "mutual_information": mutual_information(model, ["X1", 1], 3, given),
            "count_distribution": count_distribution(model, given=given),
            "most_probable_state": most_probable_state(model, given)[1],
            "marginal_map": marginal_map(model, ["X1", "X2"], given).log_probability,
            "expected_prediction": expected_prediction(model, "X2 | X4", given),
            "prediction_variance": prediction_variance(model, "X2 | X4", given),
            "classifier_agreement": classifier_agreement(model, "X2 | X4", "X1", given),
            "surprise": surprise(model, ROWS[-1], given, n_samples=2).log_probability,
            "condition": np.exp(log_likelihood(conditioned, ROWS)),
        }


@pytest.mark.parametrize(("name", "form", "model"), CASES)
def test_every_question_is_a_sum_over_the_rows_that_agree(name, form, model):
    holds, forms = SAME[name]
    model = MODELS[model]
    expected = by_rows(chances(model), holds)
    for question, found in asked(model, forms[form]).items():
        assert np.allclose(found, expected[question], atol=1e-9), (question, found)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("given", ["X1 | ~X3 & X4", "X1 ^ X2 ^ X4", "at_least(2, X1, X2, X4)"])
def test_rows_are_drawn_from_those_that_agree(model, given):
    holds = {"X1 | ~X3 & X4": X1 | ~X3 & X4, "X1 ^ X2 ^ X4": X1 ^ X2 ^ X4}
    drawn = sample(model, 2000, given, random_state=0) @ [8, 4, 2, 1]
    q = np.where(holds.get(given, X1 * 1 + X2 + X4 >= 2), chances(model), 0.0)
    q /= q.sum()
    share = np.bincount(drawn, minlength=16) / 2000
    assert (share[q == 0.0] == 0.0).all()
    assert np.abs(share - q).max() < 0.05


@pytest.mark.parametrize("given", ["X1 | ~X3 & X4", {"X1": (1, None)}, "X3", [[NAN, NAN, 1, NAN]]])
def test_responsibilities_of_all_components(given):
    model = MODELS["mixture"]
    logs = [log_marginal(model.components([c]), given)[0] for c in range(model.n_components)]
    joint = np.exp(logs + model.log_weight)
    assert np.allclose(responsibilities(model, given), [joint / joint.sum()])


def test_components_that_an_event_excludes_have_responsibility_zero():
    coins = [compile_factorized(CIRCUIT.vtree, [0.3, 0.6, p, 0.5]) for p in (1.0, 0.0, 0.5)]
    model = mixed(coins).with_names(CIRCUIT.columns.names)
    found = responsibilities(model, "X3 & (X1 | X2)")
    assert found.shape == (1, 3)
    assert found[0, 1] == 0.0
    assert found.sum() == pytest.approx(1.0)


def test_groups_decisions_and_explanations_take_events():
    text, row = "X3 = 1", {"X3": 1}
    assert compare(CIRCUIT, text, "!X3").divergence == compare(CIRCUIT, row, {"X3": 0}).divergence
    found = compare(CIRCUIT, "X1 | X3", "~(X1 | X3)")
    assert set(found.names) == {"X2", "X4"}
    for ask in (same_decision_probability, shap_values, sufficient_explanation):
        assert str(ask(CIRCUIT, "X1 & X4", text)) == str(ask(CIRCUIT, "X1 & X4", row))


IMPOSSIBLE = [
    "X1 & ~X1",
    {"X1": (2, None)},
    "X1 > 3",
    "X1 & X2 & ~X1 | false",
    {"X2": set()},
    False,
]


@pytest.mark.parametrize("given", IMPOSSIBLE, ids=str)
def test_what_is_impossible_has_probability_zero_and_cannot_be_given(given):
    assert log_marginal(CIRCUIT, given)[0] == -np.inf
    assert probability(CIRCUIT, given) == 0.0
    for ask in (marginal_probabilities, entropy, condition, most_probable_state, correlations):
        with pytest.raises(ValueError, match=r"probability zero|No value"):
            ask(CIRCUIT, given)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bad name = 1", "'bad name' needs quotes, since it is not a plain word. Write 'bad name'"),
        ("a & x-ray", "'x-ray' needs quotes"),
        ("2nd | a", "'2nd' needs quotes"),
        ("a = 3", "must be 0 or 1"),
        ("a = '2nd'", "Write == for two variables that agree"),
        ("c > 0", "'c' is not a variable"),
        ("0.5 < c", "'c' is not a variable"),
    ],
)
def test_texts_that_cannot_be_read_say_why(text, words):
    model = CIRCUIT.with_names(("a", "bad name", "x-ray", "2nd"))
    for ask in (marginal_probabilities, entropy, log_marginal):
        with pytest.raises(ValueError, match=words):
            ask(model, text)
    assert log_marginal(model, "'bad name' = 1, `x-ray`")[0] == log_marginal(CIRCUIT, "X2 & X3")[0]


# Tables


def people(n=240):
    rng = np.random.default_rng(1)
    kids = rng.integers(0, 7, n)
    city = np.where(rng.random(n) < 0.1 + 0.1 * kids, "Oslo", rng.choice(["Rome", "San Remo"], n))
    smoker = rng.random(n) < np.where(city == "Rome", 0.7, 0.2)
    frame = pd.DataFrame({"kids": kids, "city": city, "smoker": np.where(smoker, "yes", "no")})
    frame["ill"] = (rng.random(n) < 0.2 + 0.4 * smoker).astype(int)
    return frame.mask(rng.random(frame.shape) < 0.03)


TABLE = pd.DataFrame(
    [
        (kids, city, smoker, ill)
        for kids in range(7)
        for city in ("Oslo", "Rome", "San Remo")
        for smoker in ("yes", "no")
        for ill in (0, 1)
    ],
    columns=["kids", "city", "smoker", "ill"],
)
T = TABLE
SAID = {
    "values": (
        (T.city == "San Remo") & (T.ill == 1) & (T.kids == 2),
        ["city = 'San Remo' & ill = 1 & kids = 2", {"city": "San Remo", "ill": 1, "kids": 2}]
        + ["city='San Remo', ill>0.5, kids=2", {"city": ["San Remo"], "ill": (1, None), "kids": 2}]
        + [pd.DataFrame({"city": ["San Remo"], "ill": [1], "kids": [2]})],
    ),
    "sets and intervals": (
        T.city.isin(["Rome", "San Remo"]) & T.kids.between(1, 4) & (T.ill == 0),
        ["city in {Rome, 'San Remo'} & 1 <= kids < 5 & !(ill = 1)"]
        + [{"city": {"Rome", "San Remo"}, "kids": (1, 5), "ill": (None, 0.5)}]
        + [
            "city != Oslo, kids >= 1, kids <= 4, ill < 1",
            [{"city": {"Rome", "San Remo"}, "kids": (1, 5), "ill": {0}}],
        ],
    ),
    "gaps": (
        T.kids.isin([1, 3, 6]) & (T.smoker == "yes"),
        [{"kids": {1, 3, 6}, "smoker": "yes"}, "kids in {1, 3, 6} & smoker = yes"],
    ),
    "a choice": (
        (T.kids > 4) & (T.smoker == "yes") | (T.ill == 1),
        ["kids > 4 & smoker = yes | ill = 1", "!(ill = 0 & (kids <= 4 | smoker != yes))"],
    ),
}
LEARNED = {
    "circuit": Strudel(
        n_components=1, columns=TableEncoder(n_bins=3), max_splits=4, random_state=0
    ),
    "mixture": Strudel(
        n_components=2, max_splits=2, columns=TableEncoder(n_bins=3), random_state=0
    ),
}


@pytest.fixture(scope="module")
def learned():
    """Models without tails, so that the rows of `TABLE` are all there are."""
    return {
        name: condition(model.fit(people()), {"kids": range(7)}) for name, model in LEARNED.items()
    }


SAID_CASES = [
    (name, form, "circuit") for name, (_, said) in SAID.items() for form in range(len(said))
]
SAID_CASES += [pytest.param(name, 0, "mixture", marks=pytest.mark.compiled) for name in SAID]


@pytest.mark.parametrize(("name", "form", "model"), SAID_CASES)
def test_questions_about_columns_are_sums_over_the_rows_that_agree(learned, name, form, model):
    holds, forms = SAID[name]
    given, learned = forms[form], learned[model]
    p = np.exp(log_likelihood(learned, TABLE))
    assert p.sum() == pytest.approx(1.0)
    q = np.where(holds, p, 0.0)
    total, q = q.sum(), q / q.sum()
    mean = (q * TABLE.kids).sum()
    assert log_marginal(learned, given) == pytest.approx([math.log(total)])
    is_table = isinstance(given, list | pd.DataFrame)
    [row] = [given[0]] if isinstance(given, list) else [given]
    row = row.iloc[0].to_dict() if is_table and not isinstance(row, dict) else row
    assert float(np.ravel(expectation(learned, "kids", given))[0]) == pytest.approx(mean)
    assert posterior(learned, "kids", row).variance == pytest.approx(
        (q * (TABLE.kids - mean) ** 2).sum(), abs=1e-9
    )
    assert np.ravel(variance(learned, "ill", given))[0] == pytest.approx(
        q[TABLE.ill == 1].sum() * q[TABLE.ill == 0].sum()
    )
    assert np.ravel(cdf(learned, "kids", 2, given))[0] == pytest.approx(q[TABLE.kids <= 2].sum())
    middle = float(np.ravel(quantile(learned, "kids", 0.5, given))[0])
    assert q[TABLE.kids < middle].sum() < 0.5 + 1e-9 <= q[TABLE.kids <= middle].sum() + 2e-9
    found = marginal_probabilities(learned, given)
    for city in ("Oslo", "Rome", "San Remo"):
        assert np.ravel(found["city"][city])[0] == pytest.approx(q[TABLE.city == city].sum())
    event = "smoker = yes | kids < 2"
    chance = q[(TABLE.smoker == "yes") | (TABLE.kids < 2)].sum()
    assert np.ravel(probability(learned, event, given))[0] == pytest.approx(chance)
    assert np.exp(log_conditional(learned, event, given)[0]) == pytest.approx(chance)
    assert probability(learned, {"ill": {1}}, given) == pytest.approx(q[TABLE.ill == 1].sum())
    drawn = sample(learned, 50, row, random_state=0)
    drawn = drawn.assign(kids=drawn.kids.astype(int), ill=drawn.ill.astype(int))
    possible = {tuple(one) for one in TABLE[holds].to_numpy().tolist()}
    assert {tuple(one) for one in drawn[list(TABLE)].to_numpy().tolist()} <= possible


def test_a_number_without_a_probability_is_a_point_as_evidence():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"height": rng.normal(170.0, 10.0, 200), "tall": rng.random(200) < 0.5})
    frame["tall"] = np.where(frame.height > 172.0, "yes", "no")
    model = Strudel(n_components=1, max_splits=3, random_state=0).fit(frame)
    for ask in (marginal_probabilities, expectation):
        more = ("height",) if ask is expectation else ()
        text, known = (
            ask(model, *more, given="height = 181.5"),
            ask(model, *more, given={"height": 181.5}),
        )
        assert str(text) == str(known)
    assert log_marginal(model, "height = 181.5") == log_marginal(model, {"height": 181.5})
    assert probability(model, "height = 181.5") == 0.0
    assert probability(model, "tall = yes & height != 181.5") == pytest.approx(
        probability(model, "tall = yes")
    )
