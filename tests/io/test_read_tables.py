from __future__ import annotations

import gzip
import io
import sys
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import binary_tables
from strudel.data.datasets import load_dataset, write_packed_splits
from strudel.errors import FileFormatError, MissingDependencyError
from strudel.io.frames import read_frame
from strudel.io.read_tables import read_table

NAN = float("nan")


@pytest.fixture
def write(tmp_path):
    """Write a file, and give its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def same(X, expected):
    return np.array_equal(X, np.array(expected, dtype=float), equal_nan=True)


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("x.csv", "0,1\n1,1\n", None),
        ("x.csv", "0,1\n1,1", None),
        ("x.csv", "0,1\r\n1,1\r\n", None),
        ("x.csv", "0,1\r1,1\r", None),
        ("x.csv", "0,1\n1,1\n\n\n", None),
        ("x.csv", "0;1\n1;1\n", None),
        ("x.csv", "0, 1\n1, 1\n", None),
        ("x.csv", '"0","1"\n"1","1"\n', None),
        ("x.csv", "False,True\nTRUE,true\n", None),
        ("x.csv", "0.0,1.0\n1.0,1\n", None),
        ("x.csv", "0.000000000e+00,1.000000000e+00\n1,1\n", None),
        ("x.data", "0,1\n1,1\n", None),
        ("x.txt", "0 1\n1 1\n", None),
        ("x.tsv", "0\t1\n1\t1\n", None),
        ("x.CSV", "a,b\n0,1\n1,1\n", ("a", "b")),
        ("x.csv", "\ufeffa,b\n0,1\n1,1\n", ("a", "b")),
        ("x.csv", '"a,b",c\n0,1\n1,1\n', ("a,b", "c")),
        ("x.csv", " a ,größe\n0,1\n1,1\n", ("a", "größe")),
        ("x.csv", "1,2\n0,1\n1,1\n", ("1", "2")),
        ("x.tsv", "a b\tc, d\n0\t1\n1\t1\n", ("a b", "c, d")),
    ],
)
def test_text_in_many_spellings_is_the_same_table(write, name, text, names):
    table = read_table(write(name, text))
    assert table.X.dtype == np.uint8
    assert table.X.tolist() == [[0, 1], [1, 1]]
    assert table.feature_names == names


def test_numbered_columns_are_names(write):
    table = read_table(write("x.csv", "0,1,2\n1,1,0\n"))
    assert table.feature_names == ("0", "1", "2")
    assert table.X.tolist() == [[1, 1, 0]]


@pytest.mark.parametrize("cell", ["", "?", "NA", "nan", "NaN", "null", "None", "<NA>", " ", '""'])
def test_unknown_cells_are_nan(write, cell):
    table = read_table(write("x.csv", f"a,b\n1,{cell}\n{cell},0\n"))
    assert table.X.dtype == np.float64
    assert same(table.X, [[1, NAN], [NAN, 0]])
    assert table.feature_names == ("a", "b")


def test_unknown_cells_in_the_first_row_are_no_names(write):
    assert same(read_table(write("x.csv", "1,?,\n0,1,1\n")).X, [[1, NAN, NAN], [0, 1, 1]])


def test_one_column_may_have_unknown_lines_and_spaces_in_its_name(write):
    table = read_table(write("x.csv", "ever smoked\n1\n\n0\n"))
    assert table.feature_names == ("ever smoked",)
    assert same(table.X, [[1], [NAN], [0]])


@given(binary_tables(max_rows=20, max_vars=5), st.booleans())
def test_what_pandas_writes_is_read_back(tmp_path_factory, X, has_names):
    path = tmp_path_factory.mktemp("tables") / "x.csv"
    frame = pd.DataFrame(X).add_prefix("v")
    frame.to_csv(path, index=False, header=has_names)
    table = read_table(path)
    assert np.array_equal(table.X, X)
    assert table.feature_names == (tuple(frame.columns) if has_names else None)


def test_a_long_table_with_gaps_agrees_with_pandas(tmp_path, rng):
    frame = pd.DataFrame(rng.integers(0, 2, (60_000, 7))).add_prefix("v").astype(float)
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    path = tmp_path / "x.csv"
    frame.to_csv(path, index=False)
    assert path.stat().st_size > 2**20  # several blocks
    assert same(read_table(path).X, frame.to_numpy())


def test_what_numpy_writes_is_read_back(tmp_path, rng):
    X = rng.integers(0, 2, (50, 6))
    np.savetxt(tmp_path / "x.txt", X)
    np.savetxt(tmp_path / "y.csv", X, fmt="%d", delimiter=",")
    for name in ("x.txt", "y.csv"):
        assert np.array_equal(read_table(tmp_path / name).X, X)


def failure(path, **options):
    with pytest.raises(FileFormatError) as caught:
        read_table(path, **options)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "has names but no rows"),
        ("a,b\n0,1\n1,2\n", "column 'b' holds '2' in line 3. Binarise the data first."),
        ("0,1\n1,0.5\n", "column 1 holds '0.5' in line 2."),
        ("0,3\n0,1\n", "column 1 holds '3' in line 1."),
        ("a,b\n0,male\n", "column 'b' holds 'male' in line 2."),
        ("a,b\nx,y\n0,1\n", "column 'a' holds 'x' in line 2."),
        (",a\n0,1\n1,1\n2,0\n", "column '' holds '2' in line 4. Leave out the row numbers."),
        ("a,b\n0,1\n1\n", "but line 2 has 2 cells and line 3 has 1."),
        ("0,1\n0,1,1\n", "but line 1 has 2 cells and line 2 has 3."),
        ("0,1\n\n1,1\n", "but line 1 has 2 cells and line 2 has 1."),
        ("a,b,c\n0,1\n", "has 3 names in line 1, but 2 cells in line 2."),
        ("a,b,a\n0,1,1\n", "names the column 'a' more than once."),
        (b"\xff\xfea\x00", "is not text in UTF-8"),
        (b"\xffa,b\n0,1\n", "is not csv in UTF-8"),
        ("x" * 200_000 + "\n1\n", "is not csv in UTF-8"),
    ],
)
def test_text_that_is_no_table_says_where(write, text, expected):
    assert expected in failure(write("x.csv", text))


def test_a_bad_cell_far_down_is_found_in_its_line(write):
    text = "a,b\n" + "0,1.0\n" * 200_000 + "0,x1\n"
    assert "column 'b' holds 'x1' in line 200002" in failure(write("x.csv", text))


def test_gzip_is_known_by_its_first_bytes(write):
    packed = gzip.compress(b"a,b\n0,1\n")
    for name in ("x.csv.gz", "x.csv", "x.data.gz", "x.y.CSV.GZ"):
        assert read_table(write(name, packed)).X.tolist() == [[0, 1]]
    assert "is a damaged gzip file" in failure(write("y.csv.gz", packed[:-5]))


@pytest.mark.parametrize("packed", [False, True])
def test_a_dash_is_standard_input(monkeypatch, packed):
    raw = b"a,b\n0,1\n"
    stream = io.TextIOWrapper(io.BytesIO(gzip.compress(raw) if packed else raw))
    monkeypatch.setattr(sys, "stdin", stream)
    table = read_table("-")
    assert (table.X.tolist(), table.feature_names) == ([[0, 1]], ("a", "b"))
    assert table.source == "standard input"


@pytest.mark.parametrize("array", [np.eye(2), np.eye(2, dtype=bool), np.eye(2, dtype=np.int64)])
def test_numpy_files(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", anything=array)
    np.savez_compressed(tmp_path / "y.npz", array)
    (tmp_path / "x.npy.gz").write_bytes(gzip.compress((tmp_path / "x.npy").read_bytes()))
    for name in ("x.npy", "x.npz", "y.npz", "x.npy.gz"):
        table = read_table(tmp_path / name)
        assert table.X.dtype == np.uint8
        assert table.X.tolist() == [[1, 0], [0, 1]]


def test_numpy_files_with_unknown_values(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[0, NAN]], dtype=np.float32))
    assert same(read_table(tmp_path / "x.npy").X, [[0, NAN]])


class Trap:
    """An object whose unpickling would be noticed."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def test_nothing_is_ever_unpickled(tmp_path):
    trap = np.array([[Trap()]], dtype=object)
    np.save(tmp_path / "x.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "x.npz", trap)
    for name in ("x.npy", "x.npz"):
        assert "is not a NumPy file of plain numbers" in failure(tmp_path / name)


def test_a_member_that_seems_to_be_encrypted_is_damage(tmp_path, write):
    np.savez(tmp_path / "x.npz", np.eye(3))
    raw = bytearray((tmp_path / "x.npz").read_bytes())
    raw[6] |= 1  # of the member itself, and of the table of contents
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    assert "is encrypted" in failure(write("y.npz", bytes(raw)))


def test_damaged_and_foreign_numpy_files(write, tmp_path):
    np.savez(tmp_path / "whole.npz", np.eye(50))
    whole = (tmp_path / "whole.npz").read_bytes()
    huge = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (10**9, 10**9)}
    np.lib.format.write_array_header_1_0(huge, header)
    for name, content in [
        ("a.npz", whole[: len(whole) // 2]),
        ("b.npz", b""),
        ("c.npy", b"\x93NUMPY"),
        ("d.npy", b"hello"),
        ("n.npy", b"\x93NUMPY\x01\x00\x12\x00{'a': 1, b'b': 2}\n\n"),  # names that have no order
        ("e.npy", huge.getvalue()),
    ]:
        assert "is not a NumPy file of plain numbers" in failure(write(name, content))
    np.savez(tmp_path / "two.npz", x=np.eye(2), y=np.eye(2))
    assert "must hold one array, but holds 2: x, y." in failure(tmp_path / "two.npz")
    np.save(tmp_path / "three.npy", np.array([[0, 3]]))
    assert "column 1 holds 3 at row 0" in failure(tmp_path / "three.npy")
    np.save(tmp_path / "line.npy", np.zeros(3))
    np.save(tmp_path / "cube.npy", np.zeros((1, 1, 1)))
    assert "must have rows and columns" in failure(tmp_path / "cube.npy")
    with zipfile.ZipFile(tmp_path / "empty.npz", "w"):
        pass
    assert "must hold one array, but holds 0" in failure(tmp_path / "empty.npz")


def test_packed_datasets_need_a_choice(tmp_path):
    splits = {
        "train": np.ones((2, 9), dtype=np.uint8),
        "valid": np.zeros((1, 9), dtype=np.uint8),
        "test": np.ones((3, 9), dtype=np.uint8),
    }
    path = tmp_path / "x.npz"
    write_packed_splits(path, splits)
    for split, expected in splits.items():
        table = read_table(path, dataset_split=split)
        assert np.array_equal(table.X, expected)
        assert table.source == f"{path} ({split})"
    assert "holds three tables" in failure(path)


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_parquet_through_either_library(tmp_path, monkeypatch, library):
    frame = pl.DataFrame({"a": [1, None], "b": [True, False]})
    frame.write_parquet(tmp_path / "x.parquet")
    frame.fill_null(0).write_parquet(tmp_path / "y.parquet")
    if library == "polars":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    gaps, full = read_table(tmp_path / "x.parquet"), read_table(tmp_path / "y.parquet")
    assert same(gaps.X, [[1, 1], [NAN, 0]])
    assert full.X.dtype == np.uint8
    assert full.X.tolist() == [[1, 1], [0, 0]]
    assert gaps.feature_names == full.feature_names == ("a", "b")
    (tmp_path / "z.parquet").write_bytes(b"PAR1 and then nothing")
    assert "is a damaged parquet file" in failure(tmp_path / "z.parquet")


def test_parquet_without_a_library_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'strudel-pc\[frames\]'"):
        read_table(path)


def test_parquet_names_the_bad_column(tmp_path):
    pl.DataFrame({"a": [1, 0], "b": ["x", "y"]}).write_parquet(tmp_path / "x.parquet")
    assert "column 'b' holds 'x' at row 0" in failure(tmp_path / "x.parquet")


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_datasets_by_name(split):
    table = read_table("digits", dataset_split=split)
    digits = load_dataset("digits")
    assert np.array_equal(table.X, getattr(digits, split))
    assert table.feature_names == digits.feature_names
    assert table.source == f"digits ({split})"


def test_a_dataset_needs_a_choice():
    with pytest.raises(ValueError, match="digits holds three tables"):
        read_table("digits")
    with pytest.raises(ValueError, match="must be one of train, valid, test, but is 'dev'"):
        read_table("digits", dataset_split="dev")


def test_a_folder_does_not_hide_a_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert len(read_table("digits", dataset_split="test").X) == 360


def test_a_real_dataset_and_its_file_are_one(data_folder):
    by_name = read_table("nltcs", dataset_split="test")
    by_path = read_table(data_folder / "debd" / "nltcs.npz", dataset_split="test")
    assert np.array_equal(by_name.X, by_path.X)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("missing.csv", "There is no file 'missing.csv'."),
        ("some/nltcs", "There is no file 'some/nltcs'."),
        ("nltc", "There is no file 'nltc'. There is no dataset 'nltc'. Did you mean 'nltcs'?"),
    ],
)
def test_a_file_that_is_not_there(source, expected):
    with pytest.raises(FileNotFoundError) as caught:
        read_table(source)
    assert str(caught.value) == expected


def test_files_of_other_kinds(write, tmp_path):
    assert "but ends in '.xlsx'." in failure(write("x.xlsx", "x"))
    assert "but has no ending." in failure(write("x", "0,1\n"))
    assert "but is a folder." in failure(tmp_path)


def test_texts_of_a_parquet_file_that_are_not_utf_8_are_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"kind": ["qqqq", "b"]}), path, compression="none")
    path.write_bytes(path.read_bytes().replace(b"qqqq", b"q\xffqq"))
    for read in (read_table, read_frame):
        with pytest.raises(
            FileFormatError, match="is a damaged parquet file: In column 0: Invalid"
        ):
            read(path)
