from __future__ import annotations

import os
import random
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from column_circuits import (
    category_column,
    column_circuits,
    number_column,
    random_circuit,
    random_predictor,
)
from makers import sdd_of
from model_files import edit, set_number, state_of
from strategies import (
    circuits,
    examples,
    mixtures,
    random_mixture,
)
from strudel import StrudelClassifier, marginal_probabilities
from strudel._version import __version__
from strudel.circuits.circuit import Circuit, why_not_well_formed
from strudel.circuits.compile import compile_factorized, figure_1_circuit
from strudel.errors import FileFormatError
from strudel.io.model_file import load, read_provenance, save
from strudel.learning.options import EM
from strudel.learning.progress import MixtureHistory
from strudel.logic.terms import variables
from strudel.models.strudel import Strudel
from strudel.tables.column import bit_column
from strudel.tables.schema import Columns
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.vtree import Vtree, balanced_vtree

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
often = examples(400, same_folder)


def assert_same(found, expected):
    """Equal to the last bit, types and shapes included."""
    assert isinstance(found, Circuit)
    assert found.vtree == expected.vtree
    assert found.columns.names == expected.columns.names
    for field in fields(found):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.tobytes() == other.tobytes()


def figure_1_mixture():
    return random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))


@pytest.fixture(params=[figure_1_circuit, figure_1_mixture])
def good(tmp_path, request):
    """The file of a circuit and of a mixture."""
    save(request.param(), tmp_path / "good.strudel")
    return tmp_path / "good.strudel"


def refused(path, change, words):
    """A change gives one error that names the file and holds some words."""
    edit(path, change)
    with pytest.raises(FileFormatError) as caught:
        load(path, verify=False)
    message = str(caught.value)
    assert message.startswith(f"Cannot read a Strudel model from {path}: ")
    assert words in message
    assert "\n" not in message
    assert message.endswith(".")


# Round trips


@same_folder
@given(circuits(6))
def test_a_circuit_comes_back_bit_for_bit(tmp_path, circuit):
    save(circuit, tmp_path / "c.strudel")
    assert_same(load(tmp_path / "c.strudel"), circuit)


@same_folder
@given(mixtures(5))
def test_a_mixture_comes_back_bit_for_bit(tmp_path, mixture):
    save(mixture, tmp_path / "m.strudel")
    assert_same(load(tmp_path / "m.strudel"), mixture)


@same_folder
@given(column_circuits())
def test_a_circuit_over_columns_comes_back_bit_for_bit(tmp_path, circuit):
    save(circuit, tmp_path / "c.strudel")
    again = load(tmp_path / "c.strudel")
    assert_same(again, circuit)
    for one, other in zip(again.columns, circuit.columns, strict=True):
        assert same_state(one) == same_state(other)


def same_state(value):
    """Columns and densities as tuples."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if not hasattr(value, "__dataclass_fields__"):
        return tuple(map(same_state, value)) if isinstance(value, tuple) else value
    return tuple(same_state(getattr(value, field.name)) for field in fields(value))


@pytest.mark.parametrize(
    "model",
    [
        balanced_vtree(3),
        learn_chow_liu_tree(np.eye(4, dtype=np.uint8)),
        random_predictor(compile_factorized(balanced_vtree(2)), np.random.default_rng(0)),
        sdd_of(frozenset({(0, 1), (1, 1)}), balanced_vtree(2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_objects_come_back(tmp_path, model):
    save(model, tmp_path / "m.strudel")
    assert same_state(load(tmp_path / "m.strudel")) == same_state(model)


def test_events_come_back(tmp_path):
    x = variables(["a", "b", "c"])
    event = (x["a"] & ~x["b"]) | x["c"]
    save(event, tmp_path / "e.strudel")
    assert str(load(tmp_path / "e.strudel")) == str(event)


@same_folder
@given(st.lists(st.text(), min_size=3, max_size=3, unique=True))
def test_any_feature_names_come_back(tmp_path, names):
    circuit = compile_factorized(balanced_vtree(3)).with_names(tuple(names))
    save(circuit, tmp_path / "c.strudel")
    assert load(tmp_path / "c.strudel").columns.names == tuple(names)


def test_names_beyond_ascii_come_back(tmp_path):
    names = ("größe", "\u5e74\u9f62", "\U0001f370 \ud800")
    save(compile_factorized(balanced_vtree(3)).with_names(names), tmp_path / "c.strudel")
    assert load(tmp_path / "c.strudel").columns.names == names


def test_unusual_numbers_come_back(tmp_path):
    for value in (-np.inf, -0.0, 5e-324, -1e308):
        circuit = compile_factorized(Vtree.from_nested(0))
        circuit = replace(circuit, leaf_log_p=np.array([[value], [0.0]]))
        save(circuit, tmp_path / "c.strudel")
        assert_same(load(tmp_path / "c.strudel"), circuit)


def test_how_often_components_know_values_comes_back_and_is_checked(tmp_path):
    path = tmp_path / "m.strudel"
    mixture = figure_1_mixture()
    known = np.random.default_rng(0).random(mixture.leaf_log_p.shape)
    mixture = replace(mixture, known=known)
    save(mixture, path)
    np.testing.assert_array_equal(load(path).known, mixture.known)
    refused(path, set_number("Circuit", "known", 0, 1.5), "known values must be between 0 and 1")


def test_the_order_in_memory_does_not_matter(tmp_path):
    mixture = figure_1_mixture()
    turned = replace(mixture, edge_log_theta=np.asfortranarray(mixture.edge_log_theta))
    save(turned, tmp_path / "m.strudel")
    assert_same(load(tmp_path / "m.strudel"), mixture)


def test_loaded_arrays_are_read_only(tmp_path):
    save(figure_1_mixture(), tmp_path / "m.strudel")
    again = load(tmp_path / "m.strudel")
    for array in (again.leaf_log_p, again.edge_log_theta, again.log_weight):
        assert not array.flags.writeable


# Provenance


def test_provenance_tells_versions_and_time(tmp_path):
    save(figure_1_circuit(), tmp_path / "c.strudel", provenance={"data": {"rows": 3}})
    found = read_provenance(tmp_path / "c.strudel")
    assert found["kind"] == "Circuit"
    assert found["strudel"] == __version__
    assert found["numpy"] == np.__version__
    assert found["data"] == {"rows": 3}
    age = datetime.now(UTC) - datetime.fromisoformat(found["created"])
    assert timedelta(seconds=-1) <= age < timedelta(minutes=1)


def test_provenance_must_be_plain_values(tmp_path):
    with pytest.raises(TypeError, match="provenance must hold plain values only"):
        save(figure_1_circuit(), tmp_path / "c.strudel", provenance={"x": object()})
    assert list(tmp_path.iterdir()) == []


# Writing


def test_only_models_can_be_saved(tmp_path):
    with pytest.raises(
        TypeError,
        match=r"save takes a circuit, a tree, an event, a predictor or a fitted .* but got list",
    ):
        save([1, 2], tmp_path / "c.strudel")


def test_a_folder_cannot_be_written_or_read(tmp_path):
    for act in (lambda: save(figure_1_circuit(), tmp_path), lambda: load(tmp_path)):
        with pytest.raises(IsADirectoryError, match="is a folder: give the name of a file in it"):
            act()


def test_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"The folder .* does not exist: create it first"):
        save(figure_1_circuit(), tmp_path / "nowhere" / "c.strudel")


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch, step, error):
    path = tmp_path / "c.strudel"
    save(figure_1_circuit(), path)
    before = path.read_bytes()

    def fail(*args):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        save(compile_factorized(balanced_vtree(9)), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.strudel"
    link.symlink_to(tmp_path / "real" / "c.strudel")
    save(figure_1_circuit(), link)
    assert link.is_symlink()
    assert_same(load(tmp_path / "real" / "c.strudel"), figure_1_circuit())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_the_file_has_the_usual_rights(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    save(figure_1_circuit(), tmp_path / "c.strudel")
    assert (tmp_path / "c.strudel").stat().st_mode == (tmp_path / "plain").stat().st_mode


# Damage


def test_a_file_cut_anywhere_is_refused(tmp_path, good):
    content = good.read_bytes()
    path = tmp_path / "cut.strudel"
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(FileFormatError, match=r"cut\.strudel"):
            load(path)


@often
@given(st.data())
def test_flipped_bytes_give_a_sound_model_or_one_error(tmp_path, good, data):
    content = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "flipped.strudel").write_bytes(bytes(content))
    load_or_refuse(tmp_path / "flipped.strudel")


@often
@given(st.data())
def test_changed_numbers_with_a_correct_checksum_are_checked_too(tmp_path, good, data):
    def change(_, arrays):
        place = data.draw(st.integers(0, len(arrays) - 1))
        content = bytearray(arrays[place].tobytes())
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        arrays[place] = np.frombuffer(content, arrays[place].dtype).reshape(arrays[place].shape)

    (tmp_path / "changed.strudel").write_bytes(good.read_bytes())
    edit(tmp_path / "changed.strudel", change)
    load_or_refuse(tmp_path / "changed.strudel")


def load_or_refuse(path):
    try:
        model = load(path, verify=False)
    except FileFormatError:
        return
    assert not np.isnan(model.edge_log_theta).any()
    assert why_not_well_formed(model) is None


@pytest.mark.parametrize(
    ("name", "part", "index", "value", "words"),
    [
        ("Vtree", "node_left", -1, 6, "children must come before their parent"),
        ("Vtree", "node_var", 0, 77, "the leaves must hold the variables 0..3, each once"),
        ("Circuit", "edge_left", 0, 2**31 - 1, "children must be nodes"),
        ("Circuit", "leaf_column", 0, 9, "leaves must be about columns"),
        ("Circuit", "sum_vtree", -1, 99, "sums must lie at vtree nodes"),
        ("Circuit", "leaf_log_p", 0, np.nan, "logs of parameters must be numbers"),
        ("Circuit", "log_weight", 0, 3.0, "the weights add up to"),
        ("Circuit", "log_weight", 0, -np.inf, "the weights add up to"),
    ],
)
def test_numbers_that_break_the_rules(good, name, part, index, value, words):
    refused(good, set_number(name, part, index, value), words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sum_vtree": 3}, "sum_vtree of a Circuit has another type"),
        ({"sum_vtree": {"$array": 99}}, "incomplete or damaged"),
        ({"sum_vtree": {"$array": "1"}}, "should be int, but is str"),
        ({"vtree": {"$object": 99}}, "an object is missing"),
        ({"vtree": {"$object": 1}}, "vtree of a Circuit has another type"),
        ({"vtree": {"$strange": []}}, "a value of the unknown kind '$strange'"),
        ({"log_total": {"$tuple": ["a"]}}, "log_total of a Circuit has another"),
        ({"more": 1}, "with other parts than"),
        ({"$of": "Popen"}, "an object of the unknown class 'Popen'"),
        ({"$of": 3}, "the class of an object should be str, but is int"),
        ({"$of": "Vtree"}, "with other parts than"),
    ],
)
def test_states_that_do_not_fit(tmp_path, change, words):
    save(figure_1_circuit(), tmp_path / "c.strudel")
    refused(tmp_path / "c.strudel", lambda header, _: header["objects"][-1].update(change), words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"root": 9}, "an object is missing"),
        ({"root": None}, "an object is missing"),
        ({"objects": {}}, "the list of objects should be list, but is dict"),
        ({"objects": [3]}, "an object"),
    ],
)
def test_headers_that_do_not_fit(tmp_path, change, words):
    save(figure_1_circuit(), tmp_path / "c.strudel")
    refused(tmp_path / "c.strudel", lambda header, _: header.update(change), words)


# Estimators


@pytest.fixture
def fitted(rng):
    density = pytest.importorskip("strudel.models.strudel")
    X = rng.integers(0, 2, (60, 4)).astype(np.uint8)
    return density.Strudel(n_components=1, random_state=0, max_splits=5).fit(X)


def test_an_estimator_comes_back(tmp_path, fitted):
    save(fitted, tmp_path / "m.strudel", provenance={"dataset": "coins"})
    again = load(tmp_path / "m.strudel")
    assert type(again) is type(fitted)
    assert again.get_params() == fitted.get_params()
    assert_same(again.circuit_, fitted.circuit_)
    assert again.n_features_in_ == fitted.n_features_in_ == 4
    assert not hasattr(again, "feature_names_in_")
    assert getattr(again, "data_", None) == getattr(fitted, "data_", None)
    for name, column in fitted.history_.columns().items():
        found = again.history_.columns()[name]
        assert found.dtype == column.dtype
        np.testing.assert_array_equal(found, column)
    assert again.history_.best == fitted.history_.best
    assert again.history_.stopped_because == fitted.history_.stopped_because
    found = read_provenance(tmp_path / "m.strudel")
    assert found["dataset"] == "coins"
    assert found["options"]["max_splits"] == 5


def test_options_that_are_not_plain_are_named(tmp_path, fitted):
    fitted.set_params(random_state=np.random.RandomState(0))
    save(fitted, tmp_path / "m.strudel")
    assert load(tmp_path / "m.strudel").random_state is None
    assert read_provenance(tmp_path / "m.strudel")["options_not_saved"] == ["random_state"]


def learned(**changes):
    """A change of what an estimator learned."""
    return lambda header, _: state_of(header, "Strudel")["learned"].update(changes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda header, _: state_of(header, "Strudel")["options"].update(shell=True),
            "it holds options that this version does not know: ['shell']",
        ),
        (
            lambda header, _: state_of(header, "Strudel").update(options=[]),
            "the options should be dict, but is list",
        ),
        (learned(n_features_in_=9), "the number of features is not that of the model's columns"),
        (
            learned(feature_names_in_={"$texts": ["a"], "dtype": "O"}),
            "the number of feature names is not that of the features",
        ),
        (learned(data_=3), "data_ of Strudel is of another type"),
        (learned(history_=1), "history_ of Strudel is of another type"),
        (learned(fit=1), "fit of Strudel is of another type"),
        (learned(circuit_=None), "circuit_ of Strudel is of another type"),
        (
            lambda header, _: state_of(header, "Strudel")["learned"].pop("circuit_"),
            "the circuit_ of Strudel is missing",
        ),
        (
            lambda header, _: state_of(header, "History")["columns"].pop("train"),
            "train",
        ),
        (
            lambda header, _: state_of(header, "History").update(best=10**6),
            "must be equally long and hold the best row",
        ),
    ],
)
def test_estimator_files_that_do_not_fit(tmp_path, fitted, change, words):
    save(fitted, tmp_path / "m.strudel")
    refused(tmp_path / "m.strudel", change, words)


def test_a_learned_mixture_comes_back(tmp_path, rng):
    pandas = pytest.importorskip("pandas")
    X = rng.integers(0, 2, (60, 1)).repeat(4, axis=1) ^ (rng.random((60, 4)) < 0.1)
    frame = pandas.DataFrame(X.astype(np.uint8), columns=["a", "b", "c", "größe"])
    model = Strudel(n_components=3, max_splits=0, method=EM(n_runs=2, max_iter=5), random_state=0)
    model.fit(frame)
    save(model, tmp_path / "m.strudel")
    again = load(tmp_path / "m.strudel")
    assert type(again) is Strudel
    assert again.get_params() == model.get_params()
    assert_same(again.circuit_, model.circuit_)
    assert again.chosen_ == model.chosen_
    assert again.chosen_["n_runs"] == 2
    assert again.data_ == model.data_
    assert type(again.history_) is MixtureHistory
    for name, column in model.history_.columns().items():
        assert again.history_.columns()[name].dtype == column.dtype
        np.testing.assert_array_equal(again.history_.columns()[name], column)
    assert again.history_.best == model.history_.best
    assert again.history_.stopped_because == model.history_.stopped_because
    assert again.feature_names_in_.tolist() == ["a", "b", "c", "größe"]
    np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
    np.testing.assert_array_equal(again.responsibilities(X), model.responsibilities(X))


def test_only_fitted_estimators_are_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(Strudel(), tmp_path / "m.strudel")


def test_all_that_was_learned_comes_back(tmp_path):
    rng = np.random.default_rng(0)
    rows = [["red", 1.5, True], ["blue", 2.5, False], ["green", 3.5, None]] * 10
    model = Strudel(n_components=2, max_splits=0, random_state=0).fit(rows)
    classifier = StrudelClassifier(n_components=1, max_splits=0, random_state=0)
    classifier.fit(rng.integers(0, 2, (60, 3)), rng.integers(0, 2, 60))
    for one in (model, classifier):
        save(one, tmp_path / "m.strudel")
        again = load(tmp_path / "m.strudel")
        learned = {name for name in vars(one) if name.endswith("_") and name[0] != "_"}
        assert learned == {name for name in vars(again) if name.endswith("_") and name[0] != "_"}
        assert again.trials_ == one.trials_
        assert getattr(again, "missing_", None) == getattr(one, "missing_", None)


# Columns of tables


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("Column", {"kind": "strange"}, "a name, a kind of"),
        ("Column", {"labels": {"$tuple": ["a"] * 5}}, "the labels distinct"),
        ("Column", {"counts": {"$tuple": [1]}}, "a value and a count for every label"),
        ("Column", {"edges": {"$tuple": [2.0, 1.0]}}, "one edge fewer"),
        ("Column", {"edges": {"$tuple": ["a"]}}, "edges of a Column has another type"),
        ("Column", {"region": {"$tuple": [{"$tuple": [2.0, 1.0]}]}}, "apart and in order"),
        ("Column", {"density": None}, "has no density"),
        ("Density", {"unit": 0.0}, "above zero"),
        ("Density", {"seen": {"$tuple": [1.0]}}, "seen of a Density has another type"),
        ("Density", {"parts": {"$tuple": []}}, "add up to 0"),
        ("Pieces", {"step": -1.0}, "must not be negative"),
        ("Columns", {"unknown": "maybe"}, "what becomes of unknown values"),
        ("Columns", {"columns": {"$tuple": []}}, "at least one column"),
    ],
)
def test_columns_that_lie_are_refused(tmp_path, name, change, words):
    columns = Columns((bit_column("a"), number_column("b", random.Random(0), 3)))
    circuit = random_circuit(columns, balanced_vtree(2), random.Random(0), 2)
    save(circuit, tmp_path / "m.strudel")
    refused(tmp_path / "m.strudel", lambda h, _: state_of(h, name).update(change), words)


@same_folder
@given(data=st.data())
def test_any_change_of_a_column_gives_a_model_or_one_error(tmp_path, data):
    columns = Columns((number_column("b", random.Random(0), 3), category_column("c", 3)))
    save(random_circuit(columns, balanced_vtree(2), random.Random(0), 2), tmp_path / "m.strudel")

    def change(header, _):
        state = data.draw(st.sampled_from(header["objects"]))
        part = data.draw(st.sampled_from(sorted(state)))
        scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
        values = st.lists(scalars | st.lists(scalars, max_size=3), max_size=4)
        state[part] = data.draw(scalars | values | values.map(lambda own: {"$tuple": own}))

    edit(tmp_path / "m.strudel", change)
    try:
        found = load(tmp_path / "m.strudel", verify=False)
    except FileFormatError:
        return
    if isinstance(found, Circuit):
        marginal_probabilities(found)
