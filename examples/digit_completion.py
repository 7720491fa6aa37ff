"""Digit completion: what does the lower half of a digit look like, if we see only its upper half?

A model of 8 x 8 images of digits (they come with scikit-learn) knows nothing of halves: it learns a
distribution over whole images. Any pixels can then be given, and any asked for.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from strudel import Strudel, load_dataset

SIDE = 8


def main(picture: Path | None = None, max_splits: int = 300) -> None:
    """Learn, complete the unseen digits, say how well, and draw six of them."""
    data = load_dataset("digits")
    model = Strudel(n_components=1, max_splits=max_splits, random_state=0).fit(
        data.train, X_valid=data.valid
    )

    # Unknown pixels are NaN; everything below the middle is unknown.
    hidden = np.arange(SIDE * SIDE) >= SIDE * SIDE // 2
    seen = data.test.astype(float)
    seen[:, hidden] = np.nan

    # Three guesses of the hidden pixels: without the upper half, one by one, and all together.
    truth = data.test[:, hidden]
    usual = (data.train.mean(axis=0) > 0.5)[hidden]
    black = model.marginal_probabilities(seen)[:, hidden]
    together, _ = model.most_probable_state(seen)
    drawn = model.sample(3, given=seen, random_state=0)

    print(f"{len(data.test)} unseen digits, upper half given. Of the pixels of the lower half,")
    print(f"  {np.mean(truth == usual):.0%} are what they are in most digits")
    print(f"  {np.mean(truth == (black > 0.5)):.0%} are right, each by its own probability")
    print(f"  {np.mean(truth == together[:, hidden]):.0%} are right in the most probable whole")

    # How sure can one be? An honest 80 % is right four times out of five.
    print("Where the model says between 70 % and 90 % black:")
    unsure = (black > 0.7) & (black < 0.9)
    print(f"  {truth[unsure].mean():.0%} are black, and it said {black[unsure].mean():.0%}")

    if picture:
        draw(picture, [seen, together, *drawn.swapaxes(0, 1), data.test])


def draw(picture: Path, images: list[np.ndarray]) -> None:
    """One line per digit, one column per kind of image; unknown pixels are tinted."""
    labels = ["seen", "most probable", "sampled", "sampled", "sampled", "truth"]
    digits = (0, 29, 11, 28, 9, 27)
    colours = plt.get_cmap("Greys").with_extremes(bad="#f4d9a8")
    figure, axes = plt.subplots(len(digits), len(labels), figsize=(6, 6), layout="constrained")
    for line, digit in zip(axes, digits, strict=True):
        for ax, rows in zip(line, images, strict=True):
            ax.imshow(rows[digit].reshape(SIDE, SIDE), cmap=colours, vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
    for ax, label in zip(axes[0], labels, strict=True):
        ax.set_title(label, fontsize=9)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(picture=Path("digit_completion.png"))
    print("The picture is in digit_completion.png.")
