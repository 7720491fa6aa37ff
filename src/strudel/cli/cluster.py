"""`--workers` and `--scheduler`: Dask workers for the time of a command.

In:  how many workers to start here, or the address of a scheduler that has some.
Out: a client, active inside the block, which finds the rows and the model where they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
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
        help="Use this many Dask workers: threads of this command, which nobody else can reach.",
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
        options: dict[str, Any] = {
            # A table that is in memory here goes to the workers once, whatever its size.
            "distributed.admin.large-graph-warning-threshold": "1 PiB",
        }
        if workers is not None:
            options |= {f"distributed.{node}.http.routes": [] for node in ("scheduler", "worker")}
        stack.enter_context(import_module("dask").config.set(options))
        if workers is not None:
            client = _start(dask, workers, stack)
        else:
            client = _connect(dask, str(scheduler), stack)
            if client.dashboard_link and not is_quiet:
                note(f"dashboard: {client.dashboard_link}")
        try:
            yield sum(client.nthreads().values())
        except dask.KilledWorker:
            raise InputError(
                "workers kept dying on the same partition, most likely for lack of memory: give "
                "them more, or split DATA into smaller partitions."
            ) from None


def _start(dask: Any, n_workers: int, stack: ExitStack) -> Any:
    """A client of new workers, which end with the block.

    They are threads of this process, because kernels release the interpreter. A scheduler of
    processes would listen on a port, and run what anyone on this machine sends to it.
    """
    here = "127.0.0.1:0"
    cluster = stack.enter_context(
        dask.LocalCluster(
            n_workers=1,  # that may use all memory, as it measures what this process takes
            threads_per_worker=n_workers,
            processes=False,
            silence_logs=logging.CRITICAL,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": here},
            worker_dashboard_address=here,
        )
    )

    async def stop_listening() -> None:  # to browsers, who have got nothing so far
        for node in (cluster.scheduler, *cluster.workers.values()):
            node.http_server.stop()

    cluster.sync(stop_listening)
    client = stack.enter_context(dask.Client(cluster))
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
