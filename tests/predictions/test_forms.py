"""Predictors of scikit-learn, circuits and events as forms: they predict what their models do."""

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, linear_model, tree
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVR
from threadpoolctl import threadpool_limits

from column_circuits import random_predictor
from strudel.circuits import figure_1_circuit
from strudel.predictions.forms import CircuitForm, EventForm, LeafForm
from strudel.predictions.read_predictor import reading_of
from strudel.tables.schema import bit_columns
from worlds import sum_of

RNG = np.random.default_rng(0)
X = RNG.integers(0, 2, (300, 6))
Y = X[:, 0] + 2.0 * X[:, 1] * X[:, 2] - X[:, 4] + 0.1 * RNG.normal(size=300)
TWO = np.where(Y > 0.5, "yes", "no")
THREE = np.digitize(Y, [0.0, 1.0])
ALL_ROWS = np.array(np.meshgrid(*[[0, 1]] * 6)).reshape(6, -1).T
REGRESSORS = [
    linear_model.LinearRegression(),
    linear_model.LinearRegression(fit_intercept=False),
    linear_model.Ridge(),
    linear_model.Lasso(alpha=0.01),
    linear_model.SGDRegressor(random_state=0),
    LinearSVR(random_state=0),
    tree.DecisionTreeRegressor(),
    tree.DecisionTreeRegressor(max_depth=2),
    tree.ExtraTreeRegressor(random_state=0),
    ensemble.RandomForestRegressor(7, random_state=0),
    ensemble.ExtraTreesRegressor(7, random_state=0),
    ensemble.GradientBoostingRegressor(n_estimators=7),
    ensemble.GradientBoostingRegressor(n_estimators=7, init="zero"),
    ensemble.GradientBoostingRegressor(n_estimators=7, loss="quantile"),
    ensemble.HistGradientBoostingRegressor(max_iter=7),
]
CLASSIFIERS = [
    linear_model.LogisticRegression(),
    linear_model.SGDClassifier(loss="log_loss", random_state=0),
    tree.DecisionTreeClassifier(max_depth=3),
    ensemble.RandomForestClassifier(7, random_state=0),
    ensemble.ExtraTreesClassifier(7, max_depth=3, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=7),
    ensemble.HistGradientBoostingClassifier(max_iter=7),
]


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Threads of boosting wait for each other by spinning, on a busy machine for long."""
    with threadpool_limits(1):
        yield


def form_of_predictor(predictor, n_vars, names=None):
    """The form over the cells of columns of 0 and 1."""
    columns = bit_columns(names or [f"x{v}" for v in range(n_vars)], "pandas")
    return reading_of(predictor, columns).form(columns)


def name(model):
    return type(model).__name__


@pytest.mark.parametrize("model", REGRESSORS, ids=name)
def test_a_regressor_and_its_form_predict_the_same(model):
    form = form_of_predictor(model.fit(X, Y), 6)
    assert form.said.output == "value"
    assert form.evaluate(ALL_ROWS)[:, 0] == pytest.approx(model.predict(ALL_ROWS), rel=1e-12)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name)
@pytest.mark.parametrize("target", [TWO, THREE], ids=["two", "three"])
def test_a_classifier_and_its_form_have_the_same_probabilities(model, target):
    if target is THREE and isinstance(model, linear_model.SGDClassifier):
        pytest.skip("one against the rest, see below")
    form = form_of_predictor(model.fit(X, target), 6)
    assert form.said.classes.tolist() == model.classes_.tolist()
    found = form.said.probabilities(form.evaluate(ALL_ROWS))
    assert found == pytest.approx(model.predict_proba(ALL_ROWS), rel=1e-9)


def test_log_odds_are_those_of_the_decision_function():
    model = linear_model.LogisticRegression().fit(X, TWO)
    form = form_of_predictor(model, 6)
    assert (form.said.output, form.said.link, len(form.bias)) == ("logit", "sigmoid", 1)
    assert form.evaluate(X)[:, 0] == pytest.approx(model.decision_function(X))


def test_discriminant_analysis_has_log_odds():
    model = LinearDiscriminantAnalysis().fit(X, THREE)
    form = form_of_predictor(model, 6)
    assert form.said.link == "softmax"
    assert form.said.probabilities(form.evaluate(X)) == pytest.approx(model.predict_proba(X))


def test_several_targets_of_a_regression_are_several_outputs():
    both = np.column_stack([Y, 2 * Y + X[:, 0]])
    for model in (linear_model.LinearRegression(), tree.DecisionTreeRegressor(max_depth=3)):
        form = form_of_predictor(model.fit(X, both), 6)
        assert len(form.bias) == 2
        assert form.evaluate(ALL_ROWS) == pytest.approx(model.predict(ALL_ROWS))


def test_leaves_exclude_each_other_and_are_complete():
    form = form_of_predictor(ensemble.RandomForestRegressor(5, random_state=1).fit(X, Y), 6)
    n_reached = np.zeros((len(ALL_ROWS), form.n_trees), dtype=int)
    for leaf in range(form.n_leaves):
        sets = form.leaf_set[form.leaf_start[leaf] : form.leaf_start[leaf + 1]].tolist()
        places = form.set_place[sets].tolist()
        assert len(set(places)) == len(places)
        holds = np.ones(len(ALL_ROWS), dtype=bool)
        for own, place in zip(sets, places, strict=True):
            holds &= form.set_cells[own][ALL_ROWS[:, place]]
        n_reached[:, form.leaf_tree[leaf]] += holds
    assert np.all(n_reached == 1)


def test_features_are_found_by_name():
    names = tuple("abcdef")
    frame = pd.DataFrame(X, columns=list(names))[["e", "a", "c"]]
    for model in (linear_model.Ridge(), tree.DecisionTreeRegressor(max_depth=3)):
        form = form_of_predictor(model.fit(frame, Y), 6, names)
        assert form.evaluate(X)[:, 0] == pytest.approx(model.predict(frame))


def test_a_feature_that_the_model_lacks_is_named():
    frame = pd.DataFrame(X[:, :2], columns=["a", "age"])
    with pytest.raises(ValueError, match="columns 'age', which the model does not have"):
        form_of_predictor(linear_model.Ridge().fit(frame, Y), 2, ("a", "b"))


def test_pipelines_without_work_are_their_last_step():
    model = make_pipeline("passthrough", linear_model.Ridge()).fit(X, Y)
    assert form_of_predictor(model, 6).evaluate(X)[:, 0] == pytest.approx(model.predict(X))
    with pytest.raises(TypeError, match="makes a feature of several columns"):
        form_of_predictor(make_pipeline(PCA(), linear_model.Ridge()).fit(X, Y), 6)


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (linear_model.Ridge(), ValueError, "not fitted yet: call fit first"),
        (tree.DecisionTreeRegressor(), ValueError, "not fitted yet: call fit first"),
        (ensemble.GradientBoostingRegressor(), ValueError, "not fitted yet: call fit first"),
        (ensemble.HistGradientBoostingRegressor(), ValueError, "not fitted yet: call fit first"),
        (KNeighborsRegressor().fit(X, Y), TypeError, "KNeighborsRegressor is not a known kind"),
        (linear_model.Ridge().fit(X[:, :3], Y), ValueError, "fitted on 3 columns without"),
        (
            tree.DecisionTreeClassifier().fit(X, np.column_stack([TWO, THREE])),
            ValueError,
            "predicts 2 targets at once",
        ),
        (
            linear_model.SGDClassifier(loss="log_loss", random_state=0).fit(X, THREE),
            ValueError,
            "does not predict the sum of its coefficients",
        ),
        (
            linear_model.SGDClassifier(random_state=0).fit(X, TWO),
            ValueError,
            "has no probabilities",
        ),
        (
            ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=3).fit(X, Y - Y.min()),
            ValueError,
            "exponential of a sum of trees",
        ),
        (
            ensemble.GradientBoostingRegressor(
                n_estimators=3, init=linear_model.LinearRegression()
            ).fit(X, Y),
            ValueError,
            "does not predict the sum of its trees",
        ),
        (
            linear_model.PoissonRegressor().fit(X, Y - Y.min()),
            ValueError,
            "PoissonRegressor does not predict the sum of its coefficients",
        ),
        (3.5, TypeError, "A float is not a known kind of predictor. Use"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_form_is_refused(model, error, words):
    with pytest.raises(error, match=words):
        form_of_predictor(model, 6)


def regression_circuit():
    return random_predictor(figure_1_circuit(), np.random.default_rng(0))


def test_circuits_and_estimators_that_hold_one_are_forms():
    class Fitted:
        predictor_ = regression_circuit()

    rows = RNG.integers(0, 2, (5, 4))
    for predictor in (Fitted.predictor_, Fitted()):
        form = form_of_predictor(predictor, 4, ("X1", "X2", "X3", "X4"))
        assert isinstance(form, CircuitForm)
        assert np.array_equal(form.evaluate(rows), Fitted.predictor_.evaluate(rows))
    with pytest.raises(ValueError, match="variable 1 is 'X2' in the predictor and 'b'"):
        form_of_predictor(regression_circuit(), 4, ("X1", "b", "X3", "X4"))
    with pytest.raises(ValueError, match="predictor has 4 variables, but the model has 5"):
        form_of_predictor(regression_circuit(), 5)


@pytest.mark.parametrize("event", ["a & ~b | c", {"a": 1, "c": 0}, "at_least(2, a, b, c)"])
def test_events_are_zero_or_one(event):
    form = form_of_predictor(event, 3, ("a", "b", "c"))
    assert isinstance(form, EventForm)
    rows = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)])
    a, b, c = rows.T
    wanted = {"a & ~b | c": (a & (1 - b)) | c, "at_least(2, a, b, c)": a + b + c >= 2}.get(
        str(event), a & (1 - c)
    )
    assert form.evaluate(rows)[:, 0].tolist() == wanted.astype(float).tolist()


def test_a_form_is_its_own_form():
    form = sum_of(np.ones(3))
    assert form_of_predictor(form, 3) is form
    leaf = form_of_predictor(tree.DecisionTreeRegressor(max_depth=2).fit(X, Y), 6)
    assert isinstance(leaf, LeafForm)
    assert form_of_predictor(leaf, 6) is leaf
