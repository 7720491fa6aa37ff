"""What a report is made of, before it becomes HTML or Markdown.

Texts may hold `code` between backticks and **bold** between pairs of asterisks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Tone = Literal["", "better", "worse", "same"]

SAME_NATS, SAME_SHARE = 0.02, 0.005  # likelihoods that are this near to the paper's are the same


@dataclass(frozen=True)
class Cell:
    """One field of a table."""

    text: str
    tone: Tone = ""
    hint: str = ""  # what a reader sees who points at it


@dataclass(frozen=True)
class Table:
    """Rows under headers; the first column holds names, the others numbers."""

    columns: tuple[str, ...]
    rows: list[list[Cell]]
    caption: str = ""
    is_words: bool = False  # all columns hold words, and go to the left


@dataclass(frozen=True)
class Picture:
    """A png."""

    name: str  # of the file, without its ending
    caption: str
    png: bytes


@dataclass(frozen=True)
class Section:
    """What the report says about one item."""

    item: str
    title: str
    text: list[str]
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # where we differ, and why
    numbers: list[dict[str, Any]] = field(default_factory=list)  # rows of its csv


def number(value: float | None, digits: int = 3, *, tone: Tone = "", hint: str = "") -> Cell:
    """A number, or a dash where there is none."""
    if value is None:
        return Cell("-")
    text = f"{value:,.{digits}f}" if abs(value) < 1e7 else f"{value:.3g}"
    return Cell(text, tone, hint)


def seconds_cell(value: float | None, *, hint: str = "") -> Cell:
    """A duration, with as many digits as it deserves."""
    if value is None:
        return Cell("-")
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 4
    return Cell(f"{value:,.{digits}f}", "", hint)


def likelihood(value: float | None, published: float | None, *, hint: str = "") -> Cell:
    """A likelihood of ours, coloured by how it compares with a published one."""
    if value is None or published is None:
        return number(value, hint=hint)
    difference = value - published
    share = difference / abs(published)
    words = f"{difference:+.3f} nats ({100 * share:+.2f} %) against {published:g}"
    return number(value, tone=compare(value, published), hint=f"{words}. {hint}".strip())


def compare(value: float, published: float) -> Tone:
    """Whether a likelihood is better than a published one, worse, or about the same."""
    difference = value - published
    if abs(difference) <= max(SAME_NATS, SAME_SHARE * abs(published)):
        return "same"
    return "better" if difference > 0 else "worse"


def plain_rows(rows: Sequence[Sequence[Any]]) -> list[list[Cell]]:
    """Cells of values that need no colour."""
    return [
        [value if isinstance(value, Cell) else Cell(str(value)) for value in row] for row in rows
    ]
