"""What estimators keep of a table: columns in any order, and nothing of a fit that is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from strudel import (
    EM,
    Strudel,
    StrudelClassifier,
    StrudelImputer,
    load,
    marginal_probabilities,
    save,
)
from strudel.tables import TableEncoder
from strudel.trees.vtree import balanced_vtree

MIXTURE = Strudel(
    n_components=2,
    max_splits=0,
    pseudocount=1.0,
    method=EM(max_iter=3),
    validation_fraction=None,
    random_state=0,
)


def frame(n_rows=60):
    number = np.arange(n_rows) % 7
    return pd.DataFrame({"number": number, "text": np.where(number > 3, "high", "low")})


def state_of(model):
    names = ("n_features_in_", "feature_names_in_", "data_", "circuit_")
    return {name: getattr(model, name, None) for name in names}


def test_a_refused_fit_leaves_a_fitted_model_alone():
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(frame())
    before = state_of(model)
    other = pd.DataFrame({"a": [0, 1] * 10, "b": [0, 1] * 10, "c": [0, 1, 1, 1] * 5})
    model.set_params(columns=None, vtree=balanced_vtree(5))
    with pytest.raises(ValueError, match="have 3 columns, but the vtree has 5"):
        model.fit(other)
    assert all(value is before[name] for name, value in state_of(model).items())


def test_continued_and_loaded_models_know_the_names_of_their_columns(tmp_path):
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(frame())
    save(model, tmp_path / "m.strudel")
    for known in (model.fit(frame(), warm_start=True), load(tmp_path / "m.strudel")):
        assert known.feature_names_in_.tolist() == ["number", "text"]
        assert known.circuit_.columns.names == ("number", "text")


def test_an_encoder_takes_columns_in_any_order():
    table = frame()
    turned = table[["text", "number"]]
    mixture = clone(MIXTURE).fit(table)
    assert np.array_equal(mixture.predict_proba(turned), mixture.predict_proba(table))
    small = StrudelClassifier(1, method="joint", init="tree", max_splits=0, pseudocount=1.0)
    classifier = small.set_params(class_pseudocount=1.0, random_state=0).fit(table, table["text"])
    assert np.array_equal(classifier.predict_proba(turned), classifier.predict_proba(table))
    unknown = table.assign(text=None)
    lacking = table[["number"]]
    assert np.array_equal(classifier.predict_proba(lacking), classifier.predict_proba(unknown))
    with pytest.raises(ValueError, match="has none of the 2 columns of the model"):
        classifier.predict(table.add_suffix("_"))
    imputer = StrudelImputer(MIXTURE).set_output(transform="pandas").fit(table)
    gaps = table.astype({"number": float})
    gaps.loc[3, "number"] = np.nan
    filled = imputer.transform(gaps[["text", "number"]])
    assert filled.equals(imputer.transform(gaps))
    assert filled.columns.tolist() == imputer.get_feature_names_out().tolist()


def test_clusters_are_learned_with_what_supervised_edges_tell_apart():
    table = frame()
    model = clone(MIXTURE).set_params(columns=TableEncoder(edges="supervised"))
    clusters = model.fit_predict(table[["number"]], table["text"])
    assert model.circuit_.columns[0].edges[0] == pytest.approx(3.5, abs=0.5)
    assert np.array_equal(clusters, model.predict(table[["number"]]))


def test_an_encoder_does_not_see_rows_of_weight_zero():
    table = frame()
    more = pd.concat([table, pd.DataFrame({"number": [1000], "text": ["never"]})])
    weight = np.append(np.ones(len(table)), 0.0)
    for make in (Strudel(n_components=1, max_splits=0), MIXTURE):
        model = clone(make).set_params(random_state=0)
        seen = clone(model).fit(table)
        found = model.fit(more, sample_weight=weight)
        for own, other in zip(found.circuit_.columns, seen.circuit_.columns, strict=True):
            assert (own.labels, own.counts) == (other.labels, other.counts)
        assert found.score(table) == pytest.approx(seen.score(table))


def test_an_imputer_is_asked_as_the_model_that_it_holds():
    imputer = StrudelImputer(MIXTURE).fit(frame())
    asked = marginal_probabilities(imputer, {"number": 2})
    assert asked["text"] == marginal_probabilities(imputer.circuit_, {"number": 2})["text"]
    with pytest.raises(ValueError, match="StrudelImputer is not fitted yet"):
        marginal_probabilities(StrudelImputer())
