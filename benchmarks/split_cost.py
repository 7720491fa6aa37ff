"""What a split costs early and late in a search.

python benchmarks/split_cost.py [plants] [--out results.json]
"""

from __future__ import annotations

import argparse

import machine
import numpy as np

from strudel import Strudel, load_dataset

WINDOWS = ((100, 200), (700, 800), (1400, 1500))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="plants")
    parser.add_argument("--out", help="write json here")
    args = parser.parse_args()
    data = load_dataset(args.name)
    options = {"random_state": 0, "max_splits": WINDOWS[-1][1], "patience": 10**6}
    Strudel(n_components=1, **options).fit(
        data.train, X_valid=data.valid
    )  # compiles, and warms the memory
    runs = [
        Strudel(n_components=1, **options).fit(data.train, X_valid=data.valid).history_
        for _ in range(5)
    ]
    seconds = np.median([np.diff(history.seconds, prepend=0) for history in runs], axis=0)
    rows, edges = runs[0].rows_moved, np.diff(runs[0].n_edges, prepend=0)
    results = []
    print("splits         mean us  median us  rows moved  edges added  ns per row  edges in all")
    for first, last in WINDOWS:
        part = slice(first, last)
        result = {
            "first": first,
            "last": last,
            "mean_us": 1e6 * seconds[part].mean(),
            "median_us": 1e6 * float(np.median(seconds[part])),
            "rows_moved": rows[part].mean(),
            "edges_added": edges[part].mean(),
            "ns_per_row": 1e9 * seconds[part].sum() / rows[part].sum(),
            "edges": int(runs[0].n_edges[last]),
        }
        results.append(result)
        print(
            "{first:5d}-{last:5d} {mean_us:10.0f} {median_us:10.0f} {rows_moved:11.0f} "
            "{edges_added:12.0f} {ns_per_row:11.0f} {edges:13d}".format(**result)
        )
    early, late = results[0], results[-1]
    for key in ("mean_us", "median_us", "ns_per_row"):
        print(f"late / early, {key}: {late[key] / early[key]:.2f}")
    # How much of a split's time follows its rows, its new edges, and the size of the circuit.
    columns = np.column_stack([np.ones(len(seconds)), rows, edges, runs[0].n_edges])[1:]
    share, *_ = np.linalg.lstsq(columns, seconds[1:], rcond=None)
    names = (
        "per split, us",
        "per row moved, ns",
        "per edge added, ns",
        "per 100,000 edges there, us",
    )
    for name, scale, value in zip(names, (1e6, 1e9, 1e9, 1e11), share, strict=True):
        print(f"least squares, {name}: {value * scale:.1f}")
    machine.write(args.out, results)


if __name__ == "__main__":
    main()
