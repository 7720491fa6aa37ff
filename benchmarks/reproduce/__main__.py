"""Run the paper again: python benchmarks/reproduce --quick --out DIR."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

sys.path.insert(0, os.fspath(Path(__file__).resolve().parents[1]))

from reproduce.command import reproduce
from strudel.cli.main import run

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich", add_completion=False)
app.command()(reproduce)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run(app, "python benchmarks/reproduce", list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
