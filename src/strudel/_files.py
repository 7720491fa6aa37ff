"""Files that are complete or not there at all.

In:  a path.
Out: a path beside it to write to; what was written is moved to its place when it is complete.

A process holds a lock on what it writes. The system ends the lock with the process, however that
ends, so what a killed process left can be told from what another one is writing.
"""

from __future__ import annotations

import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@contextmanager
def complete_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Where to write the content of `path`; it is moved there if the block ends without an error.

    An existing file is replaced in one step and keeps its permissions; after an error it is
    unchanged. A process that is killed leaves a file `.NAME.*.tmp`, which the next one that writes
    the same file removes. Devices and pipes are written to directly.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file in it.")
    if Path(path).exists() and not Path(path).is_file():
        yield Path(path)
        return
    final = Path(os.path.realpath(path))  # through a link, so that the link stays one
    if not final.parent.is_dir():
        raise FileNotFoundError(f"The folder {final.parent} does not exist: create it first.")
    remove_abandoned(final)
    with unfinished_beside(final) as unfinished:
        yield unfinished
        with unfinished.open("rb+") as file:  # Windows wants to write what it brings to the disk
            os.fsync(file.fileno())
        if final.exists():
            unfinished.chmod(final.stat().st_mode)
        os.replace(unfinished, final)


@contextmanager
def unfinished_beside(final: Path) -> Iterator[Path]:
    """A new file beside another one, locked by this process; removed if it is left."""
    lock = None
    while lock is None:
        unfinished = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        lock = Lock.on(unfinished)  # None if another process took it for abandoned
    try:
        yield unfinished
    except BaseException:
        lock.release()
        _remove(unfinished)
        raise
    finally:
        lock.release()


def remove_abandoned(final: Path) -> None:
    """Remove what killed processes left of a file, but not what others are writing."""
    for left in final.parent.glob(f".{glob.escape(final.name)}.*.tmp"):
        lock = Lock.on(left)
        if lock is not None and (lock.is_held or _is_old(left)):
            _remove(left)
            lock.release()


def _is_old(path: Path) -> bool:
    """Whether nobody has written to a file for an hour, where there are no locks."""
    with suppress(OSError):
        return time.time() - path.stat().st_mtime > 3600
    return False


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


class Lock:
    """A lock on a file, for as long as this process lives."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def is_held(self) -> bool:
        """Whether there is a lock at all: not all systems have them."""
        return self._descriptor is not None

    @staticmethod
    def on(path: Path) -> Lock | None:
        """The lock; None if another process has it, or the file is gone."""
        if fcntl is None:
            return Lock(None)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return Lock(None)
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return Lock(descriptor)
        os.close(descriptor)  # it was removed in the meantime
        return None

    def release(self) -> None:
        """Let others have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
