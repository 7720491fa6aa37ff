"""Every exception of our own."""

from __future__ import annotations


class StrudelError(Exception):
    """Base of the library's exceptions."""


class CircuitPropertyError(StrudelError, ValueError):
    """A query needs a structural property that the circuit does not have."""


class FileFormatError(StrudelError, ValueError):
    """A file is truncated, of another kind, or breaks the rules of its format."""


class EventSyntaxError(StrudelError, ValueError):
    """An event as text breaks the grammar, or names what is not a variable."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position  # of the first character that does not fit, from 0

    def __reduce__(self) -> tuple[type[EventSyntaxError], tuple[str, int]]:
        return EventSyntaxError, (str(self), self.position)


class MissingDependencyError(StrudelError, ImportError):
    """An optional package is needed and not installed."""


class MovedBoundWarning(UserWarning):
    """A bound lies inside a cell of a column of numbers, and was moved to the nearer end."""


class EmptyColumnWarning(UserWarning):
    """All values of a column are missing."""


class UnseenValueWarning(UserWarning):
    """Values of a category that were not seen at fit were taken as missing."""


class NothingKnownWarning(UserWarning):
    """Nothing is known of a column or of rows to learn from."""
