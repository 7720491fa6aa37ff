"""Evaluate mixtures by shared flows and classically, for 1 to 100 components (the paper's Q5).

python benchmarks/flows.py [--csv flows.csv] [--plot flows.png] [dataset ...]

The structure is the one that `Strudel` grows with its defaults, the components' parameters are
drawn around its own, and the rows are all test rows, as they are: equal ones are merged for nobody.

Shared flows are one call of `log_likelihood` on all rows, with checking and packing them and
finding their flows; the median of several calls. The classical evaluation computes the value of
every node for every row and component, from the literals up. It comes in three forms, all in
`float64`, on all cores, over blocks of rows, with everything that depends on the parameters alone
made beforehand:

- `logs`: log-values, one `exp` per product above zero and one `log` per sum: what is usual, and
  safe. The kernel of `evaluate_log`.
- `scaled`: values and one power of two per vtree node, no `exp` or `log` but at the root, as safe.
  The kernel of `log_marginal`, eight rows side by side.
- `bare`: values, nothing else, 64 rows side by side: three reads, two multiplications and an
  addition per edge. As fast as a processor allows, but it underflows; such rows are done once more,
  scaled.

Each runs on as many whole blocks of rows as take `--seconds`, or on all rows; its time is scaled to
all rows in proportion. All must agree to 1e-9 on the rows they share.

On a busy machine short calls wait for their turn much longer than they run. `--processor` takes
the time of all processors together, for both sides, instead of that on the clock; set
OMP_WAIT_POLICY=passive with it, or threads that wait for others count as working.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import machine
import numba
import numpy as np
from scipy.special import logsumexp

from strudel import Mixture, Strudel, dataset_names, load_dataset, log_likelihood
from strudel._numba import kernel, parallel_kernel, prange
from strudel.circuits.evaluate import BLOCK_VALUES, MIN_BLOCK_ROWS, _upward_log_values
from strudel.queries.passes import LANES, Plan, log_of, pass_up, plan, working_memory

N_COMPONENTS = (1, 2, 5, 10, 20, 50, 100)
SPREAD = 0.3  # standard deviation of the components' log-parameters, before they are normalised
N_CALLS = 9  # of shared flows; the median counts
TOLERANCE = 1e-9
WIDTH = 64  # rows side by side without scaling
TINY = 1e-290  # probabilities below may have lost digits
FORMS = ("logs", "scaled", "bare")
MANY, FEW = 1000.0, 50.0  # times faster: on eight datasets, and on all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", metavar="dataset")
    parser.add_argument("--components", type=int, nargs="+", default=N_COMPONENTS, metavar="k")
    parser.add_argument("--processor", action="store_true", help="time of all processors together")
    parser.add_argument("--seconds", type=float, default=1.0, help="work per classical evaluation")
    parser.add_argument("--csv", help="write the table here")
    parser.add_argument("--plot", help="write a plot of ratios against components here")
    parser.add_argument("--out", help="write json here")
    args = parser.parse_args()
    now = time.process_time if args.processor else time.perf_counter
    print("seconds of all processors together" if args.processor else "seconds on the clock")
    warm_up()
    results = []
    for name in args.datasets or [name for name in dataset_names() if name != "digits"]:
        results += measure(name, args.components, args.seconds, now)
    summary = summarise(results)
    print("\n".join(summary))
    if args.csv:
        write_csv(args.csv, results)
    if args.plot:
        plot(args.plot, results)
    machine.write(args.out, {"rows": results, "summary": summary})


def warm_up() -> None:
    """Load or compile every kernel."""
    data = load_dataset("digits")
    circuit = Strudel(random_state=0, max_splits=2).fit(data.train, X_valid=data.valid).circuit_
    mixture = random_mixture(circuit, 2)
    log_likelihood(mixture, data.test)
    for form in FORMS:
        Classical(mixture, form)(data.test)


def measure(
    name: str, components: Sequence[int], seconds: float, now: Callable[[], float]
) -> list[dict[str, Any]]:
    """Times of one dataset for all numbers of components."""
    data = load_dataset(name)
    circuit = Strudel(random_state=0).fit(data.train, X_valid=data.valid).circuit_
    rows = np.ascontiguousarray(data.test, dtype=np.uint8)
    print(f"{name}: {circuit.n_edges:,} edges, {len(rows):,} rows")
    print("    k   shared s" + "".join(f"  {form:>9s} s   ratio" for form in FORMS))
    largest = random_mixture(circuit, max(components))
    results = []
    for k in components:
        mixture = first_components(largest, k)
        log_likelihood(mixture, rows)
        calls = [timed(lambda: log_likelihood(mixture, rows), now) for _ in range(N_CALLS)]  # noqa: B023
        shared, expected = median(seconds for seconds, _ in calls), calls[0][1]
        result = {"dataset": name, "edges": circuit.n_edges, "rows": len(rows), "k": k}
        result["shared_seconds"] = shared
        for form in FORMS:
            taken, n_done, error = time_classical(
                Classical(mixture, form), rows, expected, seconds, now
            )
            result |= {
                f"{form}_seconds": taken,
                f"{form}_rows": n_done,
                f"{form}_ratio": taken / shared,
                f"{form}_difference": error,
            }
        print(
            f"  {k:3d} {shared:10.5f}"
            + "".join(
                f" {result[f'{f}_seconds']:11.4f} {result[f'{f}_ratio']:8.0f}" for f in FORMS
            ),
            flush=True,
        )
        results.append(result)
    return results


def random_mixture(circuit: Any, k: int) -> Mixture:
    """Components with parameters around those of the circuit."""
    rng = np.random.default_rng(0)
    theta = circuit.theta[:, np.newaxis] * np.exp(
        SPREAD * rng.standard_normal((circuit.n_edges, k))
    )
    first = circuit.node_edges[2 * circuit.n_vars : -1]
    theta /= np.add.reduceat(theta, first)[circuit.edge_parent - 2 * circuit.n_vars]
    return Mixture(circuit, np.log(theta), np.log(rng.dirichlet(np.full(k, 10.0))))


def first_components(mixture: Mixture, k: int) -> Mixture:
    log_weight = mixture.log_weight[:k] - logsumexp(mixture.log_weight[:k])
    log_theta = np.ascontiguousarray(mixture.edge_log_theta[:, :k])
    return Mixture(mixture.structure, log_theta, log_weight)


def time_classical(
    evaluate: Classical,
    rows: np.ndarray,
    expected: np.ndarray,
    seconds: float,
    now: Callable[[], float],
) -> tuple[float, int, float]:
    """Seconds for all rows, rows that were done, and the largest difference from `expected`."""
    unit = evaluate.block_rows * numba.get_num_threads()
    n_done = min(unit, len(rows))
    while True:
        taken, found = timed(lambda: evaluate(rows[:n_done]), now)  # noqa: B023
        if n_done == len(rows) or taken >= 0.8 * seconds:
            break
        n_units = max(1, round(min(seconds / taken, len(rows) / n_done) * n_done / unit))
        n_next = min(n_units * unit, len(rows))
        if n_next <= n_done:
            break
        n_done = n_next
    if n_done == len(rows) and taken < 0.2 * seconds:  # short: the median of several
        times = [taken, *(timed(lambda: evaluate(rows), now)[0] for _ in range(4))]
        taken = median(times)
    error = float(np.max(np.abs(found - expected[:n_done])))
    if not error <= TOLERANCE:
        raise AssertionError(f"{evaluate.form} differs from shared flows by {error}")
    return taken * len(rows) / n_done, n_done, error


def timed(call: Callable[[], Any], now: Callable[[], float]) -> tuple[float, Any]:
    """Seconds that a call takes, and its answer."""
    start = now()
    answer = call()
    return now() - start, answer


class Classical:
    """Log-likelihoods of rows under a mixture, by the values of all nodes."""

    def __init__(self, mixture: Mixture, form: str) -> None:
        self.mixture = mixture
        self.form = form
        self._log_theta = np.array(mixture.edge_log_theta.T, order="C")  # a copy that is writable
        self._theta = np.exp(self._log_theta)
        self._plan = plan(mixture.structure)
        n_logs = max(MIN_BLOCK_ROWS, BLOCK_VALUES // mixture.n_nodes)
        self.block_rows = {"logs": n_logs, "scaled": LANES, "bare": WIDTH}[form]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        log_p = getattr(self, "_" + self.form)(rows)
        return np.asarray(logsumexp(log_p + self.mixture.log_weight, axis=1))

    def _logs(self, rows: np.ndarray) -> np.ndarray:
        circuit = self.mixture.structure
        log_p = np.empty((len(rows), self.mixture.n_components))
        _log_values(
            rows.astype(np.float64),
            circuit.node_edges,
            circuit.edge_left,
            circuit.edge_right,
            self._log_theta,
            max(MIN_BLOCK_ROWS, BLOCK_VALUES // circuit.n_nodes),
            log_p,
        )
        return log_p

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        log_p = np.empty((len(rows), self.mixture.n_components))
        is_lost = np.zeros(len(rows), dtype=np.bool_)
        _scaled_values(rows, self._plan, self.mixture.structure.root, self._theta, log_p, is_lost)
        if is_lost.any():
            log_p[is_lost] = self._logs(rows[is_lost])
        return log_p

    def _bare(self, rows: np.ndarray) -> np.ndarray:
        circuit = self.mixture.structure
        p = np.empty((len(rows), self.mixture.n_components))
        _bare_values(
            rows, circuit.node_edges, circuit.edge_left, circuit.edge_right, self._theta, p
        )
        is_lost = np.any(p < TINY, axis=1)
        with np.errstate(divide="ignore"):
            log_p = np.log(p)
        if is_lost.any():
            log_p[is_lost] = self._scaled(rows[is_lost])
        return log_p


@parallel_kernel
def _log_values(
    rows: Any,
    node_edges: Any,
    edge_left: Any,
    edge_right: Any,
    log_theta: Any,
    block_rows: int,
    log_p: Any,
) -> None:
    """Fill `log_p` (n_rows, k): all components of one block of rows, then the next block."""
    n_rows, k = log_p.shape
    n_nodes = len(node_edges) - 1
    for block in prange((n_rows + block_rows - 1) // block_rows):
        start = np.int64(block) * block_rows
        stop = min(start + block_rows, n_rows)
        value = np.empty((n_nodes, stop - start))
        for c in range(k):
            _upward_log_values(
                rows[start:stop], node_edges, edge_left, edge_right, log_theta[c], value
            )
            log_p[start:stop, c] = value[n_nodes - 1]


@parallel_kernel
def _scaled_values(rows: Any, p: Plan, root: int, theta: Any, log_p: Any, is_lost: Any) -> None:
    """Fill `log_p` (n_rows, k), and which rows have nodes too far apart for one scale."""
    n_rows, k = log_p.shape
    for block in prange((n_rows + LANES - 1) // LANES):
        start = np.int64(block) * LANES
        width = min(LANES, n_rows - start)
        value, scale, exponent = working_memory(p)
        for c in range(k):
            lost = pass_up(rows, start, width, p, theta[c], value, scale, exponent)
            for b in range(width):
                log_p[start + b, c] = log_of(value[root, b], exponent[len(p.vtree_var) - 1, b])
                is_lost[start + b] |= bool(lost >> b & 1)


@parallel_kernel
def _bare_values(
    rows: Any, node_edges: Any, edge_left: Any, edge_right: Any, theta: Any, p: Any
) -> None:
    """Fill `p` (n_rows, k) with probabilities; the literals are the same for all components."""
    n_rows, n_vars = rows.shape
    n_nodes = len(node_edges) - 1
    for block in prange((n_rows + WIDTH - 1) // WIDTH):
        start = np.int64(block) * WIDTH
        width = min(WIDTH, n_rows - start)
        value = np.zeros((n_nodes, WIDTH))
        for v in range(n_vars):
            for b in range(width):
                value[2 * v + rows[start + b, v], b] = 1.0
        for c in range(len(theta)):
            _bare_pass(n_vars, node_edges, edge_left, edge_right, theta[c], value)
            for b in range(width):
                p[start + b, c] = value[n_nodes - 1, b]


@kernel
def _bare_pass(
    n_vars: int, node_edges: Any, edge_left: Any, edge_right: Any, theta: Any, value: Any
) -> None:
    for n in range(2 * n_vars, len(value)):
        mine = value[n]
        first = node_edges[n]
        for e in range(first, node_edges[n + 1]):
            t, left = theta[e], value[edge_left[e]]
            if edge_right[e] < 0:
                if e == first:
                    for b in range(WIDTH):
                        mine[b] = t * left[b]
                else:
                    for b in range(WIDTH):
                        mine[b] += t * left[b]
            else:
                right = value[edge_right[e]]
                if e == first:
                    for b in range(WIDTH):
                        mine[b] = t * left[b] * right[b]
                else:
                    for b in range(WIDTH):
                        mine[b] += t * left[b] * right[b]


def summarise(results: list[dict[str, Any]]) -> list[str]:
    """One line per form: how often the ratio is large with most components, and the smallest."""
    k = max(result["k"] for result in results)
    most = [result for result in results if result["k"] == k]
    lines = []
    for form in FORMS:
        ratios = {result["dataset"]: result[f"{form}_ratio"] for result in most}
        n_many = sum(ratio >= MANY for ratio in ratios.values())
        n_few = sum(ratio >= FEW for ratio in ratios.values())
        worst = min(ratios, key=lambda name: ratios[name])
        lines.append(
            f"{k} components, against {form}: {n_many} of {len(ratios)} datasets "
            f"reach {MANY:,.0f} times, {n_few} reach {FEW:.0f}; "
            f"median {median(ratios.values()):,.0f}, smallest {ratios[worst]:,.0f} ({worst})"
        )
    return lines


def write_csv(path: str, results: list[dict[str, Any]]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(results[0]))
        writer.writeheader()
        writer.writerows(results)


def plot(path: str, results: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(FORMS), figsize=(14, 5), sharey=True, layout="constrained")
    names = list(dict.fromkeys(result["dataset"] for result in results))
    for axis, form in zip(axes, FORMS, strict=True):
        for i, name in enumerate(names):
            own = [result for result in results if result["dataset"] == name]
            axis.loglog(
                [result["k"] for result in own],
                [result[f"{form}_ratio"] for result in own],
                marker="o",
                markersize=3,
                color=plt.get_cmap("tab20")(i % 20),
                label=name,
            )
        axis.set_title(f"classical evaluation: {form}")
        axis.set_xlabel("components")
    axes[0].set_ylabel("times faster by shared flows")
    axes[-1].legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
