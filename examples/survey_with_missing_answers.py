"""A survey with missing answers: what do the people think who did not answer?

The survey is made here: age, region, education, hours of news a week, and whether somebody trusts
the press. A quarter of the answers is missing, and older people skip the question on trust more
often, so the mean of those who answered is off. The model learns from the gaps as they are.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from strudel import Strudel
from strudel.tables import TableEncoder

EDUCATION = ["school", "college", "university"]


def make_survey(n_people: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What people think, and what they answered."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n_people)
    education = np.clip(
        rng.integers(0, 3, n_people) - (age > 65) * rng.integers(0, 2, n_people), 0, 2
    )
    news = np.round(rng.gamma(2.0, 1 + age / 40 + education))
    log_odds = 1.2 * education + 0.15 * news - 0.06 * (age - 40) - 1.0
    trust = rng.random(n_people) < 1 / (1 + np.exp(-log_odds))
    truth = pd.DataFrame(
        {
            "age": age,
            "region": rng.choice(["north", "south", "east", "west"], n_people),
            "education": np.array(EDUCATION)[education],
            "news hours": news,
            "trusts the press": np.where(trust, "yes", "no"),
        }
    )
    answers = truth.mask(rng.random(truth.shape) < 0.2)
    answers["age"] = truth["age"]  # everybody gave their age
    silent = rng.random(n_people) < (age - 18) / 90
    answers.loc[silent, "trusts the press"] = None
    return truth, answers


def main(picture: Path | None = None, n_people: int = 3000) -> None:
    """Learn from the gaps, correct a mean, ask in columns, fill in gaps, and draw trust by age."""
    truth, answers = make_survey(n_people, seed=0)
    print(f"{answers.isna().to_numpy().mean():.0%} of the answers are missing.")
    edges = {"age": [30, 40, 50, 60, 70, 80], "news hours": [2, 4, 6, 10, 15]}
    encoder = TableEncoder(kinds={"education": EDUCATION}, edges=edges)
    model = Strudel(n_components=1, columns=encoder, random_state=0).fit(answers)

    # Everybody counts, with what is known of them: the mean of the answers is corrected.
    everybody = model.marginal_probabilities(answers)["trusts the press"]["yes"]
    answered = answers["trusts the press"].dropna()
    print("Who trusts the press?")
    print(f"  of those who answered  {np.mean(answered == 'yes'):.3f}")
    print(f"  of all, by the model   {np.mean(everybody):.3f}")
    print(f"  of all, in truth       {np.mean(truth['trusts the press'] == 'yes'):.3f}")

    # Questions are asked in the survey's own columns; beside the answer, the truth.
    groups = {
        "under 30": ({"age": (None, 30)}, truth["age"] < 30),
        "70 or older": ({"age": (70, None)}, truth["age"] >= 70),
        "university": ({"education": "university"}, truth["education"] == "university"),
    }
    for name, (given, group) in groups.items():
        chance = model.marginal_probabilities(given)["trusts the press"]["yes"]
        share = np.mean(truth["trusts the press"][group] == "yes")
        print(f"  {name:22} {chance:.3f} (in truth {share:.3f})")

    # Somebody left most of it blank. The most probable whole answer:
    someone = answers.isna().sum(axis=1).idxmax()
    filled, _ = model.most_probable_state(answers.loc[[someone]])
    print("The person with most gaps, and the most probable answers:")
    print(pd.concat([answers.loc[[someone]], filled]).to_string(index=False))

    if picture:
        draw(picture, truth, answers, everybody)


def draw(picture: Path, truth: pd.DataFrame, answers: pd.DataFrame, everybody: np.ndarray) -> None:
    """Trust by age: in truth, by the model, and who answered at all."""
    decade = truth["age"] // 10 * 10 + 5
    lines = {
        "trust, in truth": truth["trusts the press"] == "yes",
        "trust, by the model": pd.Series(everybody),
        "answered the question": answers["trusts the press"].notna(),
    }
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for (label, values), style in zip(lines.items(), ("k--", "-", ":"), strict=True):
        values.groupby(decade).mean().plot(ax=ax, style=style, label=label)
    ax.set(xlabel="age", ylabel="share", ylim=(0, 1))
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(picture=Path("survey_with_missing_answers.png"))
    print("The picture is in survey_with_missing_answers.png.")
