"""All searches on all datasets: likelihood, size and seconds of single circuits.

python benchmarks/search.py [nltcs plants ...] [--search accurate ...] [--out results.json]

The record is the best published test likelihood of a deterministic structured-decomposable circuit;
selective SPNs are not structured-decomposable. Validation rows decide everything. `--halves`
compares sizes at equal validation likelihood.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import machine
from reproduce.facts import paper, paper_datasets, record

from strudel import BestFirst, Greedy, Strudel, load_dataset
from strudel.learning import History, SearchOptions
from strudel.learning.search.learn_structure import grow

SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "gain": {"search": Greedy(variable_score="gain")},
    "learnpsdd": {"search": "learnpsdd", "max_seconds": 240.0},
    "best_first": {"search": "best_first", "smoothing": "hierarchical", "max_seconds": 60.0},
    "fast": {"preset": "fast"},
    "accurate": {"preset": "accurate"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--search", nargs="+", choices=list(SEARCHES), default=["accurate"])
    parser.add_argument("--seconds", type=float, help="limit for each search")
    parser.add_argument("--halves", action="store_true", help="edges at equal likelihood instead")
    parser.add_argument("--plot", help="draw likelihood against edges instead, and write it here")
    parser.add_argument("--out", help="write json here, after every dataset")
    args = parser.parse_args()
    if args.plot:
        draw(args.names or ["plants", "baudio", "dna"], args.plot)
        return
    facts = read_facts()
    load_kernels(args.search)
    results = []
    for name in args.names or list(facts):
        if args.halves:
            results.append(compare_sizes(name))
        else:
            for search in args.search:
                results.append(learn(name, search, facts[name], args.seconds))
        machine.write(args.out, results)
    if len(results) > 1:
        summarise_sizes(results) if args.halves else summarise(results, args.search)


def read_facts() -> dict[str, dict[str, float]]:
    """What was published, by dataset."""
    facts = {name: paper(name) for name in paper_datasets()}
    for name, columns in facts.items():
        best = record(name, "deterministic structured", is_checked=False)
        columns["record_test"] = float(best["test"])
    return facts


def load_kernels(searches: list[str]) -> None:
    """Learn something small, so that the first dataset does not pay for the compiler."""
    digits = load_dataset("digits")
    for search in {*searches, "best_first"}:
        options = SEARCHES[search] | {"max_splits": 3, "max_seconds": 600.0, "random_state": 0}
        Strudel(n_components=1, **options).fit(
            digits.train[:200, :12], X_valid=digits.valid[:, :12]
        )


def learn(name: str, search: str, facts: dict[str, float], seconds: float | None) -> dict[str, Any]:
    data = load_dataset(name)
    options = SEARCHES[search] | ({} if seconds is None else {"max_seconds": seconds})
    start = time.perf_counter()
    model = Strudel(n_components=1, **options, random_state=0).fit(data.train, X_valid=data.valid)
    taken = time.perf_counter() - start
    history = model.history_
    result: dict[str, Any] = {
        "dataset": name,
        "search": search,
        "seconds": taken,
        "operations": int(history.best),
        "edges": model.circuit_.size,
        "parameters": model.circuit_.n_parameters,
        "valid": float(history.valid[history.best]),
        "test": model.score(data.test),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "stopped_because": history.stopped_because,
        **facts,
    }
    print(
        "{dataset:11s} {search:10s} {seconds:6.1f} s {edges:8,d} edges  valid {valid:9.3f}  "
        "test {test:9.3f}   Strudel {strudel_test:8.2f}  LearnPSDD {learnpsdd_test:8.2f}  "
        "record {record_test:8.2f}  selSPN {selspn_test:8.2f}".format(**result),
        flush=True,
    )
    return result


def summarise(results: list[dict[str, Any]], searches: list[str]) -> None:
    for search in searches:
        rows = [r for r in results if r["search"] == search]
        columns = {
            "the paper's Strudel and LearnPSDD": ("strudel_test", "learnpsdd_test"),
            "the record": ("record_test",),
            "selSPN": ("selspn_test",),
        }
        counts = ", ".join(
            f"{sum(all(r['test'] > r[c] for c in names) for r in rows)} than {words}"
            for words, names in columns.items()
        )
        near = sum(r["test"] >= 1.02 * r["learnpsdd_test"] for r in rows)
        faster = sum(
            r["test"] >= 1.02 * r["learnpsdd_test"] and r["learnpsdd_seconds"] > 100 * r["seconds"]
            for r in rows
        )
        total, most = sum(r["seconds"] for r in rows), max(r["seconds"] for r in rows)
        print(f"{search}, {len(rows)} datasets: better {counts}; {total:.0f} s, at most {most:.0f}")
        print(f"  within 2 % of LearnPSDD or better: {near}, and 100 times as fast: {faster}")


def compare_sizes(name: str) -> dict[str, Any]:
    """Edges of best-first search when it reaches the greedy search's best validation likelihood."""
    data = load_dataset(name)
    greedy = Strudel(n_components=1, random_state=0).fit(data.train, X_valid=data.valid).history_
    goal = greedy.valid[greedy.best]

    def stop(history: History) -> None:
        if history.valid[-1] >= goal:
            raise KeyboardInterrupt  # ends the search and keeps what it found

    search = SearchOptions(search="best_first", patience=500, max_seconds=60.0)
    found = grow(data.train, data.valid, search=search, rng=0, on_split=stop).history
    is_reached = found.valid[-1] >= goal
    result = {
        "dataset": name,
        "valid": float(goal),
        "greedy_edges": int(greedy.n_edges[greedy.best]),
        "best_first_edges": int(found.n_edges[-1]) if is_reached else None,
        "seconds": float(found.seconds[-1]),
    }
    line = "{dataset:11s} valid {valid:9.3f}  greedy {greedy_edges:8,d} edges  best first "
    print(
        line.format(**result)
        + (f"{result['best_first_edges']:8,d} edges" if is_reached else "never")
        + f" in {result['seconds']:.1f} s",
        flush=True,
    )
    return result


CURVES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "best first, splits only": {"search": BestFirst(clones=False)},
    "best first": {"search": "best_first"},
    "best first, hierarchical smoothing": {"search": "best_first", "smoothing": "hierarchical"},
}


def draw(names: list[str], path: str) -> None:
    """Validation likelihood against the number of edges, for the parts of the search."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.4), squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        data = load_dataset(name)
        for label, options in CURVES.items():
            model = Strudel(
                n_components=1, **options, patience=300, max_seconds=40.0, random_state=0
            )
            history = model.fit(data.train, X_valid=data.valid).history_
            ax.plot(history.n_edges, history.valid, label=label)
        ax.set(title=name, xscale="log", xlabel="edges")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("mean validation log-likelihood")
    axes[0, -1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def summarise_sizes(results: list[dict[str, Any]]) -> None:
    n_half = sum(
        r["best_first_edges"] is not None and 2 * r["best_first_edges"] <= r["greedy_edges"]
        for r in results
    )
    print(f"at most half the edges on {n_half} of {len(results)} datasets")


if __name__ == "__main__":
    main()
