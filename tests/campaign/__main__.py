"""The long campaign: hostile files, questions and options until the time is over.

    python tests/campaign --minutes 60 [--seed 1] [--campaigns text,models] [--report FILE]
    python tests/campaign --campaigns text --seed 1 --only 4711     one case again, with traceback

Prints one line for each campaign and every finding; exits with 1 if there is one. Faults of the
system, such as a full disk, are in `test_faults.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from campaign.runner import CAMPAIGNS, Counts, peak_megabytes, report_of, run

# Text files are quick, and there are most of them.
SHARES = {"text": 6, "models": 5, "tables": 2, "checkpoints": 3, "options": 3, "kills": 4}
TURN = 60.0  # seconds of all campaigns together, before each comes again with the next seed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--campaigns", default=",".join(CAMPAIGNS))
    parser.add_argument("--only", type=int, help="the number of one case")
    parser.add_argument("--cases", type=int, help="so many of each, whatever time they take")
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    names = args.campaigns.split(",")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # disks are slower than readers
    if args.only is not None:
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            rng = np.random.default_rng([args.seed, args.only])
            print(CAMPAIGNS[names[0]](Path(folder)).case(rng))
        return 0
    counts = {name: Counts() for name in names}
    ends = time.monotonic() + 60 * args.minutes
    seed = args.seed
    shares = sum(SHARES.get(name, 1) for name in names)
    n_shown = dict.fromkeys(names, 0)
    while time.monotonic() < ends:
        turn = min(10 * TURN, max(TURN, ends - time.monotonic()))
        for name in names:
            seconds = turn * SHARES.get(name, 1) / shares
            with tempfile.TemporaryDirectory(dir=memory) as folder:
                bound = {"seconds": seconds} if args.cases is None else {"cases": args.cases}
                run(name, Path(folder), seed, counts=counts[name], **bound)
            for finding in counts[name].findings[n_shown[name] :]:
                print("FINDING", finding, flush=True)
            n_shown[name] = len(counts[name].findings)
        seed += 1
        _show(counts, args.report)
        if args.cases is not None or time.monotonic() + TURN / 2 > ends:
            break
    return int(any(one.findings for one in counts.values()))


def _show(counts: dict[str, Counts], path: Path | None) -> None:
    for name, one in counts.items():
        print(name, json.dumps(report_of(one)), flush=True)
    print(f"peak {peak_megabytes()} MB", flush=True)
    if path is not None:
        facts = {name: report_of(one) for name, one in counts.items()}
        path.write_text(json.dumps(facts | {"peak_megabytes": peak_megabytes()}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
