"""Draw the pictures of docs/guide/pictures.md, and measure how long large pictures take.

python benchmarks/pictures.py [--images docs/images]

Needs no data but what scikit-learn ships. Every file is written at 80 dots per inch, in the font
that matplotlib brings.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_wine

import strudel
from strudel.plotting.canvas import save_figure

DPI = 80


def wine_model() -> strudel.Strudel:
    """A model of five columns of scikit-learn's wine table, with their kinds."""
    wine = load_wine(as_frame=True)
    columns = ["alcohol", "flavanoids", "hue", "proline"]
    frame = wine.data[columns].assign(kind=[f"no. {kind + 1}" for kind in wine.target])
    return strudel.Strudel(encoder=strudel.TableEncoder(n_bins=4), random_state=0).fit(frame)


def completions(model: strudel.Strudel, digits: strudel.data.Dataset) -> np.ndarray:
    """Per digit: its upper half, the most probable rest, a sampled rest, and the truth."""
    truth = digits.test[[0, 29, 11, 28, 9, 27]].astype(float)
    seen = truth.copy()
    seen[:, 32:] = np.nan
    best, _ = model.most_probable_state(seen)
    drawn = model.sample(1, given=seen, random_state=0)[:, 0]
    return np.stack([seen, best, drawn, truth]).reshape(-1, 64)


def draw_all(folder: Path) -> None:
    digits = strudel.load_dataset("digits")
    model = strudel.Strudel(random_state=0).fit(digits.train, X_valid=digits.valid)
    mixture = strudel.StrudelMixture(n_components=10, n_splits=0, random_state=0)
    mixture.fit(digits.train, X_valid=digits.valid)
    figure_1 = strudel.circuits.figure_1_circuit()
    wine = wine_model()
    grid = [(pixel % 8, -(pixel // 8)) for pixel in range(64)]
    tree = strudel.trees.learn_chow_liu_tree(digits.train)
    row = [1, 0, 1, 0]
    pictures: dict[str, tuple[tuple[float, float], Callable[[Axes], Axes]]] = {
        "circuit": ((6, 4), lambda ax: strudel.plot_circuit(figure_1, row, ax=ax)),
        "circuit-dark": ((6, 4), lambda ax: strudel.plot_circuit(figure_1, row, ax=ax)),
        "circuit-map": ((8, 4.5), lambda ax: strudel.plot_circuit(model, ax=ax)),
        "circuit-map-row": (
            (8, 4.5),
            lambda ax: strudel.plot_circuit(model, digits.test[27], ax=ax),
        ),
        "vtree": ((8, 3.5), lambda ax: strudel.plot_vtree(wine, ax=ax)),
        "chow-liu-tree": (
            (4, 4),
            lambda ax: strudel.plotting.plot_chow_liu_tree(tree, ax=ax, positions=grid),
        ),
        "learning-curve": ((6, 3.6), lambda ax: strudel.plot_learning_curve(model.history_, ax=ax)),
        "marginals": (
            (7, 4.8),
            lambda ax: strudel.plot_marginals(wine, {"kind": "no. 1"}, ax=ax),
        ),
        "components": ((8, 4), lambda ax: strudel.plot_components(mixture, ax=ax)),
        "dependencies": ((6, 5), lambda ax: strudel.plot_dependencies(model, ax=ax)),
        "completions": (
            (6, 4),
            lambda ax: strudel.plot_images(completions(model, digits), (8, 8), ax=ax, n_columns=6),
        ),
    }
    for name, (inches, plot) in pictures.items():
        with style.context("dark_background" if name.endswith("dark") else "default"):
            figure = Figure(figsize=inches, layout="constrained")
            plot(figure.add_subplot())
            path = save_figure(figure, folder / f"{name}.png", dpi=DPI)
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")


def measure() -> None:
    """Seconds from a model in memory to a png, the best of three."""
    digits = strudel.load_dataset("digits")
    deep = strudel.Strudel(validation_fraction=None, max_edges=100_000, random_state=0)
    deep.fit(digits.train)
    rng = np.random.default_rng(0)
    copies = np.cumsum(rng.random((500, 1000)) < 0.1, axis=1) % 2
    wide = strudel.Strudel(validation_fraction=None, max_edges=100_000, random_state=0)
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, help="draw into this folder instead of measuring")
    folder = parser.parse_args().images
    if folder is None:
        measure()
    else:
        draw_all(folder)
