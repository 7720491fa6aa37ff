"""What every query refuses: impossible evidence, circuits without the property it needs."""

import numpy as np
import pytest

from joint import NAN, special_circuits, special_mixtures
from strudel import (
    count_distribution,
    entropy,
    log_conditional,
    log_likelihood,
    log_marginal,
    marginal_map,
    marginal_probabilities,
    most_probable_state,
    mutual_information,
    pair_probabilities,
    responsibilities,
    sample,
)
from strudel.queries import covariance

ASK = {
    "log_marginal": log_marginal,
    "marginal_probabilities": marginal_probabilities,
    "pair_probabilities": pair_probabilities,
    "covariance": covariance,
    "responsibilities": responsibilities,
    "entropy": entropy,
    "mutual_information": lambda model, rows: mutual_information(model, 0, 1, rows),
    "count_distribution": lambda model, rows: count_distribution(model, given=rows),
    "sample": lambda model, rows: sample(model, 3, given=rows, random_state=0),
    "most_probable_state": most_probable_state,
    "log_conditional": lambda model, rows: log_conditional(
        model, np.full(np.shape(rows), NAN), rows
    ),
    "marginal_map": lambda model, rows: marginal_map(model, [0], rows),
}


@pytest.mark.parametrize("name", [name for name in ASK if name != "log_marginal"])
def test_nothing_is_said_given_what_is_impossible(name):
    for model in (special_circuits()["zeros"], special_mixtures()["zeros"]):
        rows = np.full((1 if name == "marginal_map" else 3, 5), NAN)
        rows[-1, 0] = 1
        with pytest.raises(ValueError, match="probability zero"):
            ASK[name](model, rows)
    assert log_marginal(model, rows)[-1] == -np.inf
    assert log_likelihood(model, [[1, 0, 0, 0, 0]]) == [-np.inf]
