"""How notebooks show circuits, trees, histories and fitted models.

In:  one of them, of any size.
Out: self-contained HTML: a table of sizes beside the picture that the plots of this package draw.
"""

from __future__ import annotations

import io
from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.learning.progress import Record
from strudel.plotting.canvas import new_figure, palette_of
from strudel.plotting.circuits import plot_circuit, size_of_nodes
from strudel.plotting.curves import plot_learning_curve
from strudel.plotting.trees import plot_chow_liu_tree, plot_vtree
from strudel.queries.given import circuit_of
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_EDGES = 60  # of a circuit up to which every node is drawn
MAX_WEIGHTS = 100
SIZE = (7.0, 4.0)  # inches of a picture, if it needs no more
WIDEST = 720  # pixels that a picture takes on the page
DPI = 110


def html_of(thing: Any) -> str:
    """A table of sizes and a picture."""
    name = type(thing).__name__
    if not isinstance(thing, Vtree | ChowLiuTree | Record):
        thing = circuit_of(thing)
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start">'
        f"{_table(name, _facts(thing))}{_picture(thing)}</div>"
    )


def summary_of(estimator: Any) -> str:
    """What a fitted estimator has learned: its model, then its history; empty before `fit`."""
    parts = [getattr(estimator, name, None) for name in ("circuit_", "history_")]
    return "".join(html_of(part) for part in parts if part is not None)


def _picture(thing: Any) -> str:
    """The picture inside an element; nothing of a history without steps."""
    if isinstance(thing, Record) and len(thing) < 2:
        return ""
    width, height = (size_of_nodes(thing) if _is_small(thing) else None) or SIZE
    figure, content = new_figure(width, height), io.BytesIO()
    _draw(thing, figure.add_subplot())
    figure.savefig(content, format="png", dpi=DPI)
    shown = min(round(width * DPI), WIDEST)
    data = b64encode(content.getvalue()).decode("ascii")
    return f'<img alt="" width="{shown}" src="data:image/png;base64,{data}"/>'


def _is_small(thing: Any) -> bool:
    """Whether it is a circuit of which every node is drawn."""
    is_circuit = isinstance(thing, Circuit) and thing.n_components == 1
    return is_circuit and thing.size <= MAX_EDGES


def _draw(thing: Any, ax: Axes) -> None:
    if isinstance(thing, Vtree):
        plot_vtree(thing, ax=ax)
    elif isinstance(thing, ChowLiuTree):
        plot_chow_liu_tree(thing, ax=ax)
    elif isinstance(thing, Record):
        plot_learning_curve(thing, ax)
    elif thing.n_components > 1:
        _draw_weights(np.exp(thing.log_weight), ax)
    else:
        plot_circuit(thing, ax=ax, detail="auto" if _is_small(thing) else "map")


def _draw_weights(all_weights: FloatArray, ax: Axes) -> None:
    """One bar per component, the largest weight first; of more than 100, the 100 largest."""
    weights = np.sort(all_weights)[::-1][:MAX_WEIGHTS]
    ax.bar(np.arange(len(weights)), weights, color=palette_of(ax).blue)
    ax.set_xticks([])
    ax.spines[["top", "right"]].set_visible(False)
    is_all = len(weights) == len(all_weights)
    ax.set_title("weights" if is_all else f"the {len(weights)} largest weights")


def _facts(thing: Any) -> dict[str, Any]:
    if isinstance(thing, Circuit):
        return {
            **({"components": thing.n_components} if thing.n_components > 1 else {}),
            "variables" if thing.columns.are_bits else "columns": len(thing.columns),
            "nodes": thing.n_nodes,
            "edges": thing.size,
            "parameters": thing.n_parameters,
            "vtree depth": thing.vtree.depth,
        }
    if isinstance(thing, Vtree):
        return {"variables": thing.n_vars, "depth": thing.depth}
    if isinstance(thing, ChowLiuTree):
        shown = ", ".join(map(str, thing.roots[:5])) + (", …" if len(thing.roots) > 5 else "")
        return {"variables": thing.n_vars, "roots": shown}
    return _history_facts(thing)


def _history_facts(history: Record) -> dict[str, Any]:
    if not len(history):
        return {history.STEP: 0}
    columns = history.columns()
    best = history.best
    facts: dict[str, Any] = {
        history.STEP: int(columns[f"n_{history.STEP}"][-1]),
        "kept": int(columns[f"n_{history.STEP}"][best]),
        "train": float(columns["train"][best]),
        "validation": float(columns["valid"][best]),
        "stopped because": history.stopped_because,
        "seconds": round(float(columns["seconds"][-1]), 1),
    }
    return {name: fact for name, fact in facts.items() if not (fact == "" or fact != fact)}


def _table(caption: str, facts: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:right">{_text(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table><caption>{escape(caption)}</caption><tbody>{rows}</tbody></table>"


def _text(value: Any) -> str:
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))
