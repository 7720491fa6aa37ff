"""The page: a model in one HTML file that needs no server, no network and no rows of data.

In:  a circuit over columns or a fitted estimator.
Out: `ExplorerPage`, which a notebook shows, and which is a file if a path is given; and the model
     as text, which the file holds: JSON, with all numbers compressed, in base64.
     `explorer/README.md` of the project describes the format.

Parameters are logs in single precision: a relative error of about a millionth in each. The page
shows four digits, computes in double precision, and normalises every sum again.
"""

from __future__ import annotations

import base64
import html
import json
import math
import os
import re
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from strudel._files import complete_file
from strudel._names import did_you_mean
from strudel._version import __version__
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import why_no_deterministic_components
from strudel.queries.given import shown_circuit
from strudel.tables.column import Column, has_one_value_per_cell
from strudel.tables.columns import date_text, duration_text, number_text

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
    model : Circuit or fitted estimator
        A `StrudelClassifier` shows its class as one more column.
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


# The model as text


FORMAT = 2


def page_data(model: Any, target: str | None = None, title: str | None = None) -> dict[str, Any]:
    """Everything that the page needs to know of a model.

    A classifier has its class as one more column, which is the target unless another is named.
    """
    circuit = shown_circuit(model)
    if circuit.log_total == -np.inf:
        raise ValueError("The model gives every row probability zero: there is nothing to explore.")
    return {
        "format": FORMAT,
        "version": __version__,
        "title": title or "What if?",
        "size": {
            "components": circuit.n_components,
            "leaves": circuit.n_leaves,
            "sums": len(circuit.sum_vtree),
            "edges": circuit.n_edges,
        },
        "model": {"edges": circuit.size, "parameters": circuit.n_parameters},
        "isDeterministic": why_no_deterministic_components(circuit) is None,
        "columns": [_column_data(column) for column in circuit.columns],
        "numbers": _numbers(circuit),
        "target": _target_place(circuit.columns.names, target, model),
    }


def _numbers(circuit: Circuit) -> str:
    """All arrays one after another, little-endian, compressed, in base64."""
    integers = (
        circuit.leaf_column,
        np.diff(circuit.sum_edges),
        circuit.edge_left,
        circuit.edge_right,
    )
    logs = (circuit.log_weight, circuit.leaf_log_p, circuit.edge_log_theta)
    parts = [own.astype("<i4").tobytes() for own in integers]
    parts += [own.astype("<f4").tobytes() for own in logs]
    return base64.b64encode(zlib.compress(b"".join(parts), 9)).decode("ascii")


def _target_place(names: tuple[str, ...], target: str | None, model: Any) -> int | None:
    if target is None:
        return len(names) - 1 if hasattr(model, "classes_") else None
    if target not in names:
        raise ValueError(
            f"target is {target!r}, which is not a column. {did_you_mean(target, names)}"
        )
    return names.index(target)


# Columns as people see them


def _column_data(column: Column) -> dict[str, Any]:
    texts = _texts(column)
    data: dict[str, Any] = {"name": column.name, "kind": column.kind, "labels": column.labels}
    if texts != column.labels:
        data["texts"] = texts
    if column.is_numeric and np.isfinite(column.cell_means).all():
        data["numbers"] = column.cell_means.tolist()
    if column.kind == "date":
        data["isDay"] = column.dtype == "date"
    if column.dtype == "duration":
        data["isDuration"] = True
    return data


def _texts(column: Column) -> tuple[str, ...]:
    """What the page calls the values: cells of numbers and dates, and booleans, in words.

    Examples
    --------
    >>> from dataclasses import replace
    >>> seen = ((0, 24), (25, 49), (50, 99))
    >>> cells = Column("age", "number", ("a", "b", "c"), (12, 37, 75), (25.0, 50.0), seen)
    >>> _texts(replace(cells, dtype="integer"))
    ('24 or less', '25 to 49', '50 or more')
    >>> _texts(replace(cells, dtype="float", edges=(12500.5, 37000.0)))
    ('under 12,500.5', '12,500.5 to 37,000', '37,000 or more')
    """
    is_date = column.kind == "date"
    if column.labels == ("False", "True"):
        return ("no", "yes")
    if column.kind not in ("number", "date") or not column.edges:
        return column.labels
    if has_one_value_per_cell(column.values, column.edges, column.ranges):
        return column.labels
    if column.dtype == "integer":
        return tuple(map(_grouped, _whole_numbers(column)))
    if is_date:
        ends = [date_text(edge) for edge in column.edges]
    elif column.dtype == "duration":
        ends = [duration_text(edge) for edge in column.edges]
    else:
        ends = [_grouped(number_text(edge)) for edge in column.edges]
    below, above = ("before {}", "from {} on") if is_date else ("under {}", "{} or more")
    inner = [f"{a} to {b}" for a, b in pairwise(ends)]
    return (below.format(ends[0]), *inner, above.format(ends[-1]))


def _grouped(text: str) -> str:
    """A text with commas in its numbers, where these are 10,000 or more."""
    return re.sub(r"(?<![\d.])\d{5,}", lambda found: f"{int(found[0]):,}", text)


def _whole_numbers(column: Column) -> tuple[str, ...]:
    """Cells of whole numbers by the first and the last that is in them, so that none is in two."""
    first = [math.ceil(edge) for edge in column.edges]
    inner = [str(a) if b - a == 1 else f"{a} to {b - 1}" for a, b in pairwise(first)]
    (low, lowest), (low_of_last, high) = column.ranges[0], column.ranges[-1]
    below = number_text(low) if low == lowest else f"{first[0] - 1} or less"
    above = number_text(high) if low_of_last == high else f"{first[-1]} or more"
    return (below, *inner, above)
