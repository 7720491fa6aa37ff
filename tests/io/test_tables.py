"""Tables in files: what they are read as, and what is refused."""

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
from strudel.data import load_dataset
from strudel.data.datasets import write_packed_splits
from strudel.errors import FileFormatError, MissingDependencyError
from strudel.io import read_table
from strudel.io.tables import check_bytes, most_bytes, read_bytes, unzip
from strudel.tables.columns import read_columns

NAN = float("nan")


@pytest.fixture
def write(tmp_path):
    """Write a file, and give its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def same(frame, expected):
    cells = frame.astype("float64").to_numpy()
    return np.array_equal(cells, np.array(expected, dtype=float), equal_nan=True)


def types(frame):
    """The types of columns as models see them."""
    return [column.dtype for column in read_columns(frame).columns]


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
    assert table.to_numpy().tolist() == [[0, 1], [1, 1]]
    assert table.columns.tolist() == list(names or range(2))


def test_numbered_columns_are_names(write):
    table = read_table(write("x.csv", "0,1,2\n1,1,0\n"))
    assert table.columns.tolist() == ["0", "1", "2"]
    assert table.to_numpy().tolist() == [[1, 1, 0]]


@pytest.mark.parametrize("cell", ["", "?", "NA", "nan", "NaN", "null", "<NA>", " ", '""'])
def test_missing_cells(write, cell):
    table = read_table(write("x.csv", f"a,b,c\n1,{cell},x\n{cell},0,{cell}\n"))
    assert same(table[["a", "b"]], [[1, NAN], [NAN, 0]])
    assert types(table) == ["integer", "integer", "text"]
    assert table["c"].isna().tolist() == [False, True]


def test_none_is_a_category(write):
    table = read_table(write("x.csv", "a,b\n1,None\n2,none\n"))
    assert table["b"].tolist() == ["None", "none"]


def test_missing_cells_in_the_first_row_are_no_names(write):
    assert same(read_table(write("x.csv", "1,?,\n0,1,1\n")), [[1, NAN, NAN], [0, 1, 1]])


def test_one_column_may_have_empty_lines_and_spaces_in_its_name(write):
    table = read_table(write("x.csv", "ever smoked\n1\n\n0\n"))
    assert table.columns.tolist() == ["ever smoked"]
    assert same(table, [[1], [NAN], [0]])


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        (["1", "2", ""], "integer"),
        (["1", "2.5", "NA"], "float"),
        (["1e3", "-.5"], "float"),
        (["true", "False"], "boolean"),
        (["TRUE", ""], "boolean"),
        (["2020-01-31", "?"], "date"),
        (["9999-12-31", "2020-01-31"], "date"),
        (["2020-01-31T10:00", "2020-01-31"], "datetime"),
        (["2020-01-31", "2020-13-45"], "text"),
        (["2020-01", "2020-02"], "text"),
        (["007", "1"], "text"),
        (["1", "x"], "text"),
        (["inf", "1"], "float"),
        (["", "nan"], "float"),
        (["12345678901234567890", "1"], "integer"),  # as the type uint64, which holds it
        (["0.1", "0.30000000000000004"], "float"),
    ],
)
def test_types_of_columns(write, cells, dtype):
    lines = "".join(f"{cell},x\n" for cell in cells)
    table = read_table(write("x.csv", "a,b\n" + lines))
    assert types(table) == [dtype, "text"]
    if dtype == "float":
        wanted = [float(cell) if cell not in ("", "NA") else NAN for cell in cells]
        assert same(table[["a"]], [[cell] for cell in wanted])


def test_moments_with_time_zones_are_in_utc(write):
    table = read_table(write("x.csv", "a\n2001-05-01T10:00+02:00\n2001-05-01T10:00\n"))
    assert [str(cell) for cell in table["a"]] == ["2001-05-01 08:00:00", "2001-05-01 10:00:00"]


def test_decimal_commas_between_semicolons(write):
    table = read_table(write("x.csv", "a;b;c\n1,5;2;x,y\n;-3,25;z\n"))
    assert same(table[["a", "b"]], [[1.5, 2], [NAN, -3.25]])
    assert table["c"].tolist() == ["x,y", "z"]
    assert same(read_table(write("x.csv", "1.5;2\n2.5;3\n")), [[1.5, 2], [2.5, 3]])


def test_text_may_hold_any_separator_in_quotes(write):
    table = read_table(write("x.csv", 'a,"b;c"\n"x,\ny",1\n"z; ""q""",2\n'))
    assert table.columns.tolist() == ["a", "b;c"]
    assert table["a"].tolist() == ["x,\ny", 'z; "q"']


@given(binary_tables(max_rows=20, max_vars=5), st.booleans())
def test_what_pandas_writes_is_read_back(tmp_path_factory, X, has_names):
    path = tmp_path_factory.mktemp("tables") / "x.csv"
    frame = pd.DataFrame(X).add_prefix("v")
    frame.to_csv(path, index=False, header=has_names)
    table = read_table(path)
    assert same(table, X)
    assert table.columns.tolist() == (list(frame.columns) if has_names else [*range(X.shape[1])])


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
        (",a\n0,1\n", "has no name for column 0. Give it one, or leave out the row numbers."),
        ("a,b\n0,1\n1\n", "but line 2 has 2 cells and line 3 has 1."),
        ("0,1\n0,1,1\n", "but line 1 has 2 cells and line 2 has 3."),
        ("x,1,2\nx,3\n", "has 3 names in line 1, but 2 cells in line 2."),
        ('a,b\n"1,2\n', "is not csv: unexpected end of data"),
        ("a,b,c\n0,1\n", "has 3 names in line 1, but 2 cells in line 2."),
        ("a,b,a\n0,1,1\n", "names the column 'a' more than once."),
        (b"\xff\xfea\x00", "is not text in UTF-8"),
        (b"a,b\n\xff,2\n", "is not text in UTF-8: invalid start byte. Save it again as UTF-8"),
    ],
)
def test_text_that_is_no_table_says_where(write, text, expected):
    assert expected in failure(write("x.csv", text))


def test_gzip_is_known_by_its_first_bytes(write):
    packed = gzip.compress(b"a,b\n0,1\n")
    for name in ("x.csv.gz", "x.csv", "x.data.gz", "x.y.CSV.GZ"):
        assert same(read_table(write(name, packed)), [[0, 1]])
    assert "is a damaged gzip file" in failure(write("y.csv.gz", packed[:-5]))


@pytest.mark.parametrize("packed", [False, True])
def test_a_dash_is_standard_input(monkeypatch, packed):
    raw = b"a,b\n0,1\n"
    stream = io.TextIOWrapper(io.BytesIO(gzip.compress(raw) if packed else raw))
    monkeypatch.setattr(sys, "stdin", stream)
    for table in (read_table("-"), read_table(io.BytesIO(raw))):
        assert same(table, [[0, 1]])
        assert table.columns.tolist() == ["a", "b"]


@pytest.mark.parametrize("array", [np.eye(2), np.eye(2, dtype=bool), np.eye(2, dtype=np.int64)])
def test_numpy_files(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", anything=array)
    np.savez_compressed(tmp_path / "y.npz", array)
    (tmp_path / "x.npy.gz").write_bytes(gzip.compress((tmp_path / "x.npy").read_bytes()))
    for name in ("x.npy", "x.npz", "y.npz", "x.npy.gz"):
        assert same(read_table(tmp_path / name), [[1, 0], [0, 1]])


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
        assert same(read_table(path, split=split), expected)
    assert "holds three tables" in failure(path)


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow"])
def test_files_of_arrow(tmp_path, ending, monkeypatch):
    pytest.importorskip("pyarrow")
    path = tmp_path / f"x.{ending}"
    frame = pl.DataFrame({"a": [1, None], "b": [True, False], "c": ["x", None], "d": [1.5, 2]})
    frame = frame.with_columns(e=pl.Series(["2001-05-01", None]).str.to_date())
    getattr(frame, "write_parquet" if ending == "parquet" else "write_ipc")(path)
    table = read_table(path)
    assert same(table[["a", "b", "d"]], [[1, 1, 1.5], [NAN, 0, 2]])
    assert types(table) == ["integer", "boolean", "text", "float", "date"]
    raw = path.read_bytes()
    for damaged in (raw[: len(raw) // 2], raw[:4] + b" and then nothing", b""):
        path.write_bytes(damaged)
        assert "is a damaged" in failure(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'strudel-pc\[frames\]'"):
        read_table(path)


def test_an_index_of_pandas_is_no_column(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [1, 2]}, index=[5, 6]).to_parquet(tmp_path / "x.parquet")
    assert read_table(tmp_path / "x.parquet").columns.tolist() == ["a"]


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_datasets_by_name(split):
    table = read_table("digits", split=split)
    digits = load_dataset("digits")
    assert same(table, getattr(digits, split))
    assert table.columns.tolist() == list(digits.feature_names)


def test_a_dataset_needs_a_choice():
    with pytest.raises(ValueError, match="digits holds three tables"):
        read_table("digits")
    with pytest.raises(ValueError, match="must be one of train, valid, test, but is 'dev'"):
        read_table("digits", split="dev")


def test_a_folder_does_not_hide_a_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert len(read_table("digits", split="test")) == 360


def test_a_real_dataset_and_its_file_are_one(data_folder):
    by_name = read_table("nltcs", split="test")
    by_path = read_table(data_folder / "debd" / "nltcs.npz", split="test")
    assert same(by_path, by_name)


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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x.xlsx", "is a spreadsheet: save it as csv, or read it with pandas.read_excel"),
        ("x.xls", "is a spreadsheet"),
        ("x.json", "but ends in '.json'. Save it as csv."),
        ("x", "but has no ending."),
    ],
)
def test_files_of_other_kinds(write, name, words):
    assert words in failure(write(name, "0,1\n"))


def test_a_folder_is_no_table(tmp_path):
    assert "but is a folder." in failure(tmp_path)


def test_texts_of_a_parquet_file_that_are_not_utf_8_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(arrow("parquet", {"kind": ["qqqq", "b"]}).replace(b"qqqq", b"q\xffqq"))
    assert "is a damaged parquet file: In column 0: Invalid" in failure(path)


# Tables that would fill the memory: refused, whatever they are packed into.

ROWS = b"a,b\n" + b"0,1\n" * 50_000 + b"2,x\n"


def packed_numbers():
    content = io.BytesIO()
    np.savez_compressed(content, X=np.zeros((1000, 1000), dtype=np.uint8))
    return content.getvalue()


def arrow(kind, columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    content = io.BytesIO()
    table = pyarrow.table(columns)
    if kind == "parquet":
        parquet.write_table(table, content, compression="none")
    else:
        feather.write_feather(table, content, compression="zstd", chunksize=10**8)
    return content.getvalue()


TABLES = {
    "a.csv": lambda: ROWS,
    "a.csv.gz": lambda: gzip.compress(ROWS),
    "a.npz": packed_numbers,
    "a.npz.gz": lambda: gzip.compress(packed_numbers()),
    "a.parquet": lambda: arrow("parquet", {"a": np.zeros(100_000, dtype=np.int8)}),
    "b.parquet": lambda: arrow("parquet", {"a": ["x" * 1000] * 2000}),
    "a.feather": lambda: arrow("feather", {"a": np.zeros(1_000_000, dtype=np.int8)}),
    "b.feather": lambda: arrow("feather", {"a": ["x" * 1000] * 2000}),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_beyond_the_bound_is_refused_with_what_to_do(tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_bytes(TABLES[name]())
    assert read_table(path).shape in [
        (50_001, 2),
        (1000, 1000),
        (100_000, 1),
        (2000, 1),
        (10**6, 1),
    ]
    monkeypatch.setenv("STRUDEL_MAX_TABLE_BYTES", "100_000")
    text = failure(path)
    assert f"{name} takes more than 100000 bytes of memory" in text
    assert "STRUDEL_MAX_TABLE_BYTES" in text
    assert len(text) <= 300


def test_a_packed_file_may_hold_a_hundred_times_its_size(monkeypatch):
    monkeypatch.setattr("strudel.io.tables.total_memory", lambda: 2**40)
    assert most_bytes() == 2**38
    assert most_bytes(packed=10) == 2**27
    assert most_bytes(packed=2**27) == 100 * 2**27
    with pytest.raises(FileFormatError, match="more than 128 MiB"):
        check_bytes(2**27 + 1, "x", packed=10)
    with pytest.raises(FileFormatError, match=r"more than 256\.0 GiB"):
        check_bytes(2**39, "x")


def test_several_gzip_files_in_a_row_and_padding():
    assert unzip(gzip.compress(b"0,1\n") + gzip.compress(b"1,1\n") + b"\0\0", "x") == b"0,1\n1,1\n"


@pytest.mark.parametrize(
    "change", [lambda raw: raw[:-9], lambda raw: raw[:12] + b"\xff" + raw[13:]]
)
def test_damaged_gzip_files_are_refused(change):
    with pytest.raises(FileFormatError, match="damaged gzip file"):
        unzip(change(gzip.compress(ROWS)), "x")


def test_a_stream_is_read_block_by_block(monkeypatch):
    class Endless(io.RawIOBase):
        def read(self, size=-1):
            assert 0 < size <= 2**20
            return b"0" * size

    monkeypatch.setenv("STRUDEL_MAX_TABLE_BYTES", "3e6")
    with pytest.raises(FileFormatError, match="takes more than 3 MiB of memory"):
        read_bytes(Endless(), "x")


def test_a_size_in_a_header_costs_nothing(tmp_path):
    content = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(content, header)
    (tmp_path / "a.npy").write_bytes(content.getvalue())
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content.getvalue())
    for name in ("a.npy", "a.npz"):
        with pytest.raises(FileFormatError):
            read_table(tmp_path / name)
