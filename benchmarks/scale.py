"""Rows in parts on Dask workers: seconds, memory, bytes sent, and whether the model is found again.

A circuit is learned from plants-like rows (or any dataset), rows are sampled from it and written to
zarr in parts. Then a structure (200 splits) and a mixture (20 components, 20 EM steps) are learned
with one worker and with two, and the test log-likelihood is compared with the generating circuit's.

    python benchmarks/scale.py --rows 10_000_000 --folder /data/scale --workers 1 2
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from strudel import Strudel, StrudelMixture, load_dataset, log_likelihood, sample
from strudel.circuits.circuit import Circuit

PART = 500_000
TEST_ROWS = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--dataset", default="plants", help="of which the first 64 columns are used"
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, required=True, help="where the rows are written")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--memory-limit", default="6GB", help="of every worker")
    parser.add_argument("--no-mixture", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    options = parser.parse_args()

    truth = generating_circuit(options.dataset)
    rows = write_rows(truth, options.rows, options.folder)
    test = sample(truth, TEST_ROWS, rng=10**6)
    best = float(log_likelihood(truth, test).mean())
    print(f"{options.rows:,} rows x {truth.n_vars}, generating circuit: test {best:.4f}")
    results = []
    for n_workers in options.workers:
        found = measure(rows, test, n_workers, options)
        found["test_of_truth"] = best
        print(json.dumps(found, indent=1), flush=True)
        results.append(found)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


def generating_circuit(name: str) -> Circuit:
    """A circuit of the first 64 columns of a dataset."""
    data = load_dataset(name)
    model = Strudel(random_state=0, max_splits=150)
    return model.fit(data.train[:, :64], X_valid=data.valid[:, :64]).circuit_


def write_rows(truth: Circuit, n_rows: int, folder: Path) -> Path:
    """Sample rows and write them to zarr, part by part; kept for the next run."""
    import zarr

    path = folder / f"rows-{n_rows}.zarr"
    done = path / "complete"
    if done.exists():
        return path
    shape = (n_rows, truth.n_vars)
    table = zarr.create_array(
        str(path), shape=shape, chunks=(PART, truth.n_vars), dtype="uint8", overwrite=True
    )
    for part, first in enumerate(range(0, n_rows, PART)):
        last = min(first + PART, n_rows)
        table[first:last] = sample(truth, last - first, rng=part)
    done.touch()
    return path


def measure(path: Path, test: np.ndarray, n_workers: int, options: argparse.Namespace) -> dict:
    """Seconds and memory of both fits with so many workers."""
    import dask.array as da
    from distributed import Client, LocalCluster

    found: dict = {"workers": n_workers}
    cluster = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        memory_limit=options.memory_limit,
        dashboard_address=None,
    )
    with cluster, Client(cluster) as client:
        X = da.from_zarr(str(path))
        n_valid = X.chunks[0][-1]
        X, V = X[:-n_valid], X[-n_valid:]
        warm_up(X[:1000].rechunk((500, -1)))
        pids = sorted(client.run(_pid).values())
        started = time.perf_counter()
        model = Strudel(random_state=0, max_splits=options.splits, patience=options.splits)
        model.fit(X, X_valid=V)
        found["structure_seconds"] = time.perf_counter() - started
        found["structure_test"] = float(log_likelihood(model, test).mean())
        found["structure_peak_gb"] = max(client.run(_peak_gb).values())
        if not options.no_mixture:
            started = time.perf_counter()
            mixture = StrudelMixture(
                options.components,
                n_splits=options.splits,
                max_iterations=options.iterations,
                patience=options.iterations,
                random_state=0,
            )
            mixture.fit(X, X_valid=V)
            found["mixture_seconds"] = time.perf_counter() - started
            found["mixture_test"] = float(log_likelihood(mixture, test).mean())
            found["em_steps"] = len(mixture.history_) - 1
            found["mixture_peak_gb"] = max(client.run(_peak_gb).values())
        found["no_worker_was_killed"] = sorted(client.run(_pid).values()) == pids
    return found


def warm_up(X: object) -> None:
    """Load the compiled kernels in every worker, so that they are not part of the seconds."""
    Strudel(random_state=0, max_splits=3).fit(X)
    StrudelMixture(2, n_splits=1, max_iterations=2, random_state=0).fit(X)


def _pid() -> int:
    import os

    return os.getpid()


def _peak_gb() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
