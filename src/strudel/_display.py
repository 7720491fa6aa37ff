"""How objects are shown: the one place where earlier layers reach the plotting package.

In:  a tree, a circuit, a mixture, a history or an estimator.
Out: what a notebook shows of it, or a picture.

`strudel.plotting`, a later layer than all of them, knows how things look. It is imported by name,
only here, on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def plotting(module: str) -> Any:
    """A module of the plotting package."""
    return import_module(f"strudel.plotting.{module}")


class Shown:
    """Something that notebooks show as a table of sizes and a picture."""

    def _repr_html_(self) -> str:
        return str(plotting("notebook").html_of(self))
