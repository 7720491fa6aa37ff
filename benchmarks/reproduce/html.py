"""A report as one HTML file with everything inside, readable on light and dark screens.

In:  a `Report`.
Out: text. No script, nothing from the network; pictures are embedded, on white.
"""

from __future__ import annotations

import base64
import html
import re
from importlib import resources
from typing import TYPE_CHECKING

from reproduce.claims import SIGNS
from reproduce.content import Cell, Section, Table
from reproduce.facts import read_facts

if TYPE_CHECKING:
    from reproduce.report import Report


def to_html(report: Report, title: str) -> str:
    """The whole page."""
    links = "".join(f'<a href="#{_id(one.item)}">{one.item}</a> ' for one in report.sections)
    facts = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
        for name, value in report.facts.items()
    )
    style = resources.files("reproduce").joinpath("report.css").read_text(encoding="utf-8")
    missing = "".join(f"<li>{html.escape(line)}</li>" for line in report.missing)
    by_design = "".join(
        f"<li><b>{html.escape(row['what'])}</b>: {_words(row['why'])}.</li>"
        for row in read_facts("by_design")
    )
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(title)}</title><style>{style}</style></head><body>",
            f"<h1>{html.escape(title)}</h1>",
            f'<nav><a href="#claims">claims</a> <a href="#by-design">differences</a> {links}</nav>',
            f'<div class="scroll words"><table class="words">{facts}</table></div>',
            '<p class="legend"><span class="better">better</span><span class="worse">worse</span>'
            '<span class="same">the same to 0.5 % or 0.02 nats</span> than the number it is '
            "compared with; point at a number to see the difference.</p>",
            '<h2 id="claims">Claims</h2>',
            _claims(report),
            f"<p>{html.escape(report.warning)}</p>" if report.warning else "",
            f"<h2>What is missing</h2><ul>{missing}</ul>" if missing else "",
            f'<h2 id="by-design">What differs by design</h2><ul>{by_design}</ul>',
            *(_section(section) for section in report.sections),
            "</body></html>\n",
        ]
    )


def _claims(report: Report) -> str:
    rows = "".join(
        f"<tr><td>{one.claim.name}</td><td>{html.escape(one.claim.text)}</td>"
        f'<td class="{one.status if one.status != "not enough results" else "faint"}">'
        f"{SIGNS[one.status]}</td><td>{html.escape(one.figures)}"
        + (f". <b>Why:</b> {_words(one.why)}" if one.why else "")
        + "</td></tr>"
        for one in report.verdicts
    )
    head = "<tr><th></th><th>claim</th><th></th><th>figures</th></tr>"
    return f'<div class="scroll"><table class="words">{head}{rows}</table></div>'


def _section(section: Section) -> str:
    figures = "".join(
        f'<figure><img alt="{html.escape(one.caption)}" src="data:image/png;base64,'
        f'{base64.b64encode(one.png).decode()}"><figcaption>{_words(one.caption)}</figcaption></figure>'
        for one in section.pictures
    )
    notes = "".join(f"<li>{_words(note)}</li>" for note in section.notes)
    body = "".join(_table(table) for table in section.tables) + figures
    return (
        f'<h2 id="{_id(section.item)}">{html.escape(section.title)} '
        f'<span class="faint">{section.item}</span></h2><p>{_words(section.text)}</p>'
        + (body or "<p>No results.</p>")
        + (f"<ul>{notes}</ul>" if notes else "")
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    rows = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in table.rows)
    caption = f"<caption>{_words(table.caption)}</caption>" if table.caption else ""
    words = ' class="words"' if table.is_words else ""
    return f'<div class="scroll"><table{words}>{caption}<tr>{head}</tr>{rows}</table></div>'


def _cell(cell: Cell) -> str:
    tone = f' class="{cell.tone}"' if cell.tone else ""
    hint = f' title="{html.escape(cell.hint)}"' if cell.hint else ""
    return f"<td{tone}{hint}>{html.escape(cell.text)}</td>"


def _words(text: str) -> str:
    """Escape, and turn `code`, **bold** and *italic* into tags."""
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    escaped = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", escaped)
    return re.sub(r"\*([^*]+)\*", r"<i>\1</i>", escaped)


def _id(item: str) -> str:
    return item.replace(":", "-")
