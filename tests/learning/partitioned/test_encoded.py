"""Frames in parts with an encoder give what one frame in memory gives."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioned_tables import TRAIN, VALID, assert_same_search, in_parts, people
from strudel import Strudel, log_marginal, most_probable_state
from strudel.learning.options import EM, Greedy
from strudel.learning.partitioned import prepared_partitions as prepared
from strudel.learning.partitioned.engines import Here
from strudel.learning.partitioned.partitioned_table import sample_of
from strudel.tables import TableEncoder

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

PEOPLE, MORE = people(200), people(60, seed=1)
OPTIONS = {"max_splits": 8, "random_state": 0}


def frame_in_parts(frame, cuts):
    """A Dask frame whose partitions end at `cuts`."""
    places = [0, *sorted(cuts), len(frame)]
    parts = [frame.iloc[a:b] for a, b in pairwise(places)]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=frame.iloc[:0])


@pytest.fixture(scope="module")
def in_memory():
    return Strudel(n_components=1, **OPTIONS).fit(PEOPLE, X_valid=MORE)


@pytest.mark.compiled
@settings(max_examples=5, deadline=None)
@given(cuts=st.sets(st.integers(0, len(PEOPLE)), max_size=4))
def test_any_parts_of_a_frame_give_the_circuit_of_one_frame(in_memory, cuts):
    valid = frame_in_parts(MORE[MORE.columns[::-1]], {20})  # columns are found by name
    model = Strudel(n_components=1, **OPTIONS).fit(frame_in_parts(PEOPLE, cuts), X_valid=valid)
    assert_same_search(in_memory, model)
    assert model.circuit_.feature_names == in_memory.circuit_.feature_names
    assert model.encoder_.code_.to_dict() == in_memory.encoder_.code_.to_dict()
    assert list(model.feature_names_in_) == list(PEOPLE.columns)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "options",
    [
        {"columns": TableEncoder(respect_one_hot=False)},
        {"init": "independent"},
        {"columns": TableEncoder(code="one_hot", n_bins=3)},
    ],
    ids=str,
)
def test_codes_are_respected_as_in_memory(options):
    options = OPTIONS | options
    one = Strudel(n_components=1, **options).fit(PEOPLE, X_valid=MORE)
    parts = Strudel(n_components=1, **options).fit(frame_in_parts(PEOPLE, {50, 120}), X_valid=MORE)
    assert_same_search(one, parts)


@pytest.mark.compiled
def test_rows_that_weigh_nothing_are_not_encoded():
    weight = np.random.default_rng(0).random(len(PEOPLE))
    weight[:30] = 0.0
    strange = PEOPLE.assign(colour=PEOPLE["colour"].where(weight > 0.0, "mauve"))
    one = Strudel(n_components=1, **OPTIONS).fit(strange, X_valid=MORE, sample_weight=weight)
    lazy_weight = da.from_array(weight, chunks=((50, 150),))
    parts = Strudel(n_components=1, **OPTIONS).fit(
        frame_in_parts(strange, {50}), X_valid=MORE, sample_weight=lazy_weight
    )
    assert_same_search(one, parts)
    assert "mauve" not in parts.encoder_.code_.column("colour").values


@pytest.mark.compiled
def test_mixtures_take_encoders_too():
    options = {"max_splits": 2, "method": EM(max_iter=3), "random_state": 0}
    one, other = (
        Strudel(n_components=2, **options).fit(frame_in_parts(PEOPLE, cuts), X_valid=MORE).circuit_
        for cuts in ((), {30, 90})
    )
    assert np.array_equal(one.edge_log_theta, other.edge_log_theta)
    chosen = Strudel(**options | {"max_components": 3, "method": EM(max_iter=3, n_runs=1)})
    chosen.fit(frame_in_parts(PEOPLE, {90}), X_valid=MORE)
    assert 1 <= chosen.chosen_["n_components"] <= 3
    assert chosen.score(frame_in_parts(MORE, {9})) == pytest.approx(chosen.score(MORE))


@pytest.mark.compiled
def test_after_the_fit_frames_are_asked_in_their_own_columns():
    lazy = frame_in_parts(PEOPLE, {70})
    model = Strudel(n_components=1, **OPTIONS, search=Greedy(structure_rows=100)).fit(lazy)
    known = lazy[["age", "smoker"]]
    states, log_p = most_probable_state(model, known)
    in_memory = most_probable_state(model, PEOPLE[["age", "smoker"]])
    pd.testing.assert_frame_equal(states.compute(), in_memory[0])
    np.testing.assert_allclose(log_p.compute(), in_memory[1])
    np.testing.assert_allclose(log_marginal(model, lazy).compute(), log_marginal(model, PEOPLE))


def test_the_sample_of_an_encoder_does_not_depend_on_the_parts():
    one, other = (
        sample_of(frame_in_parts(PEOPLE, cuts), Here(), 50, 7) for cuts in ((), {1, 30, 31, 150})
    )
    pd.testing.assert_frame_equal(one, other)
    assert 20 < len(one) < 90
    array = sample_of(in_parts(TRAIN, {9, 100}), Here(), 10**6, 7)
    assert np.array_equal(array, TRAIN)


@pytest.mark.compiled
def test_values_that_the_sample_lacks_are_refused_unless_they_are_categories(monkeypatch):
    monkeypatch.setattr(prepared, "CODED_BY", 40)
    rare = PEOPLE.assign(colour=PEOPLE["colour"].where(PEOPLE.index != 199, "mauve"))
    lazy = frame_in_parts(rare, {70})
    with pytest.raises(ValueError, match=r"block 1 of X.* 'mauve' at row .*categorize\(\)"):
        Strudel(n_components=1, **OPTIONS).fit(lazy)
    kinds = pd.CategoricalDtype(["blue", "green", "mauve", "red"])
    model = Strudel(n_components=1, **OPTIONS).fit(lazy.astype({"colour": kinds}))
    assert "mauve" in model.encoder_.code_.column("colour").values


@pytest.mark.compiled
def test_validation_rows_are_matched_by_name():
    names = list("abcdef")
    train, valid = (pd.DataFrame(X, columns=names) for X in (TRAIN, VALID))
    options = {"random_state": 0, "max_splits": 6}
    one = Strudel(n_components=1, **options).fit(TRAIN, X_valid=VALID)
    lazy_valid = frame_in_parts(valid[names[::-1]], {30})
    assert_same_search(
        one, Strudel(n_components=1, **options).fit(frame_in_parts(train, {9}), X_valid=lazy_valid)
    )
