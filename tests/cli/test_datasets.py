"""Facts about `strudel datasets`."""

import json

import numpy as np

from strudel.data.datasets import SIZES, dataset_names, load_dataset


def test_table_has_a_line_per_dataset(run):
    code, out, err = run("datasets")
    assert (code, err) == (0, "")
    listed = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert set(dataset_names()) <= listed


def test_sizes_are_known_for_every_dataset():
    assert set(SIZES) == set(dataset_names())


def test_sizes_of_digits_are_those_of_the_data():
    digits = load_dataset("digits")
    parts = (digits.train, digits.valid, digits.test)
    assert SIZES["digits"] == (digits.n_vars, *map(len, parts))


def test_places_are_told_apart_without_a_download(run, monkeypatch, tmp_path):
    for place, name in (("data", "nltcs"), ("cache", "msnbc")):
        (tmp_path / place / "debd").mkdir(parents=True)
        np.savez(tmp_path / place / "debd" / f"{name}.npz", n_vars=1)
    monkeypatch.setenv("STRUDEL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STRUDEL_CACHE", str(tmp_path / "cache"))
    code, out, _ = run("datasets", "--json")
    found = {row["name"]: row["found"] for row in json.loads(out)["datasets"]}
    assert code == 0
    assert found["digits"] == "built in"
    assert found["nltcs"] == "local"
    assert found["msnbc"] == "cached"
    assert found["plants"] == "download needed"


def test_the_table_that_ships_is_named_with_what_to_type(run):
    code, out, _ = run("datasets")
    assert code == 0
    assert "patients" in out.split()
    assert "strudel fit patients" in out
