"""Small SVG drawings as plain strings, for notebooks.

In:  points in pixels, y downwards.
Out: an `<svg>` that takes the colour of the text around it, so that it can be read on light and on
     dark pages; on its own, with a background that follows the reader's preference.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

BLUE, ORANGE, RED = "#3b8bd0", "#e0962e", "#e5484d"  # seen well on white and on black
LETTER = 0.62  # about the width of a letter, in font sizes
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
