"""Learn from rows with values hidden at random, and score complete test rows.

python benchmarks/missing_values.py [nltcs plants dna] [--hidden 0.1 0.2 0.3 0.5]
    [--models circuit mixture] [--components 10] [--out results.json] [--csv results.csv]

Values of training and validation rows are hidden completely at random. The columns compare learning
from all values, from what is left, and from what is left with every hidden value replaced by the
median of its column. A loss is what a model lacks of the one that saw everything.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np

from strudel import Strudel, load_dataset

HEADER = (
    "| dataset | model | hidden | all values | Strudel | median "
    "| loss | of the median's | CPU seconds |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["nltcs", "plants", "dna"])
    parser.add_argument("--hidden", type=float, nargs="*", default=[0.1, 0.2, 0.3, 0.5])
    parser.add_argument("--models", nargs="*", default=["circuit", "mixture"])
    parser.add_argument("--components", default="10", help="of the mixture; a number or auto")
    parser.add_argument("--out", help="write json here, after every line")
    parser.add_argument("--csv", help="write a table here")
    args = parser.parse_args()
    print(HEADER)
    results: list[dict[str, Any]] = []
    for name in args.names:
        for kind in args.models:
            for result in compare(name, kind, args):
                results.append(result)
                machine.write(args.out, results)
    if args.csv:
        with Path(args.csv).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(results[0]))
            writer.writeheader()
            writer.writerows(results)


def compare(name: str, kind: str, args: argparse.Namespace) -> Any:
    data = load_dataset(name)
    everything, _ = learn(kind, args, data.train, data.valid, data.test)
    for share in args.hidden:
        train, valid = hide(data.train, share, seed=1), hide(data.valid, share, seed=2)
        own, seconds = learn(kind, args, train, valid, data.test)
        median, _ = learn(kind, args, impute(train, train), impute(valid, train), data.test)
        result = {
            "dataset": name,
            "model": kind,
            "hidden": share,
            "all_values": everything,
            "strudel": own,
            "median": median,
            "loss": everything - own,
            "share_of_median_loss": (everything - own) / (everything - median),
            "cpu_seconds": seconds,
        }
        print(
            "| {dataset} | {model} | {hidden:.0%} | {all_values:.3f} | {strudel:.3f} | "
            "{median:.3f} | {loss:.3f} | {share_of_median_loss:.0%} | {cpu_seconds:.0f} |".format(
                **result
            ),
            flush=True,
        )
        yield result


def learn(
    kind: str, args: argparse.Namespace, train: Any, valid: Any, test: Any
) -> tuple[float, float]:
    """Mean log-likelihood of the test rows, and processor seconds."""
    start = time.process_time()
    model: Any = Strudel(n_components=1, random_state=0)
    if kind == "mixture":
        n_components = "auto" if args.components == "auto" else int(args.components)
        model = Strudel(n_components=n_components, random_state=0)
    model.fit(train, X_valid=valid)
    seconds = time.process_time() - start
    return model.score(test), seconds


def hide(table: Any, share: float, seed: int) -> Any:
    hidden = np.random.default_rng(seed).random(table.shape) < share
    return np.where(hidden, np.nan, table)


def impute(table: Any, like: Any) -> Any:
    return np.where(np.isnan(table), np.nanmedian(like, axis=0), table).round()


if __name__ == "__main__":
    main()
