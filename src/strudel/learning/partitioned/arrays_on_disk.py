"""Arrays in files: what does not fit into memory stays on disk, and the system reads what is used.

In:  parts of a table that are about to be kept in this process.
Out: the same parts; from a limit on, their large arrays are mapped from files without a name, which
     are gone with the process, however it ends.

A split touches few vtree nodes and the rows of one edge, so most pages of a part stay where they
are. The folder is that of `tempfile`: set TMPDIR to a disk with room if /tmp is kept in memory.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any

import numpy as np

from strudel._memory import total_memory
from strudel._types import AnyArray

MEMORY_SHARE = 0.5  # of the machine's memory that parts may take


class Room:
    """How much memory the parts of this process take."""

    def __init__(self, limit: float | None = None) -> None:
        self.limit = MEMORY_SHARE * total_memory() if limit is None else limit
        self.used = 0

    def keep(self, part: Any) -> Any:
        """The part itself; in files, if there is no room for it."""
        if not hasattr(part, "to_files"):
            return part
        size = part.__sizeof__()
        if self.used + size > self.limit:
            part.to_files()
        else:
            self.used += size
            weakref.finalize(part, self._free, size)
        return part

    def _free(self, size: int) -> None:
        self.used -= size


def file_backed(array: AnyArray) -> AnyArray:
    """The same array, mapped from a file."""
    if array.nbytes == 0:
        return array
    with tempfile.TemporaryFile(prefix="strudel-") as file:
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash later
            os.posix_fallocate(file.fileno(), 0, array.nbytes)
        mapped = np.memmap(file, dtype=array.dtype, mode="r+", shape=array.shape)
    mapped[:] = array
    return np.asarray(mapped)
