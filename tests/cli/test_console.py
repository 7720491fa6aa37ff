"""Facts about what is printed: a terminal gets its width and style, a pipe plain lines."""

import io
import sys

import numpy as np
import pytest

from strudel.cli.table_columns import cells_of, to_frame
from strudel.tables.columns import read_columns


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_table_on_a_terminal_and_in_a_pipe(model, monkeypatch, is_terminal):
    from strudel.cli.main import main

    out = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert main(["query", str(model), "marginal"]) == 0
    said = out.getvalue()
    assert "coffee" in said
    assert ("\x1b[" in said) == is_terminal


def test_cells_of_dates_are_dates():
    stamps = np.array([["2020-01-31", "NaT"]], dtype="datetime64[D]").T
    first, missing = cells_of(read_columns(stamps).columns[0])
    assert (first.year, first.month, first.day, missing) == (2020, 1, 31, None)


def test_a_table_without_names_is_an_array():
    numbers = read_columns(np.array([[1, 2], [3, 4]]))
    assert to_frame(numbers).tolist() == [[1, 2], [3, 4]]
    mixed = read_columns([["a", 1], ["b", None]])
    assert to_frame(mixed).tolist() == [["a", 1], ["b", None]]
