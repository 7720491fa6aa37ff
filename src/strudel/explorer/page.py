"""The page: a model in one HTML file that needs no server, no network and no rows of data.

In:  a circuit, a mixture or a fitted estimator.
Out: `ExplorerPage`, which a notebook shows, and which is a file if a path is given.
"""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from strudel._files import complete_file
from strudel.explorer.page_data import page_data

TITLE, DATA = "<!--title-->", "<!--model-->"  # where they go in `page.html`
HEIGHT = 800  # of the frame in a notebook


@dataclass(frozen=True, repr=False)
class ExplorerPage:
    """A page of the explorer; notebooks show it inline.

    Attributes
    ----------
    html : str
        The whole page.
    title : str
        Its title.
    """

    html: str
    title: str

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, complete or not at all.

        Parameters
        ----------
        path : str or path
            The file, which a browser opens.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import tempfile
        >>> from strudel.circuits import figure_1_circuit
        >>> page = explore(figure_1_circuit())
        >>> page.save(f"{tempfile.mkdtemp()}/figure.html").name
        'figure.html'
        """
        with complete_file(path) as unfinished:
            unfinished.write_text(self.html, encoding="utf-8", newline="\n")
        return Path(path)

    def _repr_html_(self) -> str:
        """A frame of its own, so that the page and the notebook do not disturb each other."""
        inside = html.escape(self.html, quote=True)
        title = html.escape(self.title, quote=True)
        return (
            f'<iframe title="{title}" srcdoc="{inside}" width="100%" height="{HEIGHT}" '
            'style="border:1px solid #8884;border-radius:8px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"ExplorerPage({self.title!r}, {len(self.html) / 1e6:.1f} MB)"


def explore(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    target: str | None = None,
    title: str | None = None,
) -> ExplorerPage:
    """A page on which people set values, and see every probability move, exactly.

    The page has the model inside, but no rows of data. It opens from a file, without a server or a
    network.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable. A `StrudelClassifier` shows its class as one more column.
    path : str or path, optional
        An HTML file to write.
    target : str, optional
        The column that the page asks about first; it can be changed there. By default the class of
        a classifier, and otherwise none.
    title : str, optional
        The title of the page.

    Returns
    -------
    ExplorerPage
        A notebook shows it inline.

    Raises
    ------
    CircuitPropertyError
        If the model is not smooth and decomposable.

    Examples
    --------
    >>> from strudel import explore
    >>> from strudel.circuits import figure_1_circuit
    >>> page = explore(figure_1_circuit(), target="X1", title="Figure 1")
    >>> "Figure 1" in page.html
    True
    """
    data = page_data(model, target, title)
    filled = _template().replace(TITLE, html.escape(data["title"]))
    page = ExplorerPage(filled.replace(DATA, _as_script(data)), data["title"])
    if path is not None:
        page.save(path)
    return page


@cache
def _template() -> str:
    return files("strudel.explorer").joinpath("page.html").read_text(encoding="utf-8")


def _as_script(data: dict[str, Any]) -> str:
    """JSON that can stand inside a script element, whatever the names of columns are."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
