"""Draw the pictures of the README and of pages in docs/, for light and for dark pages.

    python scripts/make_figures.py            writes docs/images/NAME-light.svg and NAME-dark.svg

They are drawn from the table that ships with the package, from four rows that can be checked by
hand, and by the code of the pages themselves. The numbers in them are those of the model.
"""

import contextlib
import doctest
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strudel import Strudel, plot_circuit
from strudel.tables import TableEncoder, example_csv

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
ORANGE, BLUE = "#e4572e", "#4c8dc9"
INK = {"light": "#24292f", "dark": "#e6e6e6"}
STYLE = {"light": "default", "dark": "dark_background"}
CLEAR = {"figure.facecolor": "none", "axes.facecolor": "none"}  # so that no box hides the page
COLUMNS = ["smoker", "cough", "temperature", "chest_pain"]  # of the overview, and the diagnosis
FOUR_ROWS = pd.DataFrame(
    [[1, 1, 1], [0, 1, 0], [0, 0, 0], [0, 0, 1]], columns=["influenza", "cough", "fever"]
)


def overview(ink: str) -> Figure:
    """A table, its tree, its circuit and an answer, of five columns of the table that ships."""
    table = pd.read_csv(example_csv())[[*COLUMNS, "diagnosis"]]
    encoder = TableEncoder(edges={"temperature": [38]})
    model = Strudel(n_components=1, columns=encoder, max_splits=0, random_state=0).fit(table)
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.3), width_ratios=[3.9, 2.7, 4.3, 2.9])
    titles = ("1  a table", "2  which columns depend", "3  a circuit", "4  an answer")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, loc="left", color=ink, fontsize=12, fontweight="bold")
    _draw_table(axes[0], table, ink)
    _draw_tree(axes[1], model, ink)
    _draw_circuit(axes[2], model, ink)
    _draw_answer(axes[3], model, ink)
    figure.tight_layout(w_pad=1.5)
    return figure


def _draw_table(ax: Axes, table: pd.DataFrame, ink: str) -> None:
    rows = table.iloc[[2, 5, 9, 30, 60, 90, 120]]
    names = ["smoker", "cough", "temp.", "pain", "diagnosis"]
    places = [0.0, 0.22, 0.41, 0.59, 0.74]
    for place, name in zip(places, names, strict=True):
        ax.text(place, 0.96, name, color=ink, fontweight="bold", fontsize=9)
    ax.plot([0, 1.02], [0.925, 0.925], color=ink, linewidth=0.8)
    for line, row in enumerate(rows.itertuples(index=False)):
        for place, value in zip(places, row, strict=True):
            is_gap = pd.isna(value)
            color = ORANGE if is_gap else ink
            ax.text(place, 0.83 - 0.11 * line, "?" if is_gap else str(value), color=color)
    ax.text(0, 0.02, f"... {len(table):,} rows, some cells unknown", color=ink, style="italic")
    ax.set(xlim=(0, 1.05), ylim=(0, 1.05))
    ax.axis("off")


def _draw_tree(ax: Axes, model: Strudel, ink: str) -> None:
    """Every column hangs on the one that says most about it: here all on the diagnosis."""
    others = {
        name: max(
            (model.mutual_information(name, other), other)
            for other in [*COLUMNS, "diagnosis"]
            if other != name
        )
        for name in COLUMNS
    }
    assert {other for _, other in others.values()} == {"diagnosis"}
    places = {"smoker": (0.2, 0.88), "cough": (0.8, 0.74), "temperature": (0.24, 0.14)}
    places |= {"chest_pain": (0.78, 0.24), "diagnosis": (0.5, 0.5)}
    for name, (information, other) in others.items():
        (x, y), (to_x, to_y) = places[name], places[other]
        ax.plot([x, to_x], [y, to_y], color=BLUE, linewidth=1 + 12 * information, zorder=1)
    for name, (x, y) in places.items():
        is_centre = name == "diagnosis"
        box = {"boxstyle": "round,pad=0.35", "edgecolor": ORANGE if is_centre else BLUE}
        text = ax.text(x, y, name.replace("_", " "), ha="center", va="center", color=ink, zorder=2)
        text.set_bbox({**box, "facecolor": "#ffffff" if ink == INK["light"] else "#1e1e1e"})
    ax.set(xlim=(-0.02, 1.02), ylim=(0, 1))
    ax.axis("off")


def _draw_circuit(ax: Axes, model: Strudel, ink: str) -> None:
    """One sum over the diagnosis, a product for each, and in it a sum for every other column."""
    diagnoses = model.marginal_probabilities()["diagnosis"]
    paper = "#ffffff" if ink == INK["light"] else "#1e1e1e"
    heights = np.linspace(0.93, 0.12, len(diagnoses))
    for height, (diagnosis, share) in zip(heights, diagnoses.items(), strict=True):
        ax.plot([0.05, 0.3], [0.5, height], color=BLUE, linewidth=0.8 + 5 * share, zorder=1)
        given = model.marginal_probabilities({"diagnosis": diagnosis})
        for place, name in enumerate(COLUMNS):
            x, is_true = 0.45 + 0.11 * place, list(given[name].values())[1]
            bend = height + 0.034 * (1.5 - place)
            ax.plot([0.3, x], [height, bend], color=ink, linewidth=0.4, zorder=1)
            ax.scatter(x, bend, s=85, color=ORANGE, alpha=is_true, zorder=3, linewidths=0)
            ax.scatter(x, bend, s=85, facecolor=paper, edgecolor=ink, zorder=2, linewidths=0.8)
        ax.scatter(0.3, height, s=170, facecolor=paper, edgecolor=ink, zorder=3)
        ax.text(0.3, height, "\u00d7", ha="center", va="center_baseline", color=ink, zorder=4)
        ax.text(0.85, height - 0.02, diagnosis, va="center", color=ink, fontsize=9)
    ax.scatter(0.05, 0.5, s=260, facecolor=paper, edgecolor=ink, zorder=3)
    ax.text(0.05, 0.5, "+", ha="center", va="center_baseline", color=ink, zorder=4, fontsize=13)
    for place, name in enumerate(COLUMNS):
        short = {"temperature": "temp.", "chest_pain": "pain"}.get(name, name)
        ax.text(
            0.46 + 0.11 * place, 0, short, rotation=35, ha="right", va="top", color=ink, fontsize=8
        )
    ax.set(xlim=(-0.02, 1.12), ylim=(-0.12, 1.02))
    ax.axis("off")


def _draw_answer(ax: Axes, model: Strudel, ink: str) -> None:
    given = {"cough": "yes", "temperature": (None, 38)}
    found = model.marginal_probabilities(given)["diagnosis"]
    names = sorted(found, key=found.__getitem__)
    bars = ax.barh(names, [found[name] for name in names], color=BLUE)
    bars[-1].set_color(ORANGE)
    for place, name in enumerate(names):
        ax.text(found[name] + 0.02, place, f"{found[name]:.0%}", va="center", color=ink)
    ax.set_xlim(0, 1.05)
    ax.set_xlabel("cough, below 38 °C: what is it?", color=ink)
    ax.tick_params(colors=ink, length=0)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)


def four_rows(ink: str) -> Figure:
    """The four rows of docs/how-it-works.md, the counts of every pair, and the tree."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 2.9), width_ratios=[3, 4.2, 3])
    for ax, title in zip((left, middle, right), ("table", "counts", "tree"), strict=True):
        ax.set_title(title, loc="left", color=ink, fontweight="bold")
        ax.axis("off")
    names = list(FOUR_ROWS)
    left.set(xlim=(-0.2, 2.6), ylim=(-0.5, 4.6))
    for place, name in enumerate(names):
        left.text(place, 4.1, name, ha="center", color=ink, fontsize=9)
        for line, value in enumerate(FOUR_ROWS[name]):
            color = ORANGE if value else ink
            left.text(place, 3.1 - line, str(value), ha="center", color=color, fontsize=11)
    left.plot([-0.4, 2.5], [3.85, 3.85], color=ink, linewidth=0.8)
    middle.set(xlim=(-0.3, 3.2), ylim=(-1, 2.6))
    pairs = [("influenza", "cough"), ("influenza", "fever"), ("cough", "fever")]
    for place, (first, second) in enumerate(pairs):
        counts = pd.crosstab(FOUR_ROWS[first], FOUR_ROWS[second]).to_numpy()
        for a in (0, 1):
            for b in (0, 1):
                x, y = place * 1.15 + 0.38 * b, 1 - 0.75 * a
                shade = plt.Rectangle((x - 0.17, y - 0.3), 0.34, 0.6, color=BLUE)
                shade.set_alpha(0.12 + 0.35 * counts[a, b])
                middle.add_patch(shade)
                middle.text(x, y, str(counts[a, b]), ha="center", va="center", color=ink)
        middle.text(
            place * 1.15 + 0.19, 1.85, f"{second} \u2192", ha="center", color=ink, fontsize=8
        )
        middle.text(
            place * 1.15 + 0.19, 2.25, f"{first} \u2193", ha="center", color=ink, fontsize=8
        )
        for value in (0, 1):
            small = {"ha": "center", "va": "center", "color": ink, "fontsize": 7}
            middle.text(place * 1.15 + 0.38 * value, 1.5, str(value), **small)
            middle.text(place * 1.15 - 0.25, 1 - 0.75 * value, str(value), **small)
        information = f"{mutual_information(counts):.2f} nats"
        middle.text(place * 1.15 + 0.19, -0.7, information, ha="center", color=ink, fontsize=9)
    right.set(xlim=(0, 1), ylim=(0, 1))
    places = {"influenza": (0.5, 0.75), "cough": (0.22, 0.2), "fever": (0.78, 0.2)}
    for name in ("cough", "fever"):
        right.plot(*zip(places["influenza"], places[name], strict=True), color=BLUE, zorder=1)
    paper = "#ffffff" if ink == INK["light"] else "#1e1e1e"
    for name, (x, y) in places.items():
        text = right.text(x, y, name, ha="center", va="center", color=ink)
        text.set_bbox({"boxstyle": "round,pad=0.4", "facecolor": paper, "edgecolor": BLUE})
    figure.tight_layout()
    return figure


def mutual_information(counts: np.ndarray) -> float:
    """Of two columns, from their counts, in nats."""
    p = counts / counts.sum()
    independent = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
    seen = p > 0
    return float((p[seen] * np.log(p[seen] / independent[seen])).sum())


def first_circuit(ink: str) -> Figure:
    """The circuit of the tree; what the second row takes is red."""
    return _circuit(0)


def circuit_after_splits(ink: str) -> Figure:
    """The same after two splits."""
    return _circuit(2)


def _circuit(n_splits: int) -> Figure:
    model = Strudel(n_components=1, pseudocount=0, max_splits=n_splits, random_state=0)
    model.fit(FOUR_ROWS, X_valid=FOUR_ROWS)
    figure, ax = plt.subplots(figsize=(7.5, 3.6))
    plot_circuit(model, ax=ax, row=FOUR_ROWS.iloc[1])
    return figure


def cough_in_winter(ink: str) -> Figure:
    """An answer of the tutorial, drawn by its own code."""
    return _from_page("tutorial.md", "cough-in-winter.png")


def _from_page(page: str, picture: str) -> Figure:
    """The figure that the blocks of a page save under this name."""
    text = (FOLDER.parent / page).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL))
    names: dict[str, object] = {}
    for example in doctest.DocTestParser().get_examples(code):
        if f'savefig("{picture}"' in example.source:
            return plt.gcf()
        with contextlib.redirect_stdout(io.StringIO()):
            exec(example.source, names)
    raise ValueError(f"{page} saves no picture {picture!r}.")


def answer(ink: str) -> Figure:
    """How the first circuit answers: who coughs, has influenza with probability one half."""
    share = {1: FOUR_ROWS["influenza"].mean(), 0: 1 - FOUR_ROWS["influenza"].mean()}
    cough = FOUR_ROWS.groupby("influenza")["cough"].mean()
    total = sum(share[value] * cough[value] for value in (0, 1))
    figure, ax = plt.subplots(figsize=(8.6, 3.4))
    for value, height in ((1, 0.78), (0, 0.22)):
        name = "influenza" if value else "no influenza"
        _link(ax, (0.9, 0.5), (0.62, height), ink, f"{share[value]:.2f}")
        for place, (column, known) in enumerate({"cough": cough[value], "fever": 1.0}.items()):
            y = height + 0.13 - 0.26 * place
            text = (
                f"P({column} | {name}) = {known:.2f}"
                if column == "cough"
                else "fever: unknown, so 1"
            )
            _link(ax, (0.62, height), (0.42, y), ink)
            _node(ax, (0.42, y), "+", known, ink)
            ax.text(0.37, y, text, ha="right", va="center", color=ink, fontsize=9)
        _node(ax, (0.62, height), "\u00d7", cough[value], ink)
        ax.text(0.62, height + 0.13, name, ha="center", color=ink, fontsize=9)
    _node(ax, (0.9, 0.5), "+", total, ink)
    ax.text(0.9, 0.3, f"P(cough) = {total:.2f}", ha="center", color=ink, fontsize=9)
    ratio = f"{share[1] * cough[1]:.2f} / {total:.2f} = {share[1] * cough[1] / total:.2f}"
    text = f"P(influenza | cough)\n= {ratio}"
    ax.text(0.9, 0.8, text, ha="center", color=ORANGE, fontsize=10, fontweight="bold")
    ax.set(xlim=(0, 1.02), ylim=(0, 1.05))
    ax.axis("off")
    return figure


def _node(ax: Axes, place: tuple[float, float], sign: str, value: float, ink: str) -> None:
    """A sum or a product, with its value below it."""
    paper = "#ffffff" if ink == INK["light"] else "#1e1e1e"
    ax.scatter(*place, s=260, facecolor=paper, edgecolor=ink, zorder=2)
    ax.text(*place, sign, ha="center", va="center_baseline", color=ink, zorder=3)
    ax.text(place[0], place[1] - 0.115, f"{value:.2f}", ha="center", color=ORANGE, fontsize=9)


def _link(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], ink: str, weight: str = ""
) -> None:
    ax.plot(*zip(start, end, strict=True), color=BLUE, linewidth=1.2, zorder=1)
    if weight:
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        ax.text(x, y + 0.05 * (1 if y > 0.5 else -1.9), weight, ha="center", color=ink, fontsize=9)


FIGURES: dict[str, Callable[[str], Figure]] = {
    "overview": overview,
    "cough-in-winter": cough_in_winter,
    "four-rows": four_rows,
    "first-circuit": first_circuit,
    "circuit-after-splits": circuit_after_splits,
    "answer": answer,
}


def write(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for theme, ink in INK.items():
            # The salt makes it the same file whenever it is drawn.
            with plt.style.context([STYLE[theme], CLEAR, {"svg.hashsalt": "strudel"}]):
                figure = FIGURES[name](ink)
                path = folder / f"{name}-{theme}.svg"
                options = {"transparent": True, "bbox_inches": "tight", "pad_inches": 0.05}
                figure.savefig(path, metadata={"Date": None}, **options)
                plt.close(figure)


if __name__ == "__main__":
    mpl.use("Agg")
    write(FOLDER, sys.argv[1:] or list(FIGURES))
