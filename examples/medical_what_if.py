"""What if on a medical table: how would a forecast change, and what if little is known?

Scikit-learn comes with measurements of 569 tumours. One model of the table, the diagnosis included,
answers from the other side too: what would the diagnosis be, were the radius smaller? And a
forest, trained on complete rows, can be asked about patients of whom little was measured.
"""

from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from strudel import Strudel, expected_prediction
from strudel.tables import TableEncoder

COLUMNS = ["mean radius", "mean texture", "mean smoothness", "mean concavity", "worst area"]


def main(picture: Path | None = None, n_trees: int = 30) -> None:
    """Learn one model of patients, vary one measurement, and hide what a forest wants to know."""
    data = load_breast_cancer(as_frame=True)
    table = data.data[COLUMNS].copy()
    table["diagnosis"] = np.where(data.target == 1, "benign", "malignant")
    train, test = train_test_split(table, test_size=0.3, random_state=0)
    radii = [11, 13, 15, 18]
    encoder = TableEncoder(n_bins=6, edges={"mean radius": radii})
    model = Strudel(n_components=1, columns=encoder, random_state=0).fit(train)

    # One measurement is changed, the others are kept; or nothing else is known.
    patient = test[test["diagnosis"] == "malignant"].iloc[0]
    others = {name: float(patient[name]) for name in ("mean texture", "mean smoothness")}
    print("How likely is a tumour malignant?")
    print("  mean radius      alone   with texture and smoothness of one patient")
    curve = {}
    for low, high in pairwise([None, *radii, None]):
        radius = {"mean radius": (low, high)}
        alone, known = (malignant(model, radius | more) for more in ({}, others))
        label = (
            f"under {high}"
            if low is None
            else f"from {low}"
            if high is None
            else f"{low} to {high}"
        )
        curve[label] = alone, known
        print(f"  {label:8} {alone:13.2f} {known:7.2f}")

    # A forest wants every measurement. With a model it may be asked without, exactly: for its mean
    # over what is unknown, instead of its answer to a made-up patient.
    encoder = TableEncoder(n_bins=6).fit(train[COLUMNS])
    density = Strudel(n_components=1, random_state=0).fit(encoder.transform(train[COLUMNS]))
    forest = RandomForestClassifier(n_trees, max_depth=4, random_state=0)
    forest.fit(encoder.transform(train[COLUMNS]), train["diagnosis"])
    rng = np.random.default_rng(0)
    gaps = test[COLUMNS].mask(rng.random((len(test), len(COLUMNS))) < 0.6)
    median = gaps.fillna(train[COLUMNS].median())
    classes = {name: place for place, name in enumerate(forest.classes_)}
    truth = test["diagnosis"].map(classes).to_numpy()
    asked = {
        "complete rows": forest.predict_proba(encoder.transform(test[COLUMNS])),
        "60 % hidden, medians": forest.predict_proba(encoder.transform(median)),
        "60 % hidden, expected": expected_prediction(density, forest, encoder.transform(gaps)),
    }
    print("The forest on unseen patients:  right   log-loss")
    for name, chances in asked.items():
        right = np.mean(chances.argmax(axis=1) == truth)
        loss = -np.mean(np.log(np.clip(chances[np.arange(len(truth)), truth], 1e-3, 1)))
        print(f"  {name:28} {right:6.2f} {loss:10.2f}")

    if picture:
        draw(picture, curve)


def malignant(model: Strudel, given: dict[str, object]) -> float:
    """How likely a tumour is malignant, given some measurements."""
    return float(model.marginal_probabilities(given)["diagnosis"]["malignant"])


def draw(picture: Path, curve: dict[str, tuple[float, float]]) -> None:
    """The probability of a malignant tumour against its radius."""
    lines = pd.DataFrame(curve, index=["radius alone", "with texture and smoothness"])
    ax = lines.T.plot(style="o-", figsize=(6, 4), color=["#868e96", "#d9480f"])
    ax.set(xlabel="mean radius", ylabel="P(malignant)", ylim=(0, 1))
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.figure.savefig(picture, dpi=150, bbox_inches="tight")
    plt.close(ax.figure)


if __name__ == "__main__":
    main(picture=Path("medical_what_if.png"))
    print("The picture is in medical_what_if.png.")
