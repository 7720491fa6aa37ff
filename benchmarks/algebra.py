"""Compare circuits on one vtree, and compare that with the same recursion in plain Python.

python benchmarks/algebra.py [--out results.json] [--rounds 7] [--all]

The bar: the divergence of the nltcs circuit that `Strudel` grows with its defaults from the one it
had after 200 splits, at least 50 times faster than a recursion with a dict. Both start from the
same Chow-Liu tree, and so have the same vtree. Then the pairs and seconds of larger circuits, also
with themselves; `--all` takes all twenty datasets.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import machine
import numpy as np

import strudel
from strudel import Strudel, dataset_names, load_dataset
from strudel.circuits.products import Pairs
from strudel.queries.given import circuit_of

BAR = 50.0
N_SPLITS = 200
SEVERAL = ("nltcs", "msnbc", "plants", "baudio", "dna", "ad")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write json here")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--all", action="store_true", help="all twenty datasets")
    args = parser.parse_args()
    results = {"plain": against_plain_python(args.rounds), "datasets": []}
    print(
        f"{'dataset':12s} {'edges p':>9s} {'edges q':>9s} {'pairs':>9s} {'edges pq':>9s} "
        f"{'kl(p,q)':>8s} {'kl s':>7s} {'inner s':>7s} {'multiply s':>10s} "
        f"{'edges pp':>9s} {'kl s':>7s}"
    )
    names = [name for name in dataset_names() if name != "digits"] if args.all else SEVERAL
    for name in names:
        results["datasets"].append(one_dataset(name, args.rounds))
    machine.write(args.out, results)


def against_plain_python(rounds: int) -> dict[str, Any]:
    p, q = two_models("nltcs")
    found, expected = strudel.kl_divergence(p, q), plain_kl_divergence(p, q)
    times: dict[str, list[float]] = {"strudel": [], "plain": []}
    for _ in range(rounds):
        times["plain"].append(seconds(lambda: plain_kl_divergence(p, q)))
        times["strudel"].append(seconds(lambda: strudel.kl_divergence(p, q)))
    medians = {name: median(values) for name, values in times.items()}
    ratio = medians["plain"] / medians["strudel"]
    print(
        f"nltcs, {p.n_edges} edges against {q.n_edges}: divergence {found:.6f} nats, "
        f"difference {abs(found - expected):.1e}\n"
        f"  plain Python {1e3 * medians['plain']:.2f} ms, "
        f"Strudel {1e3 * medians['strudel']:.3f} ms: {ratio:.0f} times faster, "
        f"bar {BAR:g}: {'yes' if ratio >= BAR else 'NO'}"
    )
    return {"seconds": medians, "ratio": ratio, "difference": abs(found - expected), "all": times}


def one_dataset(name: str, rounds: int) -> dict[str, Any]:
    p, q = two_models(name)
    first, second = circuit_of(p), circuit_of(q)
    pairs, own = Pairs(first, second), Pairs(first, first)
    calls: dict[str, Callable[[], Any]] = {
        "kl_divergence": lambda: strudel.kl_divergence(p, q),
        "inner_product": lambda: strudel.algebra.inner_product(p, q),
        "multiply": lambda: strudel.multiply(p, q),
        "own_kl_divergence": lambda: strudel.kl_divergence(p, p),
    }
    taken = {key: median(seconds(call) for _ in range(rounds)) for key, call in calls.items()}
    divergence = strudel.kl_divergence(p, q)
    print(
        f"{name:12s} {p.n_edges:9d} {q.n_edges:9d} {len(pairs):9d} {len(pairs.edge_p):9d} "
        f"{divergence:8.4f} {taken['kl_divergence']:7.4f} {taken['inner_product']:7.4f} "
        f"{taken['multiply']:10.4f} {len(own.edge_p):9d} {taken['own_kl_divergence']:7.4f}"
    )
    return {
        "dataset": name,
        "n_edges": [p.n_edges, q.n_edges],
        "n_pairs": len(pairs),
        "n_pair_edges": len(pairs.edge_p),
        "n_own_pair_edges": len(own.edge_p),
        "kl_divergence": divergence,
        "seconds": taken,
    }


def two_models(name: str) -> tuple[Any, Any]:
    """The fully grown circuit and its prefix of 200 splits."""
    data = load_dataset(name)
    return tuple(
        Strudel(n_components=1, random_state=0, **limit)
        .fit(data.train, X_valid=data.valid)
        .circuit_
        for limit in ({}, {"max_splits": N_SPLITS})
    )


def plain_kl_divergence(p: Any, q: Any) -> float:
    """The textbook recursion over pairs of nodes, each remembered in a dict.

    A pair has the probability that p gives to the rows possible under q, and the sum over these of
    ``p log(p / q)``. The right side of two products is looked at only if the left side is possible.
    """
    n_literals = 2 * p.n_vars
    p_edges, q_edges = plain_edges(p), plain_edges(q)
    known: dict[tuple[int, int], tuple[float, float]] = {}

    def compare(n: int, m: int) -> tuple[float, float]:
        if n < n_literals and m < n_literals:
            return (1.0, 0.0) if n == m else (0.0, 0.0)
        if (n, m) in known:
            return known[n, m]
        mass = total = 0.0
        for left, right, theta, log_theta in p_edges[n] if n >= n_literals else [(n, -1, 1.0, 0.0)]:
            for left_q, right_q, _, log_q in q_edges[m] if m >= n_literals else [(m, -1, 1.0, 0.0)]:
                f_left, k_left = compare(left, left_q)
                if f_left == 0.0:
                    continue
                f_right, k_right = (1.0, 0.0) if right < 0 else compare(right, right_q)
                if f_right == 0.0:
                    continue
                both = f_left * f_right
                mass += theta * both
                total += theta * (both * (log_theta - log_q) + k_left * f_right + f_left * k_right)
        known[n, m] = mass, total
        return mass, total

    mass, total = compare(p.root, q.root)
    return total if math.isclose(mass, 1.0, rel_tol=1e-9) else math.inf


def plain_edges(circuit: Any) -> list[list[tuple[int, int, float, float]]]:
    """The edges of every node as tuples of Python numbers, which are faster than arrays here."""
    rows = list(
        zip(
            circuit.edge_left.tolist(),
            circuit.edge_right.tolist(),
            np.exp(circuit.edge_log_theta).tolist(),
            circuit.edge_log_theta.tolist(),
            strict=True,
        )
    )
    ends = circuit.node_edges.tolist()
    return [rows[start:stop] for start, stop in pairwise(ends)]


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    main()
