"""The long campaign: hostile files, questions and options until the time is over.

    python tests/campaign --minutes 60 [--jobs 2] [--seed 1] [--campaigns text,models] [--report F]
    python tests/campaign --cases text=800000,models=100000,kills=500     so many, in any time
    python tests/campaign --campaigns text --seed 1 --only 4711     one case again, with traceback

Prints one line for each campaign and every finding; exits with 1 if there is one. Faults of the
system, such as a full disk, are in `test_faults.py`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from campaign.runner import CAMPAIGNS, MEMORY, Counts, do_one, report_of

# Text files are quick, and there are most of them.
SHARES = {"text": 6, "models": 5, "tables": 2, "options": 3, "kills": 4}
TURN = 60.0  # seconds of all campaigns together, before each comes again with the next seed
MOST = {"text": 20_000, "tables": 20_000, "kills": 25}  # cases of one piece of work
FEW = 5_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--campaigns", default=",".join(CAMPAIGNS))
    parser.add_argument("--only", type=int, help="the number of one case")
    parser.add_argument("--cases", help="so many of each, or of some: text=1000,kills=10")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    names = args.campaigns.split(",")
    if args.only is not None:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            rng = np.random.default_rng([args.seed, args.only])
            print(CAMPAIGNS[names[0]](Path(folder)).case(rng))
        return 0
    if args.cases is not None:
        counts = do(pieces_of(args.cases, names, args.seed), args.jobs, args.report)
        return int(any(one.findings for one in counts.values()))
    counts, ends, seed = {}, time.monotonic() + 60 * args.minutes, args.seed
    shares = sum(SHARES.get(name, 1) for name in names)
    while not counts or time.monotonic() + TURN / 2 < ends:
        turn = min(10 * TURN, max(TURN, ends - time.monotonic()))
        work = [
            (name, seed + job, {"seconds": turn * SHARES.get(name, 1) / shares})
            for name in names
            for job in range(args.jobs)
        ]
        counts = do(work, args.jobs, args.report, counts)
        seed += args.jobs
    return int(any(one.findings for one in counts.values()))


def pieces_of(cases, names, seed):
    """Pieces of work that make up so many cases of each campaign; the longest come first."""
    if "=" in cases:
        wanted = {name: int(n) for name, n in (one.split("=") for one in cases.split(","))}
    else:
        wanted = dict.fromkeys(names, int(cases))
    pieces = [
        (name, seed, {"first": first, "cases": min(MOST.get(name, FEW), n - first)})
        for name, n in wanted.items()
        for first in range(0, n, MOST.get(name, FEW))
    ]
    return sorted(pieces, key=lambda piece: piece[0] != "kills")


def do(work, n_jobs, report, counts=None):
    """Do all pieces of work, some at a time, and say what comes of them."""
    counts = counts or {}
    if n_jobs == 1:
        for piece in work:
            _add(counts, piece, do_one(*piece))
    else:
        # Fresh processes: copies of this one would share the threads of compiled code.
        with ProcessPoolExecutor(n_jobs, multiprocessing.get_context("spawn")) as pool:
            running = {pool.submit(do_one, *piece): piece for piece in work}
            for done in as_completed(running):
                try:
                    found = done.result()
                except BrokenProcessPool:
                    found = Counts(crashes=1, findings=[f"{running[done]}: a process died"])
                _add(counts, running[done], found)
    for name, one in counts.items():
        print(name, json.dumps(report_of(one)), flush=True)
    if report is not None:
        report.write_text(json.dumps({n: report_of(one) for n, one in counts.items()}, indent=1))
    return counts


def _add(counts, piece, found):
    for finding in found.findings:
        print("FINDING", finding, flush=True)
    counts.setdefault(piece[0], Counts()).add(found)


if __name__ == "__main__":
    sys.exit(main())
