"""Pictures look as they did when someone last looked at them.

The images in `images/` were drawn by the matplotlib that they name, at a low resolution; with
another version the comparison is skipped. Drawn anew, to be looked at before they are committed, by

    STRUDEL_DRAW_IMAGES=1 pytest tests/plotting/test_images.py
"""

import os
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.testing.compare import compare_images
from PIL import Image

from strudel.circuits.compile import compile_factorized, figure_1_circuit
from strudel.plotting.canvas import save_figure
from strudel.plotting.circuits import plot_circuit
from strudel.plotting.marginals import plot_marginals
from strudel.plotting.trees import plot_chow_liu_tree
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import random_vtree

pytestmark = pytest.mark.compiled  # drawing takes the time, and is the same without
FOLDER = Path(__file__).parent / "images"
TOLERANCE = 4.0  # root of the mean squared difference, of 255; other fonts give 1 or 2


def spread_tree(n_vars):
    """Every variable has two or three children, with links of all strengths."""
    parent = np.maximum((np.arange(n_vars, dtype=np.int32) - 1) * 2 // 5, 0)
    parent[0] = -1
    strength = 0.05 + 0.4 * (np.arange(n_vars) % 7) / 6
    theta = np.stack([0.5 - strength, 0.5 + strength], axis=1)
    theta[0] = 0.5
    return ChowLiuTree(parent, theta)


def large_circuit():
    return compile_factorized(random_vtree(300, rng=np.random.default_rng(0)))


PICTURES = {
    "circuit": ("default", lambda ax: plot_circuit(figure_1_circuit(), [1, 0, 1, 0], ax=ax)),
    "circuit_dark": (
        "dark_background",
        lambda ax: plot_circuit(figure_1_circuit(), [1, 0, 1, 0], ax=ax),
    ),
    "map": ("default", lambda ax: plot_circuit(large_circuit(), ax=ax)),
    "chow_liu_tree": ("default", lambda ax: plot_chow_liu_tree(spread_tree(120), ax=ax)),
    "marginals_dark": (
        "dark_background",
        lambda ax: plot_marginals(figure_1_circuit(), {"X3": 1}, ax=ax),
    ),
}


def draw(name, path):
    look, plot = PICTURES[name]
    with style.context(look):
        figure = Figure(figsize=(6, 4), layout="constrained")
        plot(figure.add_subplot())
        return save_figure(figure, path, dpi=50)


@pytest.mark.parametrize("name", PICTURES)
def test_picture_looks_as_it_did(name, tmp_path):
    expected = FOLDER / f"{name}.png"
    if os.environ.get("STRUDEL_DRAW_IMAGES") == "1":
        FOLDER.mkdir(exist_ok=True)
        draw(name, expected)
    with Image.open(expected) as image:
        drawn_by = image.text["Software"].split(",")[0].removeprefix("Matplotlib version")
    if drawn_by.split(".")[:2] != matplotlib.__version__.split(".")[:2]:
        pytest.skip(f"drawn by matplotlib {drawn_by}, this is {matplotlib.__version__}")
    found = draw(name, tmp_path / expected.name)
    assert compare_images(expected, found, tol=TOLERANCE) is None


def test_images_are_small():
    assert all(path.stat().st_size < 30_000 for path in FOLDER.iterdir())
