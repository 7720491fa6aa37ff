"""Every exception of our own."""


class StrudelError(Exception):
    """Base of the library's exceptions."""


class CircuitPropertyError(StrudelError, ValueError):
    """A query needs a structural property that the circuit does not have."""


class FileFormatError(StrudelError, ValueError):
    """A file is truncated, of another kind, or breaks the rules of its format."""


class MissingDependencyError(StrudelError, ImportError):
    """An optional package is needed and not installed."""
