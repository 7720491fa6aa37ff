"""What a circuit or mixture looks like in a notebook, as plain strings.

In:  a `Circuit` or `Mixture`.
Out: an HTML table of its sizes; an SVG drawing of a circuit that is small enough to read, or of the
     weights of a mixture.
"""

from __future__ import annotations

from html import escape

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.layout import CircuitLayout, layout_circuit
from strudel.circuits.mixture import Mixture

MAX_SVG_EDGES = 60
MAX_SVG_WEIGHTS = 100
STEP_X, STEP_Y, MARGIN = 76, 34, 22  # pixels


def circuit_html(circuit: Circuit) -> str:
    """The sizes of a circuit as a table, with its drawing where there is one.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> circuit_html(figure_1_circuit()).count("<tr>")
    6
    """
    return f"<div>{_table('Circuit', _sizes(circuit))}{circuit_svg(circuit) or ''}</div>"


def _sizes(circuit: Circuit) -> dict[str, int]:
    return {
        "variables": circuit.n_vars,
        "nodes": circuit.n_nodes,
        "edges": circuit.n_edges,
        "parameters": circuit.n_parameters,
        "depth": circuit.depth,
        "vtree depth": circuit.vtree.depth,
    }


def _table(caption: str, facts: dict[str, int]) -> str:
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:right">{value:,}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table><caption>{caption}</caption><tbody>{rows}</tbody></table>"


def mixture_html(mixture: Mixture) -> str:
    """The sizes of a mixture as a table, with one bar per weight.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> log_theta = np.column_stack([circuit.edge_log_theta, circuit.edge_log_theta])
    >>> mixture_html(Mixture(circuit, log_theta, np.log([0.3, 0.7]))).count("<tr>")
    7
    """
    facts = {"components": mixture.n_components} | _sizes(mixture.structure)
    facts["parameters"] = mixture.n_parameters
    return f"<div>{_table('Mixture', facts)}{weights_svg(mixture)}</div>"


def weights_svg(mixture: Mixture) -> str:
    """One bar per component, the largest weight first; of more than 100, the 100 largest.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> log_theta = np.column_stack([circuit.edge_log_theta, circuit.edge_log_theta])
    >>> weights_svg(Mixture(circuit, log_theta, np.log([0.3, 0.7]))).count("<rect")
    3
    """
    weights = np.sort(mixture.weights)[::-1][:MAX_SVG_WEIGHTS]
    step = min(16.0, 400.0 / len(weights))
    width, height, top = max(220.0, step * len(weights)), 80.0, 18.0
    high = weights / weights[0] * (height - top)
    title = f"weights: {weights[0]:.3g} to {weights[-1]:.3g}"
    if len(weights) < mixture.n_components:
        title = f"{len(weights)} largest {title}"
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{height - bar:.1f}" width="{0.8 * step:.1f}" '
        f'height="{bar:.1f}" fill="#8a9199"/>'
        for i, bar in enumerate(high.tolist())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif">'
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
        f'<text x="0" y="12" font-size="12">{title}</text>{bars}</svg>'
    )


def circuit_svg(circuit: Circuit) -> str | None:
    """A drawing with the root on the right, or None for more than 60 edges.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> circuit_svg(figure_1_circuit()).count("<circle")
    15
    """
    if circuit.n_edges > MAX_SVG_EDGES:
        return None
    layout = layout_circuit(circuit)
    # Names end at their literal's mark; about 7.5 pixels a letter.
    left = MARGIN + max((7.5 * len(label) for label in layout.mark_label), default=0.0)
    x = left + (layout.mark_x - layout.mark_x.min()) * STEP_X
    y = MARGIN + (layout.mark_y.max() - layout.mark_y) * STEP_Y
    width, height = x.max() + MARGIN, y.max() + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" text-anchor="middle">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        *_lines(layout, x, y),
        *_marks(layout, x, y),
        "</svg>",
    ]
    return "".join(parts)


def _lines(layout: CircuitLayout, x: np.ndarray, y: np.ndarray) -> list[str]:
    parts = []
    for start, end in zip(layout.line_start, layout.line_end, strict=True):
        parts.append(
            f'<line x1="{x[start]:.1f}" y1="{y[start]:.1f}" x2="{x[end]:.1f}" y2="{y[end]:.1f}" '
            'stroke="#8a9199"/>'
        )
    for line in np.flatnonzero(~np.isnan(layout.line_theta)):
        start, end = layout.line_start[line], layout.line_end[line]
        text = f"{layout.line_theta[line]:.2g}"
        at_x, at_y = 0.3 * x[start] + 0.7 * x[end], 0.3 * y[start] + 0.7 * y[end]
        half = 3.0 * len(text)
        parts.append(
            f'<rect x="{at_x - half:.1f}" y="{at_y - 6:.1f}" width="{2 * half:.1f}" height="12" '
            f'fill="white"/><text x="{at_x:.1f}" y="{at_y + 3.5:.1f}" font-size="10">{text}</text>'
        )
    return parts


def _marks(layout: CircuitLayout, x: np.ndarray, y: np.ndarray) -> list[str]:
    parts = []
    for mark, (kind, label) in enumerate(zip(layout.mark_kind, layout.mark_label, strict=True)):
        cx, cy = float(x[mark]), float(y[mark])
        if kind == "literal":
            wide = 7.5 * len(label) + 8
            parts.append(
                f'<rect x="{cx - wide + 4:.1f}" y="{cy - 9:.1f}" width="{wide:.1f}" height="18" '
                f'rx="4" fill="#eef1f4" stroke="#333333"/><text x="{cx - wide / 2 + 4:.1f}" '
                f'y="{cy + 4:.1f}" font-size="12">{escape(label)}</text>'
            )
            continue
        radius, arm = (8.0, 4.5) if kind == "sum" else (6.5, 3.0)
        parts.append(
            f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{radius}" fill="white" stroke="#333333"/>'
        )
        strokes = ((arm, 0.0), (0.0, arm)) if kind == "sum" else ((arm, arm), (arm, -arm))
        for dx, dy in strokes:
            parts.append(
                f'<line x1="{cx - dx:.1f}" y1="{cy - dy:.1f}" x2="{cx + dx:.1f}" '
                f'y2="{cy + dy:.1f}" stroke="#333333"/>'
            )
    return parts
