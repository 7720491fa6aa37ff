"""A report as Markdown, which readers on GitHub and in the documentation see.

In:  a `Report`.
Out: text. Marks stand for colours: ▲ better than the paper, ▼ worse, ≈ the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reproduce.claims import SIGNS
from reproduce.content import Cell, Section, Table
from reproduce.facts import read_facts

if TYPE_CHECKING:
    from reproduce.report import Report

MARKS = {"": "", "better": " ▲", "worse": " ▼", "same": " ≈"}


def to_markdown(report: Report, title: str, folder: str) -> str:
    """The whole page; pictures and csv files lie in `folder`."""
    from reproduce.report import csv_name

    lines = [
        f"# {title}",
        "",
        "Written by `python benchmarks/reproduce`. Marks in the tables: ▲ better than the number "
        "it is compared with, ▼ worse, ≈ the same to 0.5 % or 0.02 nats.",
        "",
        *(f"- {name}: {value}" for name, value in report.facts.items()),
        "",
        "## Claims",
        "",
        "| | claim | | figures |",
        "| --- | --- | --- | --- |",
    ]
    for verdict in report.verdicts:
        figures = verdict.figures + (f". **Why:** {verdict.why}" if verdict.why else "")
        fields = (verdict.claim.name, verdict.claim.text, SIGNS[verdict.status], figures)
        lines.append(f"| {' | '.join(_field(one) for one in fields)} |")
    if report.warning:
        lines += ["", report.warning]
    if report.missing:
        lines += ["", "## What is missing", "", *(f"- {line}" for line in report.missing)]
    lines += ["", "## What differs by design", ""]
    lines += [f"- **{row['what']}**: {row['why']}." for row in read_facts("by_design")]
    for section in report.sections:
        lines += ["", f"## {section.title}", "", f"`{section.item}`"]
        if section.numbers:
            lines[-1] += f", all numbers in [{csv_name(section)}]({folder}/{csv_name(section)})"
        lines += ["", section.text]
        lines += _body(section, folder)
    return "\n".join(lines) + "\n"


def _body(section: Section, folder: str) -> list[str]:
    lines = []
    for table in section.tables:
        lines += ["", *([table.caption, ""] if table.caption else []), *_table(table)]
    for picture in section.pictures:
        lines += ["", f"![{picture.caption}]({folder}/{picture.name}.png)"]
    if section.notes:
        lines += ["", *(f"- {note}" for note in section.notes)]
    if not (section.tables or section.pictures):
        lines += ["", "No results."]
    return lines


def _table(table: Table) -> list[str]:
    side = "---" if table.is_words else "---:"
    rule = ["---", *([side] * (len(table.columns) - 1))]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    return [f"| {' | '.join(row)} |" for row in ([_field(c) for c in table.columns], rule, *rows)]


def _cell(cell: Cell) -> str:
    return _field(cell.text) + MARKS[cell.tone]


def _field(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
