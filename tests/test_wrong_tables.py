"""Tables that cannot be learned from or asked about: one sentence, exit code 2, nothing written."""

import numpy as np
import pandas as pd
import pytest

from strudel import Strudel, StrudelClassifier, StrudelImputer, StrudelRegressor

ASKED = ("score", "predict", "impute", "sample", "query")


def survey():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, 120),
            "smoker": rng.choice(["no", "yes"], 120),
            "income": rng.lognormal(10.0, 1.0, 120).round(),
            "town": rng.choice(["Rome", "Bath", "Ulm"], 120),
        }
    )


GOOD = survey()
FEW = GOOD[:30]
LOANS = pd.DataFrame({"debt": [1.5, 2.5], "decision": ["yes", "no"], "town": ["Rome", "Oslo"]})
EMPTY = FEW.astype(object).mask(FEW.notna(), None)
# What is wrong with a table, the doors that refuse it, and words of the sentence.
REFUSED = {
    "no rows": (FEW[:0], ("fit", *ASKED), "row"),
    "a name twice": (pd.concat([FEW, FEW[["age"]]], axis=1), ("fit", *ASKED), "age"),
    "text for a number": (FEW.assign(age="old"), ASKED, "Column 'age' must hold numbers"),
    "another table": (LOANS, ASKED, "columns of the model: it lacks"),
    "all missing": (EMPTY, ("fit",), "known value"),
}
TAKEN = {
    "one row": (GOOD[:1], ("fit", *ASKED)),
    "a constant": (GOOD.assign(age=40), ("fit", *ASKED)),
    "all missing": (EMPTY, ASKED),
    "a column less": (FEW.drop(columns="income"), ASKED),
}


@pytest.fixture(scope="module")
def model():
    return Strudel(n_components=1, max_splits=0, random_state=0).fit(GOOD)


@pytest.fixture(scope="module")
def classifier():
    options = {"max_splits": 0, "pseudocount": 1.0, "class_pseudocount": 1.0, "random_state": 0}
    small = StrudelClassifier(1, method="joint", init="tree", **options)
    return small.fit(GOOD.drop(columns="smoker"), GOOD["smoker"])


@pytest.fixture(scope="module")
def regressor():
    small = Strudel(n_components=1, max_splits=0, validation_fraction=None)
    return StrudelRegressor(small, random_state=0).fit(GOOD.drop(columns="income"), GOOD["income"])


def ask(door, table, model, classifier, regressor):
    """One way or more into the library."""
    if door == "fit":
        return [lambda: Strudel(n_components=1, max_splits=0).fit(table)]
    known = [name for name in table if name != "smoker"]
    inputs = [name for name in table if name != "income"]
    return {
        "score": [lambda: model.score(table)],
        "predict": [
            lambda: classifier.predict(table[known]),
            lambda: regressor.predict(table[inputs]),
        ],
        "impute": [lambda: StrudelImputer(model, strategy="mean").fit(GOOD).transform(table)],
        "sample": [lambda: model.sample(1, given=table, missing=True)],
        "query": [lambda: model.log_marginal(table), lambda: model.marginal_probabilities(table)],
    }[door]


@pytest.mark.parametrize(
    ("problem", "door"), [(name, door) for name, (_, doors, _) in REFUSED.items() for door in doors]
)
@pytest.mark.filterwarnings("ignore:All values of", "ignore::strudel.errors.NothingKnownWarning")
def test_a_table_is_refused_in_one_sentence(problem, door, model, classifier, regressor):
    table, _, words = REFUSED[problem]
    for question in ask(door, table, model, classifier, regressor):
        with pytest.raises(ValueError, match=words) as caught:
            question()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "door"), [(name, door) for name, (_, doors) in TAKEN.items() for door in doors]
)
def test_a_table_with_little_in_it_is_taken(kind, door, model, classifier, regressor):
    for question in ask(door, TAKEN[kind][0], model, classifier, regressor):
        assert question() is not None
