"""The long campaign: hostile files and options until the time is over.

    python tests/campaign --minutes 60 [--seed 1] [--campaigns text,models]
    python tests/campaign --cases 100000 --campaigns text     so many, in any time
    python tests/campaign --campaigns text --seed 1 --only 4711     one case again, with traceback

Prints what comes of each campaign and every finding; exits with 1 if there is one. Faults of the
system, such as a full disk, are in `test_faults.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from campaign.runner import CAMPAIGNS, MEMORY, run

TURN = 20.0  # seconds of one campaign, before each comes again with the next seed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--campaigns", default=",".join(CAMPAIGNS))
    parser.add_argument("--cases", type=int, help="so many of each, in any time")
    parser.add_argument("--only", type=int, help="the number of one case")
    args = parser.parse_args()
    names = args.campaigns.split(",")
    if args.only is not None:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            rng = np.random.default_rng([args.seed, args.only])
            print(CAMPAIGNS[names[0]](Path(folder)).case(rng))
        return 0
    ends, seed, n_findings = time.monotonic() + 60 * args.minutes, args.seed, 0
    while seed == args.seed or (args.cases is None and time.monotonic() < ends):
        for name in names:
            with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
                bound = {"seconds": TURN} if args.cases is None else {"cases": args.cases}
                counts = run(name, Path(folder), seed, **bound)
            print(name, counts, flush=True)
            n_findings += len(counts.findings)
        seed += 1
    return int(n_findings > 0)


if __name__ == "__main__":
    sys.exit(main())
