"""Facts about learning from rows in parts of which some values are unknown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioned_tables import TRAIN, VALID, in_parts, people
from strudel import Strudel
from strudel.circuits import figure_1_circuit
from strudel.circuits.compile import compile_factorized
from strudel.circuits.mixture import as_mixture
from strudel.circuits.passes import UNKNOWN
from strudel.errors import NothingKnownWarning
from strudel.learning.incomplete import Passes, expected_flows
from strudel.learning.options import EM, BestFirst, Greedy
from strudel.learning.partitioned.engines import Here
from strudel.learning.partitioned.incomplete_rows import IncompletePartitions
from strudel.learning.partitioned.packed_rows import (
    PackedCodes,
    digest_packed,
    n_known,
    pack_codes,
)
from strudel.learning.partitioned.partitioned_table import partition_table
from strudel.tables import TableEncoder
from strudel.trees.vtree import Vtree

pytest.importorskip("dask")

CIRCUIT = {"random_state": 0, "max_splits": 6}
MIXTURE = {"n_components": 3, "max_splits": 3, "random_state": 0, "method": EM(max_iter=5)}
CUTS = st.sets(st.integers(0, len(TRAIN)), max_size=4)


def with_gaps(X, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(X.shape) < share, np.nan, X)


PARTLY, PARTLY_VALID = with_gaps(TRAIN), with_gaps(VALID, seed=1)


def assert_nearly_same(one, other):
    """Sums of fractions in another order: the same model but for the last digits."""
    for name in ("node_vtree", "node_edges", "edge_left", "edge_right"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    np.testing.assert_allclose(one.edge_log_theta, other.edge_log_theta, rtol=1e-9)


@pytest.fixture(scope="module")
def circuit():
    return Strudel(n_components=1, **CIRCUIT).fit(in_parts(PARTLY, ()), X_valid=PARTLY_VALID)


@pytest.fixture(scope="module")
def mixture():
    return Strudel(**MIXTURE).fit(in_parts(PARTLY, ()), X_valid=PARTLY_VALID)


@pytest.mark.compiled
@given(cuts=CUTS, n_valid=st.integers(0, len(VALID)))
@settings(max_examples=5, deadline=None)
def test_any_parts_give_the_same_circuit(circuit, cuts, n_valid):
    valid = in_parts(PARTLY_VALID, {n_valid})
    other = Strudel(n_components=1, **CIRCUIT).fit(in_parts(PARTLY, cuts), X_valid=valid)
    assert_nearly_same(circuit.circuit_, other.circuit_)
    assert np.array_equal(circuit.history_.n_edges, other.history_.n_edges)


@pytest.mark.compiled
@given(cuts=CUTS)
@settings(max_examples=5, deadline=None)
def test_any_parts_give_the_same_mixture(mixture, cuts):
    other = Strudel(**MIXTURE).fit(in_parts(PARTLY, cuts), X_valid=PARTLY_VALID)
    assert_nearly_same(mixture.circuit_.structure, other.circuit_.structure)
    for name in ("edge_log_theta", "log_weight"):
        values = (getattr(model.circuit_, name) for model in (mixture, other))
        np.testing.assert_allclose(*values, rtol=1e-9)


@pytest.mark.compiled
def test_parts_learn_as_much_as_one_table(circuit, mixture):
    for in_pieces, kind, options in (
        (circuit, Strudel, CIRCUIT),
        (mixture, Strudel, MIXTURE),
    ):
        in_memory = kind(**options).fit(PARTLY, X_valid=PARTLY_VALID)
        assert in_pieces.score(VALID) == pytest.approx(in_memory.score(VALID), abs=0.05)
        alone = kind(**options).fit(np.where(np.isnan(PARTLY), 0, PARTLY), X_valid=VALID)
        assert in_pieces.score(VALID) > alone.score(VALID) + 0.1  # than zeros for unknown values


ANY_ROW = compile_factorized(Vtree.from_nested(((0, 1), (2, 3))))


@given(
    X=st.lists(st.lists(st.sampled_from([0, 1, UNKNOWN]), min_size=3, max_size=3), min_size=1),
    cut=st.integers(0, 20),
    n=st.sampled_from([1, 2, 4]),
)
@settings(max_examples=30, deadline=None)
def test_completions_belong_to_rows(X, cut, n):
    table = np.where(np.array(X) == UNKNOWN, np.nan, X)
    table = np.column_stack([table, np.ones(len(X))])  # every row knows something
    table = np.vstack([table, [0, np.nan, 0, 1]])  # and some value is unknown
    found = []
    for cuts in ((), {min(cut, len(table))}):
        rows = IncompletePartitions(partition_table(in_parts(table, cuts), Here()).rows(), None)
        completed, _ = rows.completed(ANY_ROW, n, np.random.default_rng(7))
        parts, first = completed.table.parts, completed.table.first
        assert first == np.cumsum([0, *(part.n_rows for part in parts)])[:-1].tolist()
        bits = np.concatenate([part.unpack() for part in parts])
        found.append((bits, completed.total_weight, completed.quantum))
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1:] == found[1][1:] == (len(table), 1 / n)
    known = np.repeat(~np.isnan(table), n, axis=0)
    assert np.array_equal(found[0][0][known], np.repeat(table, n, axis=0)[known])


@pytest.mark.parametrize("n", [1, 2, 16])
@pytest.mark.parametrize("kind", ["whole", "fractions"])
def test_sums_of_weights_of_copies_are_exact(kind, n):
    weight = np.random.default_rng(0).random(len(TRAIN)) * 1e3
    weight = np.ceil(weight) if kind == "whole" else weight
    found = []
    for cuts in ((), {7, 100, 101}):
        table = partition_table(in_parts(PARTLY, cuts), Here(), sample_weight=weight)
        rows = IncompletePartitions(table.rows(), None)
        completed, _ = rows.completed(SIX, n, np.random.default_rng(7))
        found.append(completed.pair_counts)
        assert completed.total_weight == pytest.approx(weight.sum(), rel=1e-12)
        for part in completed.parts:
            units = part.weights / completed.quantum
            assert np.array_equal(units, np.round(units))
        # A completion that is drawn for a sample counts as a row.
        assert completed.sample(10**6, 0)[1].sum() == pytest.approx(n * weight.sum(), rel=1e-9)
    assert np.array_equal(*found)


SIX = compile_factorized(Vtree.from_nested(((0, (1, 2)), ((3, 4), 5))))


def test_copies_and_steps_do_not_depend_on_which_rows_of_a_part_are_equal():
    few = np.repeat(TRAIN[:10], 30, axis=0)
    gaps = partition_table(in_parts(PARTLY_VALID, {9}), Here()).rows()
    for cuts in ((), {50, 100, 150}):
        rows = partition_table(in_parts(few, cuts), Here()).rows()
        spread = IncompletePartitions(rows, gaps)
        assert spread.n_copies == 16
        assert spread.train_rows.n_rows == 300
        assert spread.valid_rows.n_rows == len(VALID)


@pytest.mark.parametrize("cuts", [(), {1}, {2, 3}])
def test_expected_flows_add_up_over_parts(cuts):
    X = np.array([[1, 0, 1, np.nan], [np.nan] * 3 + [1], [1, 1, np.nan, 0], [0, 1, 1, 1]])
    weight = np.array([1.0, 2.0, 0.5, 1.0])
    model = figure_1_circuit()
    rows = partition_table(in_parts(X, cuts), Here(), sample_weight=weight).rows()
    spread = IncompletePartitions(rows, rows)
    assert spread.n_copies == 16
    found = spread.train_rows.expect(Passes.of(model, "test"), as_mixture(model))
    whole = expected_flows(model, X, sample_weight=weight)
    np.testing.assert_allclose(found.edge_count, whole.edge_count, rtol=1e-12)
    assert found.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    mean = spread.valid_rows.mean_log_probability(Passes.of(model, "test"), as_mixture(model))
    assert mean == pytest.approx(whole.log_likelihood / 4.5, rel=1e-12)


@given(st.lists(st.lists(st.sampled_from([0, 1, UNKNOWN]), min_size=3, max_size=3), min_size=1))
@settings(deadline=None)
def test_packed_codes_are_the_same_codes(X):
    codes = np.array(X, dtype=np.uint8)
    rows = pack_codes(codes, None)
    assert isinstance(rows, PackedCodes) == bool(np.any(codes == UNKNOWN))
    assert np.array_equal(rows.unpack(), codes)
    unknown = np.all(codes == UNKNOWN, axis=1).sum()
    assert n_known(rows).tolist() == [*(codes != UNKNOWN).sum(axis=0), unknown]
    # Whatever the parts, and other rows have another digest.
    halves = [pack_codes(half, None) for half in (codes[:1], codes[1:]) if len(half)]
    parts = sum(digest_packed(half, first) for first, half in enumerate(halves)) % 2**64
    assert parts == digest_packed(rows, 0) % 2**64
    changed = codes.copy()
    changed[0, 0] = (changed[0, 0] + 1) % 3
    assert digest_packed(pack_codes(changed, None), 0) != digest_packed(rows, 0)


def test_gaps_of_rows_that_weigh_nothing_do_not_count():
    X = np.array([[0, np.nan], [1, 0], [np.nan, 1]])
    table = partition_table(in_parts_of_two(X), Here(), sample_weight=np.array([0.0, 1.0, 0.0]))
    assert not table.has_gaps
    assert partition_table(in_parts_of_two(X), Here()).has_gaps


def in_parts_of_two(X):
    import dask.array as da

    return da.from_array(X, chunks=(2, X.shape[1]))


@pytest.mark.compiled
def test_rows_that_tell_nothing_are_left_out_and_columns_refused():
    X = PARTLY.copy()
    X[[5, 17, 250]] = np.nan
    with pytest.warns(NothingKnownWarning, match=r"Training rows .*left out: 3 of 300"):
        model = Strudel(n_components=1, **CIRCUIT).fit(in_parts(X, {100}), X_valid=VALID)
    assert np.isfinite(model.score(VALID))
    assert model.data_["unknown"] == np.isnan(X).sum()
    nothing = np.full((4, 6), np.nan)
    with pytest.warns(NothingKnownWarning, match=r"Validation rows .*left out: 4 of 4"):
        model = Strudel(n_components=1, **CIRCUIT).fit(
            in_parts(PARTLY, {100}), X_valid=in_parts(nothing, {1})
        )
    by_itself = Strudel(n_components=1, **CIRCUIT).fit(
        in_parts(PARTLY, {100}), X_valid=in_parts(PARTLY, ())
    )
    assert_nearly_same(model.circuit_, by_itself.circuit_)
    X = PARTLY.copy()
    X[:, [1, 4]] = np.nan
    X[:, 0] = 1.0  # so that every row knows something
    with pytest.raises(ValueError, match=r"none in 'x1', 'x4': leave out"):
        Strudel(n_components=1, **CIRCUIT).fit(in_parts(X, {100}))
    with pytest.raises(ValueError, match="a positive weight and a known value"):
        Strudel(n_components=1, **CIRCUIT).fit(in_parts(np.full((4, 3), np.nan), {2}))


@pytest.mark.compiled
@pytest.mark.parametrize(
    "change",
    [
        {"search": Greedy(structure_rows=150)},
        {"search": "best_first"},
        {"max_seconds": 0.5},
        {"validation_fraction": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_search_takes_gaps(change):
    model = Strudel(n_components=1, **CIRCUIT | change).fit(in_parts(PARTLY, {100}))
    assert model.circuit_.is_deterministic
    assert model.score(VALID) > -6 * np.log(2) + 0.3


@pytest.mark.compiled
def test_only_validation_rows_may_have_gaps(circuit):
    model = Strudel(n_components=1, **CIRCUIT).fit(
        in_parts(TRAIN, {100}), X_valid=in_parts(PARTLY_VALID, {9})
    )
    assert model.score(VALID) == pytest.approx(circuit.score(VALID), abs=0.1)


@pytest.mark.compiled
def test_sizes_are_chosen_on_a_sample_with_gaps():
    search = BestFirst(structure_rows=100)
    model = Strudel(n_components=10, random_state=0, method=EM(max_iter=3), search=search)
    model.fit(in_parts(PARTLY, {100}), X_valid=PARTLY_VALID)
    assert model.trials_
    assert model.chosen_["valid"] == pytest.approx(model.score(PARTLY_VALID), rel=1e-9)


@pytest.mark.compiled
def test_columns_of_a_frame_may_have_gaps():
    dd = pytest.importorskip("dask.dataframe")
    frame = people(200)
    frame["age"] = frame["age"].where(np.arange(200) % 7 > 0)
    frame["colour"] = frame["colour"].where(np.arange(200) % 5 > 0)
    model = Strudel(n_components=1, columns=TableEncoder(), **CIRCUIT).fit(
        dd.from_pandas(frame, npartitions=3)
    )
    filled = people(200)
    codes = model.encoder_.transform(filled)
    assert np.isfinite(model.score(filled))
    assert codes.shape[1] == model.circuit_.n_vars
