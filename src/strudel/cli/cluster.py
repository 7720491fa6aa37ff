"""`--workers` and `--scheduler`: Dask workers for the time of a command.

In:  how many workers to start here, or the address of a scheduler that has some.
Out: a client, active inside the block, which finds the rows and the model where they are.
"""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from strudel.cli.console import InputError, note
from strudel.errors import MissingDependencyError

SECONDS_TO_ANSWER = 5.0  # that a scheduler has

WorkersOption = Annotated[
    int | None,
    typer.Option(
        rich_help_panel="Cluster",
        metavar="N",
        min=1,
        help="Use this many Dask workers: processes on this machine, one thread each.",
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        rich_help_panel="Cluster",
        metavar="ADDRESS",
        help="Use the workers of a Dask cluster, such as tcp://host:8786; they read DATA "
        "themselves, from the same path.",
    ),
]


def import_dask(module: str, why: str) -> Any:
    """A module of Dask or zarr, or advice where to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingDependencyError(f"{why} needs Dask: pip install 'strudel-pc[dask]'.") from None


@contextmanager
def use_workers(workers: int | None, scheduler: str | None, is_quiet: bool) -> Iterator[int]:
    """How many workers there are inside the block; none without either option."""
    if workers is not None and scheduler is not None:
        raise InputError(
            "--workers starts workers here and --scheduler uses those of a cluster: leave out one."
        )
    if workers is None and scheduler is None:
        yield 0
        return
    dask = import_dask("distributed", "--scheduler" if workers is None else "--workers")
    with ExitStack() as stack:
        # A table that is in memory here goes to the workers once, whatever its size.
        never = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}
        stack.enter_context(import_module("dask").config.set(never))
        if workers is not None:
            client, has_dashboard = _start(dask, workers, stack), find_spec("bokeh") is not None
        else:
            client, has_dashboard = _connect(dask, str(scheduler), stack), True
        if has_dashboard and client.dashboard_link and not is_quiet:
            note(f"dashboard: {client.dashboard_link}")
        try:
            yield len(client.nthreads())
        except dask.KilledWorker:
            raise InputError(
                "workers kept dying on the same partition, most likely for lack of memory: give "
                "them more, or split DATA into smaller partitions."
            ) from None


def _start(dask: Any, n_workers: int, stack: ExitStack) -> Any:
    """A client of new workers, which end with the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the port of the dashboard is taken: it finds another
        cluster = dask.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            silence_logs=logging.CRITICAL,
            env={"NUMBA_NUM_THREADS": "1"},  # kernels would take all cores, in every worker
        )
    stack.enter_context(cluster)
    client = stack.enter_context(dask.Client(cluster))

    class IgnoresInterrupt(dask.WorkerPlugin):  # type: ignore[misc]
        """Ctrl-C reaches all processes of a terminal, but rows must outlive it."""

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    client.register_plugin(IgnoresInterrupt())
    # Its callbacks from the garbage collector swallow a Ctrl-C that comes while they run.
    import_module("distributed.gc").disable_gc_diagnosis(force=True)
    return client


def _connect(dask: Any, address: str, stack: ExitStack) -> Any:
    """A client of a cluster that is there, and stays there."""
    try:
        client = stack.enter_context(dask.Client(address, timeout=SECONDS_TO_ANSWER))
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r} ({type(error).__name__}): start one there "
            "with `dask scheduler`, or let --workers 2 start workers here."
        ) from None
    try:
        client.wait_for_workers(1, timeout=SECONDS_TO_ANSWER)
    except TimeoutError:
        raise InputError(
            f"the Dask scheduler at {address!r} has no workers: start some with `dask worker "
            f"{address}`."
        ) from None
    return client
