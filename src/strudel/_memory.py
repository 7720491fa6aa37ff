"""How much memory the machine has."""

from __future__ import annotations

import os

UNKNOWN = 4 * 2**30  # where a machine does not tell


def total_memory() -> int:
    """Bytes of memory of the machine; 4 GiB where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN
