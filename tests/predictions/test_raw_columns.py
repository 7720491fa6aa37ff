"""Predictors of raw columns, against all cells and every number in them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from threadpoolctl import threadpool_limits

import strudel
from strudel import (
    Strudel,
    expected_prediction,
    same_decision_probability,
    shap_values,
    sufficient_explanation,
)
from strudel.circuits.walks import component_logs
from strudel.errors import CutCellsWarning
from strudel.predictions import classifier_agreement, prediction_variance
from strudel.queries.given import circuit_of
from strudel.tables import TableEncoder
from strudel.tables.evidence import nothing_known

approx = pytest.approx
pytestmark = pytest.mark.filterwarnings("ignore::strudel.errors.CutCellsWarning")


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2])
    size = rng.integers(0, 12, n) + 4 * (colour == "red")
    score = np.round(rng.gamma(2.0, 2.0, n) + size / 5.0, 3)
    return pd.DataFrame(
        {"colour": colour, "size": size, "member": rng.random(n) < size / 20, "score": score}
    )


TABLE = table()
FEW = TABLE.drop(columns="score")  # whole numbers only: sums over them are exact
TARGET = (
    TABLE["size"] * (TABLE["colour"] != "green")
    + 3.0 * TABLE["member"]
    + np.random.default_rng(1).normal(size=len(TABLE))
)
CLASS = np.where(TARGET > 12, "high", np.where(TARGET > 4, "mid", "low"))
IS_HIGH = np.where(TARGET > 6, "yes", "no")


def steps(numbers, categories=None, names=("size",)):
    categories = OneHotEncoder() if categories is None else categories
    return make_column_transformer(
        (numbers, list(names)),
        (categories, ["colour"]),
        remainder="passthrough",
        sparse_threshold=0,
    )


@pytest.fixture(scope="module")
def model():
    return Strudel(
        n_components=1, columns=TableEncoder(n_bins=4), random_state=0, max_splits=20
    ).fit(FEW)


@pytest.fixture(
    scope="module",
    params=["one-hot"]
    + [pytest.param(name, marks=pytest.mark.compiled) for name in ("learned", "mixture", "loaded")],
)
def any_model(request, model, tmp_path_factory):
    if request.param == "mixture":
        return Strudel(n_components=3, columns=TableEncoder(n_bins=4), random_state=0).fit(FEW)
    if request.param == "one-hot":
        encoder = TableEncoder(n_bins=4, code="one_hot")
        return Strudel(n_components=1, columns=encoder, random_state=0, max_splits=20).fit(FEW)
    if request.param == "learned":
        return model
    path = tmp_path_factory.mktemp("models") / "model.strudel"
    strudel.save(model, path)
    return strudel.load(path)


def points(column, known):
    """Values of a column with their cell, and their probability within it."""
    if not column.is_numeric:
        return [(v, k, 1.0) for k, v in enumerate(column.values) if known in (None, v)]
    if known is not None:
        cell = int(np.searchsorted(column.edges, known, side="right"))
        return [(known, cell, 1.0)]
    numbers = np.arange(-300, 400)
    cells = np.searchsorted(column.edges, numbers, side="right")
    mass = np.exp(column.cells.log_density(numbers.astype(float)))
    return [(int(x), int(k), m) for x, k, m in zip(numbers, cells, mass, strict=True) if m > 1e-15]


def worlds(model, known):
    """All rows that agree with what is known, and their probabilities given it."""
    circuit = circuit_of(model)
    lists = [points(column, known.get(column.name)) for column in circuit.columns]
    combos = list(itertools.product(*lists))
    cells = np.array([[cell for _, cell, _ in combo] for combo in combos], dtype=np.int32)
    distinct, place = np.unique(cells, axis=0, return_inverse=True)
    asked = nothing_known(circuit.columns, len(distinct))
    logs = component_logs(circuit, asked.with_cells(dict(enumerate(distinct.T))))
    weight = np.array([math.prod(w for *_, w in combo) for combo in combos])
    weight *= (np.exp(logs + circuit.log_weight).sum(axis=1))[place.ravel()]
    rows = pd.DataFrame([[v for v, *_ in combo] for combo in combos], columns=circuit.columns.names)
    return rows, weight / weight.sum()


def output(predictor, rows):
    if hasattr(predictor, "predict_proba"):
        return predictor.predict_proba(rows)
    return predictor.predict(rows)


PREDICTORS = {
    "tree": (make_pipeline(steps(StandardScaler()), DecisionTreeRegressor(max_depth=4)), TARGET),
    "classes": (
        make_pipeline(steps("passthrough", OrdinalEncoder()), DecisionTreeClassifier(max_depth=4)),
        CLASS,
    ),
    "forest": (
        make_pipeline(
            steps(make_pipeline(SimpleImputer(), MinMaxScaler())),
            RandomForestRegressor(5, max_depth=4, random_state=0),
        ),
        TARGET,
    ),
    "ridge": (make_pipeline(steps(StandardScaler()), Ridge()), TARGET),
    "bins": (make_pipeline(steps(KBinsDiscretizer(3, strategy="uniform")), Ridge()), TARGET),
}
KNOWN = [{}, {"colour": "red"}, {"size": 7}, {"size": 3, "member": True}, {"member": False}]


def fitted(name, rows=FEW):
    predictor, target = PREDICTORS[name]
    return clone(predictor).fit(rows, target)


@pytest.mark.parametrize("name", PREDICTORS)
def test_expected_predictions_average_those_of_the_pipeline(any_model, name):
    predictor = fitted(name)
    found = expected_prediction(any_model, predictor, KNOWN)
    for known, value in zip(KNOWN, found, strict=True):
        rows, p = worlds(any_model, known)
        assert value == approx(p @ output(predictor, rows), rel=1e-9)


@pytest.mark.parametrize("name", ["tree", "forest", "ridge"])
def test_variances(model, name):
    predictor = fitted(name)
    for known in KNOWN[:3]:
        rows, p = worlds(model, known)
        value = predictor.predict(rows)
        wanted = p @ (value - p @ value) ** 2
        assert prediction_variance(model, predictor, known) == approx(wanted, rel=1e-9)


def test_boosting_gives_log_odds_and_probabilities(model):
    predictor = make_pipeline(
        steps("passthrough"), GradientBoostingClassifier(n_estimators=5, random_state=0)
    ).fit(FEW, IS_HIGH)
    for known in KNOWN[:3]:
        rows, p = worlds(model, known)
        logit = expected_prediction(model, predictor, known)
        assert logit == approx(p @ predictor.decision_function(rows), rel=1e-9)
        found = expected_prediction(model, predictor, known, output="probability")
        assert found == approx(p @ predictor.predict_proba(rows), rel=1e-9)


def unknown_as_nan():
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)


@pytest.mark.parametrize(
    "predictor",
    [
        HistGradientBoostingRegressor(
            max_iter=1, categorical_features=["kind"], min_samples_leaf=5
        ),
        make_pipeline(
            make_column_transformer((unknown_as_nan(), ["kind"]), remainder="passthrough"),
            HistGradientBoostingRegressor(max_iter=1, min_samples_leaf=5),
        ),
        make_pipeline(
            make_column_transformer((unknown_as_nan(), ["kind"]), remainder="passthrough"),
            DecisionTreeRegressor(max_depth=5, random_state=0),
        ),
    ],
    ids=["categories", "codes", "tree"],
)
def test_categories_that_a_tree_never_saw_go_where_it_sends_what_is_missing(predictor):
    rng = np.random.default_rng(1)
    kinds = np.array([f"k{i}" for i in range(8)])
    rows = pd.DataFrame({"kind": rng.choice(kinds, 400), "size": rng.integers(0, 8, 400)})
    target = rows["kind"].str[1:].astype(int) % 3 + 2.0 * (rows["size"] > 3) + rng.random(400) / 9
    circuit = Strudel(
        n_components=1, columns=TableEncoder(n_bins=4), random_state=0, max_splits=0
    ).fit(rows)
    asked = pd.DataFrame({"kind": kinds, "size": np.arange(8)})
    for unseen in ("k4", "k7"):
        is_seen = rows["kind"] != unseen
        train, wanted = rows[is_seen], target[is_seen]
        if "decisiontreeregressor" in getattr(predictor, "named_steps", {}):
            train = train.assign(kind=train["kind"].mask(rng.random(len(train)) < 0.1))
        with threadpool_limits(1):  # threads that wait for each other take seconds
            fitted_one = clone(predictor).fit(train, wanted)
            found = expected_prediction(circuit, fitted_one, asked)
            assert found == approx(fitted_one.predict(asked), rel=1e-9)


def test_sampled_answers_of_linear_models_have_the_exact_mean():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": np.exp(2.0 * rng.normal(size=300)), "c": rng.choice(["a", "b"], 300)})
    circuit = Strudel(
        n_components=1, columns=TableEncoder(n_bins=4), random_state=0, max_splits=0
    ).fit(rows)
    predictor = LogisticRegression().fit(rows[["x"]], rng.random(300) < 0.5)
    predictor.coef_[:], predictor.intercept_[:] = 1e-6, 0.0  # so flat that it is a line
    logit = float(expected_prediction(circuit, predictor, {}))
    found = expected_prediction(
        circuit, predictor, {}, output="probability", n_samples=40000, random_state=0
    )
    assert abs(found.value[1] - 0.5 - logit / 4.0) < 4.0 * found.standard_error[1]
    column = circuit_of(circuit).columns[0]
    mean, variance = column.cells.moments()
    at = np.arange(200_000) / 200_000 + 1 / 400_000
    for cell in range(column.n_values):
        drawn = column.cells.draws(np.full(len(at), cell), at, beyond_seen=True)
        assert drawn.mean() == approx(mean[cell], rel=1e-3)
        assert drawn.var() == approx(variance[cell], rel=1e-2)


def test_probabilities_of_a_logistic_model_are_exact_where_its_numbers_are_known(model):
    predictor = make_pipeline(steps(StandardScaler()), LogisticRegression()).fit(FEW, IS_HIGH)
    known = {"size": 9}
    rows, p = worlds(model, known)
    found = expected_prediction(model, predictor, known, output="probability")
    assert found == approx(p @ predictor.predict_proba(rows), rel=1e-9)
    with pytest.raises(ValueError, match="leaves 'size' unknown, which the predictor takes as a"):
        expected_prediction(model, predictor, {}, output="probability")
    rows, p = worlds(model, {})
    found = expected_prediction(
        model, predictor, {}, output="probability", n_samples=4000, random_state=0
    )
    error = np.abs(found.value - p @ predictor.predict_proba(rows))
    assert np.all(error < 5.0 * found.standard_error)


def test_numbers_between_any_two_are_integrated():
    model = Strudel(
        n_components=1, columns=TableEncoder(n_bins=4), random_state=0, max_splits=5
    ).fit(TABLE)
    tree = DecisionTreeRegressor(max_depth=4)
    pre = steps(StandardScaler(), names=("size", "score"))
    predictor = make_pipeline(pre, tree).fit(TABLE, TARGET + TABLE["score"])
    columns = model.circuit_.columns
    column = columns[columns.place("score")]
    known = {"colour": "red", "size": 7, "member": True}
    share = (np.arange(20_000) + 0.5) / 20_000
    chances = np.array(list(strudel.marginal_probabilities(model, known)["score"].values()))
    wanted = 0.0
    for cell, chance in enumerate(chances):
        numbers = column.cells.draws(np.full(len(share), cell), share)
        rows = pd.DataFrame({**known, "score": numbers})[list(TABLE.columns)]
        wanted += chance * predictor.predict(rows).mean()
    # Draws stay within what was seen and are rounded; the tails hold less than a hundredth.
    assert expected_prediction(model, predictor, known) == approx(wanted, rel=5e-3)


@pytest.mark.filterwarnings("error")
def test_cells_that_end_at_the_thresholds_need_no_density():
    predictor = make_pipeline(
        steps(StandardScaler(), names=("size", "score")), DecisionTreeRegressor(max_depth=4)
    ).fit(TABLE, TARGET)
    cut = Strudel(
        n_components=1, columns=TableEncoder(edges=predictor), random_state=0, max_splits=5
    ).fit(TABLE)
    expected_prediction(cut, predictor, {"colour": "red"})  # does not warn
    assert expected_prediction(cut, predictor, TABLE) == approx(predictor.predict(TABLE))
    usual = Strudel(
        n_components=1, columns=TableEncoder(n_bins=3), random_state=0, max_splits=5
    ).fit(TABLE)
    with pytest.warns(CutCellsWarning, match=r"cuts cells of the model: .*'score' at .*edges=pred"):
        expected_prediction(usual, predictor, {"colour": "red"})


def test_same_decisions(model):
    predictor = fitted("classes")
    for known, hidden in (({"size": 6}, ["colour"]), ({"colour": "red"}, ["size", "member"])):
        rows, p = worlds(model, known)
        now = predictor.classes_[np.argmax(p @ predictor.predict_proba(rows))]
        wanted = 0.0
        for _, group in rows.groupby(hidden):
            own = p[group.index]
            label = predictor.classes_[np.argmax(own @ predictor.predict_proba(group))]
            wanted += own.sum() * (label == now)
        found = same_decision_probability(model, predictor, known, hidden=hidden)
        assert found == approx(wanted, rel=1e-9)


def test_agreement_of_two_pipelines(model):
    first, second = (
        fitted("classes"),
        make_pipeline(steps(MinMaxScaler()), DecisionTreeClassifier(max_depth=2)).fit(FEW, CLASS),
    )
    rows, p = worlds(model, {"member": True})
    wanted = p @ (first.predict(rows) == second.predict(rows))
    assert classifier_agreement(model, first, second, {"member": True}) == approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", ["tree", "ridge"])
def test_shapley_values_are_by_column(model, name):
    predictor = fitted(name)
    row = {"colour": "green", "size": 9, "member": True}
    worth = {}
    for size in range(4):
        for chosen in itertools.combinations(row, size):
            rows, p = worlds(model, {key: row[key] for key in chosen})
            worth[chosen] = p @ predictor.predict(rows)
    found = shap_values(model, predictor, row)
    for value, key in zip(found.values, row, strict=True):
        rest = [other for other in row if other != key]
        wanted = 0.0
        for size in range(3):
            for chosen in itertools.combinations(rest, size):
                more = tuple(other for other in row if other in (*chosen, key))
                share = math.factorial(size) * math.factorial(2 - size) / 6.0
                wanted += share * (worth[more] - worth[chosen])
        assert value == approx(wanted, rel=1e-7, abs=1e-9)
    assert found.base_value == approx(worth[()])
    assert found.prediction == approx(worth[tuple(row)])


def test_explanations_are_in_columns(model):
    predictor = fitted("classes")
    row = {"colour": "red", "size": 15, "member": True}
    found = sufficient_explanation(model, predictor, row, 0.8)
    assert found.decision == predictor.predict(pd.DataFrame([row]))[0]
    assert set(found.features.items()) <= set(row.items())
    rows, p = worlds(model, found.features)
    assert found.probability == approx(p @ (predictor.predict(rows) == found.decision), rel=1e-9)
    for fewer in itertools.combinations(found.features, max(len(found.features) - 1, 0)):
        rows, p = worlds(model, {key: row[key] for key in fewer})
        assert p @ (predictor.predict(rows) == found.decision) < 0.8


@pytest.mark.parametrize("dtype", ["datetime64[us]", "timedelta64[us]"])
def test_explanations_of_a_row_of_a_frame_show_dates_and_durations(dtype):
    rng = np.random.default_rng(0)
    when = rng.integers(0, 300, 200)
    rows = pd.DataFrame({"when": when.astype("timedelta64[D]").astype(dtype), "c": when > 150})
    circuit = Strudel(
        n_components=1, columns=TableEncoder(n_bins=4), random_state=0, max_splits=5
    ).fit(rows)
    for given in (rows[["when"]].head(1), {"when": rows["when"][0]}):
        found = sufficient_explanation(circuit, "c", given)
        assert found.features == {"when": rows["when"][0]}


def test_a_waterfall_names_columns_and_their_values(model):
    from matplotlib.figure import Figure

    row = {"colour": "green", "size": 9}
    found = shap_values(model, fitted("tree"), row)
    ax = found.plot(model, row, ax=Figure().add_subplot())
    assert {label.get_text() for label in ax.get_yticklabels()} == {"colour: green", "size: 9"}


def test_events_may_have_bounds_inside_cells(model):
    event = strudel.variables(model)["size"] >= 7
    found = expected_prediction(model, event, {"colour": "red"})
    assert found == approx(strudel.probability(model, event, given={"colour": "red"}))
    shares = shap_values(model, event, {"colour": "red", "member": True})
    assert shares.values.sum() == approx(shares.prediction - shares.base_value)


def test_parts_of_cells_may_be_known(model):
    predictor = fitted("tree")
    rows, p = worlds(model, {"colour": "red"})
    is_in = ((rows["size"] >= 3) & (rows["size"] < 6)).to_numpy()
    wanted = p[is_in] @ predictor.predict(rows[is_in]) / p[is_in].sum()
    found = expected_prediction(model, predictor, {"colour": "red", "size": (3, 6)})
    assert found == approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("predictor", "message"),
    [
        (make_pipeline(steps("passthrough"), PCA(2), Ridge()), "a feature of several columns"),
        (
            make_pipeline(
                make_column_transformer(
                    (FunctionTransformer(lambda x: x.prod(axis=1).to_frame()), ["size", "member"])
                ),
                DecisionTreeRegressor(),
            ),
            "several columns, such as 'size', 'member'",
        ),
        (
            make_pipeline(
                make_column_transformer((FunctionTransformer(np.exp), ["size"])),
                make_column_transformer((FunctionTransformer(np.sqrt), [0])),
                FunctionTransformer(np.nan_to_num),
                RandomForestRegressor(2, max_depth=2),
            ),
            None,
        ),
    ],
)
def test_what_cannot_be_read_column_by_column_is_refused(model, predictor, message):
    predictor = predictor.fit(FEW, TARGET)
    if message is None:  # a curve of one column is fine for trees
        rows, p = worlds(model, {"colour": "red"})
        wanted = p @ predictor.predict(rows)
        assert expected_prediction(model, predictor, {"colour": "red"}) == approx(wanted)
        return
    with pytest.raises(TypeError, match=message):
        expected_prediction(model, predictor, {})


def test_a_curve_is_refused_by_linear_models():
    model = Strudel(n_components=1, random_state=0, max_splits=5).fit(TABLE)
    pre = make_column_transformer((FunctionTransformer(np.exp), ["score"]))
    with pytest.raises(TypeError, match="takes a curve of column 'score'"):
        expected_prediction(model, make_pipeline(pre, Ridge()).fit(TABLE, TARGET), {})


def test_unknown_columns_and_categories_are_named(model):
    with pytest.raises(ValueError, match="fitted on the columns 'score', which the model does not"):
        expected_prediction(model, fitted("tree", TABLE), {})
    some = FEW[FEW["colour"] != "blue"]
    predictor = make_pipeline(steps("passthrough"), DecisionTreeRegressor())
    predictor.fit(some, TARGET[some.index])
    with pytest.raises(ValueError, match="cannot take values that the model holds possible"):
        expected_prediction(model, predictor, {})


def test_an_encoder_keeps_its_predictor_when_it_is_cloned_and_its_edges_when_it_is_saved(tmp_path):
    predictor = make_pipeline(steps("passthrough"), DecisionTreeRegressor(max_depth=3))
    predictor.fit(FEW, TARGET)
    encoder = TableEncoder(edges=predictor)
    assert clone(encoder).get_params(deep=False) == encoder.get_params(deep=False)
    assert clone(Strudel(n_components=1, columns=encoder)).columns.edges is predictor
    code = clone(encoder).fit(FEW).code_
    tree = predictor[-1].tree_
    place = [name.split("__")[1] for name in predictor[0].get_feature_names_out()].index("size")
    cuts = np.unique(tree.threshold[(tree.feature == place) & (tree.children_left >= 0)])
    assert list(code.column("size").edges) == np.ceil(cuts).tolist()  # whole numbers above
    model = Strudel(n_components=1, columns=encoder, max_splits=0).fit(FEW)
    strudel.save(model, tmp_path / "model.strudel")
    loaded = strudel.load(tmp_path / "model.strudel")
    columns = loaded.circuit_.columns
    assert columns[columns.place("size")].edges == code.column("size").edges


def test_an_encoder_with_few_cells_takes_the_most_even_thresholds():
    predictor = DecisionTreeRegressor().fit(TABLE[["size", "score"]], TARGET)
    code = TableEncoder(edges=predictor, n_bins=4).fit(TABLE).code_
    assert code.column("score").n_values == 4
    assert min(code.column("score").counts) > 60
    with pytest.raises(TypeError, match="thresholds of trees, but the predictor is a Ridge"):
        TableEncoder(edges=Ridge().fit(TABLE[["size"]], TARGET)).fit(TABLE)
