"""File formats of other programs, one module each."""
