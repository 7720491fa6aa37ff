"""Every command meets bad input with exit code 2 and one clear line, and leaves nothing behind."""

import os

import numpy as np
import pytest

TABLES = {
    "empty.csv": "",
    "header.csv": "a,b\n",
    "two.csv": "a,b\n0,2\n1,1\n",
    "text.csv": "a,b\n0,x\n",
    "ragged.csv": "a,b\n0,1\n1\n",
    "twice.csv": "a,a\n0,1\n",
    "nulls.csv": "a,b\0\n0,1\n",
    "fake.npy": "not numpy",
    "fake.npz": "not numpy",
    "fake.parquet": "not parquet",
    "fake.csv.gz": "\x1f\x8bnot gzip",
    "table.xlsx": "not a table",
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    for name, text in TABLES.items():
        (folder / name).write_text(text, encoding="latin-1")
    (folder / "fake.strudel").write_text("not a model")
    (folder / "empty.strudel").write_text("")
    np.savez(folder / "other.strudel.npz", X=np.eye(2))
    os.rename(folder / "other.strudel.npz", folder / "other.strudel")
    return folder


@pytest.fixture
def is_refused(refused, tmp_path):
    """Refused, and nothing is left in the folder."""

    def is_refused(*arguments):
        before = sorted(tmp_path.iterdir())
        refused(*arguments)
        assert sorted(tmp_path.iterdir()) == before

    return is_refused


@pytest.mark.parametrize("name", [*TABLES, "missing.csv", "no-such-dataset"])
def test_bad_tables(is_refused, bad, model, tmp_path, name):
    path = bad / name if "." in name else name
    out = tmp_path / "new.strudel"
    if name not in ("two.csv", "text.csv"):  # which are tables of columns
        is_refused("fit", path, "-o", out)
    is_refused("score", model, path)
    is_refused("query", model, "marginal", "--given", path)
    is_refused("sample", model, "--given", path)
    is_refused("impute", model, path, "-o", tmp_path / "new.csv")


@pytest.mark.parametrize("name", ["fake.strudel", "empty.strudel", "other.strudel", "no.strudel"])
def test_bad_models(is_refused, bad, table, tmp_path, name):
    path = bad / name
    is_refused("score", path, table)
    is_refused("info", path)
    is_refused("query", path, "marginal")
    is_refused("sample", path)
    is_refused("predict", path, table)
    is_refused("impute", path, table)
    is_refused("convert", path, tmp_path / "new.psdd")
    is_refused("score", bad, table)


@pytest.mark.parametrize("command", ["info", "explore", "impute", "query", "score"])
def test_trees_that_are_no_models(is_refused, table, tmp_path, command):
    (tmp_path / "a.vtree").write_text("vtree 3\nL 0 1\nL 2 2\nI 1 0 2\n")
    rest = {"info": [], "explore": [], "query": ["map"]}.get(command, [table])
    is_refused(command, tmp_path / "a.vtree", *rest)


def test_bad_places_to_write(is_refused, model, table, tmp_path):
    lost = tmp_path / "no" / "such" / "folder"
    for command, ending in (
        (("fit", table), ".strudel"),
        (("score", model, table), ".csv"),
        (("sample", model), ".csv"),
        (("impute", model, table), ".csv"),
    ):
        is_refused(*command, "-o", lost / f"new{ending}")
        is_refused(*command, "-o", tmp_path)
        if table in command:
            is_refused(*command, "-o", table)
    is_refused("convert", model, lost / "new.psdd")
    is_refused("convert", model, tmp_path / "new.unknown")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere"
)
def test_a_read_only_folder(is_refused, model, table, tmp_path):
    tmp_path.chmod(0o500)
    try:
        is_refused("fit", table, "-o", tmp_path / "new.strudel")
        is_refused("sample", model, "-o", tmp_path / "new.csv")
    finally:
        tmp_path.chmod(0o700)


BOGUS = [  # what the command line itself refuses; test_fit and test_query have what commands do
    ("bogus",),
    ("fit",),
    ("fit", "TABLE", "--bogus"),
    ("fit", "TABLE", "extra"),
    ("fit", "TABLE", "--max-splits", "-1"),
    ("fit", "TABLE", "--seed", "-1"),
    ("fit", "TABLE", "--set", "warm_start=true"),
    ("fit", "TABLE", "--constraint", "none.cnf"),
    ("score", "MODEL"),
    ("query", "MODEL", "marginal", "--top", "0"),
    ("query", "MODEL", "probability", "none.cnf"),
    ("sample", "MODEL", "-n", "-1"),
    ("impute", "MODEL", "TABLE", "--strategy", "bogus"),
    ("predict", "MODEL", "TABLE"),
    ("info",),
    ("convert", "MODEL"),
    ("convert", "MODEL", "new.psdd", "--normalize"),
    ("datasets", "--bogus"),
]


@pytest.mark.parametrize("arguments", BOGUS, ids=" ".join)
def test_bogus_options(is_refused, model, table, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    places = {"MODEL": model, "TABLE": table}
    is_refused(*(places.get(word, word) for word in arguments))


@pytest.mark.parametrize(
    "rows", [[[0, 1]], [[1, 1], [1, 1], [1, 1]], [[0], [1], [1]]], ids=["one", "constant", "narrow"]
)
def test_small_tables_are_learned_all_the_same(run, make_table, tmp_path, rows):
    path = make_table("small.csv", rows, "ab"[: len(rows[0])])
    for options in ((), ("--components", 2), ("--components", "auto")):
        out = tmp_path / "small.strudel"
        assert run("fit", "--components", 1, path, "-o", out, *options, "-q")[::2] == (0, "")
        assert run("score", out, path)[0] == 0


def test_a_command_that_fails_late_leaves_the_old_file(run, model, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device", "rows.csv")

    path = tmp_path / "rows.csv"
    path.write_text("old\n")
    monkeypatch.setattr("os.replace", fail)
    code, out, err = run("sample", model, "-o", path)
    assert (code, out) == (2, "")
    assert "No space left" in err
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old\n"]
