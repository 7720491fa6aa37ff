"""Answer questions about plants and compare with plain NumPy; score a million rows of nltcs.

python benchmarks/queries.py [--out results.json] [--rounds 7]

The circuit is the one that `Strudel` grows with its defaults. Rounds take turns, so that a busy
machine slows all of them, and medians are compared. The first calls, which load or compile the
kernels, are reported apart.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import machine
import numpy as np

import strudel
from strudel import Strudel, load_dataset, marginal_map

NUMPY_ROUNDS = 3
NUMPY_BLOCK = 1024  # rows; all 3,482 at once are no faster and need 3 GB
N_SCORED = 10**6
BARS = (  # name, the time above, the time below, at least or at most
    ("marginals, against NumPy", "numpy_marginal", "log_marginal", "at least", 15.0),
    ("complete rows, against NumPy", "numpy_complete", "log_likelihood", "at least", 100.0),
    ("all conditional marginals", "marginal_probabilities", "log_marginal", "at most", 3.0),
    ("most probable states", "most_probable_state", "log_marginal", "at most", 2.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write json here")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory:
        print(json.dumps(score_many_rows()))
        return

    data = load_dataset("plants")
    circuit = Strudel(n_components=1, random_state=0).fit(data.train, X_valid=data.valid).circuit_
    print(f"plants: {circuit}")
    rng = np.random.default_rng(0)
    complete = data.test
    half = np.where(rng.random(complete.shape) < 0.5, np.nan, complete)

    calls: dict[str, Callable[[], Any]] = {
        "log_marginal": lambda: strudel.log_marginal(circuit, half),
        "marginal_probabilities": lambda: strudel.marginal_probabilities(circuit, half),
        "most_probable_state": lambda: strudel.most_probable_state(circuit, half),
        "log_likelihood": lambda: strudel.log_likelihood(circuit, complete),
    }
    numpy_calls: dict[str, Callable[[], Any]] = {
        "numpy_marginal": lambda: numpy_log_marginal(circuit, half),
        "numpy_complete": lambda: numpy_log_marginal(circuit, complete.astype(np.float64)),
    }
    first_calls = {name: seconds(call) for name, call in calls.items()}
    error = {
        "log_marginal": largest_error(calls["log_marginal"](), numpy_calls["numpy_marginal"]()),
        "log_likelihood": largest_error(calls["log_likelihood"](), numpy_calls["numpy_complete"]()),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls | numpy_calls}
    for turn in range(args.rounds):
        due = calls | numpy_calls if turn < NUMPY_ROUNDS else calls
        for name, call in due.items():
            times[name].append(both_seconds(call))
    medians = {name: median(clock for clock, _ in values) for name, values in times.items()}
    work = {name: median(work for _, work in values) for name, values in times.items()}
    ratios = {name: medians[above] / medians[below] for name, above, below, _, _ in BARS}
    show(len(half), medians, work, first_calls, ratios)
    print(f"largest difference from NumPy, in nats: {max(error.values()):.1e}")

    searches = [search(circuit, seed) for seed in range(5)]
    print(
        "marginal_map of half the variables, the rest summed out: "
        f"{median(s['seconds'] for s in searches):.2f} s (median of {len(searches)}), "
        f"at most {max(s['n_nodes'] for s in searches)} assignments looked at, "
        f"{sum(s['is_optimal'] for s in searches)} proven to be the best"
    )
    many = json.loads(
        subprocess.run(
            [sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True
        ).stdout
    )
    print(
        f"{many['n_rows']:,} complete rows of nltcs: {many['seconds']:.2f} s, "
        f"{many['extra_bytes'] / 2**20:.0f} MiB of extra memory"
    )
    results = {
        "n_rows": len(half),
        "n_edges": circuit.n_edges,
        "seconds": medians,
        "processor_seconds": work,
        "all_seconds": times,
        "first_call_seconds": first_calls,
        "ratios": ratios,
        "largest_difference": error,
        "marginal_map": searches,
        "many_rows": many,
    }
    machine.write(args.out, results)


def numpy_log_marginal(circuit: Any, evidence: np.ndarray) -> np.ndarray:
    """The plain way: one array operation per node, in logs, for all rows of a block."""
    blocks = [evidence[i : i + NUMPY_BLOCK] for i in range(0, len(evidence), NUMPY_BLOCK)]
    return np.concatenate([_numpy_log_marginal(circuit, block) for block in blocks])


def _numpy_log_marginal(circuit: Any, evidence: np.ndarray) -> np.ndarray:
    value = np.empty((circuit.n_nodes, len(evidence)))
    value[0 : 2 * circuit.n_vars : 2] = np.where(evidence.T == 1, -np.inf, 0.0)
    value[1 : 2 * circuit.n_vars : 2] = np.where(evidence.T == 0, -np.inf, 0.0)
    log_theta, left, right = circuit.edge_log_theta, circuit.edge_left, circuit.edge_right
    for n in range(2 * circuit.n_vars, circuit.n_nodes):
        edges = slice(circuit.node_edges[n], circuit.node_edges[n + 1])
        products = log_theta[edges, np.newaxis] + value[left[edges]]
        if right[edges.start] >= 0:
            products += value[right[edges]]
        value[n] = np.logaddexp.reduce(products, axis=0)
    return value[-1].copy()


def seconds(call: Callable[[], Any]) -> float:
    return both_seconds(call)[0]


def both_seconds(call: Callable[[], Any]) -> tuple[float, float]:
    """On the clock, and of all processors together; they tell a slow call from a busy machine."""
    start, start_work = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - start_work


def largest_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected)))


def show(
    n_rows: int,
    medians: dict[str, float],
    work: dict[str, float],
    first: dict[str, float],
    ratios: dict[str, float],
) -> None:
    print(f"{n_rows:,} rows                    median s  processor s  first call s")
    for name, value in medians.items():
        first_call = f"{first[name]:13.2f}" if name in first else ""
        print(f"  {name:24s} {value:10.4f} {work[name]:12.4f} {first_call}")
    for name, _, _, side, bar in BARS:
        is_met = ratios[name] >= bar if side == "at least" else ratios[name] <= bar
        verdict = "yes" if is_met else "NO"
        print(f"  {name:30s} {ratios[name]:8.2f}   {side} {bar:g}: {verdict}")


def search(circuit: Any, seed: int) -> dict[str, Any]:
    query = np.random.default_rng(seed).permutation(circuit.n_vars)[: circuit.n_vars // 2].tolist()
    start = time.perf_counter()
    found = marginal_map(circuit, query)
    return {
        "seconds": time.perf_counter() - start,
        "log_probability": found.log_probability,
        "is_optimal": found.is_optimal,
        "n_nodes": found.n_nodes,
    }


def score_many_rows() -> dict[str, Any]:
    """In a process of its own, so that no earlier peak hides the one of this call."""
    data = load_dataset("nltcs")
    circuit = Strudel(n_components=1, random_state=0).fit(data.train, X_valid=data.valid).circuit_
    rows = data.test[np.random.default_rng(0).integers(0, len(data.test), N_SCORED)]
    strudel.log_likelihood(circuit, rows[:1000])
    before = forget_peak_memory()
    taken = seconds(lambda: strudel.log_likelihood(circuit, rows))
    return {"n_rows": len(rows), "seconds": taken, "extra_bytes": peak_memory() - before}


def forget_peak_memory() -> int:
    """Bytes in use now; from here on they are the peak, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 2**10
    except OSError:
        unit = 1 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
