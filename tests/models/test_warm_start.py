"""Fits that continue from the circuit of an earlier one."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import oracle
from column_circuits import probability_of
from strudel import Strudel, load, log_likelihood, read, save, variables, write
from strudel.circuits.properties import why_not_deterministic
from strudel.learning import fit_parameters, learn_structure


def clusters(seed, n_rows=400, n_vars=8):
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(7).random((3, n_vars))
    return (rng.random((n_rows, n_vars)) < centre[rng.integers(3, size=n_rows)]).astype(np.uint8)


TRAIN, VALID = clusters(0), clusters(1)


def fit(model, X=TRAIN, X_valid=VALID, warm_start=False):
    return model.fit(X, X_valid=X_valid, warm_start=warm_start)


def same_circuit(one, other):
    names = ("edge_left", "edge_log_theta", "leaf_log_p")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_pieces_of_a_search_are_the_whole_search():
    whole = fit(
        Strudel(n_components=1, max_splits=12, patience=100, validation_fraction=None),
        X_valid=TRAIN,
    )
    pieces = Strudel(n_components=1, max_splits=4, validation_fraction=None)
    for _ in range(3):  # on its own rows every split is the best so far
        fit(pieces, X_valid=TRAIN, warm_start=True)
    assert whole.history_.best == pieces.history_.best == 12
    states = np.array(oracle.all_rows(8))
    assert pieces.log_likelihood(states) == pytest.approx(whole.log_likelihood(states))
    for name in ("n_splits", "train", "valid", "n_edges"):
        assert getattr(pieces.history_, name) == pytest.approx(getattr(whole.history_, name))
    assert np.all(np.diff(pieces.history_.seconds) >= 0)


def test_the_history_goes_on_from_the_best_circuit():
    model = fit(Strudel(n_components=1, patience=3, random_state=0))
    earlier, circuit = model.history_, model.circuit_
    assert earlier.best < len(earlier) - 1
    fit(model.set_params(max_splits=2, patience=100), warm_start=True)
    later = model.history_
    assert later.n_splits.tolist() == list(range(earlier.best + 3))
    assert later.valid[: earlier.best + 1] == pytest.approx(earlier.valid[: earlier.best + 1])
    assert later.n_edges[earlier.best] == circuit.size
    assert later.seconds[earlier.best] >= earlier.seconds[-1]
    assert later.best >= earlier.best
    assert later.valid[later.best] == pytest.approx(log_likelihood(model, VALID).mean())
    assert later.stopped_because == "max_splits"


def test_without_warm_start_everything_begins_anew():
    model = fit(Strudel(n_components=1, max_splits=3))
    first = model.circuit_
    fit(model)
    assert same_circuit(model.circuit_, first)
    assert len(model.history_) == 4
    fresh = fit(clone(model), warm_start=True)  # a clone has no circuit yet
    assert same_circuit(fresh.circuit_, first)


def test_no_split_only_fits_the_parameters_to_new_rows():
    model = fit(Strudel(n_components=1, max_splits=5))
    old = model.circuit_
    new = clusters(5)
    fit(model.set_params(max_splits=0), X=new, warm_start=True)
    assert same_circuit(model.circuit_, fit_parameters(old, new))


@pytest.mark.parametrize("ending", [".psdd", ".jpc", ".strudel"])
def test_a_circuit_from_a_file_is_continued(ending, tmp_path):
    learned = fit(Strudel(n_components=1, max_splits=6)).circuit_
    path = tmp_path / f"m{ending}"
    if ending == ".strudel":
        save(learned, path)
        loaded = load(path)
    else:
        write(learned, path)
        if ending == ".psdd":
            write(learned.vtree, tmp_path / "m.vtree")
        loaded = read(path)
    model = Strudel(n_components=1, max_splits=4)
    model.circuit_, model.n_features_in_ = loaded, 8
    fit(model, warm_start=True)
    assert len(model.history_) == 5
    expected, history = learn_structure(
        TRAIN, VALID, search=model._circuit_options()[0], start=learned
    )
    assert model.score(VALID) == pytest.approx(history.valid[history.best])
    assert model.circuit_.size == expected.size


# Columns


def test_other_columns_are_refused_and_the_model_stays():
    frame = pd.DataFrame(TRAIN, columns=list("abcdefgh"))
    model = Strudel(n_components=1, max_splits=2, random_state=0).fit(frame)
    circuit = model.circuit_
    with pytest.raises(ValueError, match="yet now missing:\n- h"):
        model.fit(frame.iloc[:, :7], warm_start=True)
    with pytest.raises(ValueError, match="7 features, but Strudel is expecting 8"):
        fit(Strudel(n_components=1, max_splits=0)).fit(TRAIN[:, :7], warm_start=True)
    with pytest.raises(ValueError, match="feature names should match"):
        model.fit(frame.rename(columns={"a": "z"}), warm_start=True)
    assert model.circuit_ is circuit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(frame, warm_start=True)
    assert model.circuit_.columns.names == tuple("abcdefgh")
    model.fit(frame.iloc[:, :7])
    assert model.n_features_in_ == 7


# Constraints


def one_hot(n, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.integers(3, size=n)
    second = np.where(rng.random(n) < 0.7, first, rng.integers(3, size=n))
    return np.hstack([np.eye(3, dtype=np.uint8)[first], np.eye(3, dtype=np.uint8)[second]])


def possible(model):
    rows = oracle.all_rows(6)
    return {row for row in rows if probability_of(model.circuit_, row) > 0}


FIRST = {row for row in oracle.all_rows(6) if sum(row[:3]) == 1}
BOTH = {row for row in FIRST if sum(row[3:]) == 1}


def test_the_same_constraint_changes_nothing_but_the_search_goes_on():
    rows = one_hot(300)
    model = Strudel(n_components=1, constraint="exactly(1, x0, x1, x2)", max_splits=2)
    model.set_params(validation_fraction=None).fit(rows)
    n_edges = model.circuit_.size
    model.fit(rows, warm_start=True)
    assert model.history_.n_splits.tolist() == [0, 1, 2, 3, 4]
    assert model.history_.n_edges[2] == n_edges
    assert possible(model) == FIRST
    x = variables([f"x{i}" for i in range(6)])
    event = x["x0"] | ~x["x0"]  # `==` of events is an event, so sameness is identity
    assert possible(model.set_params(constraint=event).fit(rows, warm_start=True)) == FIRST


def test_what_an_earlier_constraint_excludes_stays_excluded():
    rows = one_hot(300)
    model = Strudel(n_components=1, constraint="exactly(1, x0, x1, x2)", random_state=0).fit(rows)
    assert possible(model.set_params(constraint=None).fit(rows, warm_start=True)) == FIRST
    rows[4, :3] = 0
    with pytest.raises(
        ValueError, match=r"be possible under the circuit of the last fit.* row 4 does"
    ):
        model.fit(rows, warm_start=True)


def test_a_new_constraint_is_multiplied_in():
    rows = one_hot(300)
    model = Strudel(n_components=1, constraint="exactly(1, x0, x1, x2)", random_state=0).fit(rows)
    model.set_params(constraint="exactly(1, x3, x4, x5)").fit(rows, warm_start=True)
    assert possible(model) == BOTH
    assert why_not_deterministic(model.circuit_) is None
    with pytest.raises(ValueError, match="must satisfy the constraint, but row 0 does not"):
        model.set_params(constraint="x0 & x1").fit(rows, warm_start=True)
    assert possible(model) == BOTH


def test_a_constraint_is_not_trusted_to_a_file(tmp_path):
    rows = one_hot(300)
    model = Strudel(n_components=1, constraint="exactly(1, x0, x1, x2)", random_state=0).fit(rows)
    model.set_params(constraint="exactly(1, x3, x4, x5)")
    save(model, tmp_path / "m.strudel")  # the option is newer than the circuit
    assert possible(load(tmp_path / "m.strudel").fit(rows, warm_start=True)) == BOTH
