"""Files that are complete or not there at all.

In:  a path.
Out: a path beside it to write to; what was written is moved to its place when it is complete.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def complete_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Where to write the content of `path`; it is moved there if the block ends without an error.

    An existing file is replaced in one step and keeps its permissions; after an error it is
    unchanged. A process that is killed leaves a file `.NAME.*.tmp`. Devices and pipes are written
    to directly.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file in it.")
    if Path(path).exists() and not Path(path).is_file():
        yield Path(path)
        return
    final = Path(os.path.realpath(path))  # through a link, so that the link stays one
    if not final.parent.is_dir():
        raise FileNotFoundError(f"The folder {final.parent} does not exist: create it first.")
    unfinished = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield unfinished
        with unfinished.open("rb+") as file:  # Windows wants to write what it brings to the disk
            os.fsync(file.fileno())
        if final.exists():
            unfinished.chmod(final.stat().st_mode)
        os.replace(unfinished, final)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
