"""Axes, colours and names that the pictures share, and room for their text.

In:  axes of any style, light or dark; names of any length, and the room there is.
Out: a `Palette` that is readable on them; figures; picture files; short labels that differ,
     and places for them where they hide nothing.

matplotlib is imported on the first picture, not with the package: it takes most of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from strudel._files import complete_file
from strudel._types import NONE, AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

Colour: TypeAlias = tuple[float, float, float]

LETTER = 0.62  # about the width of a letter, in font sizes
ENDINGS = (".png", ".svg", ".pdf")
DARK_PAGE: Colour = (0.118, 0.129, 0.161)  # behind a transparent figure with bright text


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

    @property
    def is_dark(self) -> bool:
        """Whether the background is."""
        return _brightness(self.background) < 0.5


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
    colour: Colour = DARK_PAGE if is_ink_bright else (1.0, 1.0, 1.0)
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


def draw_links(
    ax: Axes, x: FloatArray, y: FloatArray, parent: IntArray, colours: Palette, width: Any = 1.2
) -> None:
    """Straight lines from every node to its parent."""
    child = np.flatnonzero(parent != NONE)
    points = np.stack([x, y], axis=1)
    add_lines(ax, np.stack([points[child], points[parent[child]]], axis=1), colours.faint, width)


def add_lines(ax: Axes, path: AnyArray, colour: Any, width: Any, gid: str = "edges") -> None:
    """Lines through the points of each path, as one artist."""
    from matplotlib.collections import LineCollection

    lines = LineCollection(list(path), colors=[colour], linewidths=width, zorder=1, gid=gid)
    lines.set_capstyle("round")
    ax.add_collection(lines, autolim=False)


def write_beside(
    ax: Axes, words: str, at: tuple[Any, Any], offset: tuple[float, float], **how: Any
) -> None:
    """Words so many points beside a place."""
    ax.annotate(words, at, xytext=offset, textcoords="offset points", **how)


def set_limits(ax: Axes, x: FloatArray, y: FloatArray) -> None:
    """Everything inside, with a margin for marks."""
    ax.set_xlim(x.min() - 0.7 - 0.01 * np.ptp(x), x.max() + 0.7 + 0.01 * np.ptp(x))
    ax.set_ylim(y.min() - 0.7, y.max() + 0.5)


def write_box(
    ax: Axes, x: float, y: float, label: str, size: float, colours: Palette, side: str, gid: str
) -> Text:
    """A name in a rounded box, whose middle or right end is at x."""
    style = {"facecolor": colours.fill, "edgecolor": colours.muted, "linewidth": 0.8}
    box = {**style, "boxstyle": "round,pad=0.35"}
    how: dict[str, Any] = {"fontsize": size, "color": colours.ink, "zorder": 3, "gid": gid}
    return ax.text(x, y, label, ha=side, va="center", bbox=box, **how)


def write_caption(ax: Axes, words: str) -> None:
    """What is seen, in a line above the axes."""
    how: dict[str, Any] = {"transform": ax.transAxes, "color": palette_of(ax).ink, "gid": "caption"}
    ax.text(0.0, 1.0, words, fontsize=9, ha="left", va="bottom", **how)


def text_width(labels: Sequence[str], size: float) -> float:
    """The approximate width of the longest label, in points."""
    return LETTER * size * max(map(len, labels), default=0)


def short_labels(labels: Sequence[str], longest: int = 24) -> list[str]:
    """Short labels that matplotlib writes literally, with dollar signs."""
    return [label.replace("$", r"\$") for label in shorten(labels, longest)]


def shorten(labels: Sequence[str], longest: int) -> list[str]:
    """Long labels without their middle.

    Labels that differ stay different: those that are alike at both ends begin again where they
    start to differ, and if that is not enough, they are numbered.

    Examples
    --------
    >>> shorten(["date of last visit>=2020-12-22", "age"], longest=16)
    ['date …2020-12-22', 'age']
    >>> shorten(["north of the long river", "north by the long river"], longest=12)
    ['nor…of the l', 'nor…by the l']
    """
    short = [_without_middle(label, longest) for label in labels]
    for alike in _alike(labels, short):
        start = _same_start([labels[place] for place in alike])
        for place in alike:
            short[place] = f"{labels[place][: longest // 4]}…{labels[place][start:]}"[:longest]
    for alike in _alike(labels, short):
        for number, place in enumerate(alike, 1):
            ending = f"…{number}"
            short[place] = short[place][: longest - len(ending)] + ending
    return short


def short_label(label: str, longest: int = 24) -> str:
    """One label, shortened if it is long."""
    return short_labels([label], longest)[0]


def _without_middle(label: str, longest: int) -> str:
    """The first third and the end: values and dates come last."""
    if len(label) <= longest:
        return label
    n_first = longest // 3
    return f"{label[:n_first]}…{label[n_first + 1 - longest :]}"


def _same_start(labels: Sequence[str]) -> int:
    """How many letters all labels begin with."""
    pairs = enumerate(zip(*labels, strict=False))
    return next((n for n, letters in pairs if len(set(letters)) > 1), min(map(len, labels)))


def _alike(labels: Sequence[str], short: Sequence[str]) -> list[list[int]]:
    """The places of different labels that have become the same."""
    places: dict[str, list[int]] = {}
    for place, text in enumerate(short):
        places.setdefault(text, []).append(place)
    return [same for same in places.values() if len({labels[place] for place in same}) > 1]


def every_few(n_labels: int, room: float, needed: float) -> int:
    """The step from one written label to the next: 1, 2, 5, 10, ... so that each has its room."""
    step = 1
    while n_labels / step * needed > room:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step


def place_labels(
    x: FloatArray, y: FloatArray, radius: FloatArray, wide: FloatArray, high: float, first: AnyArray
) -> dict[int, tuple[float, float]]:
    """The middle of every label that hides neither a dot nor another label, from its dot.

    A label is above, below, or beside its dot, or is left out; those in `first` choose first.
    Everything is in one unit.
    """
    box_x, box_y, box_wide, box_high = x.copy(), y.copy(), 2 * radius, 2 * radius
    placed: dict[int, tuple[float, float]] = {}
    for label in first.tolist():
        up, out = radius[label] + high / 2, radius[label] + wide[label] / 2
        for across, down in ((0.0, up), (0.0, -up), (out, 0.0), (-out, 0.0)):
            at_x, at_y = x[label] + across, y[label] + down
            is_free = (2 * np.abs(box_x - at_x) >= box_wide + wide[label] - 1e-9) | (
                2 * np.abs(box_y - at_y) >= box_high + high - 1e-9
            )
            if is_free.all():
                placed[label] = (float(across), float(down))
                box_x, box_y = np.append(box_x, at_x), np.append(box_y, at_y)
                box_wide = np.append(box_wide, wide[label])
                box_high = np.append(box_high, high)
                break
    return placed
