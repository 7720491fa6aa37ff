"""How much memory the machine has, and how long one step of a question may take."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
UNKNOWN = 4 * 2**30  # where a machine does not tell
SECONDS = 60.0
SECONDS_VARIABLE = "STRUDEL_COMPILE_SECONDS"


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


def allowed_seconds() -> float:
    """How long one compilation or product may take: a minute, or what the environment says."""
    with suppress(KeyError, ValueError):
        return float(os.environ[SECONDS_VARIABLE])
    return SECONDS
