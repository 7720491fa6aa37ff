"""Where the parts of a table live, and how a function is applied to all of them.

In:  parts, and functions of one part.
Out: new parts, kept where the old ones are; or the sum of what the function gives, part by part.

`Here` keeps the parts in this process. `OnCluster` keeps each on a Dask worker: parts are futures,
so if a worker dies, its own are made again from where they came from, and sums are taken in a tree.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, TypeAlias

import numpy as np

from strudel._memory import total_memory
from strudel._numba import use_threads
from strudel._types import AnyArray

MEMORY_SHARE = 0.5  # of the machine's memory that parts may take
FAN_IN = 8  # results that are added up in one task
SCATTERED = 2**16  # bytes from which an argument travels once to each worker, not with every task


class Room:
    """How much memory the parts of this process take; from a limit on, they go to files.

    A split touches few vtree nodes and the rows of one edge, so most pages of a part stay on disk.
    The folder is that of `tempfile`: set TMPDIR to a disk with room if /tmp is kept in memory.
    """

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
    """The same array, mapped from a file without a name, which is gone with the process."""
    if array.nbytes == 0:
        return array
    with tempfile.TemporaryFile(prefix="strudel-") as file:
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash later
            os.posix_fallocate(file.fileno(), 0, array.nbytes)
        mapped = np.memmap(file, dtype=array.dtype, mode="r+", shape=array.shape)
    mapped[:] = array
    return np.asarray(mapped)


class Here:
    """All parts in this process, one after the other; on disk, where memory is short."""

    def __init__(self, limit: float | None = None) -> None:
        self.room = Room(limit)

    def keep(self, lazy: Sequence[Any]) -> list[Any]:
        """Compute Dask's delayed objects in turn, so that only one table is in memory at a time."""
        return [one.compute(scheduler="synchronous") for one in lazy]

    def place(
        self,
        make: Callable[..., Any],
        parts: Sequence[Any],
        *args: Any,
        numbers: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Make `make(part, *args)` of each, and keep it there; a number of its own comes last."""
        return [
            self.room.keep(make(part, *args, *more))
            for part, more in zip(parts, _own(numbers, parts), strict=True)
        ]

    def total(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> Any:
        """The sum of `function(part, *args)` over all parts, one after the other."""
        return reduce(add, (function(part, *args) for part in parts))

    def each(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> list[Any]:
        """What `function(part, *args)` gives, part by part; for small results."""
        return [function(part, *args) for part in parts]


class OnCluster:
    """Parts on the workers of a Dask cluster."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def keep(self, lazy: Sequence[Any]) -> list[Any]:
        """Compute all on the workers; the scheduler keeps the graphs, to make lost ones again."""
        futures: list[Any] = self.client.compute(list(lazy), sync=False)
        return futures

    def place(
        self,
        make: Callable[..., Any],
        parts: Sequence[Any],
        *args: Any,
        numbers: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Make one new part of each on the worker that has it."""
        return self._submit(make, parts, args, _own(numbers, parts))

    def total(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> Any:
        """Add up in a tree, on the workers."""
        results = self._submit(function, parts, args)
        while len(results) > 1:
            groups = [results[i : i + FAN_IN] for i in range(0, len(results), FAN_IN)]
            results = self.client.map(_add_all, groups, pure=False)
        return results[0].result()

    def each(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> list[Any]:
        """Gather what the function gives for every part."""
        gathered: list[Any] = self.client.gather(self._submit(function, parts, args))
        return gathered

    def _submit(
        self,
        function: Callable[..., Any],
        parts: Sequence[Any],
        args: Sequence[Any],
        own: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        args = [self._sent(arg) for arg in args]
        every = [
            (function, part, *args, *more)
            for part, more in zip(parts, own or [()] * len(parts), strict=True)
        ]
        if not every:
            return []
        # In one message. A part changes in place, so no task is the same as another one with equal
        # arguments.
        futures: list[Any] = self.client.map(
            _with_one_thread, *zip(*every, strict=True), pure=False
        )
        return futures

    def _sent(self, arg: Any) -> Any:
        """A large argument goes to each worker once."""
        if len(pickle.dumps(arg)) < SCATTERED:
            return arg
        return self.client.submit(itself, arg, pure=False)


Engine: TypeAlias = Here | OnCluster  # where rows are


def _with_one_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Dask gives every task one thread; those of kernels would come on top, for every worker."""
    with use_threads(1):
        return function(*args)


def itself(arg: Any) -> Any:
    """What an engine is to bring or send as it is."""
    return arg


def _own(numbers: Sequence[Any] | None, parts: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The last argument of every part, if each has its own."""
    return [()] * len(parts) if numbers is None else [(number,) for number in numbers]


def _add_all(parts: Sequence[Any]) -> Any:
    return reduce(add, parts)


def find_engine() -> Engine:
    """The cluster whose client is active, or this process."""
    try:
        from distributed import get_client
    except ImportError:
        return Here()
    try:
        return OnCluster(get_client())
    except ValueError:  # no client is active
        return Here()


def lazy_mean(values: Any) -> float:
    """The mean of a Dask array, found where its blocks are; here one block after the other."""
    engine = find_engine()
    (mean,) = engine.each(float, engine.keep([values.mean()]))
    return float(mean)
