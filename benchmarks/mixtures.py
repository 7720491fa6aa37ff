"""Learn a mixture for each of the twenty datasets and compare with the paper's ensembles (Q4).

python benchmarks/mixtures.py [nltcs plants ...] [--method bagged_em] [--components 10]
    [--seconds 300] [--out results.json]

Splits, components, runs and smoothing are all chosen on the validation rows.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import machine
from reproduce.facts import paper, paper_datasets

from strudel import Strudel, load_dataset
from strudel.learning.options import METHODS

COLUMNS = ("learnpsdd_em_test", "strudel_em_test", "learnpsdd_bem_test", "strudel_bem_test")
STRUDEL = ("strudel_em_test", "strudel_bem_test")
HEADER = (
    "dataset      splits  components  x runs   seconds  MiB     valid      test   "
    "paper: LearnPSDD EM, Strudel EM, LearnPSDD BEM, Strudel BEM   better than"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--method", default="em", choices=list(METHODS))
    parser.add_argument("--components", default="auto", help="of one run; chosen by default")
    parser.add_argument("--seconds", type=float, default=None, help="limit for each dataset")
    parser.add_argument("--out", help="write json here, after every dataset")
    args = parser.parse_args()
    load_kernels()
    print(HEADER)
    results = []
    for name in args.names or paper_datasets():
        results.append(learn(name, paper(name), args))
        machine.write(args.out, results)
    if len(results) > 1:
        summarise(results)


def load_kernels() -> None:
    """Learn something small, so that the first dataset does not pay for the compiler."""
    digits = load_dataset("digits")
    model = Strudel(n_components=2, max_splits=1, random_state=0)
    model.fit(digits.train[:200], X_valid=digits.valid).score(digits.test)


def learn(name: str, published: dict[str, float], args: argparse.Namespace) -> dict[str, Any]:
    data = load_dataset(name)
    start, cpu = time.perf_counter(), time.process_time()
    model = Strudel(
        n_components="auto" if args.components == "auto" else int(args.components),
        method=args.method,
        max_seconds=args.seconds,
        random_state=0,
    )
    model.fit(data.train, X_valid=data.valid)
    taken = time.perf_counter() - start
    result: dict[str, Any] = {
        "dataset": name,
        **model.chosen_,
        "seconds": taken,
        "cpu_seconds": time.process_time() - cpu,
        "test": model.score(data.test),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "edges": model.circuit_.size,
        "stopped_because": model.history_.stopped_because,
        "trials": [trial._asdict() for trial in model.trials_],
        **{column: published[column] for column in COLUMNS},
    }
    better = [column for column in COLUMNS if result["test"] > result[column]]
    print(
        "{dataset:12s} {n_splits:6d} {n_components:11d} {n_runs:7d} {seconds:9.1f} "
        "{peak_mib:5.0f} {valid:9.3f} {test:9.3f}   ".format(**result)
        + "  ".join(f"{result[column]:8.2f}" for column in COLUMNS)
        + f"   {len(better)} of 4",
        flush=True,
    )
    return result


def summarise(results: list[dict[str, Any]]) -> None:
    def n_better(columns: tuple[str, ...]) -> int:
        return sum(all(r["test"] > r[column] for column in columns) for r in results)

    total = sum(r["seconds"] for r in results)
    slowest = max(results, key=lambda r: float(r["seconds"]))
    print(f"{total:.0f} s in all, at most {slowest['seconds']:.0f} s ({slowest['dataset']})")
    print(f"better than both Strudel columns: {n_better(STRUDEL)} of {len(results)}")
    print(f"better than all four columns: {n_better(COLUMNS)} of {len(results)}")


if __name__ == "__main__":
    main()
