"""Advice of the library, which speaks Python, in the options of the command line.

In:  the message of an error or a warning.
Out: the same with options instead of arguments.
"""

from __future__ import annotations

import re

_CATEGORIES = re.compile(r"(Column '(.*)' has \d+ categories.*)Drop it if", re.DOTALL)
_ORDINAL = re.compile(r" Use ==, != or isin, or make it an ordinal: TableEncoder\(.*?\) with .*?\.")
_EDGES = re.compile(r"TableEncoder\(edges=\{'(.*?)': \[(.*?)\]\}\)")

_WORDS = {
    "TableEncoder(max_categories=...)": "--max-categories",
    "encoder=TableEncoder()": "--encode auto",
    "Rows in parts need method='em' or 'bagged_em', and structure='shared'.": "Rows in parts need "
    "--method em or bagged_em, and --structure shared.",
    "remove it, or give another path, to start anew": "--no-resume starts anew",
    "Give structure_rows to": "Give --structure-rows to",
    ", fit on rows that have it, or take such values as missing with "
    "TableEncoder(unknown='missing').": ", leave the cell empty, or fit on rows that have it.",
}


def in_options(message: str) -> str:
    """The message in the words of `strudel fit`.

    Examples
    --------
    >>> in_options("Learn with TableEncoder(edges={'age': [60, ...]}).")
    'Learn with --edges age=60,....'
    """
    message = _CATEGORIES.sub(r"\1Drop it (--drop '\2') if", message)
    message = _ORDINAL.sub(" Use =, != or in [a, b].", message)
    for words, option in _WORDS.items():
        message = message.replace(words, option)
    return _EDGES.sub(lambda found: f"--edges {found[1]}={_plain(found[2])}", message)


def _plain(values: str) -> str:
    """Values between commas, without the quotes of dates."""
    return values.replace("'", "").replace(" ", "")
