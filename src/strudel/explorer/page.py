"""The page: a model in one HTML file that needs no server, no network and no rows of data.

In:  a circuit, a mixture or a fitted estimator.
Out: `ExplorerPage`, which a notebook shows, and which is a file if a path is given; and the model
     as text, which the file holds: JSON, with numbers as typed arrays in base64.
     `explorer/README.md` of the project describes the format.

Parameters are logs in single precision: a relative error of about a millionth in each. The page
shows four digits, computes in double precision, and normalises every sum again.
"""

from __future__ import annotations

import base64
import html
import json
import os
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from strudel._files import complete_file
from strudel._names import did_you_mean
from strudel._types import AnyArray, FloatArray
from strudel._version import __version__
from strudel.circuits.mixture import Mixture
from strudel.circuits.properties import check_properties
from strudel.explorer.page_circuit import (
    PageColumn,
    PagePart,
    class_column,
    collapse,
    columns_and_slots,
)
from strudel.queries.model import Model, log_weights_of, model_of, part_of

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


# The model as text


FORMAT = 1


def page_data(model: Any, target: str | None = None, title: str | None = None) -> dict[str, Any]:
    """Everything that the page needs to know of a model.

    A classifier has its class as one more column, which is the target unless another is named.
    """
    asked, component_class, classes = _classes_of(model)
    components = part_of(asked)
    circuit = components.structure
    check_properties(circuit, "explore", "smooth", "decomposable")
    is_by_vtree = circuit.is_in_normal_form
    columns, slots = columns_and_slots(asked, is_by_vtree=is_by_vtree)
    part, has_other = collapse(circuit, components.edge_log_theta, slots, is_by_vtree=is_by_vtree)
    if component_class is not None:
        names = [column.name for column in columns]
        columns = (*columns, class_column(model.target_name_, classes, names))
    return {
        "format": FORMAT,
        "version": __version__,
        "title": title or "What if?",
        "model": _facts(asked, part),
        "columns": [_column_data(column) for column in columns],
        "slots": [len(slot.patterns) + other for slot, other in zip(slots, has_other, strict=True)],
        "patterns": [len(slot.patterns) for slot in slots],
        "logWeight": as_base64(_log_weights(asked, part), np.float32),
        "parts": [_part_data(part, circuit.is_deterministic)],
        "componentValue": None if component_class is None else as_base64(component_class, np.int32),
        "target": _target_place(columns, target, model),
    }


def _classes_of(model: Any) -> tuple[Model, AnyArray | None, list[Any]]:
    """The model to ask, and for a classifier with components by class, the class of each."""
    if not hasattr(model, "joint_mixture"):
        return model_of(model), None, []
    if not hasattr(model, "circuit_"):
        return model_of(model), None, []  # says that it is not fitted
    if model.component_class_ is None:  # the class is a variable like all others
        return model.joint_mixture(), None, []
    return model.circuit_, model.component_class_, model.classes_.tolist()


def _target_place(columns: tuple[PageColumn, ...], target: str | None, model: Any) -> int | None:
    names = [column.name for column in columns]
    if target is None:
        return len(names) - 1 if hasattr(model, "joint_mixture") else None
    if target not in names:
        raise ValueError(
            f"target is {target!r}, which is not a column. {did_you_mean(target, names)}"
        )
    return names.index(target)


def _log_weights(model: Model, part: PagePart) -> FloatArray:
    """The logs of the components' weights, which add up to one."""
    log_weight = log_weights_of(model) + part.log_total
    total = np.logaddexp.reduce(log_weight)
    if total == -np.inf:
        raise ValueError("The model gives every row probability zero: there is nothing to explore.")
    return np.asarray(log_weight - total)


def _facts(model: Model, part: PagePart) -> dict[str, Any]:
    return {
        "kind": "mixture" if isinstance(model, Mixture) else "circuit",
        "components": part.n_components,
        "variables": model.n_vars,
        "edges": model.n_edges,
        "parameters": model.n_parameters,
    }


def _column_data(column: PageColumn) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": column.name,
        "kind": column.kind,
        "labels": column.labels,
        "slots": column.slots,
    }
    if column.texts != column.labels:
        data["texts"] = column.texts
    if column.numbers:
        data["numbers"] = column.numbers
    if column.kind == "date":
        data["isDay"] = column.dtype == "date"
    if column.dtype == "duration":
        data["isDuration"] = True
    if len(column.slots) > 1:
        data["codes"] = column.codes
    return data


def _part_data(part: PagePart, is_deterministic: bool) -> dict[str, Any]:
    return {
        "components": part.n_components,
        "isDeterministic": is_deterministic,
        "nodeSlot": as_base64(part.node_slot, np.int32),
        "nodeEntries": as_base64(part.node_entries, np.int32),
        "left": as_base64(part.entry_left, np.int32),
        "right": as_base64(part.entry_right, np.int32),
        "logTheta": as_base64(part.entry_log_theta, np.float32),
    }


def as_base64(values: AnyArray, dtype: Any) -> str:
    """Numbers as the bytes of a little-endian typed array, in base64.

    Examples
    --------
    >>> as_base64(np.array([1.0, -np.inf]), np.float32)
    'AACAPwAAgP8='
    """
    little = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode("ascii")
