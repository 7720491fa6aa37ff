"""Learn a circuit from each of the twenty datasets and compare with the paper's figures.

python benchmarks/learn.py [nltcs plants ...] [--out results.json] [--memory]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from typing import Any

import machine
from reproduce.facts import paper, paper_datasets

from strudel import Strudel, load_dataset

HEADER = (
    "dataset      splits  seconds  ms/split    train     valid      test     paper   diff%   "
    "edges  paper s  ratio"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", help="write json here")
    parser.add_argument("--memory", action="store_true", help="a process each, to see peak memory")
    args = parser.parse_args()
    names = args.names or paper_datasets()
    if args.memory and len(names) > 1:
        for name in names:
            subprocess.run([sys.executable, __file__, name, "--memory"], check=True)
        return

    start = time.perf_counter()
    load_kernels()
    print(f"kernels loaded or compiled in {time.perf_counter() - start:.1f} s")
    print(HEADER)
    results = []
    for name in names:
        results.append(learn(name, paper(name)))
        if args.memory:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
            print(f"{name}: peak memory {peak:.0f} MiB")
    if len(results) > 1:
        summarise(results)
    machine.write(args.out, results)


def load_kernels() -> None:
    """Learn something small, so that the first dataset does not pay for the compiler."""
    digits = load_dataset("digits")
    Strudel(n_components=1, random_state=0, max_splits=2).fit(digits.train, X_valid=digits.valid)
    Strudel(n_components=1, random_state=0, max_splits=2).fit(digits.train.repeat(3, axis=0)).score(
        digits.test
    )


def learn(name: str, facts: dict[str, float]) -> dict[str, Any]:
    """Learn one dataset with default options, and print a line."""
    data = load_dataset(name)
    start = time.perf_counter()
    model = Strudel(n_components=1, random_state=0).fit(data.train, X_valid=data.valid)
    seconds = time.perf_counter() - start
    history, best = model.history_, model.history_.best
    n_splits = len(history) - 1
    result = {
        "dataset": name,
        "splits": n_splits,
        "best_split": best,
        "seconds": seconds,
        "seconds_per_split": seconds / max(n_splits, 1),
        "train": float(history.train[best]),
        "valid": float(history.valid[best]),
        "test": model.score(data.test),
        "edges": model.circuit_.size,
        "nodes": model.circuit_.n_nodes,
        "parameters": model.circuit_.n_parameters,
        "stopped_because": history.stopped_because,
        "paper_test": facts["strudel_test"],
        "paper_seconds": facts["strudel_seconds"],
    }
    print(
        "{dataset:12s} {splits:6d} {seconds:8.2f} {ms:9.3f} {train:9.3f} {valid:9.3f} {test:9.3f} "
        "{paper_test:9.2f} {diff:7.2f} {edges:7d} {paper_seconds:8.0f} {ratio:6.0f}".format(
            **result,
            ms=1e3 * result["seconds_per_split"],
            diff=100 * (result["test"] / result["paper_test"] - 1),
            ratio=result["paper_seconds"] / seconds,
        ),
        flush=True,
    )
    return result


def summarise(results: list[dict[str, Any]]) -> None:
    """The whole table against the paper's."""
    worse = [r["test"] / r["paper_test"] - 1 for r in results]
    seconds = sum(r["seconds"] for r in results)
    theirs = sum(r["paper_seconds"] for r in results)
    print(f"total {seconds:.1f} s; the paper {theirs:.0f} s, {theirs / seconds:.0f} times as long")
    print(
        f"within 1 % of the paper's test log-likelihood, or better: {sum(w <= 0.01 for w in worse)}"
    )
    print(f"within 3 %, or better: {sum(w <= 0.03 for w in worse)} of {len(results)}")
    good = sum(r["test"] >= r["paper_test"] - 0.02 for r in results)
    print(f"at least as good, to 0.02 nats: {good}")


if __name__ == "__main__":
    main()
