"""Options of a wrong type or size: one sentence, the same for all estimators."""

import numpy as np
import pytest

from strudel import EM, BaggedEM, Strudel, StrudelClassifier, StrudelImputer
from strudel import sample as draw
from strudel.circuits import figure_1_circuit
from strudel.models.predictor_circuits import LogisticCircuit, RegressionCircuit

ESTIMATORS = (
    Strudel,
    StrudelClassifier,
    StrudelImputer,
    LogisticCircuit,
    RegressionCircuit,
)
X = np.random.default_rng(0).integers(0, 2, size=(30, 4))
WRONG = {
    "n_jobs": ["two", 1.5, True, [1]],
    "random_state": ["x", -1, 1.5, 2**40, np.random.default_rng(0)],
    "verbose": ["x", -1, None],
    "preset": [["fast"], 5, "quick"],
    "validation_fraction": ["a", [1], np.nan, 0.0, 1],
    "search": [np.zeros(300)],
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_wrong_option_is_refused_in_one_sentence(estimator):
    for name, values in WRONG.items():
        for value in values if name in estimator().get_params() else ():
            with pytest.raises(ValueError, match=rf"^{name} must ") as caught:
                estimator(**{name: value}).fit(X, X[:, 0])
            message = str(caught.value)
            assert "but is " in message
            assert "\n" not in message
            assert len(message) < 200


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("n_components", Strudel(n_components=10**9)),
        ("n_components", Strudel(n_components=10**8)),
        ("n_components", StrudelClassifier(n_components=10**9)),
        ("max_components", Strudel(max_components=10**9)),
        ("n_runs", Strudel(n_components=2, method=EM(n_runs=10**12))),
        ("n_bags", Strudel(n_components=2, method=BaggedEM(n_bags=10**12))),
    ],
)
def test_more_than_the_memory_holds_is_refused_at_once(monkeypatch, name, model):
    monkeypatch.setattr("strudel.data.argument_checks.total_memory", lambda: 16 * 2**30)
    with pytest.raises(ValueError, match=rf"^{name}=\d+ needs at least .* 16.0 GiB"):
        model.fit(X, X[:, 0])


def test_functions_say_the_same_of_random_numbers():
    with pytest.raises(ValueError, match=r"^random_state must be .* but is 'x'\.$"):
        draw(figure_1_circuit(), random_state="x")


@pytest.mark.parametrize("kind", [StrudelClassifier, Strudel])
def test_more_splits_than_memory_could_hold_are_refused(kind):
    X = np.random.default_rng(0).integers(0, 2, size=(12, 6))
    with pytest.raises(ValueError, match="max_splits=1099511627776 needs at least 64 TiB"):
        kind(n_components=2, max_splits=2**40, random_state=0).fit(X, X[:, 0])
