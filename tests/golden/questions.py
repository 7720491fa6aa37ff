"""Every public query, with everything that can be given, as one function of a model per question.

In:  "bits" or "mixed", the kind of a model.
Out: `questions`: by name, what to ask; `KNOWN_WRONG` and `LEFT_OUT`: what to change on purpose.
"""

import math

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

import strudel
from strudel import algebra, predictions, queries

nan = math.nan

# What is wrong by design or mistake, by a part of the name of the question, and why.
KNOWN_WRONG = {
    "beyond the last edge": "The last cell goes on to infinity: what else depends on the number is "
    "answered as for any number of the cell, however far the bound lies inside it.",
    "inside a cell": "A model given a bound inside a cell is over other 0/1 variables than before, "
    "and so cannot be compared with it.",
    "condition, given a number": "The density of a number that is known is NaN, not zero or one.",
    "sufficient_explanation of tree, given dicts": "One dict is asked for, but the error is about "
    "something else.",
    "pooled category": "Rare categories share a cell: all of them are answered alike, and their "
    "shares of it are those of the rows at fit, whatever else is known.",
}
# What is not asked, because the answer is about how the model is made, or is drawn.
LEFT_OUT = {
    "pair_probabilities, covariance of a table": "They are about the 0/1 variables of its code.",
    "count_distribution of all of a table": "It counts the 0/1 variables of its code.",
    "sample, and percentiles of surprise": "Drawn: another walk takes other random numbers.",
    "explore, to_torch, save, write, plots": "They have tests of their own.",
}


class Functions:
    """The functions of the library with a model as their first argument."""

    places = (strudel, queries, algebra, predictions)

    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        place = next(place for place in self.places if name in place.__all__)
        return lambda *args, **options: getattr(place, name)(self.model, *args, **options)

    def about(self, model):
        """The functions with another model."""
        return Functions(model)


class Methods(Functions):
    """The methods of a fitted estimator, and functions of it where it has no method."""

    def __getattr__(self, name):
        return getattr(self.model, name, None) or super().__getattr__(name)


def questions(kind):
    """All questions to a model of one kind, by name."""
    asked = bits_questions() if kind == "bits" else mixed_questions()
    assert len({name for name, _ in asked}) == len(asked)
    return dict(asked)


def crossed(givens, **functions):
    """Every function with everything that can be given."""
    return [
        (f"{name.replace('__', ' of ')}, given {label}", _asking(function, given))
        for name, function in functions.items()
        for label, given in givens.items()
    ]


def _asking(function, given):
    # An event of `variables` is made of the model that is asked.
    return lambda m: function(m, given(m) if callable(given) else given)


def some(givens, *labels):
    """Some of the things that can be given."""
    return {label: givens[label] for label in labels}


def of_state(found):
    """A state and its log-probability."""
    state, log_p = found
    return {"state": state, "log_probability": log_p}


def of_posterior(found, x):
    """All that a posterior says."""
    return {
        "mean": found.mean,
        "variance": found.variance,
        "median": found.quantile(0.5),
        "interval": found.interval(0.8),
        "cdf": found.cdf(x),
        "pdf": found.pdf(x),
    }


def of_surprise(found):
    """What is not drawn of a surprise."""
    return {
        "names": found.names,
        "log_probability": found.log_probability,
        "columns": found.column_log_probability,
    }


def of_check(found):
    """What a check says of every pair."""
    return {"pairs": found.pairs(), "lost": found.lost, "sentences": found.sentences()}


def of_explanation(found):
    """An explanation as it is told."""
    return repr(found)


# 0/1 rows

V = [f"v{i}" for i in range(8)]
ROWS = np.array(
    [
        [1, 0, nan, 1, nan, nan, 0, 1],
        [nan, nan, nan, nan, 1, nan, nan, nan],
        [0, 1, 1, 0, 0, 1, 0, 1],
    ]
)
FULL = np.array([[0, 1, 1, 0, 0, 1, 0, 1], [1, 1, 0, 1, 1, 0, 0, 1], [1, 0, 0, 0, 0, 0, 0, 0]])
BITS = {
    "nothing": None,
    "a dict": {"v1": 1, "v5": 0},
    "sets": {"v1": {0, 1}, "v2": {1}, "v6": [0]},
    "an interval": {"v3": (1, None), "v5": (None, 1)},
    "a row": ROWS[0],
    "rows": ROWS,
    "a frame": pd.DataFrame({"v4": [1, nan, 0], "v0": [nan, nan, 1], "v7": [1.0, 0, 1]}),
    "dicts": [{"v1": 1}, {}, {"v2": 0, "v3": {0, 1}}],
    "a text": "v1 = 1 & v2 = 0",
    "a text with |": "v1 | v3 & ~v4",
    "a count": "at_least(3, v1, v2, v4, v5, v6)",
    "an event": lambda m: (lambda v: (v["v1"] >> v["v2"]) & ~(v["v3"] ^ v["v6"]))(
        strudel.variables(m.model)
    ),
    "a contradiction": "v1 & ~v1",
    "rows, one impossible": [[1, *[nan] * 6, 0], [1, *[nan] * 6, 1]],
    "what is impossible": {"v0": 1, "v7": 0},
    "an impossible event": "v0 & ~v7 & (v1 | v2)",
    "no column": {"v1": 1, "w": 1},
    "no value": {"v1": 2},
    "no event": "v1 &",
    "a short row": [1, 0, 1],
    "an empty dict": {},
}
BITS_FEW = some(
    BITS, "nothing", "a dict", "rows", "a text", "a text with |", "a contradiction", "no column"
)


def bits_predictors():
    """A logistic regression, a tree and an event."""
    linear = LogisticRegression()
    linear.classes_, linear.n_features_in_ = np.array([0, 1]), 8
    linear.coef_ = np.array([[1.5, -2.0, 0.25, 0.0, 0.75, -0.5, 1.0, -1.25]])
    linear.intercept_ = np.array([-0.375])
    every = np.array(np.meshgrid(*[[0, 1]] * 8, indexing="ij")).reshape(8, -1).T
    tree = DecisionTreeRegressor(random_state=0)
    tree.fit(every, 3.0 * every[:, 0] * every[:, 2] + 2.0 * every[:, 5] - every[:, 6])
    return {"logistic": linear, "tree": tree, "event": "v1 & v2 | v5 & ~v6"}


def bits_questions():
    """All questions to a model of 0/1 rows."""
    events = {
        "a variable": "v2",
        "all": "v1 & ~v3 & v6",
        "any": "v1 | v2 | ~v7",
        "count": "exactly(2, v1, v2, v3, v4)",
        "nested": "(v0 | v1 & v2) & ~(v3 & v4) | v5 & v6 & v7",
        "dict": {"v2": 1, "v3": 0},
        "contradiction": "v2 & ~v2",
        "no column": "v1 & w",
    }
    asked = crossed(events, probability=lambda m, event: m.probability(event))
    asked += crossed(
        BITS,
        probability__v2=lambda m, given: m.probability("v2", given),
        probability__either=lambda m, given: m.probability("v2 & v4 | ~v6", given),
        log_marginal=lambda m, given: m.log_marginal(given),
        marginal_probabilities=lambda m, given: m.marginal_probabilities(given),
        log_conditional=lambda m, given: m.log_conditional({"v2": 1, "v4": 0}, given),
        most_probable_state=lambda m, given: of_state(m.most_probable_state(given)),
        marginal_map=lambda m, given: m.marginal_map(["v2", "v4", "v6"], given),
        entropy=lambda m, given: m.entropy(given),
        mutual_information=lambda m, given: m.mutual_information(["v2"], ["v4", "v6"], given),
        count_distribution=lambda m, given: m.count_distribution(None, given),
        responsibilities=lambda m, given: m.responsibilities(given),
        condition=lambda m, given: m.about(m.condition(given)).log_marginal(ROWS),
        correlations=lambda m, given: m.correlations(given),
    )
    asked += crossed(
        BITS_FEW,
        log_probability=lambda m, given: m.probability("v2", given, log=True),
        pair_probabilities=lambda m, given: m.pair_probabilities(given),
        covariance=lambda m, given: m.covariance(given),
        best_three=lambda m, given: of_state(m.most_probable_state(given, 3)),
        best_two__v2_v4=lambda m, given: m.marginal_map(["v2", "v4"], given, 2),
        counts__some=lambda m, given: m.count_distribution(["v2", "v4", "v6"], given),
        mutual_information__beyond=lambda m, given: m.mutual_information(
            "v2", "v4", given, beyond="v6"
        ),
        surprise=lambda m, given: of_surprise(m.surprise(FULL, given, n_samples=2)),
        compare=lambda m, given: m.compare(given),
        log_conditional__rows=lambda m, given: m.log_conditional(FULL, given),
    )
    asked += [
        ("log_likelihood", lambda m: m.log_likelihood(FULL)),
        ("log_likelihood of rows with missing values", lambda m: m.log_likelihood(ROWS)),
        ("observed_log_likelihood", lambda m: m.observed_log_likelihood(ROWS)),
        ("check", lambda m: of_check(m.check(np.repeat(FULL, [30, 50, 20], axis=0)))),
        ("expectation of 0/1 rows", lambda m: m.expectation("v2")),
        ("same_decision_probability of a variable", lambda m: m.same_decision_probability("v2")),
        ("check, weighted", lambda m: of_check(m.check(FULL, sample_weight=[30, 50, 20.5]))),
        ("compare, two groups", lambda m: m.compare("v1 | v2", {"v3": 0})),
        ("marginal_map of no column", lambda m: m.marginal_map(["w"])),
        ("mutual_information of overlapping", lambda m: m.mutual_information("v1", ["v1", "v2"])),
    ]
    asked += predicted(
        bits_predictors(), some(BITS, "a dict", "an interval", "a text with |", "a frame")
    )
    return asked + algebraic(ROWS, "v1 | v3 & ~v4", ["v1", "v2", "v4"])


# A table

FRAME = pd.DataFrame(
    {
        "city": ["Bern", "York", None, "Oslo"],
        "age": [33.5, nan, 71.0, 12.0],
        "visits": [0, 2, nan, 7],
        "smoker": ["yes", "no", "yes", None],
        "insured": [True, None, False, True],
        "grade": ["low", None, "mid", "high"],
        "since": pd.to_datetime(["2020-05-01", "2021-01-01", None, "2022-03-03"]),
        "packs": [9.0, nan, 3.0, nan],
    }
)
FULL_FRAME = pd.DataFrame(
    {
        "city": ["Bern", "Oslo", "York"],
        "age": [33.5, 48.0, 71.0],
        "visits": [0, 2, 5],
        "smoker": ["yes", "no", "yes"],
        "insured": [True, False, True],
        "grade": ["low", "high", "mid"],
        "since": pd.to_datetime(["2020-05-01", "2021-01-01", "2022-03-03"]),
        "packs": [9.0, 2.0, 10.0],
    }
)
MIXED = {
    "nothing": None,
    "a dict": {"city": "Oslo", "smoker": "yes"},
    "a number": {"age": 33.5, "visits": 2},
    "an interval": {"age": (33.3, 61)},
    "an open interval": {"visits": (3, None), "smoker": "no"},
    "dates": {"since": ("2020-09-03", "2021-08-01")},
    "a set": {"city": {"Bern", "York"}, "grade": ["low", "high"]},
    "a set of numbers": {"visits": [0, 2, 7]},
    "an interval of an ordinal": {"grade": ("mid", None)},
    "a frame": FRAME,
    "some columns": FRAME[["since", "city"]].iloc[[0, 3]],
    "dicts": [{"city": "Bern"}, {"age": (None, 41.5)}, {}],
    "a text": "age > 33.3 & smoker = yes",
    "a text with |": "age > 50 | city = Oslo & visits <= 1",
    "an event": lambda m: (lambda v: (v["age"] < 41.5) ^ (v["city"] == "Bern"))(
        strudel.variables(m.model)
    ),
    "missing by rule": {"packs": (5, 12)},
    "beyond the last edge": {"age": (85, None)},
    "pooled category": {"city": "Ulm"},
    "a contradiction": "age > 50 & age < 40",
    "a frame, one row impossible": pd.DataFrame(
        {"smoker": ["yes", "no"], "grade": ["high", "high"], "age": [nan, 50.0]}
    ),
    "what is impossible": {"smoker": "yes", "grade": "high"},
    "an impossible event": "smoker = yes & grade = high & (age > 50 | visits = 1)",
    "no column": {"town": "Bern"},
    "no value": {"city": "Paris"},
    "no event": "age > & smoker",
    "no order": "city > Bern",
    "no interval": {"age": (61, 33.3)},
    "no number": {"age": "old"},
    "a short row": ["Bern", 33.5],
}
MIXED_FEW = some(
    MIXED, "nothing", "a dict", "an interval", "a set", "a frame", "a text", "a text with |",
    "beyond the last edge", "pooled category", "a contradiction", "no column",
)  # fmt: skip


def mixed_predictors():
    """A regression and a tree on columns, and an event with bounds inside cells."""
    linear = LinearRegression()
    linear.coef_, linear.intercept_ = np.array([0.5, -2.0]), 3.0
    tree = DecisionTreeRegressor(random_state=0)
    grid = pd.DataFrame([(a, v) for a in (20, 40, 55, 70) for v in (0, 1, 3, 6)], dtype=float)
    grid.columns = ["age", "visits"]
    tree.fit(grid, 2.0 * (grid["age"] > 50) * (grid["visits"] > 0) + (grid["age"] < 30))
    linear.n_features_in_, linear.feature_names_in_ = 2, tree.feature_names_in_
    return {"linear": linear, "tree": tree, "event": "age > 50 & smoker = no | visits >= 3"}


def mixed_questions():
    """All questions to a model of a table."""
    events = {
        "category": "city = Oslo",
        "bounds": "33.3 <= age & age < 61",
        "date": "since >= 2021-03-01",
        "several": "age > 50 & smoker = no & grade != low",
        "either": "age > 50 | visits > 2 | city = Bern",
        "nested": "(age < 41.5 | smoker = yes) & ~(city = Oslo & visits = 0)",
        "dict": {"age": (33.3, 61), "city": {"Bern", "Oslo"}},
        "ordinal": "grade >= mid",
        "missing by rule": "packs > 9",
        "beyond the last edge": "age > 85",
        "pooled category": "city = York",
        "contradiction": "age > 50 & age < 40",
        "no column": "town = Bern",
        "no value": "city = Paris",
        "no order": "city < Oslo",
    }
    asked = crossed(events, probability=lambda m, event: m.probability(event))
    asked += crossed(
        MIXED,
        probability__smoker=lambda m, given: m.probability("smoker = yes", given),
        probability__bound=lambda m, given: m.probability("age > 41.5", given),
        probability__either=lambda m, given: m.probability("age > 41.5 | city = Oslo", given),
        log_marginal=lambda m, given: m.log_marginal(given),
        marginal_probabilities=lambda m, given: m.marginal_probabilities(given),
        log_conditional=lambda m, given: m.log_conditional({"smoker": "no", "grade": "low"}, given),
        expectation=lambda m, given: m.expectation("age", given),
        variance=lambda m, given: m.variance("visits", given),
        quantile=lambda m, given: m.quantile("age", 0.25, given),
        cdf=lambda m, given: m.cdf("visits", 2, given),
        pdf=lambda m, given: m.pdf("age", 47.3, given),
        expectation__date=lambda m, given: m.expectation("since", given),
        most_probable_state=lambda m, given: of_state(m.most_probable_state(given)),
        marginal_map=lambda m, given: m.marginal_map(["city", "grade"], given),
        entropy=lambda m, given: m.entropy(given),
        mutual_information=lambda m, given: m.mutual_information("age", ["smoker", "city"], given),
        count_distribution=lambda m, given: m.count_distribution(["smoker"], given),
        responsibilities=lambda m, given: m.responsibilities(given),
        condition=lambda m, given: m.about(m.condition(given)).log_marginal(FRAME),
        correlations=lambda m, given: m.correlations(given),
    )
    asked += crossed(
        MIXED_FEW,
        log_probability=lambda m, given: m.probability("grade = mid", given, log=True),
        expectation__yes_or_no=lambda m, given: m.expectation("insured", given),
        expectation__packs=lambda m, given: m.expectation("packs", given),
        quantile__date=lambda m, given: m.quantile("since", 0.5, given),
        cdf__date=lambda m, given: m.cdf("since", "2021-01-01", given),
        pdf__packs=lambda m, given: m.pdf("packs", 10, given),
        posterior=lambda m, given: of_posterior(m.posterior("age", given), 47.3),
        posterior__since=lambda m, given: of_posterior(m.posterior("since", given), "2021-01-01"),
        best_three=lambda m, given: of_state(m.most_probable_state(given, 3)),
        best_two__smoker_grade=lambda m, given: m.marginal_map(["smoker", "grade"], given, 2),
        mutual_information__beyond=lambda m, given: m.mutual_information(
            "age", "city", given, beyond="smoker"
        ),
        surprise=lambda m, given: of_surprise(m.surprise(FULL_FRAME, given, n_samples=2)),
        log_conditional__rows=lambda m, given: m.log_conditional(FULL_FRAME, given),
        of_all_rows=lambda m, given: m.about(m.of_all_rows()).probability("packs > 9", given),
    )
    asked += crossed(
        some(MIXED, "nothing", "a text with |", "a frame"),
        quantile__several=lambda m, given: m.quantile("visits", [0.1, 0.5, 0.9], given),
        posterior__visits=lambda m, given: of_posterior(m.posterior("visits", given), 2),
    )
    many = pd.concat([FULL_FRAME] * 30, ignore_index=True)
    asked += [
        ("log_likelihood", lambda m: m.log_likelihood(FULL_FRAME)),
        ("log_likelihood of rows with missing values", lambda m: m.log_likelihood(FRAME)),
        ("observed_log_likelihood", lambda m: m.observed_log_likelihood(FRAME)),
        ("marginals as a frame", lambda m: m.marginal_probabilities().to_frame()),
        ("correlations as a frame", lambda m: m.correlations().to_frame()),
        ("compare, given an interval", lambda m: m.compare({"age": (33.3, 61)})),
        ("compare, given a frame", lambda m: m.compare(FRAME)),
        ("check", lambda m: of_check(m.check(many))),
        ("compare, two groups", lambda m: m.compare("age > 50 | smoker = yes", {"city": "Bern"})),
        ("posterior of a category", lambda m: m.posterior("city")),
        ("expectation of a category", lambda m: m.expectation("city")),
        ("expectation of no column", lambda m: m.expectation("town")),
        ("quantile beyond 1", lambda m: m.quantile("age", 1.5)),
        ("cdf of no number", lambda m: m.cdf("age", "old")),
        ("marginal_map of no column", lambda m: m.marginal_map(["town"])),
        ("mutual_information of overlapping", lambda m: m.mutual_information("age", "age")),
    ]
    given = some(MIXED, "a dict", "an interval", "dicts", "a text with |", "a contradiction")
    asked += predicted(mixed_predictors(), given)
    inside = "age > 50 & city = Oslo"
    asked.append(("inner_product, inside a cell", lambda m: m.inner_product(m.condition(inside))))
    return asked + algebraic(FRAME, "age >= 60 | city = Oslo & visits < 1", ["smoker", "grade"])


# Both


def predicted(predictors, givens):
    """Questions about predictors."""
    asked = []
    for name, predictor in predictors.items():
        asked += crossed(
            givens,
            **{
                f"expected_prediction__{name}": lambda m, given, p=predictor: m.expected_prediction(
                    p, given
                ),
                f"second_moment__{name}": lambda m, given, p=predictor: m.expected_prediction(
                    p, given, 2
                ),
                f"prediction_variance__{name}": lambda m, given, p=predictor: m.prediction_variance(
                    p, given
                ),
                f"shap_values__{name}": lambda m, given, p=predictor: m.shap_values(p, given),
                f"sufficient_explanation__{name}": lambda m, given, p=predictor: of_explanation(
                    m.sufficient_explanation(p, given, 0.8)
                ),
                f"same_decision_probability__{name}": lambda m, given, p=predictor: (
                    m.same_decision_probability(p, given)
                ),
            },
        )
    first, second = list(predictors)[1:]
    asked += crossed(
        givens,
        expected_same_decision=lambda m, given: m.expected_same_decision_probability(
            predictors["event"], given, observe=["v3"] if "logistic" in predictors else ["grade"]
        ),
        classifier_agreement=lambda m, given: m.classifier_agreement(
            predictors[first], predictors[second], given
        ),
    )
    return asked


def algebraic(rows, event, kept):
    """Questions about two models: one, and one given an event, or a product with itself."""

    def two(ask):
        return lambda m: ask(m, m.condition(event))

    return [
        ("multiply", two(lambda m, q: m.about(m.multiply(q)).log_marginal(rows))),
        (
            "multiply, normalized",
            two(lambda m, q: m.about(m.multiply(q, normalize=True)).log_marginal(rows)),
        ),
        ("power", lambda m: m.about(m.power(2.0)).log_marginal(rows)),
        ("power, normalized", lambda m: m.about(m.power(0.5, normalize=True)).log_marginal(rows)),
        ("divide", two(lambda m, q: m.about(m.about(q).divide(m.model)).log_marginal(rows))),
        (
            "condition, not normalized",
            lambda m: m.about(m.condition(event, normalize=False)).log_marginal(rows),
        ),
        ("marginalize", lambda m: m.about(m.marginalize(kept)).marginal_probabilities()),
        ("marginalize, entropy", lambda m: m.about(m.marginalize(kept)).entropy()),
        ("inner_product", two(lambda m, q: m.inner_product(q))),
        ("inner_product with itself, log", lambda m: m.inner_product(m.model, log=True)),
        ("kl_divergence", two(lambda m, q: m.about(q).kl_divergence(m.model))),
        ("kl_divergence, infinite", two(lambda m, q: m.kl_divergence(q))),
        ("cross_entropy", two(lambda m, q: m.about(q).cross_entropy(m.model))),
        ("renyi_divergence", two(lambda m, q: m.about(q).renyi_divergence(m.model, 0.5))),
        ("cauchy_schwarz_divergence", two(lambda m, q: m.cauchy_schwarz_divergence(q))),
        ("mean_squared_distance", two(lambda m, q: m.mean_squared_distance(q))),
    ]
