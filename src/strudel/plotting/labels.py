"""Names in pictures: short, different from each other, and where they hide nothing.

In:  names of any length, and the room there is.
Out: labels, and places for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.plotting.svg import LETTER


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
