"""A file is what was saved, which its checksum shows."""

import io
import json
import zipfile

import numpy as np
import pytest

from strategies import random_mixture
from strudel import FileFormatError, load, save
from strudel.circuits import figure_1_circuit
from strudel.errors import ChangedFileError
from strudel.io.model_file import read_provenance


def mixture():
    return random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))


MODELS = {"circuit": figure_1_circuit, "mixture": mixture}
PARAMETERS = {
    "circuit": "circuit.edge_log_theta.npy",
    "mixture": "mixture.edge_log_theta.npy",
}


def edited(path, change):
    """Write a file again with changed members, as a program that knows zip files would."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def first_parameter(name, value):
    """Set one log-parameter."""

    def change(members):
        array = np.load(io.BytesIO(members[name])).copy()
        array.flat[0] = value
        content = io.BytesIO()
        np.lib.format.write_array(content, array, (1, 0))
        members[name] = content.getvalue()

    return change


@pytest.fixture(params=MODELS)
def kind(request):
    return request.param


@pytest.fixture
def path(tmp_path, kind):
    save(MODELS[kind](), tmp_path / "m.strudel")
    return tmp_path / "m.strudel"


@pytest.mark.parametrize("value", [-1.0, -np.inf, -5e-324])
def test_a_changed_number_is_refused_in_one_short_sentence(path, kind, value):
    edited(path, first_parameter(PARAMETERS[kind], value))
    with pytest.raises(ChangedFileError) as caught:
        load(path)
    assert "it was changed after it was saved." in str(caught.value)
    assert len(str(caught.value)) < 300
    assert load(path, verify=False).n_vars == 4


def test_changed_words_are_refused(path):
    def rename(members):
        members["meta.json"] = members["meta.json"].replace(b'"X1"', b'"Y1"')

    edited(path, rename)
    for reader in (load, read_provenance):
        with pytest.raises(ChangedFileError):
            reader(path)
        reader(path, verify=False)


def test_a_file_without_a_checksum_is_refused(path):
    def drop(members):
        meta = json.loads(members["meta.json"])
        del meta["checksum"]
        members["meta.json"] = json.dumps(meta).encode()

    edited(path, drop)
    with pytest.raises(ChangedFileError):
        load(path)


def test_a_member_more_or_less_is_refused(path):
    edited(path, lambda members: members.update({"extra.npy": b""}))
    with pytest.raises(ChangedFileError):
        load(path)


def test_another_order_and_layout_of_the_same_content_is_the_same_file(path):
    def sort(members):
        meta = json.loads(members.pop("meta.json"))
        members["meta.json"] = json.dumps(dict(sorted(meta.items()))).encode()

    edited(path, sort)
    load(path)


def test_what_was_saved_without_adding_up_comes_back(tmp_path):
    circuit = figure_1_circuit()
    twice = circuit.with_parameters(circuit.edge_log_theta + np.log(2.0))
    save(twice, tmp_path / "m.strudel")
    np.testing.assert_array_equal(load(tmp_path / "m.strudel").edge_log_theta, twice.edge_log_theta)


def test_a_message_is_short_whatever_a_file_is_called_and_holds(tmp_path):
    folder = tmp_path / ("a" * 200) / ("b" * 200)
    folder.mkdir(parents=True)
    save(figure_1_circuit(), folder / "m.strudel")
    edited(
        folder / "m.strudel",
        lambda members: members.update(
            {"meta.json": json.dumps({"format": "strudel", "version": 5, "kind": "k" * 9000})}
        ),
    )
    with pytest.raises(FileFormatError) as caught:
        load(folder / "m.strudel")
    assert len(str(caught.value)) <= 300
    assert str(caught.value).startswith("Cannot read a Strudel model from ")
