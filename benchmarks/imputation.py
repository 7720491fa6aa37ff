"""Log-loss of hidden values: StrudelImputer against mode, KNN and iterative imputation.

python benchmarks/imputation.py [nltcs plants jester] [--hidden 0.3] [--train-hidden 0.3]
    [--rows 2000] [--out results.json]

Imputers learn from the training rows, complete or with values hidden; of the test rows, a share of
the values is hidden at random. A number that another imputer fills in is taken as the probability
of a 1, clipped to [c, 1 - c], with the c that is best for it on these very values. Mode imputation
fills the share of ones rather than 0 or 1, which is better for it, too.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import machine
import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from strudel import StrudelImputer, load_dataset

CLIPS = (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2)
KNN_ROWS = 4000  # training rows that KNN gets: it keeps them all, and compares each with each
HEADER = (
    "| dataset | training rows | Strudel | mode | KNN | iterative | seconds: Strudel | KNN "
    "| iterative |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["nltcs", "plants", "jester"])
    parser.add_argument("--hidden", type=float, default=0.3, help="share of the test values")
    parser.add_argument("--train-hidden", type=float, default=0.0, help="of the training values")
    parser.add_argument("--rows", type=int, default=2000, help="test rows")
    parser.add_argument("--out", help="write json here, after every dataset")
    args = parser.parse_args()
    print(HEADER)
    results = []
    for name in args.names:
        results.append(compare(name, args))
        machine.write(args.out, results)


def compare(name: str, args: argparse.Namespace) -> dict[str, Any]:
    data = load_dataset(name)
    rng = np.random.default_rng(0)
    train, test = hide(data.train, args.train_hidden, rng), data.test[: args.rows]
    gaps = hide(test, args.hidden, rng)
    result: dict[str, Any] = {"dataset": name, "train_hidden": args.train_hidden}
    imputers = {
        "strudel": (StrudelImputer(strategy="mean", random_state=0), train),
        "mode": (SimpleImputer(), train),
        "knn": (KNNImputer(n_neighbors=20), train[:KNN_ROWS]),
        "iterative": (IterativeImputer(random_state=0), train),
    }
    for kind, (imputer, rows) in imputers.items():
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the iterative one did not converge
            filled = imputer.fit(rows).transform(gaps)
        result[f"{kind}_seconds"] = time.perf_counter() - started
        clips = (0.0,) if kind == "strudel" else CLIPS
        result[kind] = min(loss(filled, test, gaps, clip) for clip in clips)
    kind = f"{args.train_hidden:.0%} hidden" if args.train_hidden else "complete"
    cells = [f"{result[one]:.4f}" for one in ("strudel", "mode", "knn", "iterative")]
    cells += [f"{result[f'{one}_seconds']:.0f}" for one in ("strudel", "knn", "iterative")]
    print(f"| {name} | {kind} | {' | '.join(cells)} |", flush=True)
    return result


def hide(rows: Any, share: float, rng: np.random.Generator) -> Any:
    """The rows with so many values unknown."""
    return np.where(rng.random(rows.shape) < share, np.nan, rows.astype(np.float64))


def loss(filled: Any, rows: Any, gaps: Any, clip: float) -> float:
    """Mean log-loss of the hidden values, in nats."""
    hidden = np.isnan(gaps)
    p = np.clip(filled[hidden], clip, 1.0 - clip)
    return float(-np.log(np.where(rows[hidden] == 1, p, 1.0 - p)).mean())


if __name__ == "__main__":
    main()
