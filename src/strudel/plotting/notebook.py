"""How notebooks show circuits, mixtures, trees, histories and fitted models.

In:  one of them, of any size.
Out: self-contained HTML: a table of sizes beside a drawing, in the colours of the page. Drawings
     of large objects stay below about 100 kB.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.drawing_layout import CircuitLayout, layout_circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.history import Record
from strudel.plotting.canvas import LETTER, shorten
from strudel.plotting.circuits import edges_by_vtree
from strudel.plotting.trees import MAX_STEPS, place_layers, place_rings, place_vtree, shown_vtree
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree


def html_of(thing: Any) -> str:
    """A table of sizes and a drawing."""
    drawing = _drawing_of(thing)
    inside = "" if drawing is None else drawing.finish(is_inline=True)
    facts = _facts(thing)
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start">'
        f"{_table(type(thing).__name__, facts)}{inside}</div>"
    )


def svg_of(thing: Any) -> str | None:
    """The drawing alone, as a file; None where there is none."""
    drawing = _drawing_of(thing)
    return None if drawing is None else drawing.finish(is_inline=False)


def summary_of(estimator: Any) -> str:
    """What a fitted estimator has learned: its model, then its history; empty before `fit`."""
    parts = [getattr(estimator, name, None) for name in ("circuit_", "history_")]
    return "".join(html_of(part) for part in parts if isinstance(part, Circuit | Mixture | Record))


def _drawing_of(thing: Any) -> Svg | None:
    if isinstance(thing, Circuit):
        return draw_circuit(thing)
    if isinstance(thing, Mixture):
        return draw_weights(thing)
    if isinstance(thing, Vtree):
        return draw_vtree(thing)
    if isinstance(thing, ChowLiuTree):
        return draw_chow_liu_tree(thing)
    assert isinstance(thing, Record)
    return draw_history(thing)


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


MAX_EDGES = 60  # of a circuit up to which every node is drawn
MAX_WEIGHTS = 100
MAX_BRANCHES = 150  # of a vtree: what hangs below is drawn as its top node
MAX_BOXES = 25  # variables of a Chow-Liu tree up to which all have a name
MAX_VARS = 2000  # of a Chow-Liu tree
STEP_X, STEP_Y, MARGIN = 76, 34, 22  # pixels


def draw_circuit(circuit: Circuit) -> Svg:
    """Every node with the root on the right; above 60 edges the vtree with discs by edges.

    The vtree of a table has its columns as leaves.
    """
    if circuit.n_edges > MAX_EDGES:
        vtree, names, nodes = shown_vtree(circuit)
        amount = np.bincount(nodes, edges_by_vtree(circuit), vtree.n_nodes)
        return draw_vtree(vtree, names, amount.astype(np.float64))
    layout = layout_circuit(circuit)
    # Names end at their literal's mark; about 7.5 pixels a letter.
    left = MARGIN + max((7.5 * len(label) for label in layout.mark_label), default=0.0)
    x = left + (layout.mark_x - layout.mark_x.min()) * STEP_X
    y = MARGIN + (layout.mark_y.max() - layout.mark_y) * STEP_Y
    svg = Svg(x.max() + MARGIN, y.max() + MARGIN)
    _draw_parameter_lines(svg, layout, x, y)
    for kind, label, cx, cy in zip(layout.mark_kind, layout.mark_label, x, y, strict=True):
        if kind == "literal":
            wide = 7.5 * len(label) + 8
            svg.box(cx - wide + 4, cy - 9, wide, 18)
            svg.text(cx - wide / 2 + 4, cy + 4, label)
            continue
        radius, arm = (8.0, 4.5) if kind == "sum" else (6.5, 3.0)
        svg.circle(cx, cy, radius)
        strokes = ((arm, 0.0), (0.0, arm)) if kind == "sum" else ((arm, arm), (arm, -arm))
        svg.lines(((cx - dx, cy - dy, cx + dx, cy + dy) for dx, dy in strokes), opacity=1.0)
    return svg


def _draw_parameter_lines(svg: Svg, layout: CircuitLayout, x: FloatArray, y: FloatArray) -> None:
    """Lines from rim to rim, with a gap where a parameter stands: there is nothing to cover."""
    rim = {"literal": 4.0, "sum": 8.0, "product": 6.5}
    ends = []
    for start, end, theta in zip(
        layout.line_start, layout.line_end, layout.line_theta, strict=True
    ):
        across, down = x[end] - x[start], y[end] - y[start]
        length = max(float(np.hypot(across, down)), 1.0)
        first = rim[layout.mark_kind[start]] / length
        last = 1.0 - rim[layout.mark_kind[end]] / length
        stops = [first, last]
        if not np.isnan(theta):
            words = f"{theta:.2g}"
            middle, half = 0.65, (3.2 * len(words) + 2.0) / length
            stops = [first, max(middle - half, first), min(middle + half, last), last]
            svg.text(x[start] + middle * across, y[start] + middle * down + 3.5, words, 10)
        points = [(x[start] + share * across, y[start] + share * down) for share in stops]
        ends += [(*points[i], *points[i + 1]) for i in range(0, len(points), 2)]
    svg.lines(ends)


def draw_weights(mixture: Mixture) -> Svg:
    """One bar per component, the largest weight first; of more than 100, the 100 largest."""
    weights = np.sort(mixture.weights)[::-1][:MAX_WEIGHTS]
    step = min(16.0, 400.0 / len(weights))
    width, height, top = max(220.0, step * len(weights)), 80.0, 18.0
    title = f"weights: {weights[0]:.3g} to {weights[-1]:.3g}"
    if len(weights) < mixture.n_components:
        title = f"{len(weights)} largest {title}"
    svg = Svg(width, height)
    svg.text(0, 12, title, anchor="start")
    for place, high in enumerate((weights / weights[0] * (height - top)).tolist()):
        svg.bar(place * step, height - high, 0.8 * step, high, BLUE)
    return svg


def draw_vtree(
    vtree: Vtree, names: tuple[str, ...] | None = None, amount: FloatArray | None = None
) -> Svg:
    """The vtree, with discs by an amount per node; its lowest branches as one node each."""
    is_shown, amount = _shown_branches(vtree, amount)
    x, y = place_vtree(vtree)
    n_shown = int(is_shown.sum())
    is_leaf = is_shown & ((vtree.node_left == NONE) | ~is_shown[vtree.node_left])
    n_leaves = int(is_leaf.sum())
    x = np.interp(x, np.sort(x[is_leaf]), np.arange(n_leaves))  # what is hidden takes no room
    if vtree.n_vars > MAX_STEPS:  # short stems, or most of the drawing would be lines to leaves
        y = np.where(is_leaf, np.maximum(y, y[vtree.node_parent] - 0.7), y)
    labels = {}
    if vtree.n_vars <= MAX_STEPS:
        written = shorten([str(name) for name in names_of(vtree.n_vars, names)], longest=16)
        labels = {int(leaf): written[var] for var, leaf in enumerate(vtree.var_leaf)}
    longest = LETTER * 11 * max(map(len, labels.values()), default=0)
    step = min(max(longest + 8 if n_leaves <= 16 else 14.0, 24.0 if n_leaves <= 16 else 0.0), 60.0)
    step = min(step, 640 / max(n_leaves - 1, 1))
    is_upright = bool(labels) and longest > step
    levels = float(np.ptp(y[is_shown])) or 1.0
    drop = min(36.0, 260 / levels)
    below = (longest if is_upright else 14.0) + 8 if labels else 8.0
    left = MARGIN + (0.0 if is_upright else longest / 2)
    svg = Svg(2 * left + (n_leaves - 1) * step, MARGIN + levels * drop + below + 6)
    px, py = left + x * step, MARGIN + (y[is_shown].max() - y) * drop
    child = np.flatnonzero(is_shown & (vtree.node_parent != NONE))
    up = vtree.node_parent[child]
    ends = zip(px[up], py[up], px[child], py[child], strict=True)
    if vtree.n_vars <= MAX_STEPS:
        svg.lines(ends)
    else:
        svg.elbows(ends, width=0.7)
    gap = 12.0
    if amount is None:
        inner = np.flatnonzero(is_shown & ~is_leaf)
        svg.dots(zip(px[inner], py[inner], strict=True), 5.0 if n_shown < 120 else 2.5)
    else:
        area = amount / amount[is_shown].max() * 11.0**2
        for node in np.flatnonzero(is_shown & (amount > 0)):
            svg.circle(px[node], py[node], max(float(np.sqrt(area[node])), 1.0), BLUE)
        gap += float(np.sqrt(area[vtree.var_leaf].max())) if labels else 0.0
        svg.height += gap
    for leaf, label in labels.items():
        if is_upright:
            svg.parts.append(f'<g transform="translate({px[leaf] + 4:.1f} {py[leaf] + 4:.1f})">')
            svg.parts.append('<g transform="rotate(-90)">')
            svg.text(0, 0, label, 11, anchor="end")
            svg.parts.append("</g></g>")
        else:
            svg.text(px[leaf], py[leaf] + gap, label, 11)
    return svg


def _shown_branches(vtree: Vtree, amount: FloatArray | None) -> tuple[AnyArray, FloatArray | None]:
    """The nodes with most variables and their children; what is hidden counts for its branch."""
    first, last = vtree.node_span
    size = last - first
    inner = np.flatnonzero(vtree.node_var == NONE)
    opened = inner[np.argsort(-size[inner], kind="stable")[: MAX_BRANCHES - 1]]  # parents first
    is_shown = np.zeros(vtree.n_nodes, dtype=bool)
    is_shown[vtree.root] = True
    is_shown[vtree.node_left[opened]] = is_shown[vtree.node_right[opened]] = True
    if amount is not None:
        amount = amount.copy()
        for node in np.flatnonzero(~is_shown):  # children come first
            amount[vtree.node_parent[node]] += amount[node]
    return is_shown, amount


def draw_chow_liu_tree(tree: ChowLiuTree) -> Svg | None:
    """Layers with names, or rings of dots with the root in red; None above 2,000 variables."""
    if tree.n_vars > MAX_VARS:
        return None
    has_names = tree.n_vars <= MAX_BOXES
    x, y = (place_layers if has_names else place_rings)(tree)
    step_x, step_y = 42.0, 38.0
    if not has_names:
        step_x = step_y = 340.0 / max(np.ptp(x), np.ptp(y))
    px, py = MARGIN + (x - x.min()) * step_x, MARGIN + (y.max() - y) * step_y
    svg = Svg(px.max() + MARGIN, py.max() + MARGIN)
    child = np.flatnonzero(tree.var_parent != NONE)
    up = tree.var_parent[child]
    across, down = px[up] - px[child], py[up] - py[child]
    rim = 13.0 / np.maximum(np.hypot(across, down), 26.0) if has_names else np.zeros(len(child))
    ends = np.stack([px[child], py[child], px[up], py[up]], axis=1)
    ends += np.stack([across, down, -across, -down], axis=1) * rim[:, np.newaxis]
    svg.lines((tuple(line) for line in ends.tolist()), opacity=0.4)
    if has_names:
        for var, name in enumerate(names_of(tree.n_vars, None)):
            svg.parts.append('<g class="variable">')
            svg.circle(px[var], py[var], 13.0)
            svg.text(px[var], py[var] + 4, name, 11)
            svg.parts.append("</g>")
    else:
        svg.dots(zip(px, py, strict=True), float(np.clip(600 / tree.n_vars, 2.0, 5.0)))
        svg.dots(zip(px[tree.roots], py[tree.roots], strict=True), 9.0, RED)
    return svg


def draw_history(history: Record) -> Svg | None:
    """Train and validation against steps, and the step that was kept; None without steps."""
    columns = history.columns()
    train, valid = columns["train"], columns["valid"]
    steps = columns[f"n_{history.STEP}"]
    known = np.concatenate([train, valid])
    known = known[np.isfinite(known)]
    if len(steps) < 2 or not len(known):
        return None
    width, height, top, low = 320.0, 130.0, 18.0, 18.0
    low_value, high_value = float(known.min()), float(known.max())
    span = (high_value - low_value) or 1.0
    svg = Svg(width, height)

    def point(place: int, value: float) -> tuple[float, float]:
        across = (steps[place] - steps[0]) / max(steps[-1] - steps[0], 1)
        return 4 + across * (width - 8), top + (high_value - value) / span * (height - top - low)

    shown = np.unique(np.linspace(0, len(steps) - 1, 200).astype(int))
    svg.lines([(0, height - low + 3, width, height - low + 3)], opacity=0.3)
    for values, colour, words, at in (
        (train, ORANGE, "train", 4.0),
        (valid, BLUE, "validation", 60.0),
    ):
        drawn = [place for place in shown if np.isfinite(values[place])]
        if drawn:
            svg.curve((point(place, float(values[place])) for place in drawn), colour)
            svg.dots([(at, 8.0)], 8.0, colour)
            svg.text(at + 8, 12, words, 11, anchor="start")
    judge = valid if np.isfinite(valid[history.best]) else train
    if np.isfinite(judge[history.best]):
        svg.dots([point(history.best, float(judge[history.best]))], 7.0, RED)
    svg.text(0, height - 3, f"{steps[0]:,}", 10, anchor="start")
    svg.text(width, height - 3, f"{steps[-1]:,} {history.STEP}", 10, anchor="end")
    return svg


BLUE, ORANGE, RED = "#3b8bd0", "#e0962e", "#e5484d"  # seen well on white and on black
_ALONE = (
    "<style>svg{color:#222;background:#fff}"
    "@media (prefers-color-scheme:dark){svg{color:#ddd;background:#181818}}</style>"
)


class Svg:
    """A growing drawing."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.parts: list[str] = []

    def lines(
        self,
        ends: Iterable[tuple[float, float, float, float]],
        colour: str = "currentColor",
        width: float = 1.0,
        opacity: float = 0.5,
    ) -> None:
        """Straight lines, all in one element."""
        path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for a, b, c, d in ends)
        self._path(path, colour, width, opacity)

    def elbows(self, ends: Iterable[tuple[float, float, float, float]], width: float = 1.0) -> None:
        """Lines that go along first, then down."""
        path = "".join(f"M{a:.1f} {b:.1f}H{c:.1f}V{d:.1f}" for a, b, c, d in ends)
        self._path(path, "currentColor", width, 0.5)

    def curve(self, points: Iterable[tuple[float, float]], colour: str) -> None:
        """A line through many points."""
        self._path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), colour, 1.5, 1.0)

    def dots(
        self, points: Iterable[tuple[float, float]], diameter: float, colour: str = "currentColor"
    ) -> None:
        """Equal discs, all in one element."""
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        self._path(path, colour, diameter, 1.0)

    def _path(self, path: str, colour: str, width: float, opacity: float) -> None:
        if path and path != "M":
            self.parts.append(
                f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:.3g}" '
                f'stroke-opacity="{opacity:.3g}" stroke-linecap="round"/>'
            )

    def circle(self, x: float, y: float, radius: float, colour: str | None = None) -> None:
        """A disc in a colour, or an outline."""
        look = (
            'fill="none" stroke="currentColor"'
            if colour is None
            else f'fill="{colour}" fill-opacity="0.85"'
        )
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {look}/>')

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{colour}"/>'
        )

    def box(self, x: float, y: float, width: float, height: float) -> None:
        """A rounded outline with a slight fill, for a name."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" '
            'fill="currentColor" fill-opacity="0.07" stroke="currentColor" stroke-opacity="0.6"/>'
        )

    def text(
        self, x: float, y: float, words: str, size: float = 12, anchor: str = "middle"
    ) -> None:
        """Words with their middle (or their start, or end) at x and their base line at y."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
            f'fill="currentColor">{escape(words)}</text>'
        )

    def finish(self, is_inline: bool) -> str:
        """The drawing, as part of a page or as a file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" '
            f'height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}" '
            f'font-family="sans-serif">{"" if is_inline else _ALONE}{"".join(self.parts)}</svg>'
        )
