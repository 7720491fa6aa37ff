"""Facts about `coded_rows`."""

from strudel.tables import TableEncoder
from strudel.tables.coded_rows import CodedNames


def test_an_example_of_coded_names():
    names = CodedNames(TableEncoder().fit([["no"], ["yes"]]).code_)
    assert repr((names, names.code)) == "(('x0=yes',), TableCode(n_columns=1, n_vars=1))"
