"""Facts about what is printed: a terminal gets its width and style, a pipe plain lines."""

import io
import sys

import pytest


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
