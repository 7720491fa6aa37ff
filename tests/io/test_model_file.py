from __future__ import annotations

import io
import json
import os
import pickle
import tracemalloc
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from strategies import (
    any_circuits,
    circuits,
    examples,
    mixtures,
    random_mixture,
)
from strudel._version import __version__
from strudel.circuits.circuit import Circuit, why_not_well_formed
from strudel.circuits.compile import compile_factorized
from strudel.circuits.examples import figure_1_circuit
from strudel.circuits.mixture import Mixture
from strudel.errors import FileFormatError
from strudel.io.archive import read_archive, write_archive
from strudel.io.model_file import load, read_provenance, save
from strudel.io.model_states import mixture_state
from strudel.learning.options import EM
from strudel.learning.progress import MixtureHistory
from strudel.models.strudel import Strudel
from strudel.tables.encoder import TableEncoder
from strudel.trees.vtree import Vtree, balanced_vtree

ARRAYS = ("node_vtree", "node_edges", "edge_left", "edge_right", "edge_log_theta")
VTREE_ARRAYS = ("node_left", "node_right", "node_var")
MIXTURE_ARRAYS = ("edge_log_theta", "log_weight")
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
often = examples(400, same_folder)


def assert_same(found, expected):
    """Equal to the last bit, types and shapes included."""
    assert type(found) is type(expected)
    assert found.feature_names == expected.feature_names
    if isinstance(found, Mixture):
        assert_same(found.structure, expected.structure)
        pairs = [(getattr(found, name), getattr(expected, name)) for name in MIXTURE_ARRAYS]
    else:
        pairs = [(getattr(found, name), getattr(expected, name)) for name in ARRAYS]
        pairs += [(getattr(found.vtree, n), getattr(expected.vtree, n)) for n in VTREE_ARRAYS]
    for one, other in pairs:
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()


def members(content):
    """The members of a saved file by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def archive_of(contents, compression=zipfile.ZIP_STORED):
    """The bytes of a zip file with these members, a dict or list of pairs."""
    buffer = io.BytesIO()
    pairs = contents.items() if isinstance(contents, dict) else contents
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in pairs:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


def npy(array, **options):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **options)
    return buffer.getvalue()


def figure_1_mixture():
    return random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))


def saved(model, folder):
    """The bytes of a saved model."""
    save(model, folder / "good.strudel")
    return (folder / "good.strudel").read_bytes()


@pytest.fixture(params=[figure_1_circuit, figure_1_mixture])
def good(tmp_path, request):
    """The bytes of a circuit and of a mixture: a mixture's file has all that a circuit's has."""
    return saved(request.param(), tmp_path)


@pytest.fixture
def good_mixture(tmp_path):
    return saved(figure_1_mixture(), tmp_path)


@pytest.fixture
def refused(tmp_path):
    """Checks that some bytes give one error that names the file and holds some words."""

    def check(content, words):
        path = tmp_path / "bad.strudel"
        path.write_bytes(content)
        for reader in (load, read_provenance) if "meta" in words else (load,):
            with pytest.raises(FileFormatError) as caught:
                reader(path, verify=False)
            message = str(caught.value)
            assert message.startswith(f"Cannot read a Strudel model from {path}: ")
            assert words.removeprefix("meta: ") in message
            assert "\n" not in message
            assert message.endswith(".")

    return check


# Round trips


@same_folder
@given(st.one_of(circuits(6), any_circuits(5)))
def test_a_circuit_comes_back_bit_for_bit(tmp_path, circuit):
    save(circuit, tmp_path / "c.strudel")
    assert_same(load(tmp_path / "c.strudel"), circuit)


@same_folder
@given(mixtures(5))
def test_a_mixture_comes_back_bit_for_bit(tmp_path, mixture):
    save(mixture, tmp_path / "m.strudel")
    assert_same(load(tmp_path / "m.strudel"), mixture)


@same_folder
@given(st.lists(st.text(), min_size=3, max_size=3))
def test_any_feature_names_come_back(tmp_path, names):
    circuit = compile_factorized(balanced_vtree(3)).with_names(tuple(names))
    save(circuit, tmp_path / "c.strudel")
    assert load(tmp_path / "c.strudel").feature_names == tuple(names)


def test_names_beyond_ascii_come_back(tmp_path):
    names = ("größe", "\u5e74\u9f62", "\U0001f370 \ud800")
    save(compile_factorized(balanced_vtree(3)).with_names(names), tmp_path / "c.strudel")
    assert load(tmp_path / "c.strudel").feature_names == names


@pytest.mark.parametrize("value", [-np.inf, -0.0, 5e-324, -1e308])
def test_unusual_numbers_come_back(tmp_path, value):
    circuit = compile_factorized(Vtree.from_nested(0)).with_parameters(np.array([value, 0.0]))
    save(circuit, tmp_path / "c.strudel")
    assert_same(load(tmp_path / "c.strudel"), circuit)


def test_how_often_components_know_values_comes_back_and_is_checked(tmp_path):
    path = tmp_path / "m.strudel"
    mixture = replace(figure_1_mixture(), known=np.random.default_rng(0).random((4, 3)))
    save(mixture, path)
    np.testing.assert_array_equal(load(path).known, mixture.known)

    def contents(archive):
        arrays = mixture_state(mixture)[1]
        return archive.meta, arrays | {"mixture.known": np.full((4, 3), 1.5)}

    write_archive(path, *read_archive(path, contents))
    with pytest.raises(FileFormatError, match="known values must be between 0 and 1"):
        load(path)


def test_a_mixture_without_edges(tmp_path):
    leaf = np.zeros(1, dtype=np.int32)
    none = np.zeros(0, dtype=np.int32)
    vtree = Vtree.from_nested(0)
    literal = Circuit(vtree, leaf.repeat(2), leaf.repeat(3), none, none, np.zeros(0))
    mixture = Mixture(literal, np.zeros((0, 3)), np.log([0.5, 0.25, 0.25]))
    save(mixture, tmp_path / "m.strudel")
    assert_same(load(tmp_path / "m.strudel"), mixture)


def test_the_order_in_memory_does_not_matter(tmp_path):
    mixture = figure_1_mixture()
    turned = Mixture(
        mixture.structure, np.asfortranarray(mixture.edge_log_theta), mixture.log_weight
    )
    content = members(saved(turned, tmp_path))
    content["meta.json"] = members(saved(mixture, tmp_path))["meta.json"]
    assert content == members(saved(mixture, tmp_path))
    content["mixture.edge_log_theta.npy"] = npy(np.asfortranarray(mixture.edge_log_theta))
    (tmp_path / "m.strudel").write_bytes(archive_of(content))
    again = load(tmp_path / "m.strudel", verify=False)
    assert again.edge_log_theta.flags.c_contiguous
    assert_same(again, mixture)


def test_loaded_arrays_are_read_only(tmp_path):
    save(figure_1_mixture(), tmp_path / "m.strudel")
    again = load(tmp_path / "m.strudel")
    for array in (again.structure.edge_log_theta, again.edge_log_theta, again.log_weight):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("model", "kind"), [(figure_1_circuit(), "circuit"), (figure_1_mixture(), "mixture")]
)
def test_the_file_is_a_plain_zip_of_npy_members(tmp_path, model, kind):
    found = members(saved(model, tmp_path))
    meta = json.loads(found.pop("meta.json"))
    assert (meta["format"], meta["kind"]) == ("strudel", kind)
    for name, content in found.items():
        array = np.load(io.BytesIO(content), allow_pickle=False)
        assert array.shape[1:] == ((3,) if name == "mixture.edge_log_theta.npy" else ())


# Provenance


def test_provenance_tells_versions_and_time(tmp_path):
    save(figure_1_circuit(), tmp_path / "c.strudel", provenance={"data": {"rows": 3}})
    found = read_provenance(tmp_path / "c.strudel")
    assert found["kind"] == "circuit"
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
        match=r"save takes a Circuit, a Mixture, a PredictorCircuit or a fitted .* but got list",
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
    path = tmp_path / "cut.strudel"
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        with pytest.raises(FileFormatError, match=r"cut\.strudel"):
            load(path)


@often
@given(st.data())
def test_flipped_bytes_give_a_sound_model_or_one_error(tmp_path, good, data):
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    load_or_refuse(tmp_path / "flipped.strudel", bytes(content))


@often
@given(st.data())
def test_changed_numbers_with_a_correct_checksum_are_checked_too(tmp_path, good, data):
    contents = members(good)
    name = data.draw(st.sampled_from(sorted(contents)))
    content = bytearray(contents[name])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    load_or_refuse(tmp_path / "changed.strudel", archive_of(contents | {name: bytes(content)}))


def load_or_refuse(path, content):
    path.write_bytes(content)
    try:
        model = load(path, verify=False)
    except FileFormatError as error:
        message = str(error)
        assert str(path) in message
        return
    if isinstance(model, Mixture):
        assert model.edge_log_theta.shape == (model.n_edges, model.n_components)
        assert not np.isnan(model.edge_log_theta).any()
        assert model.weights.sum() == pytest.approx(1.0)
        model = model.structure
    assert why_not_well_formed(model) is None


# Foreign and hostile files


def test_foreign_files(refused):
    refused(b"", "meta: it is incomplete, damaged or another kind")
    refused(b"psdd 3\nL 0 0 1\n", "meta: it is incomplete, damaged or another kind")
    refused(pickle.dumps([1, 2, 3]), "meta: it is incomplete, damaged or another kind")
    refused(
        archive_of({"a.npy": npy(np.arange(3))}), "meta: not a Strudel model: meta.json is missing"
    )


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was executed",)


def test_a_pickle_inside_is_never_opened(good, refused):
    objects = npy(np.array([Trap()], dtype=object), allow_pickle=True)
    contents = members(good)
    refused(
        archive_of(contents | {"circuit.edge_log_theta.npy": objects}),
        "array circuit.edge_log_theta should have one axis and type <f8, but has shape (1,) and",
    )
    raw = pickle.dumps(Trap())
    refused(archive_of(contents | {"circuit.edge_log_theta.npy": raw}), "magic string")
    refused(archive_of(contents | {"model.pkl": raw}), "'model.pkl' does not belong in a model")


@pytest.mark.parametrize(
    "name", ["../evil.npy", "/etc/passwd", "a/b.npy", "C:\\x.npy", "a..npy", "A.npy", "x.txt", ""]
)
def test_member_names_that_lead_elsewhere(good, refused, name):
    content = archive_of([*members(good).items(), (name, b"x")])
    refused(content, "does not belong in a model")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_with_one_name(good, refused):
    contents = list(members(good).items())
    refused(archive_of([*contents, contents[-1]]), "meta: two with the same name")


def test_compressed_members_cannot_swell(good, refused):
    bomb = npy(np.zeros(10**7, dtype=np.float64))
    content = archive_of(members(good) | {"circuit.edge_log_theta.npy": bomb}, zipfile.ZIP_DEFLATED)
    assert len(content) < len(bomb) / 100
    refused(content, "meta: is compressed")


def test_sizes_that_are_larger_than_the_file(good, refused):
    content = bytearray(good)
    start = content.index(b"PK\x01\x02")  # the directory entry of the first member
    content[start + 20 : start + 28] = (2**31).to_bytes(4, "little") * 2
    refused(bytes(content), "meta: larger than the file")


def test_sizes_that_disagree(good, refused):
    content = bytearray(good)
    start = content.index(b"PK\x01\x02")
    content[start + 24 : start + 28] = (2**31).to_bytes(4, "little")
    refused(bytes(content), "meta: is compressed")


def test_an_encrypted_member(good, refused):
    content = bytearray(good)
    for start in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
        content[start] |= 1
    refused(bytes(content), "encrypted")


def header(shape, descr="<f8", fortran_order=False, n_bytes=8):
    """An npy member that claims a shape and type, with 8 bytes of data."""
    claims = {"descr": descr, "fortran_order": fortran_order, "shape": shape}
    text = repr(claims).ljust(117) + "\n"
    start = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little")
    return start + text.encode() + bytes(n_bytes)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (header((10**15,)), "does not have the length"),
        (header((-1,)), "does not have the length"),
        (header(()), "should have one axis and type <f8, but has shape ()"),
        (header((1, 1)), "should have one axis and type <f8, but has shape (1, 1)"),
        (
            header((2,), "<f4"),
            "should have one axis and type <f8, but has shape (2,) and type float32",
        ),
        (header((1,), ">f8"), "should have one axis and type <f8"),
        (header((1,), "|O"), "should have one axis and type <f8"),
        (header("__import__('os')"), "shape"),
        (b"\x93NUMPY\x03\x00" + bytes(100), "is not in version 1.0 of the npy format"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "EOF"),
        (b"\x93NUMPY\x01\x00\x20\x4e" + b" " * 20_000, "Header info length (20000) is large"),
        (b"", "EOF"),
    ],
)
def test_arrays_that_lie_about_themselves(good, refused, content, words):
    refused(archive_of(members(good) | {"circuit.edge_log_theta.npy": content}), words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (header((48,), n_bytes=384), "should have two axes and type <f8, but has shape (48,)"),
        (header((16, 3, 1), n_bytes=384), "should have two axes"),
        (header((16, 3), "<f4", n_bytes=192), "should have two axes and type <f8"),
        (header((16, 3), "|O", n_bytes=384), "should have two axes and type <f8"),
        (header((16, 3), n_bytes=376), "does not have the length"),
        (header((16, 3), n_bytes=392), "does not have the length"),
        (header((-16, -3), n_bytes=384), "does not have the length"),
        (header((2**32, 2**32), n_bytes=0), "does not have the length"),  # 0 in 64 bits
        (header((2**31, 2**30), n_bytes=0), "does not have the length"),
        (header((0, 10**15), n_bytes=0), "must have shape (16, 3)"),
        (header((0, 10**40), n_bytes=0), ""),
        (header((3, 16), n_bytes=384), "per component, but have (3, 16)"),
        (header((1.5, 32), n_bytes=384), "shape"),
        (header((16, 3), fortran_order="yes", n_bytes=384), "fortran_order"),
    ],
)
def test_tables_that_lie_about_themselves(good_mixture, refused, content, words):
    contents = members(good_mixture)
    refused(archive_of(contents | {"mixture.edge_log_theta.npy": content}), words)


def test_no_more_memory_is_taken_than_a_few_times_the_file(tmp_path):
    circuit = figure_1_circuit()
    k = 20_000
    log_theta = np.repeat(circuit.edge_log_theta[:, np.newaxis], k, axis=1)
    mixture = Mixture(circuit, log_theta, np.full(k, -np.log(k)))
    n_bytes = len(saved(mixture, tmp_path))
    tracemalloc.start()
    load(tmp_path / "good.strudel")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * n_bytes


def change(good, name, index, value, part="circuit"):
    contents = members(good)
    array = np.load(io.BytesIO(contents[f"{part}.{name}.npy"])).copy()
    array[index] = value
    return archive_of(contents | {f"{part}.{name}.npy": npy(array)})


@pytest.mark.parametrize(
    ("name", "index", "value", "words"),
    [
        ("edge_left", 0, 2**31 - 1, "the left child of every edge must come before its parent"),
        ("edge_right", -1, 10**6, "the right child of every edge must be NONE or come before"),
        ("node_edges", -2, 2**31 - 1, "node_edges must not decrease"),
        ("node_vtree", -1, 99, "node_vtree points outside the vtree"),
        ("edge_log_theta", 0, np.nan, "log-parameters must be numbers up to"),
        ("vtree_left", -1, 6, "children must come before their parent"),
        ("vtree_var", 0, 77, "the leaves must hold the variables 0..3, each once"),
    ],
)
def test_numbers_that_break_the_rules(good, refused, name, index, value, words):
    refused(change(good, name, index, value), words)


@pytest.mark.parametrize(
    ("name", "index", "value", "words"),
    [
        ("edge_log_theta", (0, 0), np.nan, "the logs of the parameters must be numbers up to"),
        ("log_weight", 0, np.nan, "the logs of the weights must be numbers up to"),
        ("log_weight", slice(None), -np.inf, "the weights add up to 0 instead of 1"),
        ("log_weight", slice(None), 0.0, "the weights add up to 3 instead of 1"),
    ],
)
def test_numbers_that_are_no_mixture(good_mixture, refused, name, index, value, words):
    refused(change(good_mixture, name, index, value, part="mixture"), words)


def with_meta(good, **changes):
    contents = members(good)
    meta = json.loads(contents["meta.json"]) | changes
    return archive_of(contents | {"meta.json": json.dumps(meta)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 4}, "meta: reads version 5; learn and save the model again"),
        ({"version": 10**30}, "meta: upgrade with pip install --upgrade strudel-pc"),
        ({"version": "1"}, "meta: the version should be int, but is str"),
        ({"format": "other"}, "meta: does not say that it is a Strudel model"),
        ({"kind": "tensor"}, "meta: it holds an unknown kind of model, 'tensor'"),
        ({"provenance": None}, "meta: the provenance should be dict, but is NoneType"),
        ({"feature_names": ["a"]}, "there are 1 feature names for 4 variables"),
        ({"feature_names": [1, 2, 3, 4]}, "some feature names are not text"),
    ],
)
def test_meta_that_does_not_fit(good, refused, changes, words):
    refused(with_meta(good, **changes), words)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000])
def test_meta_that_is_not_an_object(good, refused, text):
    refused(archive_of(members(good) | {"meta.json": text}), "meta: ")


@pytest.mark.parametrize("name", ["edge_left", "vtree_var"])
def test_a_member_that_is_missing(good, refused, name):
    contents = members(good)
    del contents[f"circuit.{name}.npy"]
    refused(archive_of(contents), f"the member circuit.{name}.npy is missing")


def test_a_circuit_is_no_mixture(tmp_path, refused):
    content = with_meta(saved(figure_1_circuit(), tmp_path), kind="mixture")
    refused(content, "the member mixture.edge_log_theta.npy is missing")


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"class": "Popen"}, "it holds an estimator of the unknown class 'Popen'"),
        ({"class": 3}, "the class of the estimator should be str, but is int"),
        (
            {"params": {"shell": True}},
            "it holds options that this version does not know: ['shell']",
        ),
        ({"params": []}, "the options should be dict, but is list"),
        ({"n_features_in": 9}, "the number of features is not that of the model's variables"),
        ({"feature_names_in": ["a"]}, "the number of feature names is not that of the features"),
        ({"data": 3}, "the facts about the data should be dict, but is int"),
        ({"history": {"columns": ["train"], "best": 0}}, "train"),
        ({"history": 1}, "the history should be dict, but is int"),
    ],
)
def test_estimator_files_that_do_not_fit(tmp_path, fitted, refused, changes, words):
    save(fitted, tmp_path / "m.strudel")
    if changes.get("history", 1) != 1:
        words = "n_splits"  # the first column that is missing
    refused(with_meta((tmp_path / "m.strudel").read_bytes(), **changes), words)


def test_a_history_that_breaks_its_rules(tmp_path, fitted, refused):
    save(fitted, tmp_path / "m.strudel")
    contents = members((tmp_path / "m.strudel").read_bytes())
    short = contents | {"history.train.npy": npy(np.zeros(1))}
    refused(archive_of(short), "The columns of a history must be equally long")
    n_rows = len(fitted.history_)
    broken = contents | {"history.n_splits.npy": npy(np.full(n_rows, np.nan))}
    refused(archive_of(broken), "NaN")


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


def test_an_estimator_must_hold_its_mixture(tmp_path, rng, refused):
    model = Strudel(n_components=2, max_splits=0, method=EM(max_iter=2), random_state=0)
    contents = members(saved(model.fit(rng.integers(0, 2, (40, 3))), tmp_path))
    del contents["mixture.log_weight.npy"]
    refused(archive_of(contents), "the member mixture.log_weight.npy is missing")
    with pytest.raises(NotFittedError):
        save(Strudel(), tmp_path / "m.strudel")


# Codes of tables


@pytest.fixture
def good_table(tmp_path):
    rows = [["red", 1.5, True], ["blue", 2.5, False], ["green", 3.5, True]] * 10
    return saved(Strudel(n_components=1, max_splits=0, random_state=0).fit(rows), tmp_path)


def with_code(good, change):
    meta = json.loads(members(good)["meta.json"])
    change(meta)
    return archive_of(members(good) | {"meta.json": json.dumps(meta)})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(table_code=[]), "the table's code should be dict, but is list"),
        (lambda m: m["table_code"].pop("columns"), "This is not a table code"),
        (lambda m: m["table_code"]["columns"].pop(), "needs that many names, but has 6"),
        (lambda m: m.update(encoder=3), "the encoder should be dict, but is int"),
        (lambda m: m["encoder"].update(strange=1), "does not know: ['strange']"),
        (lambda m: m.update(n_features_in=6), "the number of features is not that"),
        (lambda m: m.update(table_code=None), "the number of features is not that"),
    ],
)
def test_codes_that_lie_are_refused(good_table, refused, change, words):
    refused(with_code(good_table, change), words)


@same_folder
@given(data=st.data())
def test_any_change_of_a_code_gives_a_model_or_one_error(tmp_path, data):
    rows = [["red", 1.5, True], ["blue", 2.5, False], ["green", 3.5, None]]
    code = TableEncoder().fit(rows).code_
    circuit = compile_factorized(balanced_vtree(code.n_vars)).with_table_code(code)
    save(circuit, tmp_path / "good.strudel")
    good = (tmp_path / "good.strudel").read_bytes()
    meta = json.loads(members(good)["meta.json"])
    column = meta["table_code"]["columns"][data.draw(st.integers(0, 2))]
    name = data.draw(st.sampled_from(sorted(column)))
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    column[name] = data.draw(
        scalars | st.lists(scalars | st.lists(scalars, max_size=3), max_size=4)
    )
    content = archive_of(members(good) | {"meta.json": json.dumps(meta)})
    (tmp_path / "code.strudel").write_bytes(content)
    try:
        found = load(tmp_path / "code.strudel", verify=False)
    except FileFormatError:
        return
    found.table_code.decode(np.zeros((2, code.n_vars)))
