"""Market baskets: what else goes into this basket, and which rules hold in the shop?

The baskets are made here, from five occasions on which people shop. The model sees only which
products lie together, and is asked for the most probable further product, for the probability of
rules, and for how many sweets a basket holds. Rules need PySDD: pip install 'strudel-pc[logic]'.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from strudel import Strudel, probability
from strudel.logic import parse_event

OCCASIONS = {
    "breakfast": ["bread", "butter", "jam", "milk", "coffee"],
    "pasta": ["pasta", "tomatoes", "cheese", "basil", "wine"],
    "baking": ["flour", "eggs", "butter", "sugar", "milk"],
    "party": ["crisps", "beer", "wine", "chocolate", "ice cream"],
    "salad": ["lettuce", "tomatoes", "cucumber", "cheese", "bread"],
}
PRODUCTS = sorted({product for products in OCCASIONS.values() for product in products})


def make_baskets(n_baskets: int, seed: int) -> pd.DataFrame:
    """Mostly what one or two occasions need, sometimes anything."""
    rng = np.random.default_rng(seed)
    needs = np.array([[p in products for p in PRODUCTS] for products in OCCASIONS.values()])
    first, second = rng.integers(len(needs), size=(2, n_baskets))
    needed = needs[first] | (needs[second] & (rng.random((n_baskets, 1)) < 0.3))
    bought = rng.random(needed.shape) < np.where(needed, 0.65, 0.04)
    return pd.DataFrame(bought.astype(int), columns=PRODUCTS)


def main(picture: Path | None = None, n_baskets: int = 3000, n_components: int = 8) -> None:
    """Learn from baskets, recommend, check rules, and draw what a basket says of every product."""
    baskets, unseen = make_baskets(n_baskets, seed=0), make_baskets(2000, seed=1)
    model = Strudel(n_components=n_components, max_splits=0, random_state=0).fit(baskets)

    # Evidence is what is in the basket; the products not named are unknown, not absent.
    basket = {"flour": 1, "eggs": 1}
    chances = pd.Series(model.marginal_probabilities(basket), PRODUCTS).drop(list(basket))
    best = chances.sort_values(ascending=False)
    print(f"A basket holds {' and '.join(basket)}. Next:")
    for product, chance in best.head(3).items():
        print(f"  {product:10} {chance:.2f}")

    print("Rules, and the share of unseen baskets for which they hold:")
    for rule in ("pasta >> tomatoes", "beer >> (crisps | wine)", "bread & butter & ~jam"):
        print(f"  {rule:24} {probability(model, rule):.2f} {share(unseen, rule):.2f}")
    print(f"P(tomatoes | pasta) is {probability(model, 'tomatoes', given={'pasta': 1}):.2f}.")

    sweets = ["chocolate", "ice cream", "jam", "sugar"]
    counts = model.count_distribution(sweets)
    print("How many of four sweets:", " ".join(f"{j}: {p:.2f}" for j, p in enumerate(counts)))

    found, popular = hidden_found(model, baskets, unseen.head(300))
    print("One product of every basket is hidden. It is among the three that are")
    print(f"  most probable given the others  {found:.0%}")
    print(f"  bought most often               {popular:.0%}")

    if picture:
        before = pd.Series(model.marginal_probabilities(), PRODUCTS)[best.index]
        ax = pd.DataFrame({"any basket": before, "with flour and eggs": best}).plot.barh(
            color=["#c9ced6", "#d9480f"], width=0.8, figsize=(6, 5.5)
        )
        ax.set(xlabel="probability")
        ax.invert_yaxis()
        ax.spines[["top", "right"]].set_visible(False)
        ax.figure.savefig(picture, dpi=150, bbox_inches="tight")
        plt.close(ax.figure)


def share(baskets: pd.DataFrame, rule: str) -> float:
    """How often a rule holds in a table."""
    return float(parse_event(rule).holds(baskets).mean())


def hidden_found(model: Strudel, baskets: pd.DataFrame, unseen: pd.DataFrame) -> tuple:
    """Take one product out of every basket. Is it among the three that are recommended?"""
    rng = np.random.default_rng(0)
    rows = unseen[unseen.sum(axis=1) > 1].to_numpy()
    hidden = np.array([rng.choice(np.flatnonzero(row)) for row in rows])
    left = rows.copy()
    left[np.arange(len(rows)), hidden] = 0
    given = np.where(left == 1, 1.0, np.nan)
    guesses = model.marginal_probabilities(given), np.tile(baskets.mean(), (len(rows), 1))
    shares = []
    for chances in guesses:
        best = np.argsort(np.where(left == 1, 0, chances), axis=1)[:, -3:]  # not what is there
        shares.append((best == hidden[:, np.newaxis]).any(axis=1).mean())
    return tuple(shares)


if __name__ == "__main__":
    main(picture=Path("market_baskets.png"))
    print("The picture is in market_baskets.png.")
