"""What a newcomer waits for: processor seconds of the first fit, the first demo, and a question.

    python benchmarks/start.py
    python benchmarks/start.py --against /path/to/another/environment/bin/python

The first fit (nltcs) and the first demo begin with an empty cache of compiled code, the question
with a full one. With another environment, such as one with an older version, both run in turn and
the ratio is shown: the machine may be busy, and the two see the same.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

FIT = """
from strudel import Strudel, load_dataset, save
data = load_dataset("nltcs")
save(Strudel(random_state=0).fit(data.train, X_valid=data.valid), "nltcs.strudel")
"""
DEMO = "import sys; from strudel.cli.main import main; sys.exit(main(['demo']))"
QUERY = (
    "import sys; from strudel.cli.main import main; "
    "sys.exit(main(['query', 'nltcs.strudel', 'marginal', '--given', 'x3=1']))"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--against", metavar="PYTHON", help="Python of another environment.")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    pythons = {"this": sys.executable} | ({"other": args.against} if args.against else {})
    seconds: dict[str, dict[str, float]] = {
        work: {name: float("inf") for name in pythons}
        for work in ("first fit", "first demo", "question")
    }
    for _ in range(args.rounds):
        for name, python in pythons.items():
            for work, taken in measure(python).items():
                seconds[work][name] = min(seconds[work][name], taken)
    print("processor seconds (user), the least of", args.rounds)
    for work, by_name in seconds.items():
        line = "  ".join(f"{name} {taken:6.2f}" for name, taken in by_name.items())
        ratio = f"  ratio {by_name['this'] / by_name['other']:.2f}" if args.against else ""
        print(f"{work:12s} {line}{ratio}")


def measure(python: str) -> dict[str, float]:
    """User seconds of each, in an empty folder with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for work, script in (("first fit", FIT), ("first demo", DEMO), ("question", QUERY)):
            cache = Path(folder, "cache of the demo" if work == "first demo" else "cache")
            if work == "question":
                run(python, script, folder, cache)  # what it compiles is not of interest
            found[work] = run(python, script, folder, cache)
    return found


def run(python: str, script: str, folder: str, cache: Path) -> float:
    """User seconds of a process and of those it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    env = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    if python != sys.executable:
        env.pop("PYTHONPATH", None)
    subprocess.run(
        [python, "-c", script], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL
    )
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


if __name__ == "__main__":
    main()
