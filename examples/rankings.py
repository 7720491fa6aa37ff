"""Rankings under a constraint: what do guests like, if every answer is a ranking?

Guests rank five sorts of ice cream. Written as 0s and 1s, "vanilla is first" and so on, only 120 of
33,554,432 rows are rankings. The constraint says so, and the model answers with nothing else.
PySDD compiles it: `pip install 'strudel-pc[logic]'`.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from strudel import Strudel, probability, variables
from strudel.logic import exactly

ITEMS = ["vanilla", "chocolate", "lemon", "mango", "pistachio"]
PLACES = range(1, len(ITEMS) + 1)
NAMES = [f"{item}_{place}" for item in ITEMS for place in PLACES]


def make_rankings(n_guests: int, seed: int) -> pd.DataFrame:
    """Some guests like creamy sorts, some like fruit, and nobody is quite sure."""
    rng = np.random.default_rng(seed)
    liking = np.array([[2.0, 3.0, 0.0, 0.5, 1.5], [0.5, 0.0, 3.0, 2.5, 1.0]])
    score = liking[rng.integers(2, size=n_guests)] + rng.gumbel(size=(n_guests, len(ITEMS)))
    place = (-score).argsort(axis=1).argsort(axis=1) + 1
    table = place[:, :, np.newaxis] == np.array(PLACES)
    return pd.DataFrame(table.reshape(n_guests, -1).astype(int), columns=NAMES)


def main(picture: Path | None = None, n_guests: int = 400) -> None:
    """Learn with and without the rule, compare, ask, and draw who stands where."""
    guests, unseen = make_rankings(n_guests, seed=0), make_rankings(1000, seed=1)

    # Every item has one place, and every place one item.
    x = variables(NAMES)
    table = [[x[f"{item}_{place}"] for place in PLACES] for item in ITEMS]
    rule = exactly(1, table[0])
    for group in [*table[1:], *zip(*table, strict=True)]:
        rule = rule & exactly(1, group)

    ruled = Strudel(n_components=1, constraint=rule, random_state=0).fit(guests)
    free = Strudel(n_components=1, random_state=0).fit(guests)
    print("                    with the rule   without")
    print(f"a row is a ranking  {probability(ruled, rule):13.2f} {probability(free, rule):9.2f}")
    print(f"log-likelihood      {ruled.score(unseen):13.2f} {free.score(unseen):9.2f}")
    print(f"edges               {ruled.circuit_.size:13} {free.circuit_.size:9}")

    state, log_p = ruled.most_probable_state()
    print(f"Most probable: {written(state)} ({np.exp(log_p):.3f}; by chance {1 / 120:.3f})")

    # A guest who puts lemon first: what comes second, and what if mango is last on top of that?
    for given in ({"lemon_1": 1}, {"lemon_1": 1, "mango_5": 1}):
        second = ruled.marginal_probabilities(given).reshape(len(ITEMS), -1)[:, 1]
        chances = ", ".join(f"{item} {p:.2f}" for item, p in zip(ITEMS, second, strict=True) if p)
        print(f"Given {' and '.join(given)}, second: {chances}")

    if picture:
        standing = ruled.marginal_probabilities().reshape(len(ITEMS), -1)
        figure, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
        image = ax.imshow(standing, cmap="Oranges", vmin=0)
        ax.set(xticks=range(5), xticklabels=PLACES, yticks=range(5), yticklabels=ITEMS)
        ax.set(xlabel="place")
        figure.colorbar(image, label="probability")
        figure.savefig(picture, dpi=150)
        plt.close(figure)


def written(state: np.ndarray) -> str:
    """A row of 25 values as the ranking it stands for."""
    place = state.reshape(len(ITEMS), -1).argmax(axis=1)
    return " > ".join(ITEMS[i] for i in np.argsort(place))


if __name__ == "__main__":
    main(picture=Path("rankings.png"))
    print("The picture is in rankings.png.")
