"""A file is what was saved, which its checksum shows; and files that lie about their arrays."""

import json
import pickle
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest

from model_files import edit, opened, set_number
from strategies import random_mixture
from strudel import FileFormatError, load, save
from strudel.circuits import figure_1_circuit
from strudel.errors import ChangedFileError
from strudel.io.archive import START, Archive, write_archive
from strudel.io.model_file import read_provenance


def mixture():
    return random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))


MODELS = {
    "circuit": figure_1_circuit,
    "mixture": mixture,
}


@pytest.fixture(params=MODELS)
def kind(request):
    return request.param


@pytest.fixture
def path(tmp_path, kind):
    save(MODELS[kind](), tmp_path / "m.strudel")
    return tmp_path / "m.strudel"


@pytest.mark.parametrize("value", [-1.0, -np.inf, -5e-324])
def test_a_changed_number_is_refused_in_one_short_sentence(path, kind, value):
    edit(path, set_number("Circuit", "edge_log_theta", 0, value), seal=False)
    for reader in (load, read_provenance):
        with pytest.raises(ChangedFileError) as caught:
            reader(path)
        assert "it was changed after it was saved." in str(caught.value)
        assert len(str(caught.value)) < 300
        reader(path, verify=False)


def test_changed_words_are_refused(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"X1"', b'"Y1"'))
    with pytest.raises(ChangedFileError):
        load(path)
    load(path, verify=False)


def test_what_was_saved_without_adding_up_comes_back(tmp_path):
    circuit = figure_1_circuit()
    twice = replace(circuit, log_total=np.log(2.0))
    save(twice, tmp_path / "m.strudel")
    assert load(tmp_path / "m.strudel").log_total == np.log(2.0)


def test_a_message_is_short_whatever_a_file_is_called_and_holds(tmp_path):
    folder = tmp_path / ("a" * 200) / ("b" * 200)
    folder.mkdir(parents=True)
    save(figure_1_circuit(), folder / "m.strudel")
    edit(folder / "m.strudel", lambda header, _: header["objects"][0].update({"$of": "k" * 9000}))
    with pytest.raises(FileFormatError) as caught:
        load(folder / "m.strudel")
    assert len(str(caught.value)) <= 300
    assert str(caught.value).startswith("Cannot read a Strudel model from ")


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(0),
        np.zeros((0, 3), dtype=np.int32),
        np.arange(24.0).reshape(2, 3, 4).T,
        np.array([True, False]),
        np.array([-0.0, -np.inf, 5e-324, np.nan]),
        np.arange(-3, 4),
        np.zeros(10**7, dtype=np.uint8),
    ],
)
def test_arrays_come_back_bit_for_bit(tmp_path, array):
    write_archive(tmp_path / "a", {}, [array])
    ((again,), header) = opened(tmp_path / "a")[::-1]
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert again.tobytes() == array.tobytes()
    assert not again.flags.writeable
    assert list(header) == ["arrays"]


# Hostile files


def refusal(path, content):
    path.write_bytes(content)
    with pytest.raises(FileFormatError) as caught:
        load(path, verify=False)
    message = str(caught.value)
    assert message.startswith(f"Cannot read a Strudel model from {path}: ")
    assert message.endswith(".")
    assert "\n" not in message
    return message


def with_array(good, dtype="<f8", shape=(2,), content=bytes(16), size=None):
    """A file whose first array is another one."""
    start = START.match(good).end()
    header = json.loads(good[start : good.index(b"\n", start)])
    end = good.index(b"\n", start) + 1 + header["arrays"][0][2]
    packed = zlib.compress(content)
    header["arrays"][0] = [dtype, list(shape), len(packed) if size is None else size]
    return good[:start] + json.dumps(header).encode() + b"\n" + packed + good[end:]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": "|O"}, "another type"),
        ({"dtype": ">f8"}, "another type"),
        ({"dtype": ["<f8"]}, "another type"),
        ({"shape": (1, 1, 1, 2)}, "more axes"),
        ({"shape": (3,)}, "does not have the size"),
        ({"shape": (1,)}, "does not have the size"),
        ({"shape": (-1,)}, "not a whole number"),
        ({"shape": (-1, -2)}, "not a whole number"),
        ({"shape": (1.0, 2)}, "not a whole number"),
        ({"shape": (True, 2)}, "not a whole number"),
        ({"shape": (10**15,)}, "far larger than the file"),
        ({"shape": (2**32, 2**32)}, "far larger than the file"),
        ({"size": 10**6}, "do not have the sizes"),
        ({"size": -1}, "not a whole number"),
        ({"shape": (2**20,), "content": bytes(2**23)}, "far larger than the file"),
    ],
)
def test_arrays_that_lie_about_themselves(tmp_path, change, words):
    save(figure_1_circuit(), tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    assert words in refusal(tmp_path / "bad", with_array(good, **change))


def test_damaged_packing(tmp_path):
    save(figure_1_circuit(), tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    start = good.index(b"\n", START.match(good).end()) + 1
    assert "incomplete or damaged" in refusal(
        tmp_path / "bad", good[:start] + b"\0" * len(good[start:])
    )


def test_foreign_and_older_files(tmp_path):
    for content in (b"", b"psdd 3\nL 0 0 1\n", pickle.dumps([1]), b"strudel model x\n"):
        assert "it is incomplete, damaged or another kind" in refusal(tmp_path / "a", content)
    assert "an older version of Strudel: learn and save" in refusal(tmp_path / "a", b"PK\3\4 more")
    save(figure_1_circuit(), tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    old, new = (good.replace(b"model 6", b"model " + n) for n in (b"3", b"99"))
    assert "format 6 is read; learn and save the model again" in refusal(tmp_path / "a", old)
    assert "upgrade with pip install --upgrade strudel-pc" in refusal(tmp_path / "a", new)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b"{}", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000]
)
def test_a_header_that_is_none(tmp_path, text):
    save(figure_1_circuit(), tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    refusal(tmp_path / "bad", good[: START.match(good).end()] + text + b"\n")


def test_no_more_memory_is_taken_than_a_few_times_the_file(tmp_path):
    circuit, k = figure_1_circuit(), 20_000
    columns = {name: np.repeat(getattr(circuit, name), k, axis=1) for name in ("leaf_log_p",)}
    many = [columns["leaf_log_p"], np.zeros((50, k))]
    write_archive(tmp_path / "a", {}, many)
    n_bytes = (tmp_path / "a").stat().st_size
    tracemalloc.start()
    archive = Archive(tmp_path / "a")
    assert [archive.array(n).shape for n in range(2)] == [own.shape for own in many]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < max(50 * n_bytes, 4 * 2**23)
