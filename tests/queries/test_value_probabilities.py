import numpy as np
import pytest

from strudel import Strudel, marginal_probabilities
from strudel.queries.columns.value_probabilities import (
    codeword_shares,
    respects,
    value_probabilities,
)
from strudel.queries.probabilities import log_probabilities
from strudel.tables import TableEncoder

rng = np.random.default_rng(0)
AGE = rng.integers(18, 90, 300)
ROWS = [
    [int(age), "red" if age > 60 else rng.choice(["blue", "green"]), bool(rng.integers(2))]
    for age in AGE
]


def model(code, respect_one_hot, kind="mixture"):
    encoder = TableEncoder(code=code, n_bins=5, respect_one_hot=respect_one_hot)
    if kind == "circuit":
        return (
            Strudel(n_components=1, columns=encoder, max_splits=5, random_state=0)
            .fit(ROWS)
            .circuit_
        )
    made = Strudel(n_components=3, max_splits=3, method="em", columns=encoder, random_state=0)
    return made.fit(ROWS).circuit_


@pytest.mark.parametrize("kind", ["circuit", "mixture"])
@pytest.mark.parametrize("code", ["thermometer", "one_hot"])
@pytest.mark.parametrize("respect", [True, False])
def test_one_pass_gives_what_asking_for_every_codeword_gives(code, respect, kind):
    found = model(code, respect, kind)
    columns = found.table_code.columns
    rows = found.table_code.encode([[30, None, True], [None, "red", None], [None, None, None]])
    rows = np.concatenate([rows, rows[::-1]])  # in no order, and some twice
    log_p, shares = value_probabilities(found, columns, rows, "test")
    wanted_log_p = log_probabilities(found, rows, "test")
    assert log_p == pytest.approx(wanted_log_p)
    for column, share in zip(columns, shares, strict=True):
        wanted = codeword_shares(found, column, rows, wanted_log_p, "test")
        assert share == pytest.approx(wanted, abs=1e-12)
        assert share.sum(axis=1) == pytest.approx(1.0)
    if respect:
        assert all(respects(found, column, "test") for column in columns)


def test_what_is_known_is_certain():
    found = model("thermometer", True)
    marginals = marginal_probabilities(found, {"x0": 30, "x1": "red"})
    assert sorted(marginals["x1"].values()) == [0.0, 0.0, 1.0]
    assert sorted(marginals["x0"].values())[-1] == 1.0
