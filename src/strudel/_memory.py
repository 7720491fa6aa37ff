"""How much memory the machine has."""

from __future__ import annotations

import os
from pathlib import Path

CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
UNKNOWN = 4 * 2**30  # where a machine does not tell


def total_memory() -> int:
    """Bytes of memory of the machine, or of its container; 4 GiB if that is not known."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = UNKNOWN
    try:
        return min(memory, int(CONTAINER_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or "max"
        return memory
