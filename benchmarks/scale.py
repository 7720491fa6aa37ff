"""Rows in parts on Dask workers: seconds, memory, bytes sent, and whether the model is found again.

A circuit is learned from the first 64 columns of a dataset, rows are sampled from it and written to
zarr in parts. Then a structure (200 splits) and a mixture (20 components, 20 EM steps) are learned
with one worker and with two, and the test log-likelihood is compared with the generating circuit's.

    python benchmarks/scale.py --rows 10_000_000 --folder /data/scale --workers 1 2

With --identity, circuits and mixtures of nltcs, plants and sampled rows are learned in memory, in
parts in one process, and on 1, 2 and 4 workers, and must be the same.

    python benchmarks/scale.py --identity
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pickle
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from strudel import EM, Strudel, load_dataset, log_likelihood, sample
from strudel.circuits.circuit import Circuit

N_PARTS = 20
TEST_ROWS = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--dataset", default="plants", help="of which the first 64 columns are used"
    )
    parser.add_argument(
        "--generating-splits", type=int, default=50, help="of the circuit that rows come from"
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path("scale"), help="of the rows")
    parser.add_argument("--identity", action="store_true", help="compare models, not seconds")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--memory-limit", default="6GB", help="of every worker")
    parser.add_argument("--no-mixture", action="store_true")
    parser.add_argument("--gaps", type=float, default=0.0, help="share of values to hide")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    options = parser.parse_args()
    if options.identity:
        compare_models()
        return

    truth = generating_circuit(options.dataset, options.generating_splits)
    rows = write_rows(truth, options.rows, options.folder)
    test = sample(truth, TEST_ROWS, random_state=10**6)
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


def generating_circuit(name: str, n_splits: int = 50) -> Circuit:
    """A circuit of the first 64 columns of a dataset."""
    data = load_dataset(name)
    model = Strudel(n_components=1, random_state=0, max_splits=n_splits)
    return model.fit(data.train[:, :64], X_valid=data.valid[:, :64]).circuit_


def write_rows(truth: Circuit, n_rows: int, folder: Path) -> Path:
    """Sample rows and write them to zarr, part by part; kept for the next run."""
    import zarr

    path = folder / f"rows-{n_rows}-{truth.n_edges}.zarr"
    done = path / "complete"
    if done.exists():
        return path
    shape, size = (n_rows, truth.n_vars), -(-n_rows // N_PARTS)
    table = zarr.create_array(
        str(path), shape=shape, chunks=(size, truth.n_vars), dtype="uint8", overwrite=True
    )
    for part, first in enumerate(range(0, n_rows, size)):
        last = min(first + size, n_rows)
        table[first:last] = sample(truth, last - first, random_state=part)
    done.touch()
    return path


def measure(path: Path, test: np.ndarray, n_workers: int, options: argparse.Namespace) -> dict:
    """Seconds and memory of both fits with so many workers."""
    import dask.array as da
    from distributed import Client

    found: dict = {"workers": n_workers}
    with start_cluster(n_workers, options.memory_limit) as cluster, Client(cluster) as client:
        X = da.from_zarr(str(path))
        if options.gaps:
            X = X.map_blocks(hide, options.gaps, dtype=np.float32)
        n_valid = X.chunks[0][-1]
        X, V = X[:-n_valid], X[-n_valid:]
        warm_up(X[:1000].rechunk((500, -1)))
        pids = sorted(client.run(os.getpid).values())
        sent = count_bytes()
        started = time.perf_counter()
        model = Strudel(
            n_components=1, random_state=0, max_splits=options.splits, patience=options.splits
        )
        model.fit(X, X_valid=V)
        found["structure_seconds"] = time.perf_counter() - started
        found["structure_bytes"] = summary(sent)
        found["structure_test"] = float(log_likelihood(model, test).mean())
        found["structure_peak_gb"] = max(client.run(_peak_gb).values())
        if not options.no_mixture:
            sent.clear()
            started = time.perf_counter()
            mixture = Strudel(
                n_components=options.components,
                max_splits=options.splits,
                method=EM(max_iter=options.iterations, patience=options.iterations),
                random_state=0,
            )
            mixture.fit(X, X_valid=V)
            found["mixture_seconds"] = time.perf_counter() - started
            found["mixture_bytes"] = summary(sent)
            found["mixture_test"] = float(log_likelihood(mixture, test).mean())
            found["em_steps"] = len(mixture.history_) - 1
            found["mixture_peak_gb"] = max(client.run(_peak_gb).values())
        found["no_worker_was_killed"] = sorted(client.run(os.getpid).values()) == pids
    return found


def hide(block: np.ndarray, share: float, block_id: tuple[int, ...] = (0,)) -> np.ndarray:
    """A block with some values unknown."""
    numbers = np.random.default_rng([9, *block_id]).random(block.shape, dtype=np.float32)
    return np.where(numbers < share, np.float32(np.nan), block.astype(np.float32))


def warm_up(X: object) -> None:
    """Load the compiled kernels in every worker, so that they are not part of the seconds."""
    Strudel(n_components=1, random_state=0, max_splits=3).fit(X)
    Strudel(n_components=2, max_splits=1, method=EM(max_iter=2), random_state=0).fit(X)


def _peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def start_cluster(n_workers: int, memory_limit: str | None = None) -> Any:
    """Workers on this machine, one thread each."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        memory_limit=memory_limit or "auto",
        dashboard_address=None,
        silence_logs=logging.ERROR,
    )


def count_bytes() -> list[tuple[str, int, int]]:
    """From now on, write down for every question its name, its bytes, and those of a sum."""
    from strudel.learning.partitioned.engines import OnCluster

    sent: list[tuple[str, int, int]] = []
    total = OnCluster.total

    def counted(self: Any, function: Any, parts: Any, *args: Any) -> Any:
        answer = total(self, function, parts, *args)
        sent.append((function.__name__, len(pickle.dumps(args)), len(pickle.dumps(answer))))
        return answer

    OnCluster.total = counted  # type: ignore[method-assign]
    return sent


def summary(sent: list[tuple[str, int, int]]) -> dict:
    """How often each question was asked, and its mean bytes."""
    found = {}
    for name in sorted({name for name, _, _ in sent}):
        mine = np.array([(asked, answered) for n, asked, answered in sent if n == name])
        asked, answered = mine.mean(axis=0).round().astype(int).tolist()
        found[name] = {"times": len(mine), "question": asked, "answer": answered}
    return found


def compare_models() -> None:
    """Learn the same models in memory, in parts, and on workers."""
    import dask.array as da
    from distributed import Client

    plants = load_dataset("plants")
    tables = {
        "nltcs": (load_dataset("nltcs").train, load_dataset("nltcs").valid),
        "plants": (plants.train, plants.valid),
        "sampled rows": tuple(
            sample(generating_circuit("plants"), n, random_state=n) for n in (100_000, 10_000)
        ),
    }
    ways = [("one process, 3 parts", 0, 3)]
    ways += [(f"{n} workers, {2 * n + 1} parts", n, 2 * n + 1) for n in (1, 2, 4)]
    for name, (train, valid) in tables.items():
        circuit = Strudel(n_components=1, random_state=0).fit(train, X_valid=valid)
        mixture = None
        for words, n_workers, n_parts in ways:
            X = da.from_array(train, chunks=(-(-len(train) // n_parts), -1))
            cluster = start_cluster(n_workers) if n_workers else None
            client = Client(cluster) if cluster else None
            started = time.perf_counter()
            other = Strudel(n_components=1, random_state=0).fit(X, X_valid=da.from_array(valid))
            more = Strudel(n_components=10, max_splits=50, method=EM(max_iter=10), random_state=0)
            more.fit(X, X_valid=da.from_array(valid))
            seconds = time.perf_counter() - started
            if client and cluster:
                client.close()
                cluster.close()
            mixture = mixture or more
            assert np.array_equal(circuit.circuit_.edge_log_theta, other.circuit_.edge_log_theta)
            for column in ("train", "valid", "n_edges"):
                ours, theirs = (getattr(one.history_, column) for one in (circuit, other))
                assert np.array_equal(ours, theirs)
            assert np.array_equal(mixture.circuit_.edge_log_theta, more.circuit_.edge_log_theta)
            assert np.array_equal(mixture.history_.valid, more.history_.valid)
            n_splits = len(other.history_) - 1
            print(f"{name}: {words}: the same, {n_splits} splits, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
