"""The classifier: exact by enumeration, whatever is known, and at home in scikit-learn."""

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from column_circuits import probability_of
from strudel import (
    StrudelClassifier,
    load,
    log_marginal,
    marginal_probabilities,
    mutual_information,
    probability,
    save,
)
from strudel.data.bits import pack_columns
from strudel.errors import UnseenValueWarning
from strudel.learning.bits.compile import independent_bits
from strudel.learning.bits.fold import folded
from strudel.learning.class_models import ClassRows, complete_rows, count_classes
from strudel.tables import TableEncoder
from strudel.trees.chow_liu import learn_class_tree
from strudel.trees.vtree import balanced_vtree

# Nothing is left to be chosen, so a fit is one fit.
PLAIN = {
    "n_components": 2,
    "method": "per_class",
    "init": "tree",
    "max_splits": 0,
    "pseudocount": 3.0,
    "class_pseudocount": 5.0,
    "random_state": 0,
}
CELLS = "the cells of numbers are those of the rows, however often they count"


@pytest.mark.compiled
@parametrize_with_checks(
    [StrudelClassifier(**PLAIN)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": CELLS,
        "check_sample_weight_equivalence_on_sparse_data": CELLS,
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows_with_classes(n_rows=240, n_classes=2, seed=0, share_hidden=0.0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(n_rows, 5)).astype(float)
    X[:, 4] = np.where(rng.random(n_rows) < 0.8, X[:, 0], X[:, 4])
    y = (X[:, 0] != X[:, 3]).astype(int) + (X[:, 2].astype(int) if n_classes == 3 else 0)
    X[rng.random(X.shape) < share_hidden] = np.nan
    return X, np.array(["no", "yes", "very"])[y]


def partly_known_rows():
    """All rows of five values of which some are unknown, by pattern."""
    rng = np.random.default_rng(1)
    return np.where(rng.random((30, 5)) < 0.4, np.nan, rng.integers(0, 2, size=(30, 5)))


@pytest.mark.parametrize("method", ["per_class", "joint"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_given_partly_known_rows_follow_bayes_rule(n_classes, method):
    X, y = rows_with_classes(n_classes=n_classes)
    model = StrudelClassifier(**PLAIN | {"method": method}).fit(X, y)
    rows = partly_known_rows()[:8]
    for row, found in zip(rows, model.predict_proba(rows), strict=True):
        known = [None if np.isnan(value) else value for value in row]
        joint = np.array([probability_of(model.circuit_, [*known, c]) for c in range(n_classes)])
        assert found == pytest.approx(joint / joint.sum(), rel=1e-9)


@pytest.mark.parametrize("method", ["per_class", "joint"])
@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_inputs_and_class_have_one_distribution(method, n_classes):
    X, y = rows_with_classes(n_classes=n_classes)
    y = y if n_classes > 1 else np.full(len(X), "no")
    model = StrudelClassifier(**PLAIN | {"method": method}).fit(X, y)
    joint = model.circuit_
    assert joint.columns.names == ("x0", "x1", "x2", "x3", "x4", "class")
    rows = partly_known_rows()
    log_known = model.score_samples(rows)
    chances = model.predict_proba(rows)
    for k, name in enumerate(model.classes_):
        given = np.hstack([rows.astype(object), np.full((len(rows), 1), name)])
        with np.errstate(divide="ignore"):
            wanted = log_known + np.log(chances[:, k])
        assert log_marginal(joint, given) == pytest.approx(wanted)


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["auto", "per_class", "joint"])
def test_an_exclusive_or_is_learned_also_from_rows_with_unknown_values(method):
    X, y = rows_with_classes(share_hidden=0.2)
    complete, classes = rows_with_classes(seed=1)
    model = StrudelClassifier(method=method, n_components=4, max_splits=0, random_state=0).fit(X, y)
    assert model.score(complete, classes) > 0.95
    again = StrudelClassifier(method=method, n_components=4, max_splits=0, random_state=0).fit(X, y)
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))


@pytest.mark.compiled
def test_everything_is_chosen_on_rows_that_were_held_out():
    X, y = rows_with_classes(n_rows=90, n_classes=3)
    model = StrudelClassifier(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    best = min(trial.log_loss for trial in model.trials_ if trial.n_folds == 3)
    assert model.chosen_["log_loss"] == best
    assert {trial.setting.method for trial in model.trials_} == {"per_class", "joint"}


def test_weights_count_as_repetitions_and_zero_as_absence():
    X, y = rows_with_classes(n_rows=60)
    weight = np.random.default_rng(2).integers(0, 3, size=60)
    weighted = StrudelClassifier(**PLAIN).fit(X, y, sample_weight=weight)
    repeated = StrudelClassifier(**PLAIN).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert weighted.predict_proba(X) == pytest.approx(repeated.predict_proba(X))


@pytest.mark.compiled
@pytest.mark.parametrize("table", ["bits", "columns"])
def test_class_weights_count_like_weights_of_the_rows(table):
    X, y = rows_with_classes(n_rows=90, n_classes=3) if table == "bits" else mixed_frame()
    names = np.unique(y).tolist()
    by_class = {names[0]: 3.0}
    weighted = StrudelClassifier(**PLAIN, class_weight=by_class).fit(X, y)
    weight = np.where(np.asarray(y) == names[0], 3.0, 1.0)
    by_row = StrudelClassifier(**PLAIN).fit(X, y, sample_weight=weight)
    assert weighted.predict_proba(X) == pytest.approx(by_row.predict_proba(X))
    balanced = StrudelClassifier(**PLAIN, class_weight="balanced").fit(X, y)
    nothing = X[:1] * np.nan if table == "bits" else X.iloc[:1].map(lambda value: None)
    assert balanced.predict_proba(nothing)[0] == pytest.approx(1.0 / len(names))
    for wrong in ({"nobody": 2.0}, {names[0]: -1.0}, "even"):
        with pytest.raises(ValueError, match="class_weight"):
            StrudelClassifier(**PLAIN, class_weight=wrong).fit(X, y)


@pytest.mark.compiled
def test_one_class_is_certain_and_a_rare_one_is_kept():
    X, y = rows_with_classes(n_rows=40)
    assert StrudelClassifier().fit(X, ["yes"] * 40).predict_proba(X).tolist() == [[1.0]] * 40
    y = np.where(np.arange(40) == 7, "rare", y)
    model = StrudelClassifier(n_components=1, max_splits=0, random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["no", "rare", "yes"]
    assert model.score(X[:5], ["never seen"] * 5) == 0.0


def mixed_frame(n_rows=120):
    rng = np.random.default_rng(0)
    age = rng.normal(50, 12, n_rows).round(1)
    town = np.where(age > 50, "north", rng.choice(["south", "east"], n_rows))
    X = pd.DataFrame({"age": age, "town": town, "old": age > 60, "noise": rng.random(n_rows)})
    return X, np.where(age > 50, "late", "early")


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["per_class", "joint"])
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_are_encoded_and_files_keep_everything(kind, method, tmp_path):
    X, y = mixed_frame()
    X.loc[:9, "town"] = None
    table = X if kind == "pandas" else pl.from_pandas(X)
    model = StrudelClassifier(**PLAIN | {"method": method}).fit(table, y)
    assert model.score(table, y) > 0.9
    assert model.feature_names_in_.tolist() == ["age", "town", "old", "noise"]
    save(model, tmp_path / "m.strudel")
    back = load(tmp_path / "m.strudel")
    assert np.array_equal(back.predict_proba(table), model.predict_proba(table))
    assert back.classes_.tolist() == ["early", "late"]
    assert back.get_params() == model.get_params()
    assert back.chosen_["method"] == method


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["per_class", "joint"])
def test_the_class_keeps_its_name(method, tmp_path):
    X, y = mixed_frame()
    model = StrudelClassifier(**PLAIN | {"method": method}).fit(X, pd.Series(y, name="phase"))
    save(model, tmp_path / "m.strudel")
    assert model.target_name_ == load(tmp_path / "m.strudel").target_name_ == "phase"
    assert StrudelClassifier(**PLAIN).fit(X, y).target_name_ == "class"
    if method == "joint":
        edge = model.circuit_.columns[0].edges[-1]
        marginals = marginal_probabilities(model.circuit_, {"age": (edge, None)})
        assert marginals["phase"]["late"] > 0.9
        assert model.circuit_.columns[-1].labels == ("early", "late")


def test_a_class_of_0_and_1_is_a_variable_of_its_own_name():
    X, y = rows_with_classes(n_rows=60)
    frame = pd.DataFrame(X).add_prefix("v").assign(is_yes=(y == "yes").astype(int))
    model = StrudelClassifier(**PLAIN | {"method": "joint"})
    model.fit(frame.drop(columns="is_yes"), frame["is_yes"])
    assert model.circuit_.columns.names == tuple(frame)
    model.fit(frame.drop(columns="v0"), frame["is_yes"])  # a name that an input has
    assert model.circuit_.columns.names[-2:] == ("is_yes", "is_yes_")


@pytest.mark.parametrize(
    "y",
    [
        [0.0, 1.0, np.nan],
        ["a", "b", None],
        ["a", "b", np.nan],
        pd.Series(["a", "b", pd.NA], dtype="string"),
        pd.Series([0, 1, None], dtype="Int64"),
        pd.Series(["a", "b", None], dtype=object),
        pl.Series(["a", "b", None]),
    ],
)
def test_a_class_that_is_unknown_is_refused_with_its_row(y):
    with pytest.raises(ValueError, match=r"the class is unknown at row 2\. .* drop the others"):
        StrudelClassifier().fit(np.eye(3), y)


@pytest.mark.compiled
def test_values_that_were_not_seen_are_missing_with_a_word():
    X, y = mixed_frame()
    model = StrudelClassifier(**PLAIN).fit(X, y)
    rows = X[:3].assign(town=["west", "north", "west"])
    with pytest.warns(
        UnseenValueWarning, match=r"missing: 'west' of column 'town' \(row 0\)\. Correct"
    ):
        found = model.predict_proba(rows)
    assert np.array_equal(found, model.predict_proba(rows.assign(town=[None, "north", None])))
    model = StrudelClassifier(**PLAIN, columns=TableEncoder(unknown="missing")).fit(X, y)
    model.predict(rows)  # warnings are errors in tests


def test_options_and_tables_that_make_no_sense_are_refused():
    X, y = rows_with_classes(n_rows=20)
    with pytest.raises(ValueError, match="method must be one of auto, per_class, joint"):
        StrudelClassifier(method="both").fit(X, y)
    with pytest.raises(ValueError, match="pseudocount must be a positive number, or 'auto'"):
        StrudelClassifier(pseudocount=0).fit(X, y)
    with pytest.raises(ValueError, match="n_folds must be a whole number of at least 2, but is 1"):
        StrudelClassifier(n_folds=1).fit(X, y)
    with pytest.raises(ValueError, match="y must hold one class per row"):
        StrudelClassifier().fit(X, y[:-1])
    with pytest.raises(ValueError, match="X must have at least one row, but has none"):
        StrudelClassifier().fit(X[:0], y[:0])
    with pytest.raises(TypeError, match="columns must be None, or a dict"):
        StrudelClassifier(columns="none").fit(X, y)


def test_the_class_tree_has_the_largest_information_given_the_class():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, size=(200, 4))
    y = rng.integers(0, 2, size=200)
    X[:, 1] = np.where(rng.random(200) < 0.7, X[:, 0] ^ y, X[:, 1])
    X[:, 3] = np.where(rng.random(200) < 0.6, X[:, 2], y)
    tree = learn_class_tree([pack_columns(X[y == c]) for c in (0, 1)])

    def information(i, j):
        total = 0.0
        for c in (0, 1):
            own = X[y == c]
            cells = np.full((2, 2), 0.5)
            np.add.at(cells, (own[:, i], own[:, j]), 1.0)
            p = cells / cells.sum()
            total += len(own) * (p * np.log(p / np.outer(p.sum(1), p.sum(0)))).sum()
        return total

    pairs = list(itertools.combinations(range(4), 2))
    trees = [e for e in itertools.combinations(pairs, 3) if _connects(e)]
    best = max(trees, key=lambda e: sum(information(*pair) for pair in e))
    parent = tree.var_parent
    assert {tuple(sorted((v, int(p)))) for v, p in enumerate(parent) if p >= 0} == set(best)


def _connects(edges):
    reached = {0}
    for _ in range(4):
        reached |= {v for edge in edges if reached & set(edge) for v in edge}
    return len(reached) == 4


def test_parameters_are_drawn_from_component_to_class_to_all_rows():
    X = np.array([[0], [0], [0], [1]], dtype=np.uint8)
    circuit = independent_bits(balanced_vtree(1))
    counts = count_classes(circuit, [pack_columns(X[:2]), pack_columns(X[2:])], 1, rng=0)
    mixture = counts.mixture(class_strength=4.0, strength=2.0)
    everywhere = (1 + 0.5) / (4 + 1)  # of one
    first = (0 + 4 * everywhere) / (2 + 4)
    first = (0 + 2 * first) / (2 + 2)
    assert np.exp(log_marginal(folded(mixture.component(0)), [[1]]))[0] == pytest.approx(first)
    second = (1 + 4 * everywhere) / (2 + 4)
    second = (1 + 2 * second) / (2 + 2)
    assert np.exp(log_marginal(folded(mixture.component(1)), [[1]]))[0] == pytest.approx(second)
    assert mixture.weights == pytest.approx([0.5, 0.5])


def test_completions_keep_what_is_known_and_how_columns_hang_together():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(0, 2, size=(400, 1)), 2, axis=1).astype(float)
    X[rng.random(X.shape) < 0.3] = np.nan
    rows = ClassRows(X, np.zeros(400, dtype=np.int32), np.ones(400))
    complete = complete_rows(rows, np.random.default_rng(1)).X
    known = ~np.isnan(X)
    assert np.array_equal(complete[known], X[known])
    assert np.mean(complete[:, 0] == complete[:, 1]) > 0.9


@pytest.mark.parametrize("method", ["per_class", pytest.param("joint", marks=pytest.mark.compiled)])
def test_a_classifier_answers_questions_about_inputs_and_class(method):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=80), "kind": rng.choice(["u", "v"], 80)})
    y = pd.Series(np.where(X["kind"] == "u", "yes", "no"), name="buys")
    model = StrudelClassifier(
        2, method=method, max_splits=0, pseudocount=1.0, class_pseudocount=1.0
    )
    model.set_params(random_state=0).fit(X, y)
    joint = model.circuit_
    given = {"kind": "u", "size": 0.5}
    expected = model.predict_proba(pd.DataFrame([given]))[0, 1]
    assert model.probability("buys = yes", given) == pytest.approx(expected)
    assert probability(model, "buys = yes", given) == pytest.approx(expected)
    assert model.marginal_probabilities(given)["buys"]["yes"] == pytest.approx(expected)
    assert model.mutual_information("kind", "buys") == mutual_information(joint, "kind", "buys")
    assert list(model.sample(2, random_state=0).columns) == ["size", "kind", "buys"]
    again = pickle.loads(pickle.dumps(model))
    assert again.probability("buys = yes", given) == pytest.approx(expected)
    other = model.fit(X, y.map({"yes": "no", "no": "yes"}))  # what was kept is of another fit
    assert other.probability("buys = no", given) > 0.5
