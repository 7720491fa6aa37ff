"""Rows in parts give what rows in one table give, whatever the parts."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioned_tables import TRAIN, VALID, assert_same_mixture, assert_same_search, in_parts
from strudel import EM, BaggedEM, Strudel
from strudel.data.bits import pack_columns, pair_counts
from strudel.learning import fit_parameters
from strudel.learning.options import BestFirst, Greedy
from strudel.learning.partitioned import em as mixture_part
from strudel.learning.partitioned import engines as out_of_core
from strudel.learning.partitioned import partition as growing_part
from strudel.learning.partitioned.em import _units
from strudel.learning.partitioned.engines import Here, Room, file_backed
from strudel.learning.partitioned.packed_rows import Share, bag_rows, take_rows, uniform_numbers
from strudel.learning.partitioned.partitioned_table import partition_table

da = pytest.importorskip("dask.array")


CUTS = st.sets(st.integers(1, len(TRAIN) - 1), max_size=5)


@pytest.fixture(scope="module")
def in_memory():
    return Strudel(n_components=1, random_state=0).fit(TRAIN, X_valid=VALID)


@pytest.mark.compiled
@settings(max_examples=10, deadline=None)
@given(cuts=CUTS, n_valid=st.integers(1, len(VALID) - 1))
def test_any_parts_give_the_circuit_of_one_table(in_memory, cuts, n_valid):
    model = Strudel(n_components=1, random_state=0).fit(
        in_parts(TRAIN, cuts), X_valid=in_parts(VALID, {n_valid})
    )
    assert_same_search(in_memory, model)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "options",
    [
        {"search": Greedy(edge_score="random")},
        {"search": Greedy(variable_score="random")},
        {"init": "independent"},
        {"search": Greedy(tie_rule="depth_first")},
        {"search": Greedy(variable_score="gain")},
        {"pseudocount": 0.1},
    ],
    ids=str,
)
def test_every_greedy_search_is_the_same_in_parts(options):
    options |= {"random_state": 0, "max_splits": 25}
    one = Strudel(n_components=1, **options).fit(TRAIN, X_valid=VALID)
    rng_of_parts = Strudel(n_components=1, **options).fit(in_parts(TRAIN, {100}), X_valid=VALID)
    if (
        "random" in options.get("search", Greedy()).get_params().values()
    ):  # other random numbers: the same for other parts
        one = Strudel(n_components=1, **options).fit(
            in_parts(TRAIN, {30, 77}), X_valid=in_parts(VALID, {9})
        )
    assert_same_search(one, rng_of_parts)


@pytest.mark.compiled
def test_weights_are_summed_exactly():
    weight = np.random.default_rng(2).random(len(TRAIN))
    weight[:10] = 0.0
    options = {"random_state": 0, "max_splits": 20}
    one = Strudel(n_components=1, **options).fit(TRAIN, X_valid=VALID, sample_weight=weight)
    model = Strudel(n_components=1, **options).fit(
        in_parts(TRAIN, {100, 130}),
        X_valid=VALID,
        sample_weight=da.from_array(weight, chunks=((100, 30, 170),)),
    )
    assert_same_search(one, model)


@pytest.mark.compiled
@settings(max_examples=6, deadline=None)
@given(cuts=CUTS)
def test_any_parts_give_the_same_mixture(cuts):
    options = {"n_components": 3, "max_splits": 4, "random_state": 0}
    for more in (
        {"method": EM(n_runs=2, max_iter=6)},
        {"method": EM(init_params="random", n_init=2, max_iter=6)},
        {"method": BaggedEM(n_bags=3, max_iter=6)},
        {"method": EM(max_iter=6), "search": "best_first"},
    ):
        one, other = (
            Strudel(**options, **more).fit(in_parts(TRAIN, parts), X_valid=VALID)
            for parts in ((), cuts)
        )
        assert_same_mixture(one, other)


@settings(max_examples=10, deadline=None)
@given(cuts=CUTS)
def test_bags_are_bootstrap_samples_that_do_not_depend_on_the_parts(cuts):
    bits = pack_columns(TRAIN)
    edges = [0, *sorted(cuts), len(TRAIN)]
    parts = [
        bag_rows(pack_columns(TRAIN[low:high]), Share(0.0, 0.8, 5), 50, 9, low)
        for low, high in pairwise(edges)
    ]
    whole = bag_rows(bits, Share(0.0, 0.8, 5), 50, 9, 0)
    ones = [part.bag_weight.astype(float) @ part.rows.unpack() for part in (whole, *parts)]
    assert np.array_equal(ones[0], sum(ones[1:]))
    n_taken = take_rows(bits, Share(0.0, 0.8, 5), 0).n_rows
    assert whole.rows.total_weight == n_taken
    draws = whole.bag_weight.sum(axis=1)  # of 50 bags
    assert draws.mean() == pytest.approx(n_taken, rel=0.05)
    assert draws.std() == pytest.approx(n_taken**0.5, rel=0.5)


@pytest.mark.compiled
def test_parts_on_disk_give_the_same(monkeypatch, in_memory):
    mixture = {"n_components": 3, "max_splits": 4, "random_state": 0, "method": EM(max_iter=6)}
    X = in_parts(TRAIN, {100})
    one = Strudel(**mixture).fit(X, X_valid=VALID)
    n_files = []
    monkeypatch.setattr(out_of_core, "MEMORY_SHARE", 0.0)
    for module in (growing_part, mixture_part):
        monkeypatch.setattr(
            module, "file_backed", lambda array: n_files.append(1) or file_backed(array)
        )
    assert_same_search(in_memory, Strudel(n_components=1, random_state=0).fit(X, X_valid=VALID))
    assert len(n_files) == 3
    assert_same_mixture(one, Strudel(**mixture).fit(X, X_valid=VALID))
    assert len(n_files) > 6


def test_an_array_in_a_file_is_that_array():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    mapped = file_backed(array)
    assert np.array_equal(mapped, array)
    mapped[1, 2] = 7
    assert (mapped[1, 2], array[1, 2]) == (7, 6)
    assert isinstance(mapped.base, np.memmap)
    assert len(file_backed(array[:0])) == 0


def test_memory_of_parts_that_are_gone_is_free_again():
    class Part:
        in_files = False

        def __sizeof__(self):
            return 40

        def to_files(self):
            self.in_files = True

    room = Room(limit=100)
    parts = [room.keep(Part()) for _ in range(3)]
    assert [part.in_files for part in parts] == [False, False, True]
    del parts
    assert room.used == 0
    assert not room.keep(Part()).in_files


@pytest.mark.parametrize("copies", [1, 1000])
def test_a_bag_holds_a_row_as_often_as_it_weighs(copies):
    rows = np.eye(8, dtype=np.uint8)
    weighted = bag_rows(pack_columns(rows, np.full(8, float(copies))), Share(), 200, 9, 0)
    draws = weighted.bag_weight.sum(axis=1)  # Poisson of 8 * copies
    assert draws.mean() == pytest.approx(8 * copies, rel=0.1)
    assert draws.std() == pytest.approx((8 * copies) ** 0.5, rel=0.3)
    assert np.array_equal(draws, np.rint(draws))


@pytest.mark.compiled
@pytest.mark.parametrize("method", [EM(max_iter=3), BaggedEM(n_bags=2, max_iter=3)], ids=str)
def test_parts_without_rows_change_nothing(method):
    options = {"n_components": 2, "max_splits": 2, "random_state": 0}
    one, other = (
        Strudel(**options, method=method).fit(in_parts(TRAIN, cuts), X_valid=VALID)
        for cuts in ((), {100, len(TRAIN)})
    )
    assert_same_mixture(one, other)


@pytest.mark.compiled
@pytest.mark.parametrize("scale", [2.0**-40, 2.0**-20, 2.0**20, 2.0**45])
def test_the_unit_of_weights_does_not_matter_to_em(scale):
    options = {"n_components": 3, "max_splits": 4, "random_state": 0, "method": EM(max_iter=6)}
    options["smoothing"] = "uniform"
    scores = []
    for unit in (1.0, scale):
        weight = da.full(len(TRAIN), unit, chunks=((100, 200),))
        X = in_parts(TRAIN, {100})
        options["pseudocount"] = 1e-3 * unit
        model = Strudel(**options).fit(X, X_valid=VALID, sample_weight=weight)
        scores.append(model.history_.train)
        assert model.history_.valid[model.history_.best] == pytest.approx(
            model.score(VALID), abs=1e-5
        )
    assert scores[1][-1] > scores[1][0] + 1e-3
    # One virtual row per group keeps component weights above zero, whatever a row weighs.
    if scale > 1.0:
        np.testing.assert_allclose(scores[0], scores[1], atol=0.02)


@pytest.mark.compiled
@settings(max_examples=4, deadline=None)
@given(cuts=CUTS)
def test_whole_weights_are_exact_in_em_and_real_ones_nearly(cuts):
    rng = np.random.default_rng(0)
    options = {"n_components": 3, "max_splits": 4, "random_state": 0, "method": EM(max_iter=5)}
    for weight, most in (
        (rng.integers(0, 9, len(TRAIN)).astype(float), 0.0),
        (rng.random(len(TRAIN)), 1e-12),
    ):
        models = []
        for parts in ((), cuts):
            X = in_parts(TRAIN, parts)
            lazy = da.from_array(weight, chunks=(X.chunks[0],))
            model = Strudel(**options).fit(X, X_valid=VALID, sample_weight=lazy)
            models.append(model)
        one, other = (np.exp(model.circuit_.edge_log_theta) for model in models)
        assert np.abs(one - other).max() <= most
        train = [model.history_.train for model in models]
        np.testing.assert_allclose(train[0], train[1], rtol=0.0, atol=most)


def test_a_row_that_no_component_allows_makes_the_likelihood_minus_infinity():
    log_p = np.array([[-1.0, -np.inf], [-2.0, -3.0]])
    one, impossible = _units(log_p, np.array([1.0, 3.0]), 1.0)
    assert one == -7 * 2**24
    assert impossible == -np.inf
    _, weightless = _units(log_p, np.array([0.0, 3.0]), 1.0)
    assert weightless == -9 * 2**24


@settings(max_examples=50, deadline=None)
@given(
    log_p=st.lists(st.floats(-2000.0, 0.0), min_size=1, max_size=5),
    weight=st.lists(st.integers(0, 2**51), min_size=5, max_size=5),
)
def test_sums_of_log_likelihoods_are_whole_numbers_of_any_size(log_p, weight):
    exact = sum(round(Fraction(p) * 2**24) * w for p, w in zip(log_p, weight, strict=False))
    found = _units(np.array(log_p)[:, None], np.array(weight[: len(log_p)], dtype=float), 1.0)
    assert abs(found[0] - exact) <= sum(weight)  # a half may be rounded either way
    assert isinstance(found[0], int)


@pytest.mark.compiled
def test_a_sample_for_the_structure_is_of_rows_to_learn_from_and_has_their_weights():
    weight = np.where(np.arange(len(TRAIN)) < 150, 1e-6, 1.0)
    X = np.where(np.arange(len(TRAIN))[:, None] < 150, 1 - TRAIN[:1], TRAIN)
    lazy = in_parts(X, {100})
    weights = da.from_array(weight, chunks=(lazy.chunks[0],))
    model = Strudel(n_components=1, search=Greedy(structure_rows=200), max_splits=3, random_state=0)
    model.fit(lazy, X_valid=VALID, sample_weight=weights)
    assert model.history_.valid[0] == pytest.approx(
        Strudel(n_components=1, max_splits=3, random_state=0)
        .fit(TRAIN[150:], X_valid=VALID)
        .history_.valid[0],
        abs=0.2,
    )
    table = partition_table(lazy, Here())
    train, _ = table.split(0.3, 5)
    taken, _ = train.sample(10**6, 7)
    assert len(taken) == train.total_weight  # all of them, and no row that is held out


@pytest.mark.compiled
def test_weights_may_be_a_column_of_the_same_frame_or_an_array_in_memory(tmp_path):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    weight = np.random.default_rng(2).random(len(TRAIN))
    names = [f"v{i}" for i in range(TRAIN.shape[1])]
    table = pd.DataFrame(TRAIN, columns=names).assign(w=weight)
    for part in range(5):
        table[part * 60 : part * 60 + 60].to_parquet(tmp_path / f"{part}.parquet")
    frame = dd.read_parquet(tmp_path)
    options = {"random_state": 0, "max_splits": 8}
    one = Strudel(n_components=1, **options).fit(TRAIN, X_valid=VALID, sample_weight=weight)
    V = pd.DataFrame(VALID, columns=names)
    model = Strudel(n_components=1, **options).fit(
        frame[names], X_valid=V, sample_weight=frame["w"]
    )
    assert_same_search(one, model)
    model = Strudel(n_components=1, **options).fit(
        in_parts(TRAIN, {7}), X_valid=VALID, sample_weight=weight
    )
    assert_same_search(one, model)
    with pytest.raises(ValueError, match="one number per row"):
        Strudel(n_components=1, **options).fit(frame[names], X_valid=V, sample_weight=frame[["w"]])


@pytest.mark.compiled
def test_a_part_may_weigh_nothing():
    weight = np.repeat([1.0, 0.0, 2.0], 100)
    options = {"random_state": 0, "max_splits": 4}
    whole = Strudel(n_components=1, **options).fit(TRAIN, X_valid=VALID, sample_weight=weight)
    parts = Strudel(n_components=1, **options).fit(
        in_parts(TRAIN, {100, 200}), X_valid=VALID, sample_weight=weight
    )
    assert_same_search(whole, parts)
    with pytest.raises(ValueError, match="at least one row with a positive weight"):
        Strudel(n_components=1, **options).fit(in_parts(TRAIN, {100}), sample_weight=0.0 * weight)


@pytest.mark.compiled
@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_a_few_rows_in_parts_are_enough(n_rows):
    for options in ({}, {"search": Greedy(structure_rows=1)}):
        model = Strudel(n_components=1, random_state=0, max_splits=2, **options).fit(
            in_parts(TRAIN[:n_rows], ())
        )
        assert np.isfinite(model.score(TRAIN))


@pytest.mark.parametrize("fraction", [0.0, 1.5, "x"])
def test_a_share_to_hold_out_is_checked(fraction):
    with pytest.raises(ValueError, match="validation_fraction must be"):
        Strudel(n_components=1, validation_fraction=fraction).fit(in_parts(TRAIN, {100}))


@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_weights_in_parts_are_checked(bad):
    weight = np.ones(len(TRAIN))
    weight[3] = bad
    with pytest.raises(ValueError, match="sample_weight must"):
        Strudel(n_components=1).fit(
            in_parts(TRAIN, {100}), sample_weight=da.from_array(weight, chunks=((100, 200),))
        )


@pytest.mark.compiled
def test_restarts_in_parts_are_no_worse_than_one_start():
    options = {"n_components": 4, "max_splits": 0, "random_state": 0}
    X = in_parts(TRAIN, {100})
    one, best = (
        Strudel(**options, method=EM(init_params="random", n_init=n)).fit(X, X_valid=VALID)
        for n in (1, 5)
    )
    assert best.circuit_.n_components == 4
    assert best.history_.valid.max() >= one.history_.valid.max()


@pytest.mark.compiled
def test_a_mixture_in_parts_is_as_good_as_one_in_memory():
    options = {"n_components": 4, "max_splits": 0, "random_state": 0}
    here = Strudel(**options).fit(TRAIN, X_valid=VALID)
    parts = Strudel(**options).fit(in_parts(TRAIN, {100}), X_valid=VALID)
    assert parts.score(VALID) == pytest.approx(here.score(VALID), abs=0.1)
    assert parts.chosen_["valid"] == pytest.approx(parts.score(VALID), abs=0.05)


@pytest.mark.compiled
def test_what_is_auto_is_chosen_on_a_sample():
    model = Strudel(method=EM(n_runs=1), max_components=10, random_state=0)
    model.set_params(search=BestFirst(structure_rows=200)).fit(
        in_parts(TRAIN, {100}), X_valid=VALID
    )
    assert model.trials_
    assert model.chosen_["n_components"] <= 10


@pytest.mark.compiled
def test_held_out_rows_do_not_depend_on_the_parts():
    one, other = (
        Strudel(n_components=1, random_state=3, validation_fraction=0.3, max_splits=10).fit(
            in_parts(TRAIN, cuts)
        )
        for cuts in ({150}, {7, 200, 299})
    )
    assert_same_search(one, other)


@pytest.mark.compiled
def test_the_structure_may_come_from_some_rows_and_the_parameters_from_all():
    for X in (TRAIN, in_parts(TRAIN, {100})):
        search = Greedy(structure_rows=40)
        model = Strudel(n_components=1, search=search, random_state=0, max_splits=5).fit(
            X, X_valid=VALID
        )
        of_all = fit_parameters(model.circuit_, TRAIN)
        assert np.array_equal(model.circuit_.edge_log_theta, of_all.edge_log_theta)
        whole = Strudel(n_components=1, random_state=0, max_splits=5).fit(TRAIN, X_valid=VALID)
        assert not np.array_equal(whole.history_.train, model.history_.train)


def test_where_all_numbers_are_given_none_is_chosen_on_a_sample():
    model = Strudel(n_components=2, max_splits=1, search=Greedy(structure_rows=50))
    with pytest.raises(ValueError, match="if both are given"):
        model.fit(in_parts(TRAIN, {100}), X_valid=VALID)


@pytest.mark.parametrize("n_rows", [0, 2.5, "many"])
def test_structure_rows_must_be_a_number_of_rows(n_rows):
    for X in (TRAIN, in_parts(TRAIN, {100})):
        with pytest.raises(ValueError, match="structure_rows must be"):
            Strudel(n_components=1, search=Greedy(structure_rows=n_rows)).fit(X, X_valid=VALID)


def test_a_table_in_parts_that_is_refused_leaves_a_fitted_model_alone():
    model = Strudel(n_components=1, random_state=0, max_splits=2).fit(TRAIN, X_valid=VALID)
    with pytest.raises(ValueError, match="structure_rows"):
        model.set_params(search="learnpsdd").fit(in_parts(TRAIN[:, :4], ()), X_valid=VALID[:, :4])
    assert model.n_features_in_ == model.circuit_.n_vars == 6


def test_random_numbers_belong_to_rows():
    whole = uniform_numbers(5, 0, 50)
    parts = [uniform_numbers(5, first, 10) for first in range(0, 50, 10)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.array_equal(whole[3:20], uniform_numbers(5, 3, 17))


def test_rows_are_taken_once():
    bits = pack_columns(TRAIN)
    low, high = (take_rows(bits, Share(*ends, 1), 0) for ends in ((0.0, 0.3), (0.3, 1.0)))
    assert low.n_rows + high.n_rows == len(TRAIN)
    assert low.n_rows == pytest.approx(0.3 * len(TRAIN), rel=0.3)


@pytest.mark.compiled
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["whole", "real", "halves", "none"]))
def test_weighted_pair_counts_by_binary_digits(seed, kind):
    rng = np.random.default_rng(seed)
    weight = {
        "whole": rng.integers(0, 1000, 70).astype(float),
        "real": rng.random(70),
        "halves": rng.integers(0, 5, 70) / 2,
        "none": np.zeros(70),
    }[kind]
    X = rng.integers(0, 2, (70, 5))
    bits = pack_columns(X, weight)
    assert np.array_equal(pair_counts(bits), (X * bits.weights[:, None]).T @ X)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"search": "learnpsdd"}, "structure_rows"),
        ({"search": Greedy(copy_depth=4)}, "structure_rows"),
        ({"constraint": "x0"}, "all rows in memory"),
    ],
    ids=str,
)
def test_what_needs_all_rows_in_one_place_says_so(change, words):
    with pytest.raises(ValueError, match=words):
        Strudel(n_components=1, random_state=0, **change).fit(in_parts(TRAIN, {100}), X_valid=VALID)


def test_a_bad_cell_is_found_in_its_block():
    X = TRAIN.copy()
    X[210, 3] = 2
    with pytest.raises(ValueError, match=r"In block 1 of X: .* column 3 holds 2 at row 110"):
        Strudel(n_components=1).fit(in_parts(X, {100}))
