"""The content of a report, before it becomes HTML or Markdown.

Texts may contain `code` between backticks and **bold** between pairs of asterisks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Tone = Literal["", "better", "worse", "same"]

SAME_NATS, SAME_SHARE = 0.02, 0.005  # likelihoods this close to the paper's count as the same


@dataclass(frozen=True)
class Cell:
    """One field of a table."""

    text: str
    tone: Tone = ""
    hint: str = ""  # shown when a reader points at it


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

    name: str  # of the file, without its extension
    caption: str
    png: bytes


@dataclass(frozen=True)
class Section:
    """What the report says about one item."""

    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # where we differ, and why
    numbers: list[dict[str, Any]] = field(default_factory=list)  # rows of its csv
    item: str = ""  # its name
    title: str = ""
    text: str = ""  # before its tables and pictures, see `facts/sections.toml`


Row: TypeAlias = list[tuple[str, Any]]  # the header of each column, and a cell or a value


def tables_of(rows: list[Row], caption: str, *, is_words: bool = False) -> list[Table]:
    """One table, or none without rows."""
    if not rows:
        return []
    columns = tuple(header for header, _ in rows[0])
    cells = [[one if isinstance(one, Cell) else Cell(str(one)) for _, one in row] for row in rows]
    return [Table(columns, cells, caption, is_words)]


def number(value: float | None, digits: int = 3, *, tone: Tone = "", hint: str = "") -> Cell:
    """A number, or a dash where there is none."""
    if value is None:
        return Cell("-")
    text = f"{value:,.{digits}f}" if abs(value) < 1e7 else f"{value:.3g}"
    return Cell(text, tone, hint)


def seconds_cell(value: float | None, *, hint: str = "") -> Cell:
    """A duration, with more digits the shorter it is."""
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


def beside_paper(header: str, one: dict[str, Any], published: float | None, hint: str = "") -> Row:
    """A test likelihood of ours, and the paper's in the column beside it."""
    ours = likelihood(one["test"], published, hint=hint)
    return [(header, ours), ("paper", number(published, 2))]


def compare(value: float, published: float) -> Tone:
    """Whether a likelihood is better than a published one, worse, or about the same."""
    difference = value - published
    if abs(difference) <= max(SAME_NATS, SAME_SHARE * abs(published)):
        return "same"
    return "better" if difference > 0 else "worse"
