"""What a beam costs, and what it brings, against the greedy search.

python benchmarks/beam.py [nltcs plants dna baudio] [--widths 1 2 5 10] [--selection train]
    [--max-splits 500] [--out results.json]

Every search has a process of its own, so that its peak memory can be seen. Times are processor
times of one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import machine

NAMES = ("nltcs", "plants", "dna", "baudio")
HEADER = (
    "dataset    width  steps  seconds  ms/step  times greedy    train    valid     test   edges  "
    "peak MiB  more MiB"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--widths", nargs="*", type=int, default=(1, 2, 5, 10))
    parser.add_argument("--selection", default="train", choices=("train", "valid"))
    parser.add_argument("--max-splits", type=int)
    parser.add_argument("--out", help="write json here")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(learn(args.names[0], **json.loads(args.one))))
        return
    print(HEADER)
    results = []
    for name in args.names:
        greedy = None
        for width in (0, *args.widths):  # 0 is greedy
            options = {"width": width, "selection": args.selection, "max_splits": args.max_splits}
            result = in_a_process(name, options) | {"dataset": name, "width": width}
            greedy = greedy or result
            result["times_greedy"] = result["ms_per_step"] / greedy["ms_per_step"]
            result["more_mib"] = result["peak_mib"] - greedy["peak_mib"]
            results.append(result)
            print(
                "{dataset:10s} {width:5d} {steps:6d} {seconds:8.2f} {ms_per_step:8.3f} "
                "{times_greedy:13.1f} {train:8.3f} {valid:8.3f} {test:8.3f} {edges:7d} "
                "{peak_mib:9.0f} {more_mib:9.0f}".format(**result),
                flush=True,
            )
    machine.write(args.out, results)


def in_a_process(name: str, options: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, name, "--one", json.dumps(options)]
    environment = os.environ | {"NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def learn(name: str, width: int, selection: str, max_splits: int | None) -> dict[str, Any]:
    from strudel import Beam, Greedy, Strudel, load_dataset

    search = Beam(width=width, selection=selection) if width else Greedy()
    digits = load_dataset("digits")  # so that nothing below pays for the compiler
    for repeats in (1, 3):
        small = Strudel(n_components=1, search=search, max_splits=2, random_state=0)
        small.fit(digits.train.repeat(repeats, axis=0)).score(digits.test)
    data = load_dataset(name)
    start = time.process_time()
    model = Strudel(n_components=1, search=search, max_splits=max_splits, random_state=0)
    model.fit(data.train, X_valid=data.valid)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    history, best = model.history_, model.history_.best
    return {
        "steps": len(history) - 1,
        "best_step": best,
        "seconds": seconds,
        "ms_per_step": 1e3 * seconds / max(len(history) - 1, 1),
        "train": float(history.train[best]),
        "valid": float(history.valid[best]),
        "test": model.score(data.test),
        "edges": model.circuit_.n_edges,
        "peak_mib": peak,
    }


if __name__ == "__main__":
    main()
