"""Expected predictions against the sum over all completions, and against stored answers."""

import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn import ensemble, linear_model, tree
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import oracle
import strategies
import strudel
from column_circuits import random_predictor
from strategies import examples
from strudel.circuits import figure_1_circuit, why_not_deterministic
from strudel.circuits.compile import compile_factorized
from strudel.errors import CircuitPropertyError
from strudel.predictions import cell_codes, moments, shared_walks
from strudel.predictions.expected import Estimate, expected_prediction, prediction_variance
from strudel.trees.vtree import balanced_vtree, random_vtree


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with threadpool_limits(1):
        yield


def completions(model, row):
    """The completions of a row and their probabilities given it; None if it is impossible."""
    rows = oracle.completions(row)
    chance = np.array(oracle.probabilities(model, rows))
    return None if chance.sum() == 0.0 else (np.array(rows), chance / chance.sum())


def check(model, predictor, row, predict, rounding=1e-20, **options):
    """All that is exact, against the sum over completions."""
    found = completions(model, row)
    assume(found is not None)
    rows, chance = found
    values = predict(rows)
    mean = (chance * values.T).sum(axis=-1).T
    for k in (1, 2, 3, 4):
        wanted = (chance * values.T**k).sum(axis=-1)
        answer = expected_prediction(model, predictor, [row], moment=k, **options)[0]
        scale = np.abs(values).max() ** k + 1e-300  # odd moments may cancel
        assert answer == pytest.approx(wanted, rel=1e-10, abs=1e-12 * scale)
    wanted = (chance * (values - mean).T ** 2).sum(axis=-1)
    answer = prediction_variance(model, predictor, [row], **options)[0]
    assert answer == pytest.approx(wanted, rel=1e-10, abs=rounding * np.abs(values).max() ** 2)


@st.composite
def models(draw, max_vars=6):
    """A circuit, deterministic or not, or a mixture."""
    circuit = draw(strategies.circuits(max_vars, deterministic=draw(st.booleans())))
    if draw(st.booleans()):
        return circuit
    rng = np.random.default_rng(draw(strategies.seeds))
    return strategies.random_mixture(circuit, draw(st.integers(1, 4)), rng)


# Predictor circuits


@given(st.data())
@examples(30)
def test_predictor_circuits(data):
    p, q = data.draw(strategies.circuit_pairs(6, p_deterministic=data.draw(st.booleans())))
    rng = np.random.default_rng(data.draw(strategies.seeds))
    model = p
    if data.draw(st.booleans()):
        model = strategies.random_mixture(p, data.draw(st.integers(1, 9)), rng)
    row = data.draw(strategies.partly_observed_rows(p.vtree.n_vars))
    predictor = random_predictor(q, rng)
    check(model, predictor, row, lambda rows: predictor.evaluate(rows)[:, 0])
    several = random_predictor(q, rng, 3)
    check(model, several, row, several.evaluate)
    logistic = random_predictor(q, rng, 2, "logistic")
    check(p, logistic, row, lambda rows: expit(logistic.evaluate(rows)), output="probability")


def test_a_variance_keeps_its_digits_beside_a_large_mean(rng):
    structure = compile_factorized(random_vtree(8, rng))
    predictor = random_predictor(structure, rng)
    far = replace(predictor, bias=np.array([1e9]))
    near = prediction_variance(structure, predictor, [np.nan] * 8)
    assert prediction_variance(structure, far, [np.nan] * 8) == pytest.approx(near, rel=1e-12)


def test_a_predictor_circuit_must_be_deterministic_and_on_the_vtree(rng):
    circuit = figure_1_circuit()
    other = compile_factorized(balanced_vtree(4))
    assert other.vtree != circuit.vtree
    with pytest.raises(ValueError, match="on the vtree of the model, but theirs differ"):
        expected_prediction(circuit, random_predictor(other, rng), [np.nan] * 4)
    makers = (random.Random(seed) for seed in range(100))
    vague = next(
        made
        for made in (strategies.sum_circuit(circuit.vtree, rng) for rng in makers)
        if why_not_deterministic(made) is not None
    )
    with pytest.raises(CircuitPropertyError, match="needs a deterministic circuit"):
        expected_prediction(circuit, random_predictor(vague, rng), [np.nan] * 4)


# Linear models, trees, forests, boosting


ROWS = np.random.default_rng(1).integers(0, 2, (120, 6))


TARGET = 3.0 * ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] - 2.0 * ROWS[:, 3] * ROWS[:, 4] + 5.0


def table(data, n_vars, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, (60, n_vars))
    target = rng.normal(size=n_vars) @ rows.T + 2.0 * rows[:, 0] * rows[:, -1] + rng.normal(size=60)
    return rows, target


KINDS = {
    "ridge": linear_model.Ridge(),
    "tree": tree.DecisionTreeRegressor(max_depth=4, random_state=0),
    "forest": ensemble.RandomForestRegressor(4, max_depth=3, random_state=0),
    "boosting": ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0),
    "classes of a tree": tree.DecisionTreeClassifier(max_depth=3, random_state=0),
    "classes of a forest": ensemble.RandomForestClassifier(3, max_depth=3, random_state=0),
    "log-odds": linear_model.LogisticRegression(),
    "boosted log-odds": ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2),
}


@pytest.mark.parametrize("kind", KINDS)
@examples(16)
@given(model=models(5), data=st.data(), seed=strategies.seeds)
def test_predictors_of_scikit_learn(kind, model, data, seed):
    rows, target = table(data, model.vtree.n_vars, seed)
    predictor = clone(KINDS[kind])
    row = data.draw(strategies.partly_observed_rows(model.vtree.n_vars))
    if not hasattr(predictor, "predict_proba"):
        check(model, predictor.fit(rows, target), row, predictor.predict)
        return
    n_classes = data.draw(st.integers(2, 3))
    labels = np.digitize(target, np.quantile(target, [0.3, 0.6][: n_classes - 1]))
    predictor.fit(rows, labels)
    if "log-odds" in kind:
        check(model, predictor, row, predictor.decision_function, output="logit")
        check(model, predictor, row, predictor.predict_proba, output="probability")
    else:
        check(model, predictor, row, predictor.predict_proba)


@given(models(5), st.data())
@examples(12)
def test_events_are_predictors(model, data):
    pytest.importorskip("pysdd")
    n = model.vtree.n_vars
    names = [f"x{v}" for v in range(n)]
    a, b, c = (data.draw(st.sampled_from(names)) for _ in range(3))
    event = data.draw(
        st.sampled_from([f"{a} & ~{b} | {c}", f"{a} -> {b}", f"at_least(2, {', '.join(names)})"])
        if n > 1
        else st.just(a)
    )
    row = data.draw(strategies.partly_observed_rows(n))
    holds = strudel.logic.parse_event(event).holds
    check(model, event, row, lambda rows: holds(rows).astype(float), rounding=1e-14)


# Shapes, names, errors


def forest(**options):
    return ensemble.RandomForestRegressor(3, max_depth=3, random_state=0, **options)


def test_one_row_gives_a_number_and_a_table_one_per_row():
    circuit = figure_1_circuit()
    line = linear_model.Ridge().fit(ROWS[:, :4], TARGET)
    number = expected_prediction(circuit, line, [1, None, pd.NA, 0])
    assert isinstance(number, float)
    assert expected_prediction(circuit, line, {"X1": 1, "X4": 0}) == number
    assert expected_prediction(circuit, line, [[1, np.nan, np.nan, 0]] * 3).tolist() == [number] * 3
    frame = pd.DataFrame({"X4": [0], "X3": [None], "X1": [1], "X2": [pd.NA]})
    assert expected_prediction(circuit, line, frame).tolist() == [number]
    both = linear_model.Ridge().fit(ROWS[:, :4], np.column_stack([TARGET, -TARGET]))
    assert expected_prediction(circuit, both, {}).shape == (2,)
    assert expected_prediction(circuit, both, [[np.nan] * 4]).shape == (1, 2)


def test_an_estimator_answers_as_its_circuit_does():
    model = strudel.Strudel(n_components=1, max_splits=3, random_state=0).fit(ROWS)
    predictor = forest().fit(ROWS, TARGET)
    rows = np.where(np.random.default_rng(0).random(ROWS.shape) < 0.5, np.nan, ROWS)
    found = model.expected_prediction(predictor, rows)
    assert np.array_equal(found, expected_prediction(model.circuit_, predictor, rows))
    assert np.array_equal(
        model.prediction_variance(predictor, rows[:5]),
        prediction_variance(model.circuit_, predictor, rows[:5]),
    )


@pytest.mark.parametrize(
    "predictor",
    [
        linear_model.Ridge().fit(ROWS[:, :4], TARGET),
        forest().fit(ROWS[:, :4], TARGET),
        linear_model.LogisticRegression().fit(ROWS[:, :4], TARGET > 5),
        "X1 & X2",
        random_predictor(figure_1_circuit(), np.random.default_rng(0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_impossible_rows_are_named(predictor):
    circuit = figure_1_circuit()
    log_theta = circuit.edge_log_theta.copy()
    log_theta[-2:, 0] = 0.0, -np.inf
    certain = replace(circuit, edge_log_theta=log_theta)
    value = next(x for x in (0, 1) if strudel.log_marginal(certain, {"X4": x})[0] == -np.inf)
    rows = [[np.nan] * 4, [np.nan, 1, 1, 1 - value], [np.nan, 0, np.nan, value]]
    options = {"output": "probability"} if hasattr(predictor, "decision_function") else {}
    with pytest.raises(ValueError, match="Row 2 of the evidence has probability zero"):
        expected_prediction(certain, predictor, rows, **options)


def test_wrong_questions_are_refused():
    circuit = figure_1_circuit()
    line = linear_model.Ridge().fit(ROWS[:, :4], TARGET)
    for moment in (0, 1.5, True):
        with pytest.raises(ValueError, match="moment must be a whole number"):
            expected_prediction(circuit, line, {}, moment=moment)
    with pytest.raises(ValueError, match="output is 'logit', but this predictor gives a value"):
        expected_prediction(circuit, line, {}, output="logit")
    with pytest.raises(ValueError, match="output must be one of value, logit, probability"):
        expected_prediction(circuit, line, {}, output="odds")
    with pytest.raises(ValueError, match="n_samples must be a whole number of at least 2, or None"):
        expected_prediction(circuit, line, {}, n_samples=1)
    with pytest.raises(
        ValueError, match="max_states must be a whole number of at least 1, but is 0"
    ):
        expected_prediction(circuit, line, {}, max_states=0)
    with pytest.raises(ValueError, match="has 3 features, but"):
        expected_prediction(circuit, line, [[1, 0, 1]])


def test_many_questions_and_rows_are_taken_in_blocks(monkeypatch):
    circuit = compile_factorized(random_vtree(6, np.random.default_rng(0)))
    rows = np.where(np.random.default_rng(0).random(ROWS.shape) < 0.5, np.nan, ROWS)
    predictor = forest().fit(ROWS, TARGET)
    own = random_predictor(circuit, np.random.default_rng(0))
    wanted = expected_prediction(circuit, predictor, rows)
    of_own = expected_prediction(circuit, own, rows)
    for module, name in (
        (moments, "QUESTION_CELLS"),
        (moments, "STATE_CELLS"),
        (cell_codes, "BLOCK_LOGS"),
        (moments, "BLOCK_CELLS"),
    ):
        monkeypatch.setattr(module, name, 10)
    monkeypatch.setattr(cell_codes, "BLOCK_ROWS", 3)
    monkeypatch.setattr(shared_walks, "MOST_ROWS", 3)
    monkeypatch.setattr(shared_walks, "FEWEST_ROWS", 2)
    assert np.array_equal(expected_prediction(circuit, predictor, rows), wanted)
    assert np.array_equal(expected_prediction(circuit, own, rows), of_own)


# What is not exact


def wide_model(n_vars=30):
    return compile_factorized(random_vtree(n_vars, np.random.default_rng(0)))


def wide_table(n_vars=30):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (300, n_vars))
    return rows, rng.normal(size=n_vars) @ rows.T


def test_too_many_states_are_refused_or_sampled_with_their_error():
    rows, target = wide_table()
    predictor = linear_model.LogisticRegression().fit(rows, target > 0.0)
    asked = np.full((2, 30), np.nan)
    asked[1, 4:] = rows[0, 4:]
    with pytest.raises(ValueError, match=r"Row 0 of X leaves 30 values .* 2\*\*30 states"):
        expected_prediction(wide_model(), predictor, asked, output="probability")
    found = expected_prediction(
        wide_model(), predictor, asked, output="probability", n_samples=4000, random_state=0
    )
    assert isinstance(found, Estimate)
    assert found.value.shape == (2, 2)
    assert np.all(found.standard_error[0] > 0.0)
    assert found.standard_error[1].tolist() == [0.0, 0.0]
    exact = expected_prediction(wide_model(), predictor, asked[1:], output="probability")
    assert found.value[1] == pytest.approx(exact[0])
    # Independent fair coins: the truth by another million draws.
    coins = np.random.default_rng(1).integers(0, 2, (10**6 // 10, 30))
    truth = predictor.predict_proba(coins).mean(axis=0)
    assert np.all(np.abs(found.value[0] - truth) < 5 * found.standard_error[0])


def test_more_states_may_be_allowed():
    rows, target = wide_table()
    predictor = linear_model.LogisticRegression().fit(rows, target > 0.0)
    row = np.where(np.arange(30) < 13, np.nan, 0.0)
    with pytest.raises(ValueError, match="max_states = 4096"):
        expected_prediction(wide_model(), predictor, row, output="probability")
    found = expected_prediction(
        wide_model(), predictor, row, output="probability", max_states=2**13
    )
    states = (np.arange(2**13)[:, None] >> np.arange(30)) & 1
    assert found == pytest.approx(predictor.predict_proba(states).mean(axis=0), rel=1e-10)


def test_too_many_pairs_of_leaves_are_refused():
    rows, target = wide_table()
    predictor = ensemble.RandomForestRegressor(20, max_depth=5, random_state=0).fit(rows, target)
    with pytest.raises(ValueError, match="more than max_pairs = 1000 pairs of leaves by row 0"):
        prediction_variance(wide_model(), predictor, [np.nan] * 30, max_pairs=1000)
    with pytest.raises(ValueError, match="this moment of many trees"):
        expected_prediction(wide_model(), predictor, [np.nan] * 30, moment=3)


@pytest.mark.compiled
def test_hundreds_of_variables_against_samples():
    rng = np.random.default_rng(0)
    vtree = random_vtree(200, rng)
    circuit = strategies.split_circuit(vtree, random.Random(0), size=8)
    mixture = strategies.random_mixture(circuit, 3, rng)
    rows = strudel.sample(mixture, 400, random_state=1)
    target = rng.normal(size=200) @ rows.T
    asked = rows[:2].astype(float)
    asked[0, ::2] = np.nan
    asked[1, :] = np.nan
    predictors = [
        linear_model.Ridge().fit(rows, target),
        ensemble.GradientBoostingRegressor(n_estimators=20, max_depth=3, random_state=0).fit(
            rows, target
        ),
        random_predictor(mixture, rng),
    ]
    drawn = strudel.sample(mixture, 5_000, asked, random_state=2)
    for predictor in predictors:
        predict = getattr(predictor, "predict", None) or (
            lambda x, q=predictor: q.evaluate(x)[:, 0]
        )
        values = np.array([predict(one) for one in drawn])
        error = values.std(axis=1) / np.sqrt(values.shape[1])
        found = expected_prediction(mixture, predictor, asked)
        assert np.all(np.abs(found - values.mean(axis=1)) < 5 * error)
        spread = prediction_variance(mixture, predictor, asked)
        assert spread == pytest.approx(values.var(axis=1), rel=0.15)


def test_probabilities_of_three_classes_add_up():
    labels = np.digitize(TARGET, [4.0, 6.0])
    predictor = linear_model.LogisticRegression().fit(ROWS[:, :4], labels)
    found = expected_prediction(figure_1_circuit(), predictor, {}, output="probability")
    assert found.sum() == pytest.approx(1.0)
    logits = expected_prediction(figure_1_circuit(), predictor, {})
    assert logits.shape == (3,)
    assert found != pytest.approx(
        softmax(logits)
    )  # the expectation of a softmax is none of expectations


# The authors' circuits


def authors(folder, name):
    circuits = folder / "expectation" / "circuits"
    vtree = strudel.read(circuits / f"{name}.vtree")
    model = strudel.read(circuits / f"{name}.psdd", vtree=vtree)
    predictor = strudel.read(circuits / f"{name}.glc")
    data = np.load(folder / "expectation" / f"{name}.npz")
    rows = np.unpackbits(data["x_test"], axis=1)[:, : int(data["n_vars"])]
    return model, predictor, rows, data["y_test"]


@pytest.mark.compiled
def test_stored_answers_of_delta_ailerons(data_folder):
    model, predictor, rows, target = authors(data_folder, "delta-ailerons")
    golden = np.load(data_folder / "expectation" / "golden" / "delta-ailerons.npz")
    missing = np.unpackbits(golden["missing"], axis=2)[:, :, : rows.shape[1]]
    asked = np.where(missing == 1, np.nan, rows).reshape(-1, rows.shape[1])
    found = expected_prediction(model, predictor, asked).reshape(golden["pred_circuit"].shape)
    assert found == pytest.approx(golden["pred_circuit"], rel=1e-9, abs=0.0)
    level = golden["level_repeat"]
    for mask, answer in enumerate(found):
        wanted = golden["rmse_circuit"][
            np.unique(level[:, 0]).tolist().index(level[mask, 0]), level[mask, 1]
        ]
        assert np.sqrt(np.mean((answer - target) ** 2)) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("abalone", 2.6005),
        ("delta-ailerons", 1.6974e-4),
        ("elevators", 3.7599e-3),
        ("insurance", 4749.87),
    ],
)
def test_the_authors_errors_on_complete_rows(data_folder, name, error):
    model, predictor, rows, target = authors(data_folder, name)
    found = expected_prediction(model, predictor, rows[:300])
    assert found == pytest.approx(predictor.evaluate(rows[:300])[:, 0], rel=1e-9)
    every = predictor.evaluate(rows)[:, 0]
    assert np.sqrt(np.mean((every - target) ** 2)) == pytest.approx(error, rel=1e-4)
    nothing = expected_prediction(model, predictor, [np.nan] * rows.shape[1])
    assert np.sqrt(np.mean((nothing - target) ** 2)) == pytest.approx(np.std(target), rel=0.15)
    rng = np.random.default_rng(0)
    asked = rows[:3].astype(float)
    for row in asked:  # eight unknown values are 256 rows, which flows and the predictor know
        row[rng.choice(len(row), 8, replace=False)] = np.nan
        states = np.array(oracle.completions(row.tolist()))
        log_p = strudel.log_likelihood(model, states)
        chance = np.exp(log_p - log_p.max())
        wanted = chance @ predictor.evaluate(states)[:, 0] / chance.sum()
        assert expected_prediction(model, predictor, row) == pytest.approx(wanted, rel=1e-9)
