"""Every exception and warning of the library.

Wrong arguments raise `ValueError` or `TypeError`, as in scikit-learn; the exceptions here are both
a `StrudelError` and the matching exception of Python. Each says what is wrong (`problem`) and,
apart from it, what to do in Python (`advice`), with the facts as fields: callers need not parse
messages, and the command line gives its own advice.
"""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Explained",
    "StrudelError",
    "ChangedFileError",
    "CircuitPropertyError",
    "EventSyntaxError",
    "FileFormatError",
    "GraphError",
    "ImpossibleRowError",
    "MissingDependencyError",
    "NoValueError",
    "NotBinaryError",
    "SizeLimitError",
    "UnorderedColumnError",
    "UnseenValueError",
    "WrongTableError",
    "AlikeComponentsWarning",
    "CutCellsWarning",
    "EmptyColumnWarning",
    "ExtraColumnsWarning",
    "IdentifierWarning",
    "InterruptedWarning",
    "LeftEmptyWarning",
    "ManyCategoriesWarning",
    "MissingForAReasonWarning",
    "MisfitWarning",
    "NormalizedWarning",
    "NothingKnownWarning",
    "OutOfRangeWarning",
    "SearchLimitWarning",
    "UnseenValueWarning",
]


def outer_stack_level() -> int:
    """For a warning: how far up the first caller outside this package is."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("strudel."):
        level, frame = level + 1, frame.f_back
    return level


class Explained(Exception):  # noqa: N818 (warnings are of this kind also)
    """What is wrong, what to do about it, and the facts as fields."""

    def __init__(self, problem: str, advice: str = "", **facts: Any) -> None:
        super().__init__()
        self._say(problem, advice)
        self.__dict__.update(facts)

    def within(self, place: str, more_advice: str = "") -> Self:
        """The same error, with the place where it is."""
        made = copy.copy(self)
        made._say(f"{place}: {self.problem}", f"{self.advice} {more_advice}".strip())
        return made

    def _say(self, problem: str, advice: str) -> None:
        self.problem, self.advice = problem, advice
        self.args = (f"{problem} {advice}".rstrip(),)


def in_the_middle(text: str, longest: int) -> str:
    """The text in one line, its middle left out where it is too long.

    Examples
    --------
    >>> in_the_middle("a very long text", 11)
    'a ver...ext'
    """
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    tail = (longest - 3) * 2 // 5
    return f"{text[: longest - 3 - tail]}...{text[-tail:]}"


class StrudelError(Explained):
    """Base of the library's exceptions."""


class CircuitPropertyError(StrudelError, ValueError):
    """A query needs a structural property that the circuit does not have."""


class EventSyntaxError(StrudelError, ValueError):
    """An event as text breaks the grammar, or names something that is not a variable."""

    position: int  # of the first character that does not fit, from 0
    reason: str  # the problem without the place
    cause: ValueError | None = None  # what is wrong with a comparison, if that is the reason


class FileFormatError(StrudelError, ValueError):
    """A file is truncated, of another kind, or breaks the rules of its format."""

    LONGEST = 300  # characters of its message, whatever the file and its name hold

    def _say(self, problem: str, advice: str) -> None:
        super()._say(in_the_middle(problem, self.LONGEST - len(advice) - 1), advice)


class ChangedFileError(FileFormatError):
    """A model file is not what was saved."""


class GraphError(StrudelError, ValueError):
    """A graph of sums and products has no normal form; `node` is where that shows."""

    def __init__(self, reason: str, node: int) -> None:
        super().__init__(reason)
        self.node = node


class ImpossibleRowError(StrudelError, ValueError):
    """A row reaches no edge of the root, whatever the parameters."""

    def __init__(self, row: int) -> None:
        super().__init__(f"Row {row} is impossible under this structure.")
        self.row = row
        self.table = 0


class MissingDependencyError(StrudelError, ImportError):
    """An optional package is needed and not installed."""


class NoValueError(StrudelError, ValueError):
    """What is given is impossible: no row of the model, or no value of a column, agrees with it."""

    column: str  # empty if it is not one column's fault


class NotBinaryError(StrudelError, ValueError):
    """A table holds a value that is neither 0 nor 1."""

    row: int
    column: int | str  # its name, or its number where columns have no names


class SizeLimitError(StrudelError, ValueError):
    """Something would grow beyond a limit of size, memory or time; `part` is what grew."""

    part: Any


class UnorderedColumnError(StrudelError, ValueError):
    """A comparison by size needs an order, which the values of the column do not have."""

    column: str


class UnseenValueError(StrudelError, ValueError):
    """A column holds a value that was not seen at fit."""

    row: int
    column: str
    value: Any


class WrongTableError(StrudelError, ValueError):
    """A table has none, or few, of the columns of the model."""

    missing: tuple[str, ...]  # columns of the model that the table lacks
    extra: tuple[str, ...]  # columns of the table that the model does not know


class AlikeComponentsWarning(UserWarning):
    """All components of a mixture are nearly the same circuit."""


class CutCellsWarning(Explained, UserWarning):
    """A predictor cuts cells of a model, so that the density inside them takes part."""


class EmptyColumnWarning(UserWarning):
    """All values of a column are missing."""


class ExtraColumnsWarning(Explained, UserWarning):
    """A table has columns that the model does not know, and they were ignored."""

    columns: tuple[str, ...]


class IdentifierWarning(Explained, UserWarning):
    """A column looks like an identifier, and was left out."""

    column: str


class LeftEmptyWarning(Explained, UserWarning):
    """Values that are missing by a rule of the table were not filled."""

    n_values: int


class InterruptedWarning(UserWarning):
    """Learning was interrupted; the best model so far was kept."""


class NormalizedWarning(UserWarning):
    """Parameters of a file did not add up to one, and were made to."""


class ManyCategoriesWarning(Explained, UserWarning):
    """A column has more categories than the encoder keeps, and the rarest became one."""

    column: str


class MissingForAReasonWarning(Explained, UserWarning):
    """Whether values are missing depends on another column."""

    rules: tuple[Any, ...]  # of `MissingRule`


class MisfitWarning(Explained, UserWarning):
    """The rows show that columns depend on each other, and the model has lost it."""


class NothingKnownWarning(UserWarning):
    """All values of a column, or of the rows to learn from, are unknown."""


class OutOfRangeWarning(Explained, UserWarning):
    """Numbers lie far outside the range that was seen at fit."""

    column: str
    value: Any
    row: int


class SearchLimitWarning(UserWarning):
    """A limit stopped a search, so its result may not be the best.

    Attributes
    ----------
    upper_bound : ndarray of shape (n_rows,)
        For each row of evidence, a log-probability that only the returned completions can exceed.
    """

    def __init__(self, message: str, upper_bound: NDArray[np.float64]) -> None:
        super().__init__(message)
        self.upper_bound = upper_bound


class UnseenValueWarning(Explained, UserWarning):
    """Values of a category that were not seen at fit were treated as missing."""
