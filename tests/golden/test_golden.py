"""Golden answers: what every public query says of four models, which changes on purpose only.

The models are neutral (`neutral.py`), the questions are data (`questions.py`), and the answers were
written by `write.py`. What the answers mean is checked where a naive recursion can tell. Without
the compiler every fifth question is asked; GOLDEN_EVERY=1 asks all.
"""

import json
import math
import os
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from golden import neutral, questions
from golden.answers import difference, read, recorded
from golden.neutral import MODELS, estimator, load
from golden.questions import KNOWN_WRONG, LEFT_OUT, Functions, Methods
from strudel import algebra, predictions, queries, sample

# Plain Python is slow.
IS_COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
EVERY = int(os.environ.get("GOLDEN_EVERY", "1" if IS_COMPILED else "5"))


def wrong(name, model, *labels):
    """What is not as it was, one line per question, of those given what is labelled."""
    pytest.importorskip("pysdd")  # which some events need
    asked, expected = questions.questions(name.partition("_")[0]), read(name)
    assert list(asked) == list(expected), "run tests/golden/write.py"
    lines = []
    some = [question for question in asked if not labels or question.endswith(labels)]
    for question in some[::EVERY]:
        found = json.loads(json.dumps(recorded(asked[question], model)))
        problem = difference(found, expected[question])
        if problem is not None:
            lines.append(f"{question}: {problem}")
    return lines


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_as_they_were(name):
    found = wrong(name, Functions(load(name)))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", MODELS)
def test_methods_give_the_same(name):
    found = wrong(name, Methods(estimator(name)), "given a dict", "given an interval")
    assert not found, "\n".join(found)


def test_every_function_is_asked():
    text = Path(questions.__file__).read_text(encoding="utf-8")
    asked = set(re.findall(r"\.([a-z_]+)\(", text))
    public = {name for place in (queries, algebra, predictions) for name in place.__all__}
    assert {name for name in public if name.islower()} - asked == {"sample"}
    assert all(any(name in left for left in LEFT_OUT) for name in ("sample", "explore"))


def test_what_is_known_to_be_wrong_is_asked():
    for label in KNOWN_WRONG:
        assert any(label in question for name in MODELS for question in read(name)), label


# What is true, by naive recursion


def either(*conjunctions):
    """Signed conjunctions that add up to the probability of any of two."""
    one, *other = conjunctions
    if not other:
        return [(1, one)]
    return [(1, one), (1, other[0]), (-1, one | other[0])]


def after(number):
    """What follows a number: bounds are below it or from it on."""
    return math.nextafter(number, math.inf)


def day(text):
    """A date as a number."""
    return float(np.datetime64(text, "us").astype(np.int64))


SMOKER, YES = {"smoker": ["yes"]}, {"v2": [1]}
TRUE = {  # by question: what is asked, and what is given
    "bits": {
        "probability of v2, given nothing": (YES, [(1, {})]),
        "probability of v2, given a dict": (YES, [(1, {"v1": [1], "v5": [0]})]),
        "probability of v2, given an interval": (YES, [(1, {"v3": [1], "v5": [0]})]),
        "probability of v2, given a text with |": (
            YES,
            either({"v1": [1]}, {"v3": [1], "v4": [0]}),
        ),
        "probability, given all": ({"v1": [1], "v3": [0], "v6": [1]}, [(1, {})]),
    },
    "mixed": {
        "probability of smoker, given nothing": (SMOKER, [(1, {})]),
        "probability of smoker, given an interval": (SMOKER, [(1, {"age": (33.3, 61)})]),
        "probability of smoker, given dates": (
            SMOKER,
            [(1, {"since": (day("2020-09-03"), day("2021-08-01"))})],
        ),
        "probability of smoker, given a set": (
            SMOKER,
            [(1, {"city": ["Bern", "York"], "grade": ["low", "high"]})],
        ),
        "probability of smoker, given a text with |": (
            SMOKER,
            either(
                {"age": (after(50), math.inf)},
                {"city": ["Oslo"], "visits": (-math.inf, after(1))},
            ),
        ),
        "probability of smoker, given beyond the last edge": (
            SMOKER,
            [(1, {"age": (85, math.inf)})],
        ),
        "probability of smoker, given pooled category": (SMOKER, [(1, {"city": ["Ulm"]})]),
        "probability, given bounds": ({"age": (33.3, 61)}, [(1, {})]),
        "probability, given date": ({"since": (day("2021-03-01"), math.inf)}, [(1, {})]),
        "of_all_rows, given nothing": ({"packs": (after(9), math.inf)}, [(1, {})]),
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_true(name):
    content, answers = neutral.read(name), read(name)
    for question, (asked, given) in TRUE[name.partition("_")[0]].items():
        both = math.fsum(
            sign * neutral.probability(content, asked | known) for sign, known in given
        )
        all_ = math.fsum(sign * neutral.probability(content, known) for sign, known in given)
        assert answers[question]["answer"] == pytest.approx(both / all_, abs=1e-12), question


@pytest.mark.parametrize("name", MODELS)
def test_marginals_are_true(name):
    content, answers = neutral.read(name), read(name)
    found = answers["marginal_probabilities, given nothing"]["answer"]
    for place, column in enumerate(content["columns"]):
        if column["kind"] == "bit":
            chances = {1: found[place]}
        elif "edges" in column:
            ends = [-math.inf, *column["edges"], math.inf]
            cells = list(pairwise(ends))
            chances = dict(zip(cells, found[column["name"]].values(), strict=True))
        else:
            chances = dict(zip(column["values"], found[column["name"]].values(), strict=True))
        for value, chance in chances.items():
            known = {column["name"]: value if isinstance(value, tuple) else [value]}
            if column["name"] == "packs":  # missing by rule: about rows that have a value
                continue
            assert chance == pytest.approx(neutral.probability(content, known), abs=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_samples_are_as_often_as_they_are_probable(name):
    model, is_table = load(name), name.startswith("mixed")
    given, kept = ({"city": "Oslo"}, SMOKER) if is_table else ({"v1": 1}, YES)
    rows = sample(model, 2000, given, random_state=0)
    again = sample(model, 2000, given, random_state=0)
    assert rows.equals(again) if is_table else np.array_equal(rows, again)
    found = (rows["smoker"] == "yes").mean() if is_table else rows[:, 2].mean()
    known = {column: [value] for column, value in given.items()}
    content = neutral.read(name)
    p = neutral.probability(content, kept | known) / neutral.probability(content, known)
    assert abs(found - p) < 5.0 * math.sqrt(p * (1.0 - p) / 2000)
