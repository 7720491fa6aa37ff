"""Where the parts of a table live, and how a function is applied to all of them.

In:  parts, and functions of one part.
Out: new parts, kept where the old ones are; or the sum of what the function gives, part by part.

`Here` keeps the parts in this process. `OnCluster` keeps each on a Dask worker: parts are futures,
so a worker that dies has its own made anew from where they came from, and sums are taken in a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol

FAN_IN = 8  # results that are added up in one task
SCATTERED = 2**16  # bytes from which an argument travels once to each worker, not with every task


class Engine(Protocol):
    """What the learner needs of the place where rows are."""

    def place(self, make: Callable[..., Any], parts: Sequence[Any], *args: Any) -> list[Any]:
        """Make one new part of each, and keep it there."""

    def total(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> Any:
        """The sum of `function(part, *args)` over all parts."""

    def each(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> list[Any]:
        """What `function(part, *args)` gives, part by part; for small results."""


class Here:
    """All parts in this process, one after the other."""

    def place(self, make: Callable[..., Any], parts: Sequence[Any], *args: Any) -> list[Any]:
        """Make one new part of each."""
        return [make(_computed(part), *args) for part in parts]

    def total(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> Any:
        """Add up one part after the other."""
        return reduce(_add, (function(part, *args) for part in parts))

    def each(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> list[Any]:
        """What the function gives for every part."""
        return [function(part, *args) for part in parts]


def _computed(part: Any) -> Any:
    """A lazy part of a Dask collection, computed in this thread; anything else as it is."""
    if not hasattr(part, "__dask_graph__"):
        return part
    return part.compute(scheduler="synchronous")


class OnCluster:
    """Parts on the workers of a Dask cluster."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def place(self, make: Callable[..., Any], parts: Sequence[Any], *args: Any) -> list[Any]:
        """Make one new part of each on the worker that has it."""
        lazy = [part for part in parts if hasattr(part, "__dask_graph__")]
        if lazy:  # all graphs at once
            parts = self.client.compute(list(parts), sync=False)
        return self._submit(make, parts, args)

    def total(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> Any:
        """Add up in a tree, on the workers."""
        results = self._submit(function, parts, args)
        while len(results) > 1:
            groups = [results[i : i + FAN_IN] for i in range(0, len(results), FAN_IN)]
            results = [self.client.submit(_add_all, group, pure=False) for group in groups]
        return results[0].result()

    def each(self, function: Callable[..., Any], parts: Sequence[Any], *args: Any) -> list[Any]:
        """Gather what the function gives for every part."""
        gathered: list[Any] = self.client.gather(self._submit(function, parts, args))
        return gathered

    def _submit(self, function: Callable[..., Any], parts: Sequence[Any], args: Any) -> list[Any]:
        # A part changes in place, so no task is the same as another one with equal arguments.
        args = [self._sent(arg) for arg in args]
        return [self.client.submit(function, part, *args, pure=False) for part in parts]

    def _sent(self, arg: Any) -> Any:
        """A large argument goes to each worker once."""
        from dask.sizeof import sizeof

        if sizeof(arg) < SCATTERED:
            return arg
        return self.client.submit(_itself, arg, pure=False)


def _itself(arg: Any) -> Any:
    return arg


def _add(a: Any, b: Any) -> Any:
    return a + b


def _add_all(parts: Sequence[Any]) -> Any:
    return reduce(_add, parts)


def engine_for(*tables: Any) -> Engine:
    """The cluster whose client is active, or this process."""
    try:
        from distributed import get_client
    except ImportError:
        return Here()
    try:
        return OnCluster(get_client())
    except ValueError:  # no client is active
        return Here()
