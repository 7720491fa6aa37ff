"""Axes and colours that the pictures share, and room for their text.

In:  axes of any style, light or dark.
Out: a `Palette` that is readable on them; figures; picture files.

matplotlib is imported on the first picture, not with the package: it takes most of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from strudel._files import complete_file
from strudel._types import AnyArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Colour: TypeAlias = tuple[float, float, float]

ENDINGS = (".png", ".svg", ".pdf")
LETTER = 0.62  # about the width of a letter, in font sizes


@dataclass(frozen=True)
class Palette:
    """Colours that are distinct and readable on one background."""

    background: Colour
    ink: Colour  # text and outlines
    muted: Colour  # important lines, less important text
    faint: Colour  # connecting lines
    fill: Colour  # the inside of boxes
    blue: str
    orange: str
    red: str


def palette_of(ax: Axes) -> Palette:
    """The colours for drawing on `ax`, from its background and matplotlib's text colour."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgb

    background = _background(ax)
    ink = to_rgb(rcParams["text.color"])
    is_dark = _brightness(background) < 0.5
    if abs(_brightness(ink) - _brightness(background)) < 0.4:  # axes made under another style
        ink = (1.0, 1.0, 1.0) if is_dark else (0.0, 0.0, 0.0)
    return Palette(
        background=background,
        ink=_blend(background, ink, 0.85),
        muted=_blend(background, ink, 0.5),
        faint=_blend(background, ink, 0.28),
        fill=_blend(background, ink, 0.07 if not is_dark else 0.14),
        blue="#5aa9e6" if is_dark else "#1f6fb2",
        orange="#f2b04a" if is_dark else "#d98c21",
        red="#ff5c5c" if is_dark else "#d62728",
    )


def _background(ax: Axes) -> Colour:
    """The background of a drawing: the figure, and the axes unless they are switched off."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgb, to_rgba

    is_ink_bright = _brightness(to_rgb(rcParams["text.color"])) > 0.5
    colour: Colour = (0.0, 0.0, 0.0) if is_ink_bright else (1.0, 1.0, 1.0)
    layers = [ax.figure.get_figure(), ax.figure] if ax.figure is not None else []
    for layer in [*layers, *([ax] if ax.axison else [])]:
        if layer is not None:
            red, green, blue, alpha = to_rgba(layer.get_facecolor())
            colour = _blend(colour, (red, green, blue), alpha)
    return colour


def _brightness(colour: Colour) -> float:
    """The perceived brightness, from 0 to 1."""
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]


def _blend(below: Colour, above: Colour, share: float) -> Colour:
    red, green, blue = (b + share * (a - b) for b, a in zip(below, above, strict=True))
    return red, green, blue


def axes_or_current(ax: Axes | None) -> Axes:
    """The axes given, or pyplot's current ones; new ones leave room for their text."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    figure = plt.gcf()
    if not figure.axes and figure.get_layout_engine() is None:
        figure.set_layout_engine("tight")  # users may still call tight_layout
    return plt.gca()


def new_figure(width: float, height: float) -> Figure:
    """A figure outside of pyplot, which no window shows; sizes are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> Path:
    """Write a picture in the format of its ending, complete or not at all."""
    from matplotlib import rc_context

    # Without dates, the same picture is the same file.
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
    with complete_file(path) as unfinished, rc_context({"svg.hashsalt": "strudel"}):
        figure.savefig(
            unfinished,
            format=path.suffix[1:],
            dpi=dpi,
            metadata=metadata,
            facecolor=figure.get_facecolor(),
        )
    return path


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes, in typographic points."""
    extent = ax.get_window_extent()
    return extent.width / ax.figure.dpi * 72, extent.height / ax.figure.dpi * 72


def points_per_unit(ax: Axes, n_units: float) -> float:
    """The typographic points of one of `n_units` equal parts of the height of `ax`."""
    return size_in_points(ax)[1] / max(n_units, 1.0)


def text_width(labels: Sequence[str], size: float) -> float:
    """The approximate width of the longest label, in points."""
    return LETTER * size * max(map(len, labels), default=0)


def short_label(label: str, longest: int = 24) -> str:
    """A label that matplotlib writes literally, with dollar signs, shortened if it is long."""
    short = label if len(label) <= longest else label[: longest - 1] + "…"
    return short.replace("$", r"\$")


def every_few(n_labels: int, room: float, needed: float) -> int:
    """The step from one written label to the next: 1, 2, 5, 10, ... so that each has its room.

    Examples
    --------
    >>> every_few(1000, room=400.0, needed=9.0)
    50
    """
    step = 1
    while n_labels / step * needed > room:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step


def labels_that_fit(
    x: FloatArray, y: FloatArray, wide: FloatArray, high: float, first: AnyArray
) -> list[int]:
    """Labels that do not overlap, chosen in the order of `first`; everything in one unit."""
    kept: list[int] = []
    for label in first.tolist():
        is_free = np.all(
            (np.abs(x[kept] - x[label]) > (wide[kept] + wide[label]) / 2)
            | (np.abs(y[kept] - y[label]) > high)
        )
        if is_free:
            kept.append(label)
    return kept
