"""Columns with two values are one variable each: they are answered as variables of 0 and 1 are."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from strudel import (
    Strudel,
    expected_prediction,
    responsibilities,
    same_decision_probability,
    shap_values,
    sufficient_explanation,
)
from strudel.predictions import (
    classifier_agreement,
    expected_same_decision_probability,
    prediction_variance,
)
from strudel.tables.schema import bit_columns


def table(n=200):
    rng = np.random.default_rng(0)
    a = rng.choice([5, 9], n)
    b = np.where(rng.random(n) < 0.9, 2 * a, 28 - 2 * a)
    c = np.where(rng.random(n) < 0.8, a + 2, 16 - a)
    return pd.DataFrame({"a": a, "b": b, "c": c})


@pytest.fixture(scope="module")
def mixture():
    return Strudel(n_components=2, max_splits=1, random_state=0).fit(table())


@pytest.fixture(scope="module")
def predictors(mixture):
    rows = as_bits(table())
    line = LinearRegression().fit(rows, rows @ [1.0, 2.0, 3.0])
    return line, LogisticRegression().fit(rows, rows.sum(axis=1) > 1), 0


def of_values(line, log, decided):
    """The same of the values of the table."""
    low, width = np.array([5.0, 10.0, 7.0]), np.array([4.0, 8.0, 4.0])
    found = [deepcopy(line), deepcopy(log)]
    for predictor in found:
        predictor.intercept_ = predictor.intercept_ - predictor.coef_ @ (low / width)
        predictor.coef_ = predictor.coef_ / width
    return *found, "a == 9"


def as_bits(frame):
    """0 for the smaller value of a column and 1 for the larger."""
    values = frame.to_numpy(dtype=float)
    return np.where(np.isnan(values), np.nan, values > [5, 10, 7])


PARTLY = pd.DataFrame(
    {"a": [5, 9, None, 9], "b": [None, 18, 10, None], "c": [7, 11, 7, None]}, dtype=float
)
ANSWERS = {
    "responsibilities": lambda m, line, log, one, X: responsibilities(m, X),
    "expected_prediction": lambda m, line, log, one, X: expected_prediction(m, line, X),
    "prediction_variance": lambda m, line, log, one, X: prediction_variance(m, line, X),
    "samples": lambda m, line, log, one, X: (
        expected_prediction(
            m, log, X, output="probability", max_states=1, n_samples=5, random_state=0
        ).value
    ),
    "shap_values": lambda m, line, log, one, X: shap_values(m, line, X).values,
    "shap_values_sampled": lambda m, line, log, one, X: shap_values(m, line, X, max_exact=0).values,
    "same_decision": lambda m, line, log, one, X: same_decision_probability(m, log, X),
    "some_hidden": lambda m, line, log, one, X: same_decision_probability(m, log, X, hidden=[1]),
    "expected_same_decision": lambda m, line, log, one, X: expected_same_decision_probability(
        m, log, X, observe=[1], hidden=[2]
    ),
    "classifier_agreement": lambda m, line, log, one, X: classifier_agreement(m, log, one, X),
    "explanations": lambda m, line, log, one, X: _explanations(m, log, X),
}


def _explanations(model, predictor, X):
    rows = [X.iloc[[row]] if hasattr(X, "iloc") else X[[row]] for row in range(len(X))]
    found = [sufficient_explanation(model, predictor, row) for row in rows]
    return [(len(one.features), one.decision, one.probability, one.expected) for one in found]


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("kind", ["mixture", "circuit"])
def test_answers_are_those_of_the_same_model_over_bits(mixture, predictors, name, kind):
    model = mixture.circuit_ if kind == "mixture" else mixture.circuit_.components(np.array([0]))
    found = ANSWERS[name](model, *of_values(*predictors), PARTLY)
    over_bits = model.with_columns(bit_columns(model.columns.names, "pandas"))
    expected = ANSWERS[name](over_bits, *predictors, as_bits(PARTLY))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_events_as_predictors_speak_in_columns(mixture):
    found = expected_prediction(mixture, "a == 9 and c == 11", {"b": 18})
    assert found == pytest.approx(mixture.probability("a == 9 and c == 11", given={"b": 18}))
    with pytest.raises(ValueError, match="'a', which is not one of 0 and 1"):
        same_decision_probability(mixture, 0, {"b": 18})
    drawn = expected_prediction(mixture, "a == 9", [[9, 18, 11], [5, 18, 11]])
    np.testing.assert_array_equal(drawn, [1.0, 0.0])
