"""Dask tables: an ordinary fit of small ones; of others, parameters of all rows."""

import logging
import os
import signal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from column_circuits import as_bits
from lazy_tables import (
    TRAIN,
    VALID,
    assert_same_mixture,
    assert_same_search,
    in_parts,
    people,
    two_causes,
)
from strudel import EM, BaggedEM, BestFirst, Greedy, LearnPSDD, Strudel
from strudel.errors import InterruptedWarning, NothingKnownWarning, UnseenValueWarning
from strudel.learning import blocks
from strudel.learning.bits.likelihood import rows_log_likelihood
from strudel.learning.parameters import closed_form
from strudel.tables import TableEncoder

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")

CIRCUIT = {"n_components": 1, "max_splits": 6, "random_state": 0}
MIXTURE = {"n_components": 3, "max_splits": 4, "random_state": 0, "method": EM(max_iter=6)}
MANY = two_causes(3000, seed=2)
PARTLY = np.where(np.random.default_rng(0).random(MANY.shape) < 0.2, np.nan, MANY)
CUTS = (700, 700, 1500, 2900)  # one block is empty
PEOPLE = people(2000)


@pytest.fixture
def small_sample(monkeypatch):
    """As if no more than 400 rows were a sample."""
    monkeypatch.setattr(blocks, "SAMPLE_ROWS", 400)


def frame_in_parts(frame, cuts):
    """A Dask frame whose partitions end at `cuts`."""
    places = [0, *sorted(cuts), len(frame)]
    parts = [frame.iloc[a:b] for a, b in pairwise(places)]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=frame.iloc[:0])


def of_sample(X, seed=0, **options):
    """The sample of a lazy table."""
    return blocks.LazyTable.of(X, "X", **options).sample(seed)


# A table that fits into the sample


@pytest.mark.compiled
@settings(max_examples=5, deadline=None)
@given(cuts=st.sets(st.integers(0, len(TRAIN)), max_size=4))
def test_a_table_that_fits_gives_the_model_of_an_ordinary_fit(cuts):
    X, V = in_parts(TRAIN, cuts), in_parts(VALID, {50})
    for options in ({}, {"search": LearnPSDD()}, {"search": Greedy(sampled_rows=100)}):
        one, other = (
            Strudel(**CIRCUIT, **options).fit(rows, X_valid=valid)
            for rows, valid in ((TRAIN, VALID), (X, V))
        )
        assert_same_search(one, other)
    for options in ({}, {"method": BaggedEM(n_bags=2, max_iter=3)}):
        one, other = (Strudel(**MIXTURE | options).fit(rows) for rows in (TRAIN, X))
        assert_same_mixture(one, other)
        assert np.array_equal(one.held_out_rows_, other.held_out_rows_)
        assert one.data_ == other.data_


@pytest.mark.compiled
@settings(max_examples=3, deadline=None)
@given(cuts=st.sets(st.integers(0, 200), max_size=4))
def test_a_frame_that_fits_gives_the_model_of_an_ordinary_fit(cuts):
    frame, valid = PEOPLE[:200], PEOPLE[200:300]
    lazy = frame_in_parts(valid[valid.columns[::-1]], {20})  # columns are found by name
    one = Strudel(**CIRCUIT).fit(frame, X_valid=valid)
    other = Strudel(**CIRCUIT).fit(frame_in_parts(frame, cuts), X_valid=lazy)
    assert_same_search(one, other)
    columns = zip(one.circuit_.columns, other.circuit_.columns, strict=True)
    assert all((a.labels, a.counts) == (b.labels, b.counts) for a, b in columns)
    assert list(other.feature_names_in_) == list(frame.columns)
    assert Strudel(**CIRCUIT).fit(frame, X_valid=lazy).score(valid) == one.score(valid)


@pytest.mark.compiled
def test_weights_may_be_lazy_a_column_of_the_frame_or_in_memory(tmp_path):
    weight = np.random.default_rng(2).random(len(TRAIN))
    weight[:110] = 0.0
    names = [f"v{i}" for i in range(TRAIN.shape[1])]
    table = pd.DataFrame(TRAIN, columns=names).assign(w=weight)
    for part in range(5):
        table[part * 60 : part * 60 + 60].to_parquet(tmp_path / f"{part}.parquet")
    frame, X = dd.read_parquet(tmp_path), in_parts(TRAIN, {100, 130})
    one = Strudel(**CIRCUIT).fit(TRAIN, X_valid=VALID, sample_weight=weight)
    for rows, given_weight in (
        (X, weight),
        (X, da.from_array(weight, chunks=50)),
        (frame[names], frame["w"]),
        (frame[names], weight),
    ):
        V = VALID if rows is X else pd.DataFrame(VALID, columns=names)
        assert_same_search(one, Strudel(**CIRCUIT).fit(rows, X_valid=V, sample_weight=given_weight))
    with pytest.raises(ValueError, match="one number per row"):
        Strudel(**CIRCUIT).fit(frame[names], sample_weight=frame[["w"]])


@pytest.mark.compiled
def test_a_fit_goes_on_with_lazy_rows_and_a_constraint_holds_in_them():
    X = in_parts(TRAIN, {100})
    one, other = (Strudel(**CIRCUIT).fit(TRAIN, X_valid=VALID) for _ in range(2))
    one.fit(TRAIN, X_valid=VALID, warm_start=True)
    other.fit(X, X_valid=VALID, warm_start=True)
    assert_same_search(one, other)
    with pytest.raises(ValueError, match="constraint"):
        Strudel(**CIRCUIT, constraint="x0").fit(X)


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_a_few_rows_are_enough(n_rows):
    model = Strudel(**CIRCUIT).fit(in_parts(TRAIN[:n_rows], ()))
    assert np.isfinite(model.score(TRAIN))


# The sample of a larger table


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), cuts=st.lists(st.integers(0, len(MANY)), max_size=5))
def test_every_block_gives_its_share_of_the_sample(seed, cuts):
    X = in_parts(MANY, cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SAMPLE_ROWS", 400)
        sample = of_sample(X, seed)
        again = of_sample(X, seed)
    assert len(sample.X) == 400
    assert np.array_equal(sample.X, MANY[sample.number])
    assert np.array_equal(sample.number, again.number)
    assert np.all(np.diff(sample.number) > 0)
    edges = np.cumsum([0, *X.chunks[0]])
    shares = np.histogram(sample.number, np.unique(edges))[0]
    assert np.all(np.abs(shares - 400 / len(MANY) * np.diff(np.unique(edges))) <= 1.0)


@pytest.mark.usefixtures("small_sample")
def test_rows_that_weigh_nothing_are_not_in_the_sample():
    weight = np.where(np.arange(len(MANY)) % 2, 2.0, 0.0)
    sample = of_sample(in_parts(MANY, CUTS), sample_weight=weight)
    assert np.all(sample.number % 2 == 1)
    assert np.array_equal(sample.weight, np.full(400, 2.0))
    few = np.where(np.arange(len(MANY)) < 30, 1.0, 0.0)
    assert np.array_equal(of_sample(in_parts(MANY, CUTS), sample_weight=few).number, np.arange(30))


# Parameters from all rows


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
def test_parameters_of_a_circuit_are_counted_on_all_rows_but_those_held_out():
    model = Strudel(**CIRCUIT).fit(in_parts(MANY, CUTS))
    assert len(model.held_out_rows_) == 40
    rest = np.delete(MANY, model.held_out_rows_, axis=0)
    circuit = as_bits(model.circuit_)
    of_all = closed_form(circuit, rest)
    np.testing.assert_allclose(circuit.edge_log_theta, of_all.edge_log_theta, rtol=1e-12)
    train, valid = model.log_likelihoods_
    assert train == pytest.approx(rows_log_likelihood(of_all, rest).mean())
    assert valid == pytest.approx(rows_log_likelihood(of_all, MANY[model.held_out_rows_]).mean())
    assert model.data_ == {"rows": 3000, "columns": 6, "sha256": None, "sampled": 400}


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"smoothing": "hierarchical", "n_components": 1}, MANY),
        ({"n_components": 1}, PARTLY),
        ({"n_components": 3}, MANY),
        ({"n_components": 3}, PARTLY),
        ({}, MANY),
    ],
    ids=str,
)
def test_all_rows_make_a_model_better(options, rows):
    options = {"max_splits": 10, "random_state": 0} | options
    lazy = in_parts(rows, CUTS)
    model = Strudel(**options).fit(lazy, X_valid=VALID)
    seed = np.random.RandomState(0).randint(2**31)
    alone = Strudel(**options).fit(of_sample(lazy, seed).X, X_valid=VALID)
    fresh = two_causes(4000, seed=3)
    assert model.score(fresh) > alone.score(fresh) + 0.001
    assert model.log_likelihoods_.valid == pytest.approx(model.score(VALID), abs=1e-6)
    assert model.log_likelihoods_.train == pytest.approx(model.score(rows), abs=1e-6)


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
def test_weights_count_as_rows():
    weight = np.random.default_rng(1).integers(0, 4, len(MANY)).astype(float)
    X = in_parts(MANY, CUTS)
    model = Strudel(**CIRCUIT).fit(X, X_valid=VALID, sample_weight=weight)
    circuit = as_bits(model.circuit_)
    of_all = closed_form(circuit, MANY, sample_weight=weight)
    np.testing.assert_allclose(circuit.edge_log_theta, of_all.edge_log_theta, rtol=1e-12)
    lazy = Strudel(**CIRCUIT).fit(X, X_valid=VALID, sample_weight=da.from_array(weight, chunks=99))
    assert_same_search(model, lazy)


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
def test_cells_come_from_the_sample_and_counts_from_all_rows():
    frame = PEOPLE.assign(age=PEOPLE["age"].where(PEOPLE.index % 7 > 0))
    lazy = frame_in_parts(frame, {300, 900})
    model = Strudel(**CIRCUIT).fit(lazy)
    assert model.score(lazy) == pytest.approx(model.score(frame))
    assert model.data_["unknown"] > 0
    share = model.probability("smoker = 1")
    assert share == pytest.approx(frame["smoker"].mean(), abs=0.01)
    mixture = Strudel(n_components=2, max_splits=2, method=EM(max_iter=3), random_state=0).fit(lazy)
    assert mixture.probability("smoker = 1") == pytest.approx(frame["smoker"].mean(), abs=0.01)


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
def test_values_that_the_sample_lacks_are_missing_unless_they_are_categories():
    rare = PEOPLE.assign(colour=PEOPLE["colour"].where(PEOPLE.index < 1999, "mauve"))
    lazy = frame_in_parts(rare, {700})
    with pytest.warns(UnseenValueWarning, match=r"'colour' \(1 rows\).*categorize\(\)"):
        model = Strudel(**CIRCUIT).fit(lazy)
    assert model.data_["unknown"] > 0
    with pytest.raises(ValueError, match=r"block 1 of X.* 'mauve' at row .*categorize\(\)"):
        Strudel(**CIRCUIT, columns=TableEncoder(unknown="error")).fit(lazy)
    kinds = pd.CategoricalDtype(["blue", "green", "mauve", "red"])
    model = Strudel(**CIRCUIT).fit(lazy.astype({"colour": kinds}))
    assert "mauve" in model.circuit_.columns[model.circuit_.columns.place("colour")].values


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
@pytest.mark.filterwarnings("ignore", category=NothingKnownWarning)
def test_rows_and_columns_of_which_nothing_is_known_change_nothing():
    X = np.column_stack([PARTLY, np.full(len(PARTLY), np.nan)])
    X[::5] = np.nan
    model = Strudel(**CIRCUIT).fit(in_parts(X, CUTS), X_valid=VALID_WITH_A_COIN)
    assert len(model.circuit_.columns) == 7
    assert np.isfinite(model.log_likelihoods_.train)


VALID_WITH_A_COIN = np.column_stack([VALID, np.full(len(VALID), np.nan)])


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
def test_blocks_without_room_in_memory_are_made_again(monkeypatch):
    model = Strudel(**MIXTURE).fit(in_parts(MANY, CUTS))
    monkeypatch.setattr(blocks, "SHARE_OF_MEMORY", 0.0)
    assert_same_mixture(model, Strudel(**MIXTURE).fit(in_parts(MANY, CUTS)))


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("options", [CIRCUIT, MIXTURE], ids=["circuit", "mixture"])
def test_an_interrupt_among_blocks_keeps_the_model_of_the_sample(options):
    seen = []

    def interrupt(progress):
        if progress.stage == "blocks":
            seen.append(progress.message)
            if len(seen) == 3:
                raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning):
        model = Strudel(**options).fit(in_parts(MANY, CUTS), X_valid=VALID, callback=interrupt)
    assert seen == [f"counting, step 1: block {n} of 5" for n in (1, 2, 3)]
    assert np.isfinite(model.score(VALID))
    assert model.log_likelihoods_.valid == pytest.approx(model.score(VALID), abs=1e-6)


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
def test_a_limit_of_time_holds():
    model = Strudel(max_seconds=3, random_state=0).fit(in_parts(MANY, CUTS))
    assert np.isfinite(model.score(VALID))


# What is refused


@pytest.mark.parametrize("fraction", [0.0, 1.5, "x"])
def test_a_share_to_hold_out_is_checked(fraction):
    with pytest.raises(ValueError, match="validation_fraction must be"):
        Strudel(**CIRCUIT, validation_fraction=fraction).fit(in_parts(TRAIN, {100}))


@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_weights_are_checked(bad):
    weight = np.ones(len(TRAIN))
    weight[3] = bad
    with pytest.raises(ValueError, match="sample_weight must"):
        Strudel(**CIRCUIT).fit(in_parts(TRAIN, {100}), sample_weight=da.from_array(weight))
    with pytest.raises(ValueError, match="positive"):
        Strudel(**CIRCUIT).fit(in_parts(TRAIN, {100}), sample_weight=np.zeros(len(TRAIN)))


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("options", [{"constraint": "x0"}, {}], ids=str)
def test_what_needs_all_rows_in_memory_says_so(options):
    start = None if options else Strudel(**CIRCUIT).fit(TRAIN, X_valid=VALID)
    with pytest.raises(ValueError, match="all rows in memory, and so at most 400 of"):
        Strudel(**CIRCUIT, **options).fit(in_parts(MANY, CUTS), warm_start=start)


def test_the_size_of_a_sample_is_not_for_mixtures():
    with pytest.raises(ValueError, match="structure_rows is for single circuits"):
        Strudel(search=BestFirst(structure_rows=50)).fit(in_parts(TRAIN, {100}))


@pytest.mark.usefixtures("small_sample")
def test_a_bad_cell_is_found_in_its_block():
    X = MANY.copy()
    sample = of_sample(in_parts(X, {1000}), np.random.RandomState(0).randint(2**31)).number
    row = int(np.setdiff1d(np.arange(1000, 3000), sample)[100])
    X[row, 3] = 2
    with pytest.raises(
        ValueError, match=rf"In block 1 of X: .* column 3 holds 2 at row {row - 1000}"
    ):
        Strudel(**CIRCUIT).fit(in_parts(X, {1000}))


# Workers


@pytest.fixture(scope="module")
def models():
    """What one process learns, without any cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SAMPLE_ROWS", 400)
        X = in_parts(MANY, CUTS)
        return Strudel(**CIRCUIT).fit(X), Strudel(**MIXTURE).fit(X, X_valid=VALID)


@pytest.fixture(scope="module")
def client(models):
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
def test_workers_that_are_killed_change_nothing(client, models):
    circuit, mixture = models
    X = in_parts(MANY, CUTS)
    assert_same_search(circuit, Strudel(**CIRCUIT).fit(X))
    kills = Kills(client, {2, 8})
    assert_same_mixture(mixture, Strudel(**MIXTURE).fit(X, X_valid=VALID, callback=kills))
    assert kills.n_killed == 2


class Kills:
    """A callback that kills a worker after some blocks."""

    def __init__(self, client, at):
        self.client, self.at, self.n_seen, self.n_killed = client, at, 0, 0

    def __call__(self, progress):
        if progress.stage == "blocks":
            self.n_seen += 1
            if self.n_seen in self.at:
                os.kill(next(iter(self.client.run(os.getpid).values())), signal.SIGKILL)
                self.n_killed += 1


@pytest.mark.compiled
@pytest.mark.usefixtures("small_sample")
def test_how_many_threads_there_are_does_not_matter(models):
    cluster = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=4,
        processes=False,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    )
    with cluster, distributed.Client(cluster):
        X = in_parts(MANY, CUTS)
        assert_same_search(models[0], Strudel(**CIRCUIT).fit(X))
        assert_same_mixture(models[1], Strudel(**MIXTURE).fit(X, X_valid=VALID))
