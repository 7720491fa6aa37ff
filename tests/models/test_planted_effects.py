"""Twelve effects planted in a generated table: each is answered truly, or warned about by name.

The truth of a question is its count in a large sample of the generator that no model has seen. An
answer may miss it by two standard errors of a count in the rows that were learned from.
"""

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from strudel import Strudel

N_ROWS = 3000
SEED = 5  # by chance, counts in these rows are all within 1.1 standard errors of the truth


def planted_rows(n_rows, seed):
    """A table of patients of a made-up clinic."""
    rng = np.random.default_rng(seed)

    def flip(p, yes="yes", no="no"):
        return np.where(rng.random(n_rows) < p, yes, no)

    age = np.clip(rng.normal(48, 16, n_rows).round(), 18, 95)
    sex = flip(0.5, "f", "m")
    balance = rng.exponential(1000, n_rows).round()
    hours = rng.normal(7, 1.8, n_rows).round(1)
    marker = rng.gamma(2.0, 1.0, n_rows).round(2)
    ward = rng.choice([f"w{i:02d}" for i in range(24)], n_rows, p=_falling(24))
    region = np.where(rng.random(n_rows) < 0.9, [f"r{int(w[1:]) % 3}" for w in ward], "r0")
    kind = rng.choice(["a", "b", "c", "rare"], n_rows, p=[0.5, 0.3, 0.18, 0.02])
    day = np.datetime64("2021-01-01") + rng.integers(0, 730, n_rows)
    country = rng.choice(["DE", "FR", "CH", "NO"], n_rows, p=[0.5, 0.3, 0.15, 0.05])
    member, door, night = flip(0.4), flip(0.5, "open", "shut"), flip(0.5)
    return pd.DataFrame(
        {
            "patient": 100_000 + rng.permutation(n_rows),  # an identifier
            "age": age,
            "income": (20_000 + 600 * age + rng.normal(0, 9000, n_rows)).round(-2),
            "sex": sex,
            "pregnancies": np.where(sex == "f", rng.poisson(1.5, n_rows), np.nan),
            "balance": balance,
            "default": flip(0.05 + 0.8 / (1 + np.exp(-(balance - 3200) / 250))),
            "hours": hours,
            "tired": flip(np.where(np.abs(hours - 7) > 2.5, 0.8, 0.15)),  # at both ends
            "marker": np.where(rng.random(n_rows) < 0.15, np.nan, marker),
            "test": flip(np.clip(0.05 + 0.15 * marker, 0, 0.95), "positive", "negative"),
            "ward": ward,
            "region": region,
            "kind": kind,
            "broken": flip(np.where(kind == "rare", 0.7, 0.15)),
            "day": day,
            "version": flip(np.where(day >= np.datetime64("2021-09-01"), 0.85, 0.1), "new", "old"),
            "country": country,
            "currency": pd.Series(country).map({"CH": "CHF", "NO": "NOK"}).fillna("EUR"),
            "member": member,
            "spend": np.where(
                rng.random(n_rows) < np.where(member == "yes", 0.95, 0.05),
                rng.exponential(50, n_rows).round(1),
                0.0,
            ),
            "door": door,
            "night": night,
            "alarm": flip(np.where((door == "open") == (night == "yes"), 0.8, 0.1)),
        }
    )


def _falling(n):
    share = 1.0 / np.arange(4, n + 4)
    return share / share.sum()


class Effect(NamedTuple):
    """A question about an effect: an event, what is given, and the same of a frame."""

    event: str
    given: str
    holds: object
    known: object

    def truth(self, rows):
        """The share of the event in rows."""
        chosen = rows[self.known(rows)]
        return self.holds(chosen).mean(), len(chosen)


EFFECTS = {
    "monotone in the tail": Effect(
        "default = yes",
        "balance >= 3500",
        lambda r: r.default == "yes",
        lambda r: r.balance >= 3500,
    ),
    "interaction of three columns": Effect(
        "alarm = yes",
        "door = open & night = yes",
        lambda r: r.alarm == "yes",
        lambda r: (r.door == "open") & (r.night == "yes"),
    ),
    "rare category": Effect(
        "broken = yes", "kind = rare", lambda r: r.broken == "yes", lambda r: r.kind == "rare"
    ),
    "two numbers": Effect(
        "income >= 60000", "age >= 65", lambda r: r.income >= 60000, lambda r: r.age >= 65
    ),
    "both ends of a number": Effect(
        "tired = yes", "hours < 4.5", lambda r: r.tired == "yes", lambda r: r.hours < 4.5
    ),
    "some values are missing": Effect(
        "test = positive", "marker >= 4", lambda r: r.test == "positive", lambda r: r.marker >= 4
    ),
    "one of many categories": Effect(
        "region = r1", "ward = w10", lambda r: r.region == "r1", lambda r: r.ward == "w10"
    ),
    "step in time": Effect(
        "version = new",
        "day >= 2021-09-01",
        lambda r: r.version == "new",
        lambda r: r.day >= np.datetime64("2021-09-01"),
    ),
    "one column tells another": Effect(
        "currency = CHF", "country = CH", lambda r: r.currency == "CHF", lambda r: r.country == "CH"
    ),
    "a number that is often zero": Effect(
        "spend > 0", "member = no", lambda r: r.spend > 0, lambda r: r.member == "no"
    ),
    "missing by rule": Effect(
        "pregnancies >= 3",
        "sex = f",
        lambda r: r.pregnancies >= 3,
        lambda r: r.sex == "f",
    ),
    "identifier": Effect(
        "sex = f", "patient >= 101500", lambda r: r.sex == "f", lambda r: r.patient >= 101_500
    ),
}
COLUMNS = planted_rows(10, 0).columns


@pytest.fixture(scope="module")
def rows():
    return planted_rows(N_ROWS, SEED)


@pytest.fixture(scope="module")
def held_out():
    return planted_rows(200_000, SEED + 1)


@pytest.fixture(scope="module")
def said():
    """What was warned about at fit; filled by `model`."""
    return []


@pytest.fixture(scope="module")
def model(rows, said):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = Strudel(random_state=0).fit(rows)
    said += [str(warning.message) for warning in caught]
    return found


@pytest.mark.parametrize("name", EFFECTS)
def test_counting_answers_within_two_standard_errors(rows, held_out, name):
    """So that what a model misses is not the chance of the rows that it got."""
    effect = EFFECTS[name]
    counted, n_rows = effect.truth(rows)
    expected, _ = effect.truth(held_out)
    assert n_rows >= 20
    assert abs(counted - expected) <= 2.0 * np.sqrt(expected * (1.0 - expected) / n_rows) + 1e-12


@pytest.mark.compiled
@pytest.mark.parametrize("name", [name for name in EFFECTS if name != "identifier"])
def test_each_effect_is_answered_within_two_standard_errors_or_warned_about(
    model, rows, held_out, said, name
):
    effect = EFFECTS[name]
    expected, _ = effect.truth(held_out)
    n_rows = effect.truth(rows)[1]
    # A share of 0 or 1 has no standard error: two rows more or less are what rows can tell.
    error = 2.0 * max(np.sqrt(expected * (1.0 - expected) / n_rows), 1.0 / n_rows)
    answer = model.probability(effect.event, given=effect.given)
    named = [column for column in COLUMNS if column in f"{effect.event} {effect.given}".split()]
    is_lost = any({pair.column_a, pair.column_b} <= set(named) for pair in model.check_.lost)
    assert abs(answer - expected) <= error or is_lost


@pytest.mark.compiled
def test_what_is_lost_is_warned_about_once_with_the_worst_pair(model, said):
    lost = model.check_.lost
    assert len([line for line in said if "depend on each other" in line]) == bool(lost)
    if lost:
        assert f"{lost[0].column_a} and {lost[0].column_b} depend" in " ".join(said)


@pytest.mark.compiled
def test_a_column_that_is_missing_by_rule_is_told(said, model):
    assert any("pregnancies" in line and "sex" in line for line in said)


@pytest.mark.compiled
def test_an_identifier_is_told(said, model):
    assert any("patient" in line and "identifier" in line for line in said)
    assert "patient" not in model.circuit_.columns.names
