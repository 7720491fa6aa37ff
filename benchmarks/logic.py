"""Time the probability of random formulas under a learned circuit.

python benchmarks/logic.py [--out results.json] [--formulas 10] [--dataset plants]

The bar: a random 3-CNF with 20 clauses over 40 variables under the circuit of plants after 500
splits, in under 5 s, in each of several formulas, compiling included. Answers are compared with the
share of a million rows drawn from the circuit. Then the same formula given rows, under a mixture of
ten components, and a count of all variables.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import machine
import numpy as np

import strudel
from strudel import Strudel, load_dataset
from strudel.circuits.reweigh import normalized
from strudel.logic import Cnf

BAR = 5.0
N_SPLITS, N_CLAUSES, N_VARS, WIDTH = 500, 20, 40, 3
N_ROWS = 10**6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write json here")
    parser.add_argument("--formulas", type=int, default=10)
    parser.add_argument("--dataset", default="plants")
    args = parser.parse_args()
    data = load_dataset(args.dataset)
    model = Strudel(n_components=1, max_splits=N_SPLITS, random_state=0).fit(
        data.train, X_valid=data.valid
    )
    circuit = model.circuit_
    print(f"{args.dataset}: {len(circuit.columns)} variables, {circuit.n_edges} edges")
    rows = strudel.sample(circuit, N_ROWS, random_state=0)
    rng = np.random.default_rng(0)
    results = [one_formula(circuit, rows, rng) for _ in range(args.formulas)]
    taken = [result["seconds"] for result in results]
    print(
        f"seconds: median {median(taken):.3f}, most {max(taken):.3f}, bar {BAR:g}: "
        f"{'yes' if max(taken) < BAR else 'NO'}"
    )
    others = other_questions(circuit, random_cnf(len(circuit.columns), rng), data.test[:100])
    machine.write(args.out, {"dataset": args.dataset, "formulas": results, "others": others})


def random_cnf(n_vars: int, rng: np.random.Generator) -> Cnf:
    """Clauses over some of the variables, each of three of them with random signs."""
    some = rng.permutation(n_vars)[: min(N_VARS, n_vars)] + 1
    clauses = [
        (rng.choice(some, WIDTH, replace=False) * rng.choice([-1, 1], WIDTH)).tolist()
        for _ in range(N_CLAUSES)
    ]
    return Cnf.from_literals(clauses, n_vars)


def one_formula(circuit: Any, rows: Any, rng: np.random.Generator) -> dict[str, Any]:
    cnf = random_cnf(len(circuit.columns), rng)
    compiling, sdd = timed(lambda: strudel.logic.compile_event(cnf, circuit.vtree))
    taken, found = timed(lambda: strudel.probability(circuit, cnf))
    share = float(cnf.holds(rows).mean())
    error = (found - share) / max(np.sqrt(share * (1 - share) / N_ROWS), 1e-9)
    print(
        f"  {taken:7.3f} s, of which compiling {compiling:6.3f}; SDD of {sdd.n_elements:7d} "
        f"elements; probability {found:.6f}, of sampled rows {share:.6f} ({error:+.1f} sigma)"
    )
    return {
        "seconds": taken,
        "compile_seconds": compiling,
        "n_elements": sdd.n_elements,
        "probability": found,
        "sampled": share,
    }


def other_questions(circuit: Any, cnf: Cnf, rows: Any) -> dict[str, float]:
    half = rows.astype(float)
    half[:, ::2] = np.nan
    rng, logs = np.random.default_rng(0), {}
    for name in ("edge_log_theta", "leaf_log_p"):
        own = getattr(circuit, name)
        logs[name] = own + rng.normal(0.0, 0.1, (len(own), 10))
    mixture, _ = normalized(replace(circuit, **logs, log_weight=np.full(10, -np.log(10.0))))
    x = strudel.variables(circuit)
    calls: dict[str, Callable[[], Any]] = {
        "given 100 half-known rows": lambda: strudel.probability(circuit, cnf, half),
        "mixture of ten": lambda: strudel.probability(mixture, cnf),
        "condition": lambda: strudel.condition(circuit, cnf),
        "condition a mixture of ten": lambda: strudel.condition(mixture, cnf),
        "at least half of all variables": lambda: strudel.probability(
            circuit, strudel.logic.at_least(len(circuit.columns) // 2, x)
        ),
    }
    seconds = {}
    for name, call in calls.items():
        call()
        seconds[name] = timed(call)[0]
        print(f"  {name}: {seconds[name]:.3f} s")
    return seconds


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
