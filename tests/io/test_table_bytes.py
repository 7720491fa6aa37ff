"""Tables that would fill the memory: refused, whatever they are packed into."""

import gzip
import io
import zipfile

import numpy as np
import pytest

from strudel import FileFormatError
from strudel.io.frames import read_frame
from strudel.io.read_tables import read_table
from strudel.io.table_bytes import check_bytes, most_bytes, read_bytes, unzip

ROWS = b"a,b\n" + b"0,1\n" * 50_000


def packed_numbers():
    content = io.BytesIO()
    np.savez_compressed(content, X=np.zeros((1000, 1000), dtype=np.uint8))
    return content.getvalue()


def parquet(**columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    content = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), content)
    return content.getvalue()


TABLES = {
    "a.csv": lambda: ROWS,
    "a.csv.gz": lambda: gzip.compress(ROWS),
    "a.npz": packed_numbers,
    "a.npz.gz": lambda: gzip.compress(packed_numbers()),
    "a.parquet": lambda: parquet(a=np.zeros(100_000, dtype=np.int8)),
    "b.parquet": lambda: parquet(a=["x" * 1000] * 2000),
}


@pytest.mark.parametrize("read", [read_table, read_frame])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_beyond_the_bound_is_refused_with_what_to_do(tmp_path, monkeypatch, name, read):
    (tmp_path / name).write_bytes(TABLES[name]())
    monkeypatch.setenv("STRUDEL_MAX_TABLE_BYTES", "100_000")
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path / name)
    assert f"{name} takes more than 100000 bytes of memory" in str(caught.value)
    assert "STRUDEL_MAX_TABLE_BYTES" in str(caught.value)
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.npz", "a.parquet"])
def test_the_same_table_is_read_within_the_bound(tmp_path, name):
    (tmp_path / name).write_bytes(TABLES[name]())
    assert read_table(tmp_path / name).X.shape in [(50_000, 2), (1000, 1000), (100_000, 1)]


def test_a_packed_file_may_hold_a_hundred_times_its_size(monkeypatch):
    monkeypatch.setattr("strudel.io.table_bytes.total_memory", lambda: 2**40)
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
