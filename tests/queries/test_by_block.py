"""Queries on Dask arrays and frames: lazy, by block, and the same answers."""

import os
import subprocess
import sys

import numpy as np
import pytest

from lazy_tables import TRAIN, VALID, in_parts, people
from strudel import (
    EM,
    Strudel,
    StrudelClassifier,
    StrudelImputer,
    count_distribution,
    entropy,
    expected_prediction,
    load,
    log_conditional,
    log_likelihood,
    log_marginal,
    marginal_map,
    marginal_probabilities,
    most_probable_state,
    mutual_information,
    pair_probabilities,
    probability,
    same_decision_probability,
    sample,
    save,
    shap_values,
)
from strudel.circuits import figure_1_circuit
from strudel.errors import ExtraColumnsWarning, WrongTableError
from strudel.models import LogisticCircuit, RegressionCircuit
from strudel.predictions import (
    classifier_agreement,
    expected_same_decision_probability,
    prediction_variance,
)
from strudel.queries import covariance
from strudel.tables import TableEncoder

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

CIRCUIT = figure_1_circuit()
ROWS = sample(CIRCUIT, 30, random_state=0)
PARTLY = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.3, np.nan, ROWS)
PARTLY[:, 0] = np.nan  # which is decided about
EVENT = "X1 | X3"


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def assert_lazy(found, wanted):
    """The same answer, item by item, but as Dask collections."""
    if isinstance(wanted, tuple | list):
        assert type(found) is type(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_lazy(one, other)
    elif isinstance(wanted, pd.DataFrame):
        assert isinstance(found, dd.DataFrame)
        answer = found.compute()
        assert answer.dtypes.equals(found.dtypes)
        columns = list(wanted.columns)
        pd.testing.assert_frame_equal(answer[columns], wanted, check_dtype=False, check_freq=False)
    elif np.ndim(wanted) == 0:
        assert found == wanted
    else:
        assert isinstance(found, da.Array)
        answer = found.compute()
        assert (answer.dtype, answer.shape) == (found.dtype, np.shape(wanted))
        if answer.dtype.kind == "f":
            np.testing.assert_allclose(answer, wanted, rtol=1e-9, atol=1e-12)
        else:
            assert np.array_equal(answer, wanted)


QUERIES = {
    "log_marginal": log_marginal,
    "log_conditional": lambda m, X: log_conditional(m, X, {"X4": 1}),
    "marginal_probabilities": marginal_probabilities,
    "pair_probabilities": pair_probabilities,
    "covariance": covariance,
    "most_probable_state": most_probable_state,
    "two states": lambda m, X: most_probable_state(m, X, k=2),
    "entropy": entropy,
    "mutual_information": lambda m, X: mutual_information(m, "X1", ["X2", "X4"], X),
    "count_distribution": lambda m, X: count_distribution(m, None, X),
    "probability": lambda m, X: probability(m, EVENT, X),
    "expected_prediction": lambda m, X: expected_prediction(m, EVENT, X),
    "prediction_variance": lambda m, X: prediction_variance(m, EVENT, X),
    "same_decision": lambda m, X: same_decision_probability(m, "X1", X, details=True),
    "expected_same_decision": lambda m, X: expected_same_decision_probability(
        m, "X1", X, observe=["X3"]
    ),
    "classifier_agreement": lambda m, X: classifier_agreement(m, EVENT, "X2", X),
    "shap_values": lambda m, X: shap_values(m, EVENT, X),
}


@pytest.mark.compiled
@pytest.mark.parametrize("name", QUERIES)
def test_every_query_answers_block_by_block(name):
    query, wanted = QUERIES[name], QUERIES[name](CIRCUIT, PARTLY)
    assert_lazy(query(CIRCUIT, da.from_array(PARTLY, chunks=(7, 3))), wanted)
    frame = pd.DataFrame(PARTLY, columns=CIRCUIT.columns.names)[["X3", "X1", "X4", "X2"]]
    assert_lazy(query(CIRCUIT, dd.from_pandas(frame, npartitions=3)), wanted)


def test_nothing_is_computed_before_it_is_asked_for():
    def fail(block):
        raise AssertionError("was computed")

    rows = da.from_array(PARTLY, chunks=(7, 4)).map_blocks(fail, dtype=float, meta=PARTLY[:0])
    states, _ = most_probable_state(CIRCUIT, rows)
    assert states.numblocks == (5, 1)
    with pytest.raises(AssertionError, match="was computed"):
        states.compute()


@pytest.mark.compiled
def test_threads_of_dask_share_the_threads_of_kernels():
    script = """
import numpy as np, dask.array as da
from strudel import log_marginal
from strudel.circuits import figure_1_circuit
rows = da.full((2000, 4), np.nan, chunks=(20, 4))
answer = log_marginal(figure_1_circuit(), rows)
print(abs(answer).sum().compute(scheduler="threads", num_workers=4))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"NUMBA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) == pytest.approx(0.0, abs=1e-9)


def test_an_empty_partition_answers_nothing():
    frame = pd.DataFrame(ROWS, columns=CIRCUIT.columns.names)
    lazy = dd.from_pandas(frame, npartitions=3).map_partitions(lambda part: part[part.index >= 20])
    assert_lazy(log_likelihood(CIRCUIT, lazy), log_likelihood(CIRCUIT, ROWS[20:]))
    assert_lazy(most_probable_state(CIRCUIT, lazy), most_probable_state(CIRCUIT, ROWS[20:]))


def test_two_lazy_tables_need_the_same_blocks():
    lazy = da.from_array(PARTLY, chunks=(7, 4))
    known = np.where(np.isnan(PARTLY), 1.0, np.nan)
    wanted = log_conditional(CIRCUIT, PARTLY, known)
    assert_lazy(log_conditional(CIRCUIT, lazy, da.from_array(known, chunks=(7, 2))), wanted)
    with pytest.raises(ValueError, match="need the same blocks"):
        log_conditional(CIRCUIT, lazy, da.from_array(known, chunks=(8, 4)))
    with pytest.raises(ValueError, match="given must also be lazy"):
        log_conditional(CIRCUIT, lazy, known)
    one = np.full((1, 4), np.nan)
    assert_lazy(log_conditional(CIRCUIT, lazy, one), log_conditional(CIRCUIT, PARTLY, one))


def test_what_cannot_be_lazy_is_refused_in_one_sentence():
    lazy = da.from_array(PARTLY, chunks=(7, 4))
    with pytest.raises(ValueError, match="event must be in memory, but is lazy"):
        probability(CIRCUIT, lazy)
    with pytest.raises(ValueError, match="rows and columns"):
        log_marginal(CIRCUIT, lazy[:, 0])
    frame = pd.DataFrame(PARTLY, columns=CIRCUIT.columns.names).assign(z=1)
    lazy = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match=r"is lazy. Call its compute\(\) first"):
        marginal_map(CIRCUIT, ["X1"], lazy)
    with pytest.raises(ValueError, match="lazy"):
        StrudelClassifier().fit(lazy, ROWS[:, 0])
    with pytest.warns(ExtraColumnsWarning, match="has 'z', which"):  # at once
        log_marginal(CIRCUIT, lazy)
    with pytest.raises(WrongTableError, match="none of the 4 columns"):  # not when it is computed
        log_marginal(CIRCUIT, lazy[["z"]])


def test_a_seed_gives_every_block_its_own_numbers():
    nothing = da.full((40, 4), np.nan, chunks=(20, 4))
    one, again, other = (sample(CIRCUIT, 3, nothing, random_state=seed) for seed in (0, 0, 1))
    drawn = one.compute()
    assert drawn.shape == one.shape == (40, 3, 4)
    assert np.array_equal(drawn, one.compute())
    assert np.array_equal(drawn, again.compute())
    assert not np.array_equal(drawn, other.compute())
    assert not np.array_equal(drawn[:20], drawn[20:])
    rng = np.random.default_rng(0)
    first, second = (sample(CIRCUIT, 3, nothing, random_state=rng).compute() for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A circuit, a mixture and a model from a file, of a table with an encoder."""
    table = people(60)
    circuit = Strudel(n_components=1, max_splits=4, random_state=0).fit(table)
    options = {"max_splits": 1, "method": EM(max_iter=2), "random_state": 0}
    mixture = Strudel(n_components=2, **options).fit(table)
    path = tmp_path_factory.mktemp("lazy") / "model.strudel"
    save(mixture, path)
    return circuit, mixture, load(path)


def with_gaps(table):
    gaps = np.random.default_rng(1).random(table.shape) < 0.3
    return table.mask(pd.DataFrame(gaps, columns=table.columns).assign(smoker=False))


@pytest.mark.compiled
def test_a_model_with_an_encoder_answers_in_the_columns_of_a_frame(models):
    whole = people(60)
    partly = with_gaps(whole)
    order = list(whole.columns[::-1])
    lazy_whole = dd.from_pandas(whole[order], npartitions=3)
    lazy = dd.from_pandas(partly[order], npartitions=3)
    for model in models:
        assert_lazy(log_likelihood(model, lazy_whole), log_likelihood(model, whole))
        assert_lazy(model.score_samples(lazy), model.score_samples(partly))
        assert model.score(lazy) == pytest.approx(model.score(partly))
        assert_lazy(most_probable_state(model, lazy), most_probable_state(model, partly))
        marginals = marginal_probabilities(model, partly).to_frame()
        assert_lazy(marginal_probabilities(model, lazy), marginals)
        drawn = sample(model, 2, lazy, random_state=0)
        assert drawn.divisions == lazy.divisions
        assert_lazy(drawn, drawn.compute())
        assert_lazy(log_marginal(model, lazy), log_marginal(model, partly))
        some = ["age", "colour"]
        assert_lazy(log_marginal(model, lazy[some]), log_marginal(model, partly[some]))


@pytest.mark.compiled
def test_estimators_answer_block_by_block(models):
    whole = people(60)
    partly = with_gaps(whole)
    lazy = dd.from_pandas(partly, npartitions=3)
    mixture = models[1]
    for method in ("predict", "predict_proba", "responsibilities"):
        assert_lazy(getattr(mixture, method)(lazy), getattr(mixture, method)(partly))
    encoder = TableEncoder().fit(whole)
    assert_lazy(encoder.transform(lazy), encoder.transform(partly))
    encoder.set_output(transform="pandas")
    assert_lazy(encoder.transform(lazy), encoder.transform(partly))
    options = {"n_components": 1, "max_splits": 0, "method": "per_class", "init": "tree"}
    options |= {"pseudocount": 1.0, "class_pseudocount": 1.0, "columns": encoder}
    y = whole.pop("colour")
    inputs = partly.drop(columns="colour")
    lazy_inputs = dd.from_pandas(inputs, npartitions=3)
    classifier = StrudelClassifier(**options, random_state=0).fit(whole, y)
    for method in ("predict", "predict_proba", "predict_log_proba", "score_samples"):
        assert_lazy(getattr(classifier, method)(lazy_inputs), getattr(classifier, method)(inputs))
    assert classifier.score(lazy_inputs, y) == classifier.score(inputs, y)


@pytest.mark.compiled
def test_predictor_circuits_answer_block_by_block():
    lazy = in_parts(VALID, {30})
    options = {"n_splits": 2, "target_splits": 0, "alpha": 1.0, "validation_fraction": None}
    regression = RegressionCircuit(**options).fit(TRAIN, TRAIN[:, 0] + 2.0 * TRAIN[:, 4])
    assert_lazy(regression.predict(lazy), regression.predict(VALID))
    logistic = LogisticCircuit(**options).fit(TRAIN, np.where(TRAIN[:, 0], "yes", "no"))
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        assert_lazy(getattr(logistic, method)(lazy), getattr(logistic, method)(VALID))


@pytest.mark.compiled
def test_an_imputer_fills_block_by_block(models):
    partly = with_gaps(people(60))
    lazy = dd.from_pandas(partly, npartitions=3)
    imputer = StrudelImputer(models[0], random_state=0).fit(people(60))
    assert_lazy(imputer.transform(lazy), imputer.transform(partly))
    imputer.set_output(transform="pandas")
    assert_lazy(imputer.transform(lazy), imputer.transform(partly))
    drawn = imputer.set_params(strategy="sample").transform(lazy).compute()
    assert drawn.equals(imputer.transform(lazy).compute())
    assert not drawn.isna().any().any()
    one, other = imputer.impute(lazy, 2)
    assert not one.compute().equals(other.compute())


@pytest.mark.compiled
@pytest.mark.parametrize("strategy", ["map", "mean", "sample"])
def test_types_of_a_lazy_frame_have_room_for_what_is_filled_in(models, strategy):
    """As in memory: means of whole numbers are not whole, and categories may be new."""
    table = people(60).astype({"age": "Int64", "smoker": "boolean"})
    gaps = np.random.default_rng(1).random(60) < 0.3
    table.loc[gaps, ["age", "smoker"]] = pd.NA
    table.loc[:20, "age"] = 30  # a block without gaps
    zero_one = pd.DataFrame(PARTLY, columns=CIRCUIT.columns.names)
    cases = [(CIRCUIT, zero_one.astype(kind)) for kind in ("Int64", "boolean", "float32")]
    for colour in ("red", "green", "blue"):  # one of which the model begins with
        few = pd.Categorical(table["colour"].where(table["colour"] == colour), [colour])
        cases.append((models[0], table.assign(colour=few)))
    for model, frame in cases:
        imputer = StrudelImputer(model, strategy=strategy, random_state=0).fit(frame)
        filled = imputer.transform(dd.from_pandas(frame, npartitions=3))
        answer = filled.compute()
        assert answer.dtypes.equals(filled.dtypes)
        assert not answer.isna().any().any()
        for name, column in imputer.transform(frame).items():
            is_same = frame[name].notna() | (strategy != "sample")  # draws depend on the blocks
            found, wanted = answer.loc[is_same, name], column[is_same]
            if column.dtype.kind in "iufb":
                np.testing.assert_allclose(found.astype(float), wanted.astype(float))
            else:
                assert found.tolist() == wanted.tolist()
