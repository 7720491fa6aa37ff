"""Measure how long large pictures take.

python benchmarks/pictures.py

Needs no data but what scikit-learn ships. `scripts/page_pictures.py` draws those of the guide.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import strudel


def measure() -> None:
    """Seconds from a model in memory to a png, the best of three."""
    digits = strudel.load_dataset("digits")
    deep = strudel.Strudel(
        n_components=1, validation_fraction=None, max_edges=100_000, random_state=0
    )
    deep.fit(digits.train)
    rng = np.random.default_rng(0)
    copies = np.cumsum(rng.random((500, 1000)) < 0.1, axis=1) % 2
    wide = strudel.Strudel(
        n_components=1, validation_fraction=None, max_edges=100_000, random_state=0
    )
    wide.fit(copies)
    for name, model, one in (("deep", deep, digits.test[0]), ("wide", wide, copies[0])):
        circuit = model.circuit_
        print(f"{name}: {circuit.n_edges:,} edges, {circuit.n_vars:,} variables")
        for words, plot in {
            "plot_circuit": lambda ax, m=model: strudel.plot_circuit(m, ax=ax),
            "plot_circuit of a row": lambda ax, m=model, r=one: strudel.plot_circuit(m, r, ax=ax),
            "plot_vtree": lambda ax, m=model: strudel.plot_vtree(m, ax=ax),
            "plot_chow_liu_tree": lambda ax, m=model: strudel.plotting.plot_chow_liu_tree(m, ax=ax),
            "plot_marginals": lambda ax, m=model: strudel.plot_marginals(m, ax=ax),
            "plot_dependencies": lambda ax, m=model: strudel.plot_dependencies(m, ax=ax),
        }.items():
            print(f"  {words:24} {min(_seconds(plot) for _ in range(3)):.2f} s")
        started = time.perf_counter()
        size = len(circuit._repr_html_())
        print(f"  {'_repr_html_':24} {time.perf_counter() - started:.2f} s, {size / 1000:.0f} kB")


def _seconds(plot: Callable[[Axes], Axes]) -> float:
    started = time.perf_counter()
    figure = Figure(layout="constrained")
    plot(figure.add_subplot())
    figure.savefig(io.BytesIO(), format="png")
    return time.perf_counter() - started


if __name__ == "__main__":
    measure()
