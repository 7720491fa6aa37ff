"""Every exception and warning of the library.

Wrong arguments raise `ValueError` or `TypeError`, as in scikit-learn; the exceptions here are both
a `StrudelError` and what Python has for such a case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "StrudelError",
    "CircuitPropertyError",
    "EventSyntaxError",
    "FileFormatError",
    "GraphError",
    "ImpossibleRowError",
    "JournalError",
    "MissingDependencyError",
    "NoRowsError",
    "EmptyColumnWarning",
    "InterruptedWarning",
    "MovedBoundWarning",
    "NothingKnownWarning",
    "SearchLimitWarning",
    "UnseenValueWarning",
]


class StrudelError(Exception):
    """Base of the library's exceptions."""


class CircuitPropertyError(StrudelError, ValueError):
    """A query needs a structural property that the circuit does not have."""


class EventSyntaxError(StrudelError, ValueError):
    """An event as text breaks the grammar, or names what is not a variable."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position  # of the first character that does not fit, from 0

    def __reduce__(self) -> tuple[type[EventSyntaxError], tuple[str, int]]:
        return EventSyntaxError, (str(self), self.position)


class FileFormatError(StrudelError, ValueError):
    """A file is truncated, of another kind, or breaks the rules of its format."""


class GraphError(StrudelError, ValueError):
    """A graph of sums and products has no normal form; `node` is where that shows."""

    def __init__(self, reason: str, node: int) -> None:
        super().__init__(reason)
        self.node = node


class ImpossibleRowError(StrudelError, ValueError):
    """A row that reaches no edge of the root, whatever the parameters."""

    def __init__(self, row: int) -> None:
        super().__init__(f"Row {row} is impossible under this structure.")
        self.row = row
        self.table = 0


class JournalError(StrudelError, ValueError):
    """What a checkpoint recorded does not fit to what is being learned."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The checkpoint cannot be continued: {reason}. Remove it to start again.")


class MissingDependencyError(StrudelError, ImportError):
    """An optional package is needed and not installed."""


class NoRowsError(StrudelError, ValueError):
    """There is no row to learn from that has a weight above zero."""


class EmptyColumnWarning(UserWarning):
    """All values of a column are missing."""


class InterruptedWarning(UserWarning):
    """Learning was interrupted; the best model so far was kept."""


class MovedBoundWarning(UserWarning):
    """A bound lies inside a cell of a column of numbers, and was moved to the nearer end."""


class NothingKnownWarning(UserWarning):
    """Nothing is known of a column or of rows to learn from."""


class SearchLimitWarning(UserWarning):
    """A limit stopped a search, so that what it found may not be the best.

    Attributes
    ----------
    upper_bound : ndarray of shape (n_rows,)
        Per row of evidence, the log-probability that no completion but those returned exceeds.
    """

    def __init__(self, message: str, upper_bound: NDArray[np.float64]) -> None:
        super().__init__(message)
        self.upper_bound = upper_bound


class UnseenValueWarning(UserWarning):
    """Values of a category that were not seen at fit were taken as missing."""
