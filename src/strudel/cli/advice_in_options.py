"""Advice of the library, which speaks Python, in the options of the command line.

In:  an error or a warning.
Out: its problem, with advice in options.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strudel.errors import (
    ChangedFileError,
    EventSyntaxError,
    Explained,
    IdentifierWarning,
    LeftEmptyWarning,
    ManyCategoriesWarning,
    MisfitWarning,
    MissingForAReasonWarning,
    NotBinaryError,
    NotPartitionedError,
    UnorderedColumnError,
    UnseenValueError,
    UnseenValueWarning,
)

ENCODE = "Or fit a model of its columns: strudel fit takes text, numbers and dates."


def in_options(error: BaseException) -> str:
    """What is wrong, with advice in options."""
    if not isinstance(error, Explained):
        return str(error)
    return f"{error.problem} {advice_for(error)}".rstrip()


def advice_for(error: Explained) -> str:
    """What to do, in options where there are some."""
    about = error.cause if isinstance(error, EventSyntaxError) and error.cause else error
    return _ADVICE[type(about)](about) if type(about) in _ADVICE else error.advice


def _encode(error: NotBinaryError) -> str:
    return f"Binarise the data first. {ENCODE}" if error.can_be_encoded else error.advice


def _drop(warning: ManyCategoriesWarning) -> str:
    return f"Drop the column (--drop {warning.column!r}) if it is an identifier."


def _of_reasons(warning: MissingForAReasonWarning) -> str:
    is_rule = any(rule.is_structural for rule in warning.rules)
    impute = "strudel impute leaves those empty that are missing by rule; " if is_rule else ""
    return f"{impute}strudel sample --missing draws missing values as the table has them."


_ADVICE: dict[type[BaseException], Callable[[Any], str]] = {
    NotBinaryError: _encode,
    ManyCategoriesWarning: _drop,
    IdentifierWarning: lambda error: f"--drop {error.column!r} leaves it out without a note.",
    LeftEmptyWarning: lambda _: "--fill-structural fills them.",
    MissingForAReasonWarning: _of_reasons,
    MisfitWarning: lambda _: "`strudel check MODEL` shows all.",
    UnseenValueError: lambda _: "Correct it, leave the cell empty, or fit on rows that have it.",
    UnseenValueWarning: lambda _: "Correct them if they are misspelt.",
    UnorderedColumnError: lambda _: "Use =, != or in [a, b].",
    ChangedFileError: lambda _: "--force reads it as it is.",
    NotPartitionedError: lambda _: (
        "Give --set search.structure_rows=... to search a sample of the "
        "rows in memory; the parameters will still see all of them."
    ),
}
