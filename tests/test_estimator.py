"""Estimators in scikit-learn's hands, although they do not inherit from its classes."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from strudel import Strudel, StrudelClassifier, StrudelImputer, StrudelRegressor
from strudel.models import RegressionCircuit

X = np.random.default_rng(0).integers(0, 2, size=(60, 4))
SMALL = Strudel(n_components=1, max_splits=2, random_state=0)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_tags_say_what_an_estimator_is():
    assert is_classifier(StrudelClassifier())
    assert is_regressor(StrudelRegressor())
    assert is_regressor(RegressionCircuit())
    assert get_tags(SMALL).estimator_type == "density_estimator"
    assert get_tags(StrudelImputer()).transformer_tags is not None


def test_a_pipeline_is_searched_in_workers():
    pipeline = Pipeline([("fill", StrudelImputer(SMALL)), ("model", clone(SMALL))])
    search = GridSearchCV(pipeline, {"fill__estimator__max_splits": [0, 1]}, cv=2, n_jobs=2)
    assert "fill__estimator__max_splits" in search.fit(X).best_params_
    html = search._repr_html_()
    assert html.count("StrudelImputer") > 0
    assert "StrudelImputer(estimator=Strudel(max_splits=2, n_components=1" in repr(pipeline)


def test_weights_are_routed(routing):
    model = clone(SMALL)
    assert model.set_fit_request(sample_weight=True) is model
    assert clone(model).get_metadata_routing().fit.requests["sample_weight"] is True
    weight = (np.arange(60) < 50).astype(float)
    scores = cross_val_score(model, X, params={"sample_weight": weight}, cv=2)
    own = [clone(SMALL).fit(X[a:b], sample_weight=weight[a:b]) for a, b in ((30, 60), (0, 30))]
    assert scores == pytest.approx([own[0].score(X[:30]), own[1].score(X[30:])])


def test_a_copy_has_the_options_and_what_was_learned():
    copied = pickle.loads(pickle.dumps(clone(SMALL).fit(X)))
    assert copied.get_params() == SMALL.get_params()
    assert copied.score(X) == clone(SMALL).fit(X).score(X)
    assert pickle.loads(pickle.dumps(StrudelClassifier())).given_options() == {}


def test_objects_are_set_before_their_options():
    model = StrudelImputer().set_params(estimator__max_splits=3, estimator=clone(SMALL))
    assert model.estimator.max_splits == 3
    with pytest.raises(ValueError, match="Strudel has no option 'copies'"):
        model.set_params(estimator__copies=1)


def test_nothing_learned_is_there_before_fit():
    assert not hasattr(clone(SMALL), "missing_")
    assert not hasattr(SMALL, "transform")
