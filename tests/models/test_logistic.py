"""The estimator of a logistic circuit."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.utils.estimator_checks import parametrize_with_checks

import oracle
from column_circuits import as_bits
from sklearn_checks import positive
from strudel import Strudel, load, read, save, write
from strudel.models import LogisticCircuit

PLAIN = {"alpha": 1.0, "n_splits": 2, "target_splits": 3, "validation_fraction": None}


def rows_with_classes(seed=0, n_rows=300, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(n_rows, 6)).astype(np.uint8)
    y = (X[:, 0] ^ X[:, 3]) + (X[:, 2] if n_classes == 3 else 0)
    y = np.where(rng.random(n_rows) < 0.05, rng.integers(0, n_classes, n_rows), y)
    return X, np.array(["no", "yes", "very"])[y]


class Thresholded(LogisticCircuit):
    """On whether a number is positive, so that checks with real numbers reach it."""

    def fit(self, X, y, *, X_valid=None, y_valid=None, sample_weight=None):
        return super().fit(positive(X), y, sample_weight=sample_weight)

    def _output(self, X):
        return super()._output(positive(X))


@pytest.mark.compiled
@parametrize_with_checks([Thresholded(**PLAIN)])
def test_scikit_learn_checks_on_thresholded_numbers(estimator, check):
    check(estimator)


@pytest.mark.compiled
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_gradient_of_the_penalised_log_loss_vanishes(n_classes):
    X, y = rows_with_classes(n_rows=100, n_classes=n_classes)
    weight = np.random.default_rng(1).random(100) + 0.5
    density = Strudel(n_components=1, max_splits=4, random_state=0).fit(X)
    model = LogisticCircuit(density, alpha=0.7, target_splits=0, validation_fraction=None)
    model.fit(X, y, sample_weight=weight)
    predictor, circuit = model.predictor_, as_bits(density.circuit_)
    assert predictor.n_outputs == (1 if n_classes == 2 else 3)
    classes = model.classes_[1:] if n_classes == 2 else model.classes_
    residual = (y[:, None] == classes) - expit(predictor.evaluate(X))
    gradients = []
    for e in range(circuit.n_edges):
        taken = np.array([e in oracle.active_edges(circuit, row) for row in X])
        has_choice = np.sum(circuit.edge_parent == circuit.edge_parent[e]) > 1
        if has_choice and circuit.edge_right[e] >= 0:
            gradients.append((weight * taken) @ residual)
    found = predictor.edge_weight[np.any(predictor.edge_weight != 0.0, axis=1)]
    wanted = np.sort([gradient for gradient in gradients if np.abs(gradient).max() > 1e-9], axis=0)
    assert 0.7 * np.sort(found, axis=0) == pytest.approx(wanted, abs=2e-3)
    assert weight @ residual == pytest.approx(0.0, abs=2e-3)


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.compiled)])
def test_classes_come_out_as_they_went_in(n_classes, tmp_path):
    X, y = rows_with_classes(n_classes=n_classes)
    model = LogisticCircuit(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.classes_.tolist() == sorted(set(y.tolist()))
    shares = model.predict_proba(X)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert (model.classes_[shares.argmax(axis=1)] == model.predict(X)).all()
    assert np.exp(model.predict_log_proba(X)) == pytest.approx(shares)
    save(model, tmp_path / "m.strudel")
    back = load(tmp_path / "m.strudel")
    assert back.predict(X).tolist() == model.predict(X).tolist()
    write(model, tmp_path / "m.circuit")
    back = read(tmp_path / "m.circuit")
    assert back.kind == "logistic"
    assert back.evaluate(X).reshape(len(X), -1) == pytest.approx(
        model.decision_function(X).reshape(len(X), -1)
    )


@pytest.mark.compiled
def test_an_exclusive_or_needs_splits_for_the_target():
    X, y = rows_with_classes()
    none, some = (
        LogisticCircuit(n_splits=0, target_splits=n, random_state=0).fit(X, y).score(X, y)
        for n in (0, "auto")
    )
    assert some > 0.9 > none


@pytest.mark.compiled
def test_every_class_keeps_rows_to_learn_from():
    X, y = rows_with_classes()
    y = np.where(np.arange(300) == 7, "rare", y)
    model = LogisticCircuit(random_state=0).fit(X, y)
    assert "rare" in model.classes_


def test_what_cannot_be_learned_from_is_refused():
    X, y = rows_with_classes(n_rows=40)
    with pytest.raises(ValueError, match="at least two classes, but holds only 1 class"):
        LogisticCircuit().fit(X, ["yes"] * 40)
    with pytest.raises(ValueError, match=r"y_valid holds .*maybe.*, a class that y does not have"):
        LogisticCircuit().fit(X, y, X_valid=X[:1], y_valid=["maybe"])
    with pytest.raises(ValueError, match="requires y to be passed"):
        LogisticCircuit().fit(X, None)
