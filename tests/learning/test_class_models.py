"""Models of classes: how the class is coded, and a logistic regression as a mixture."""

import itertools

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from sklearn.linear_model import LogisticRegression

from column_circuits import as_bits
from strudel import StrudelClassifier, log_likelihood, probability
from strudel.circuits import figure_1_circuit
from strudel.learning.bits.fold import folded
from strudel.learning.bits.mixture import as_mixture
from strudel.learning.class_models import (
    ClassModel,
    ClassRows,
    LogisticFit,
    class_column,
    code_with_class,
    first_structure,
    fold_of_rows,
    values_held,
)
from strudel.tables import TableEncoder
from strudel.tables.column_codes import as_column_codes
from strudel.tables.table_code import code_of_bits

PENALTY, STRENGTH = 1.0, 2.0


def test_folds_hold_out_every_class_evenly_but_never_its_only_row():
    found = fold_of_rows(np.array([0, 0, 1, 0, 0]), 2, np.random.default_rng(0))
    assert found.tolist() == [1, 0, -1, 0, 1]


def test_the_name_of_the_class_is_one_that_no_column_has():
    assert class_column(["no", "yes"], "class", ["age"]).name == "class"
    assert class_column(["no", "yes"], "class", ["class", "class_"]).name == "class__"
    code = TableEncoder().fit([[1], [2], [3]]).code_
    assert code_with_class(code, ["no", "yes"]).variable_names == ("x0>=2", "x0>=3", "class=yes")


def test_a_component_of_a_class_has_no_other():
    circuit = as_bits(figure_1_circuit())
    code = code_with_class(code_of_bits(["a", "b", "c", "d"], "numpy"), ["no", "yes"])
    found = ClassModel(as_mixture(circuit), np.array([1]), None).over_columns(code)
    assert probability(found, "class = yes") == 1.0
    assert probability(found, "a") == pytest.approx(probability(figure_1_circuit(), "X1"))


def table(n_rows=300, n_classes=3, share_hidden=0.0, seed=0):
    """A number, two categories of which one follows the number, and a class."""
    rng = np.random.default_rng(seed)
    number = rng.normal(size=n_rows)
    colour = np.where(number + rng.normal(size=n_rows) > 0.0, "red", "blue")
    shape = rng.choice(["a", "b", "c"], size=n_rows)
    score = 2.0 * number + (shape == "b") + rng.logistic(size=n_rows)
    y = np.digitize(score, [0.0, 2.0][: n_classes - 1])
    rows = np.column_stack([number.astype(object), colour, shape])
    rows[rng.random(rows.shape) < share_hidden] = None
    return rows, y.astype(np.int32)


def fit(n_classes=3, n_components=4, share_hidden=0.0):
    X, y = table(n_classes=n_classes, share_hidden=0.0)
    code = TableEncoder(n_bins=5).fit(X).code_
    middles = tuple(c.cell_means if c.is_numeric else None for c in code.columns)
    columns = as_column_codes(code.columns)
    rows = ClassRows(code.encode(X), y, np.ones(len(y)), columns, middles)
    known = rows
    if share_hidden:
        known = rows._replace(X=code.encode(table(share_hidden=share_hidden)[0]))
    circuit = first_structure(rows.by_class(), columns, is_independent=True)
    return LogisticFit(circuit, rows, known, n_components, 0)


def all_rows(columns):
    """Every row that the columns can hold."""
    return np.array(
        [np.concatenate(words) for words in itertools.product(*(c.codewords for c in columns))],
        dtype=float,
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("share_hidden", [0.0, 0.2])
def test_complete_rows_have_the_classes_of_the_regression(n_classes, share_hidden):
    made = fit(n_classes, share_hidden=share_hidden)
    rows = all_rows(made.columns)
    found = log_softmax(made.model(PENALTY, STRENGTH).joint_logs(rows), axis=1)
    wanted = log_softmax(made.scorer(PENALTY, STRENGTH).joint_logs(rows), axis=1)
    assert found == pytest.approx(wanted, abs=1e-9)


def test_the_regression_is_scikit_learns():
    made = fit(2)
    rows = made.rows
    number = made.columns[0]
    held = values_held(rows.X, made.columns).toarray()
    # A slope and steps of the number, ten times as much penalised; a variable per category.
    cells = held[:, : number.n_values]
    slope = cells @ rows.middles[0]
    steps = rows.X[:, number.start : number.stop] / np.sqrt(10.0)
    features = np.column_stack([(slope - slope.mean()) / slope.std(), steps, held[:, 5:]])
    peer = LogisticRegression(C=1.0 / PENALTY, tol=1e-9, max_iter=5000).fit(features, rows.label)
    found = log_softmax(made.scorer(PENALTY, STRENGTH).joint_logs(rows.X), axis=1)
    assert np.exp(found) == pytest.approx(peer.predict_proba(features), abs=5e-3)


def test_gaps_are_summed_out():
    made = fit()
    model = made.model(PENALTY, STRENGTH)
    complete = all_rows(made.columns)
    logs = model.joint_logs(complete)
    assert np.exp(logs).sum() == pytest.approx(1.0)
    assert log_likelihood(folded(model.mixture), complete) == pytest.approx(logsumexp(logs, axis=1))
    number = made.columns[0]
    for row in complete[::7]:
        asked = row.copy()
        asked[number.start : number.stop] = np.nan
        fits = (complete[:, number.stop :] == row[number.stop :]).all(axis=1)
        wanted = logsumexp(logs[fits], axis=0)
        assert model.joint_logs(asked[np.newaxis])[0] == pytest.approx(wanted)


def test_held_out_rows_with_gaps_are_scored_as_by_the_mixture():
    made = fit()
    gaps = made.rows.X[:50].copy()
    gaps[::2, : made.columns[0].stop] = np.nan
    scorer = made.scorer(PENALTY, STRENGTH)
    wanted = log_softmax(made.model(PENALTY, STRENGTH).joint_logs(gaps), axis=1)
    made._shares.clear()  # so that EM begins where it began
    assert log_softmax(scorer.joint_logs(gaps), axis=1) == pytest.approx(wanted, abs=1e-9)


def test_components_expect_the_values_that_the_rows_have():
    made = fit(n_components=1)
    found = made.model(PENALTY, 1e-9).joint_logs(all_rows(made.columns))
    chance = np.exp(logsumexp(found, axis=1))
    held = values_held(all_rows(made.columns), made.columns)
    wanted = values_held(made.rows.X, made.columns).mean(axis=0)
    assert held.T @ chance == pytest.approx(wanted, abs=0.02)


@pytest.mark.compiled
def test_a_classifier_can_be_asked_for_one():
    X, y = table(n_classes=2)
    model = StrudelClassifier(method="logistic", random_state=0).fit(X, y)
    assert model.chosen_["method"] == "logistic"
    assert model.score(X, y) > 0.8
    nothing = model.predict_proba([[None, None, None]])[0]
    assert nothing == pytest.approx(np.bincount(y) / len(y), abs=0.05)


@pytest.mark.compiled
def test_a_classifier_of_bits_can_be_asked_for_one():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(200, 4))
    y = np.where(rng.random(200) < 0.9, X[:, 1], 1 - X[:, 1])
    model = StrudelClassifier(method="logistic", random_state=0).fit(X, y)
    assert model.predict([[0, 0, 0, 0], [0, 1, 0, 0], [np.nan, 1, np.nan, 0]]).tolist() == [0, 1, 1]


@pytest.mark.compiled
def test_one_class_is_certain():
    X, _ = table()
    model = StrudelClassifier(method="logistic", random_state=0).fit(X, ["yes"] * len(X))
    assert model.predict_proba(X[:2]) == pytest.approx(np.ones((2, 1)))


@pytest.mark.parametrize("option", [{"init": "tree"}, {"max_splits": 5}])
def test_a_structure_of_its_own_cannot_be_given(option):
    X, y = table()
    with pytest.raises(ValueError, match="structure of its own"):
        StrudelClassifier(method="logistic", **option).fit(X, y)


@pytest.mark.compiled
def test_a_table_of_one_effect_per_column_is_logistic():
    X, y = table(n_rows=600, n_classes=2)
    model = StrudelClassifier(random_state=0).fit(X, y)
    assert model.chosen_["method"] == "logistic"


@pytest.mark.compiled
def test_an_exclusive_or_is_not():
    rng = np.random.default_rng(0)
    X = rng.choice(["a", "b"], size=(400, 3))
    X = np.column_stack([X, rng.choice(["u", "v", "w"], size=400)])
    y = X[:, 0] == X[:, 1]
    model = StrudelClassifier(random_state=0).fit(X, y)
    assert model.chosen_["method"] != "logistic"
    assert model.score(X, y) == 1.0
