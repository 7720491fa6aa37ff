"""How notebooks show circuits, mixtures, trees, histories and fitted models.

In:  one of them, of any size.
Out: self-contained HTML: a table of sizes beside a drawing, in the colours of the page.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.history import Record
from strudel.plotting import notebook_svg
from strudel.plotting.svg import Svg
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree


def html_of(thing: Any) -> str:
    """A table of sizes and a drawing."""
    drawing = _draw(thing)
    inside = "" if drawing is None else drawing.finish(is_inline=True)
    facts = _facts(thing)
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start">'
        f"{_table(type(thing).__name__, facts)}{inside}</div>"
    )


def svg_of(thing: Any) -> str | None:
    """The drawing alone, as a file; None where there is none."""
    drawing = _draw(thing)
    return None if drawing is None else drawing.finish(is_inline=False)


def summary_of(estimator: Any) -> str:
    """What a fitted estimator has learned: its model, then its history; empty before `fit`."""
    parts = [getattr(estimator, name, None) for name in ("circuit_", "history_")]
    return "".join(html_of(part) for part in parts if isinstance(part, Circuit | Mixture | Record))


def _draw(thing: Any) -> Svg | None:
    if isinstance(thing, Circuit):
        return notebook_svg.draw_circuit(thing)
    if isinstance(thing, Mixture):
        return notebook_svg.draw_weights(thing)
    if isinstance(thing, Vtree):
        return notebook_svg.draw_vtree(thing)
    if isinstance(thing, ChowLiuTree):
        return notebook_svg.draw_chow_liu_tree(thing)
    assert isinstance(thing, Record)
    return notebook_svg.draw_history(thing)


def _facts(thing: Any) -> dict[str, Any]:
    if isinstance(thing, Circuit | Mixture):
        return {
            **({"components": thing.n_components} if isinstance(thing, Mixture) else {}),
            "variables": thing.n_vars,
            "nodes": thing.n_nodes,
            "edges": thing.n_edges,
            "parameters": thing.n_parameters,
            **({"depth": thing.depth} if isinstance(thing, Circuit) else {}),
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
