"""A Dask table on two workers: seconds, memory, and the same model when workers are killed.

Rows are drawn block by block, from a circuit of the first 64 columns of plants, when a worker needs
them. One circuit and the default mixture are learned, and once more one circuit while two workers
are killed. nltcs, which fits into the sample, must give the model of an ordinary fit.

    python benchmarks/scale.py --rows 10_000_000
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import signal
import time
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from distributed import Client, LocalCluster

from strudel import Strudel, load_dataset, log_likelihood, sample
from strudel.circuits.circuit import Circuit

BLOCK_ROWS = 500_000
TEST_ROWS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory-limit", default="3GB", help="of every worker")
    parser.add_argument("--no-mixture", action="store_true")
    options = parser.parse_args()

    data = load_dataset("plants")
    truth = Strudel(n_components=1, random_state=0, max_splits=50)
    truth = truth.fit(data.train[:, :64], X_valid=data.valid[:, :64]).circuit_
    test = sample(truth, TEST_ROWS, random_state=10**6)
    print(f"the generating circuit: test {log_likelihood(truth, test).mean():.4f}", flush=True)
    with (
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            memory_limit=options.memory_limit,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        nltcs = load_dataset("nltcs")
        for n_components in (1, "auto"):
            one, other = (
                Strudel(n_components=n_components, random_state=0).fit(rows, X_valid=nltcs.valid)
                for rows in (nltcs.train, da.from_array(nltcs.train, chunks=(3000, -1)))
            )
            assert is_same(one, other)
        print("nltcs: the model of an ordinary fit", flush=True)
        X = rows_in_blocks(truth, options.rows)
        one = measure("one circuit", X, test, client, n_components=1)
        n_blocks = X.numblocks[0]  # which are counted twice
        kills = Kills(client, {n_blocks // 2, n_blocks + n_blocks // 2})
        other = measure("two kills", X, test, client, n_components=1, callback=kills)
        assert kills.n_killed == 2
        assert is_same(one, other)
        print("the same model", flush=True)
        if not options.no_mixture:
            measure("the default", X, test, client)


def rows_in_blocks(truth: Circuit, n_rows: int) -> Any:
    """A Dask array of rows that are drawn when they are needed."""
    draw = delayed(draw_rows, pure=True)
    lengths = [min(BLOCK_ROWS, n_rows - first) for first in range(0, n_rows, BLOCK_ROWS)]
    blocks = [
        da.from_delayed(draw(truth, n, seed), (n, len(truth.columns)), np.uint8)
        for seed, n in enumerate(lengths)
    ]
    return da.concatenate(blocks)


def draw_rows(truth: Circuit, n_rows: int, seed: int) -> np.ndarray:
    return sample(truth, n_rows, random_state=seed)


def measure(
    name: str, X: Any, test: np.ndarray, client: Client, callback: Any = None, **options: Any
) -> Strudel:
    """Fit, and print what it took."""
    started = time.perf_counter()
    model = Strudel(random_state=0, **options).fit(X, callback=callback)
    seconds = time.perf_counter() - started
    peak = max(client.run(peak_memory).values())
    log_p = log_likelihood(model, test).mean()
    print(
        f"{name}: {seconds:.0f} s, at most {peak:.2f} GB a worker, test {log_p:.4f}, "
        f"{model.circuit_!r}",
        flush=True,
    )
    return model


def peak_memory() -> float:
    """GB that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


class Kills:
    """A callback that kills a worker after some of the blocks."""

    def __init__(self, client: Client, blocks: set[int]) -> None:
        self.client, self.blocks, self.n_seen, self.n_killed = client, blocks, 0, 0

    def __call__(self, progress: Any) -> None:
        if progress.stage == "blocks":
            self.n_seen += 1
            if self.n_seen in self.blocks:
                os.kill(next(iter(self.client.run(os.getpid).values())), signal.SIGKILL)
                self.n_killed += 1


def is_same(one: Strudel, other: Strudel) -> bool:
    circuits = one.circuit_, other.circuit_
    return np.array_equal(*(model.edge_log_theta for model in circuits))


if __name__ == "__main__":
    main()
