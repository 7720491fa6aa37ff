from __future__ import annotations

import functools
import hashlib
import http.server
import logging
import os
import threading
import zipfile
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from strudel.data import datasets
from strudel.data.datasets import (
    SPLITS,
    dataset_names,
    load_dataset,
    parse_zero_one_lines,
    read_packed_splits,
    write_packed_splits,
)
from strudel.errors import FileFormatError

BENCHMARKS = (
    "nltcs msnbc kdd plants baudio jester bnetflix accidents tretail pumsb_star dna kosarek msweb "
    "book tmovie cwebkb cr52 c20ng bbc ad"
)


def as_csv(table):
    """A table as the published files write it."""
    return "".join(",".join(map(str, row)) + "\n" for row in table.tolist()).encode()


def small_splits(value=1):
    return {split: np.full((n, 3), value, dtype=np.uint8) for n, split in enumerate(SPLITS, 1)}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty data folder, an empty cache, and no network."""
    monkeypatch.setenv("STRUDEL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STRUDEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(datasets, "_SOURCE", "http://127.0.0.1:9/")  # nothing listens there
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    return tmp_path


@pytest.fixture
def server(folders, monkeypatch):
    """A server on this machine in place of the published files: put them in the folder given."""
    root = folders / "published"
    root.mkdir()
    handler = functools.partial(_QuietHandler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as http_server:
        thread = threading.Thread(target=http_server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr(datasets, "_SOURCE", f"http://127.0.0.1:{http_server.server_port}/")
        yield root
        http_server.shutdown()
        thread.join()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def test_the_names_are_the_twenty_benchmarks_and_digits():
    assert dataset_names() == [*BENCHMARKS.split(), "digits"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nltc", "Did you mean 'nltcs'"),
        ("Audio", "baudio"),
        ("reuters-52", "routers-52"),
        ("???", "Choose from 'nltcs', 'msnbc',"),
    ],
)
def test_an_unknown_name_lists_those_that_come_close(name, hint):
    with pytest.raises(ValueError, match="There is no dataset") as caught:
        load_dataset(name)
    assert hint in str(caught.value)


def test_digits_are_the_images_of_scikit_learn_in_three_parts():
    digits = load_dataset("digits")
    assert [getattr(digits, split).shape for split in SPLITS] == [(1257, 64), (180, 64), (360, 64)]
    rows = np.concatenate([digits.train, digits.valid, digits.test])
    assert rows.dtype == np.uint8
    expected = (load_digits().images >= 8).reshape(-1, 64)
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, expected.astype(int).tolist()))


def test_digits_are_split_the_same_way_everywhere():
    digits = load_dataset("digits")
    assert (
        hashlib.sha256(np.packbits(digits.train).tobytes()).hexdigest()[:16] == "21a06298ee366aa6"
    )


def test_the_data_folder_comes_before_the_cache(folders):
    write_packed_splits(folders / "cache" / "debd" / "dna.npz", small_splits(0))
    assert not load_dataset("dna").train.any()
    write_packed_splits(folders / "data" / "debd" / "dna.npz", small_splits(1))
    dataset = load_dataset("dna")
    assert dataset.train.all()
    assert dataset.feature_names == ("x0", "x1", "x2")
    assert repr(dataset) == "Dataset('dna', n_vars=3, train=1, valid=2, test=3)"


@pytest.mark.parametrize("n_vars", [1, 7, 8, 9, 100])
def test_packed_splits_come_back_whole(tmp_path, rng, n_vars):
    path = tmp_path / "new" / "folder" / "x.npz"
    splits = {split: rng.integers(0, 2, (5, n_vars), dtype=np.uint8) for split in SPLITS}
    write_packed_splits(path, splits)
    found = read_packed_splits(path)
    assert all(np.array_equal(found[split], splits[split]) for split in SPLITS)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    path = tmp_path / "x.npz"
    write_packed_splits(path, small_splits(0))
    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(KeyboardInterrupt):
        write_packed_splits(path, small_splits(1))
    assert os.listdir(tmp_path) == ["x.npz"]
    assert not read_packed_splits(path)["train"].any()


def packed(**changes):
    arrays = {split: np.zeros((2, 1), dtype=np.uint8) for split in SPLITS}
    return {**arrays, "n_vars": np.array(3), **changes}


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (packed(train=np.array([{}], dtype=object)), "Object arrays cannot be loaded"),
        (packed(test=np.zeros((2, 2), dtype=np.uint8)), "'test' with 3 columns is uint8 of shape"),
        (packed(valid=np.zeros((2, 1))), "'valid' with 3 columns is float64"),
        ({"x": np.zeros(3)}, "an array is missing"),
    ],
)
def test_a_file_that_is_no_packed_dataset_says_why(tmp_path, arrays, reason):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(FileFormatError, match=reason) as caught:
        read_packed_splits(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 and then nothing"])
def test_a_damaged_file_is_one_clear_error(folders, content):
    path = folders / "data" / "debd" / "dna.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"dna\.npz is not a packed dataset"):
        load_dataset("dna")


def test_without_network_the_error_says_what_to_do(folders):
    with pytest.raises(ConnectionError) as caught:
        load_dataset("nltcs")
    text = str(caught.value)
    assert "Dataset 'nltcs' is not on this machine and could not be downloaded" in text
    assert "Set STRUDEL_DATA to a folder that holds debd/nltcs.npz, or use 'digits'" in text
    assert "\n" not in text


def test_a_download_with_another_checksum_is_refused(server, folders):
    (server / "nltcs").mkdir()
    (server / "nltcs" / "nltcs.train.data").write_bytes(b"0,1\n")
    with pytest.raises(FileFormatError, match="does not match the published checksum"):
        load_dataset("nltcs")
    assert not (folders / "cache").exists()


def publish(root, name, tables):
    (root / name).mkdir()
    for split in SPLITS:
        (root / name / f"{name}.{split}.data").write_bytes(as_csv(tables[split]))


def test_a_download_is_checked_kept_and_not_repeated(data_folder, server, folders, monkeypatch):
    published = read_packed_splits(data_folder / "debd" / "nltcs.npz")
    publish(server, "nltcs", published)
    level = logging.getLogger("pooch").level
    first = load_dataset("nltcs")
    assert all(np.array_equal(getattr(first, split), published[split]) for split in SPLITS)
    assert logging.getLogger("pooch").level == level
    assert os.listdir(folders / "cache" / "debd") == ["nltcs.npz"]
    monkeypatch.setattr(datasets, "_SOURCE", "http://127.0.0.1:9/")
    assert np.array_equal(load_dataset("nltcs").test, first.test)


def test_a_download_that_cannot_be_kept_is_still_a_dataset(
    data_folder, server, folders, monkeypatch, caplog
):
    publish(server, "nltcs", read_packed_splits(data_folder / "debd" / "nltcs.npz"))
    (folders / "file").write_text("in the way")
    monkeypatch.setenv("STRUDEL_CACHE", str(folders / "file"))
    assert load_dataset("nltcs").n_vars == 16
    assert "nltcs was downloaded but could not be kept" in caplog.text


def test_every_benchmark_has_a_checksum_per_split():
    lines = resources.files("strudel.data").joinpath("checksums.txt").read_text().splitlines()
    files = [line.split()[0] for line in lines if not line.startswith("#")]
    expected = [f"{n}/{n}.{split}.data" for n in sorted(BENCHMARKS.split()) for split in SPLITS]
    assert sorted(files) == sorted(expected)


@pytest.mark.parametrize("name", BENCHMARKS.split())
def test_checksums_are_those_of_the_tables_written_as_csv(data_folder, name):
    lines = resources.files("strudel.data").joinpath("checksums.txt").read_text().splitlines()
    known = dict(line.split() for line in lines if not line.startswith("#"))
    splits = read_packed_splits(data_folder / "debd" / f"{name}.npz")
    for split, table in splits.items():
        text = np.full((len(table), 2 * table.shape[1]), ord(","), dtype=np.uint8)
        text[:, ::2] = table + ord("0")
        text[:, -1] = ord("\n")
        digest = hashlib.sha256(text.tobytes()).hexdigest()
        assert known[f"{name}/{name}.{split}.data"] == digest


def test_the_benchmarks_have_their_published_sizes(data_folder):
    sizes = {"nltcs": (16181, 2157, 3236, 16), "kdd": (180092, 19907, 34955, 64)}
    for name, (*n_rows, n_vars) in sizes.items():
        dataset = load_dataset(name)
        assert [len(getattr(dataset, split)) for split in SPLITS] == n_rows
        assert dataset.n_vars == n_vars


@pytest.mark.parametrize("table", [[[0]], [[1, 0, 1]], [[0, 1], [1, 1], [0, 0]]])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_of_0_and_1_are_parsed(table, end):
    text = as_csv(np.array(table)).rstrip(b"\n") + end
    assert parse_zero_one_lines(text).tolist() == table


def test_the_file_on_disk_holds_four_plain_arrays(tmp_path):
    path = tmp_path / "x.npz"
    write_packed_splits(path, small_splits())
    assert sorted(zipfile.ZipFile(path).namelist()) == sorted(
        f"{key}.npy" for key in (*SPLITS, "n_vars")
    )
    assert Path(path).stat().st_size < 2000
