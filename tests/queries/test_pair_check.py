"""The check of a model against rows: tables by enumeration and by counting, and what is lost."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import oracle
from tests.model_files import edit, state_of
from tests.strategies import circuits, examples

from strudel import Strudel, load, probability, save
from strudel.circuits.compile import figure_1_circuit
from strudel.errors import FileFormatError, MisfitWarning
from strudel.queries import Check, check, pair_check

INDEPENDENT = Strudel(n_components=1, init="independent", max_splits=0, random_state=0)


def fitted(frame, **options):
    """A model in which all bits of different columns are independent."""
    return Strudel(n_components=1, init="independent", max_splits=0, **options).fit(frame)


@examples(15)
@given(circuits(max_vars=4, deterministic=False), st.integers(0, 99))
def test_tables_are_those_of_enumeration_and_of_counting(circuit, seed):
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((50, circuit.vtree.n_vars)) < 0.2, np.nan, rng.integers(0, 2, 1))
    found = check(circuit, rows)
    every = np.array(oracle.all_rows(circuit.vtree.n_vars))
    chance = np.array(oracle.probabilities(circuit))
    assert len(found.pair_first) == circuit.vtree.n_vars * (circuit.vtree.n_vars - 1) // 2
    for p, (a, b) in enumerate(zip(found.pair_first, found.pair_second, strict=True)):
        for i, j in itertools.product((0, 1), repeat=2):
            expected = chance[(every[:, a] == i) & (every[:, b] == j)].sum() / chance.sum()
            assert found.pair_model[p, i, j] == pytest.approx(expected, abs=1e-9)
            counted = ((rows[:, a] == i) & (rows[:, b] == j)).sum()
            assert found.pair_rows[p, i, j] == counted


def mixed_rows(n_rows=800, seed=0):
    """A frame with numbers, categories of which some are rare, dates and missing values."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n_rows)
    colour = rng.choice([*"abcdefghij"], n_rows, p=[0.3, 0.2, 0.1, *[0.4 / 7] * 7])
    rows = pd.DataFrame(
        {
            "age": age.astype(float),
            "colour": colour,
            "smokes": rng.random(n_rows) < np.where(age > 50, 0.7, 0.2),
            "since": np.datetime64("2020-01-01") + rng.integers(0, 900, n_rows),
        }
    )
    rows.loc[rng.random(n_rows) < 0.1, "age"] = np.nan
    return rows


@pytest.mark.compiled
def test_groups_of_columns_are_told_so_that_they_can_be_counted_and_asked_for():
    rows = mixed_rows()
    model = Strudel(n_components=1, max_splits=5, random_state=0).fit(rows)
    found = check(model, rows)
    assert found.names == ("age", "colour", "smokes", "since")
    assert max(map(len, found.labels)) == 8
    asked = 0
    for p, (a, b) in enumerate(zip(found.pair_first, found.pair_second, strict=True)):
        names = found.names[a], found.names[b]
        groups = [
            [(g, label) for g, label in enumerate(found.labels[c]) if label[0] in "=<>"]
            for c in (a, b)
        ]
        for (i, first), (j, second) in itertools.product(*groups):
            if "other" in first + second:
                continue
            event = f"{names[0]} {first} & {names[1]} {second}"
            asked += 1
            assert found.pair_model[p, i, j] == pytest.approx(probability(model, event), abs=1e-9)
    assert asked > 30
    smokes = found.pair_rows[
        list(zip(found.pair_first, found.pair_second, strict=True)).index((0, 2))
    ]
    assert smokes.sum() == rows.age.notna().sum()  # only rows that know both
    assert smokes[:, 1].sum() == rows.smokes[rows.age.notna()].sum()


@pytest.mark.parametrize("seed", range(20))
def test_no_pair_of_rows_that_the_model_draws_is_called_lost(seed):
    """The model is right, so whatever differs is chance."""
    rng = np.random.default_rng(seed)
    theta = rng.random(12) ** 2
    rows = (rng.random((1500, 12)) < theta).astype(np.uint8)
    found = check(INDEPENDENT.fit((rng.random((3000, 12)) < theta).astype(np.uint8)), rows)
    assert found.lost == ()
    assert found.z.max() < 5.0


def test_independent_columns_are_accused_by_name_at_fit():
    rng = np.random.default_rng(0)
    debt = rng.random(2000)
    rows = pd.DataFrame(
        {
            "debt ratio": debt.round(3),
            "decision": np.where(rng.random(2000) < 0.08 + 0.4 * debt**3, "rejected", "accepted"),
            "city": rng.choice(["Bonn", "Oslo"], 2000),
        }
    )
    with pytest.warns(MisfitWarning, match="The rows show debt ratio and decision depend") as said:
        model = fitted(rows, random_state=0)
    assert "model says 0.1" in str(said[0].message)
    assert "for all. See model.check_." in str(said[0].message)
    assert said[0].filename == __file__
    assert [pair[:2] for pair in model.check_.lost] == [("debt ratio", "decision")]
    frame = model.check().to_frame()
    assert frame.column_b[0] == "decision"
    assert frame.mutual_information_model.max() < 1e-6 < 0.01 < frame.mutual_information_rows[0]


def test_an_effect_in_the_tail_and_one_of_a_rare_value_are_found_and_an_interaction_is_not():
    """No pair of columns shows an interaction of three, so no pair is lost."""
    rng = np.random.default_rng(1)
    n = 4000
    balance, kind = (
        rng.exponential(size=n),
        rng.choice(["a", "b", "c", "x"], n, p=[0.5, 0.3, 0.185, 0.015]),
    )
    one, other = rng.random((2, n)) < 0.5
    rows = pd.DataFrame(
        {
            "balance": balance.round(3),
            "default": rng.random(n) < np.where(balance > 3.5, 0.9, 0.2),  # 3 % of the rows
            "kind": kind,
            "broken": rng.random(n) < np.where(kind == "x", 0.7, 0.2),
            "one": one,
            "other": other,
            "both": one ^ other,
        }
    )
    found = fitted(rows, random_state=0).check_
    assert {pair[:2] for pair in found.lost} == {("balance", "default"), ("kind", "broken")}
    worst = {pair.column_a: pair.worst for pair in found.lost}
    assert worst["kind"].startswith("broken = True given kind = x: 0.")
    assert worst["balance"].startswith("default = True given balance >= ")


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::strudel.errors.MissingForAReasonWarning")
def test_a_column_that_is_missing_by_rule_is_no_lost_pair():
    """Rows that know both are mostly of one sex, and the model need not say so."""
    rng = np.random.default_rng(2)
    sex = rng.choice(["f", "m"], 3000)
    known = (sex == "f") | (rng.random(3000) < 0.05)
    children = np.where(known, rng.integers(0, 4, 3000).astype(float), np.nan)
    found = fitted(pd.DataFrame({"sex": sex, "children": children}), random_state=0).check_
    assert found.pair_rows[0].sum(axis=1).min() < 100
    assert found.lost == ()


def test_equal_weights_change_nothing_and_few_heavy_rows_count_as_few():
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2, (500, 3))
    circuit = INDEPENDENT.fit(rows).circuit_
    plain, heavy = check(circuit, rows), check(circuit, rows, sample_weight=np.full(500, 7.0))
    assert np.array_equal(plain.pair_rows, heavy.pair_rows)
    weight = np.where(np.arange(500) < 10, 1000.0, 1e-6)
    found = check(circuit, rows, sample_weight=weight)
    assert found.pair_rows.sum(axis=(1, 2)) == pytest.approx(10.0, rel=1e-3)


@pytest.mark.compiled
def test_of_many_pairs_the_strongest_are_kept(monkeypatch):
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 2, (3000, 30))
    rows[:, 7] = rows[:, 21] ^ (rng.random(3000) < 0.1)
    rows[:, 3] = rows[:, 4] ^ (rng.random(3000) < 0.2)
    monkeypatch.setattr(pair_check, "MOST_PAIRS", 10)
    monkeypatch.setattr(pair_check, "COUNTED_CELLS", 10)  # a part of the rows chooses the pairs
    found = INDEPENDENT.fit(rows).check_
    assert (len(found.pair_first), found.n_pairs_of_table) == (10, 435)
    assert [pair[:2] for pair in found.lost] == [("x7", "x21"), ("x3", "x4")]
    pairs = list(zip(found.pair_first, found.pair_second, strict=True))
    assert found.pair_rows[pairs.index((7, 21)), 1, 1] == (rows[:, 7] & rows[:, 21]).sum()
    assert "10 of 435 pairs of columns in 3,000 rows, 2 lost" in repr(found)


@pytest.mark.parametrize("rows", [[[1, 0, 1, 0]], np.full((300, 4), np.nan), np.zeros((300, 4))])
def test_rows_that_say_nothing_lose_nothing(rows):
    found = check(figure_1_circuit(), rows)
    assert found.lost == ()
    assert len(found.to_frame()) == 6
    assert "none lost" in repr(found)
    assert "<table" in found._repr_html_()


def test_one_column_has_no_pairs():
    found = INDEPENDENT.fit([[0], [1]] * 200).check_
    assert (found.lost, found.pairs(), len(found.to_frame())) == ((), (), 0)


@pytest.mark.parametrize("rows", [np.zeros((0, 4)), [[0, 1]], [[0, 1, 2, 0]], None, "rows"])
def test_what_are_no_rows_of_the_model_is_refused(rows):
    with pytest.raises(ValueError, match=r"row|columns|hold|array"):
        check(figure_1_circuit(), rows)


def test_a_model_without_a_check_asks_for_rows():
    model = INDEPENDENT.fit(np.random.default_rng(0).integers(0, 2, (300, 3)))
    assert model.check() is model.check_
    del model.check_
    with pytest.raises(ValueError, match="give rows"):
        model.check()


@pytest.fixture(scope="module")
def learned():
    return fitted(mixed_rows(200), random_state=0)


@pytest.fixture
def saved(learned, tmp_path):
    path = tmp_path / "model.strudel"
    save(learned, path)
    return path


def test_the_check_is_saved_and_loaded(saved, learned):
    model = learned
    for other in (load(saved), pickle.loads(pickle.dumps(model))):
        for field in Check.__dataclass_fields__:
            assert np.array_equal(
                np.asarray(getattr(model.check_, field), dtype=object),
                np.asarray(getattr(other.check_, field), dtype=object),
            ), field
        assert other.check().sentences() == model.check_.sentences()


@pytest.mark.parametrize(
    "change",
    [
        lambda state, arrays: state.pop("names"),
        lambda state, arrays: state.update(names={"$tuple": [1, 2, 3, 4]}),
        lambda state, arrays: state.update(labels={"$tuple": []}),
        lambda state, arrays: state.update(n_rows="many"),
        lambda state, arrays: state.update(n_pairs_of_table=1),
        lambda state, arrays: state.update({"$of": "Vtree"}),
        lambda state, arrays: arrays["pair_rows"].fill(-1.0),
        lambda state, arrays: arrays["pair_model"].fill(np.nan),
        lambda state, arrays: arrays["pair_rows"].fill(1e308),
        lambda state, arrays: arrays["pair_first"].fill(4),
        lambda state, arrays: arrays["pair_second"].fill(0),
        lambda state, arrays: arrays.update(pair_first=arrays["pair_first"][:1]),
        lambda state, arrays: arrays.update(pair_rows=arrays["pair_rows"][:, :, :1]),
        lambda state, arrays: arrays.update(pair_rows=arrays["pair_rows"][0]),
        lambda state, arrays: state.pop("pair_model"),
    ],
)
def test_a_file_with_another_check_is_refused(saved, change):
    def edited(header, arrays):
        state = state_of(header, "Check")
        places = {name: own["$array"] for name, own in state.items() if name.startswith("pair_")}
        mine = {name: arrays[place].copy() for name, place in places.items()}
        change(state, mine)
        for name, place in places.items():
            arrays[place] = mine[name]

    edit(saved, edited)
    with pytest.raises(FileFormatError):
        load(saved)
