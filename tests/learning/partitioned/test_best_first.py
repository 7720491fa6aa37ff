"""Best-first search on rows in parts: the operations, and the circuit, of one table in memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makers import search_options
from partitioned_tables import assert_same_search, in_parts
from strudel import Strudel
from strudel.data.bits import pack_columns
from strudel.learning.growing.growing_circuit import replay
from strudel.learning.options import BestFirst
from strudel.learning.partitioned.counted_per_part import Lowest, Sums
from strudel.learning.partitioned.engines import Here
from strudel.learning.partitioned.growing_circuit import PartitionedCircuit
from strudel.learning.search.best_first import LONG, MOST_PLACES
from strudel.learning.search.learn_structure import grow

da = pytest.importorskip("dask.array")


def clusters(n_rows, n_vars, seed=0):
    """Rows around six centres, which no tree describes."""
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(7).random((6, n_vars)) < 0.5
    flips = rng.random((n_rows, n_vars)) < 0.1
    return (centre[rng.integers(6, size=n_rows)] ^ flips).astype(np.uint8)


TRAIN, VALID = clusters(400, 9), clusters(90, 9, seed=1)
OPTIONS = {"random_state": 0, "max_splits": 12}
CUTS = st.sets(st.integers(1, len(TRAIN) - 1), max_size=4)
WEIGHTS = {
    "none": None,
    "whole": np.random.default_rng(3).integers(0, 4, len(TRAIN)).astype(float),
    "real": np.maximum(np.random.default_rng(4).random(len(TRAIN)) - 0.1, 0.0),
}


@pytest.fixture(scope="module")
def in_memory():
    return {
        (clones, kind): Strudel(n_components=1, search=BestFirst(clones=clones), **OPTIONS).fit(
            TRAIN, X_valid=VALID, sample_weight=weight
        )
        for clones in (True, False)
        for kind, weight in WEIGHTS.items()
    }


@pytest.mark.compiled
@settings(max_examples=6, deadline=None)
@given(
    cuts=CUTS, n_valid=st.integers(1, 89), clones=st.booleans(), kind=st.sampled_from([*WEIGHTS])
)
def test_any_parts_give_the_circuit_of_one_table(in_memory, cuts, n_valid, clones, kind):
    X, weight = in_parts(TRAIN, cuts), WEIGHTS[kind]
    if weight is not None:
        weight = da.from_array(weight, chunks=(X.chunks[0],))
    model = Strudel(n_components=1, search=BestFirst(clones=clones), **OPTIONS).fit(
        X, X_valid=in_parts(VALID, {n_valid}), sample_weight=weight
    )
    assert_same_search(in_memory[clones, kind], model)


@pytest.mark.parametrize("together", [1, 512])
def test_how_many_edges_are_scored_together_does_not_matter(together, monkeypatch):
    monkeypatch.setattr("strudel.learning.partitioned.gains.SIDE_BY_SIDE", together)
    options = OPTIONS | {"search": "best_first", "max_splits": 3}
    one = Strudel(n_components=1, **options).fit(TRAIN[:60, :4], X_valid=VALID[:, :4])
    other = Strudel(n_components=1, **options).fit(
        in_parts(TRAIN[:60, :4], {20}), X_valid=VALID[:, :4]
    )
    assert_same_search(one, other)


@pytest.mark.compiled
@pytest.mark.parametrize("shape", [(6000, 20), (150, 70)], ids=["many rows", "many columns"])
def test_short_lists_are_the_same_in_parts(shape):
    train, valid = clusters(*shape), clusters(50, shape[1], seed=1)
    assert len(np.unique(train, axis=0)) > LONG or shape[1] > MOST_PLACES
    options = OPTIONS | {"search": "best_first", "max_splits": 3}
    one = Strudel(n_components=1, **options).fit(train, X_valid=valid)
    other = Strudel(n_components=1, **options).fit(in_parts(train, {100, 120}), X_valid=valid)
    assert_same_search(one, other)


@pytest.mark.compiled
def test_operations_can_be_done_again_on_parts():
    train, valid = pack_columns(TRAIN), pack_columns(VALID)
    search = search_options(search="best_first", max_splits=12)
    grown = grow(train, valid, search=search, rng=0)
    assert {operation.target >= 0 for operation in grown.operations} == {True, False}
    parts = [pack_columns(TRAIN[:150]), pack_columns(TRAIN[150:])]
    totals = (train.total_weight, valid.total_weight)
    first = grown.growing.snapshot(0)
    seen = []
    spread = PartitionedCircuit(first, Here(), parts, [valid], totals, asks_pairs=False)
    replay(spread, grown.operations, lambda one: seen.append(one.valid_log_likelihood))
    assert np.array_equal(seen, grown.history.valid[1:])
    assert spread.train_log_likelihood == grown.growing.train_log_likelihood


@settings(max_examples=50, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 6), st.integers(0, 9), max_size=5), min_size=2))
def test_sums_add_up_by_key(parts):
    def as_sums(part):  # key k has k + 1 numbers
        keys = sorted(part)
        values = [part[k] + i for k in keys for i in range(k + 1)]
        return Sums(
            *(np.array(x, dtype=np.int64) for x in (keys, [k + 1 for k in keys])),
            np.array(values, dtype=float),
        )

    total = sum(map(as_sums, parts[1:]), as_sums(parts[0]))
    keys = sorted(set().union(*parts))
    expected = [sum(part[k] + i for part in parts if k in part) for k in keys for i in range(k + 1)]
    assert total.keys.tolist() == keys
    assert total.width.tolist() == [k + 1 for k in keys]
    assert total.values.tolist() == expected


def test_lowest_numbers_are_those_of_all_parts():
    numbers = np.random.default_rng(0).integers(0, 3 * LONG, 4 * LONG).astype(np.uint64)
    halves = [Lowest((np.unique(half)[: LONG + 1],)) for half in np.split(numbers, 2)]
    assert np.array_equal((halves[0] + halves[1]).numbers[0], np.unique(numbers)[: LONG + 1])
