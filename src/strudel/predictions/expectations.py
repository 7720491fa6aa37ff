"""Expected outputs of a predictor given partly known rows."""

from __future__ import annotations

import numpy as np

from strudel._types import FloatArray
from strudel.algebra.probability import probability
from strudel.predictions.forms import EventForm, Form, LeafForm, LinearForm
from strudel.queries.model import Model
from strudel.queries.passes import encode
from strudel.queries.probabilities import literal_probabilities, log_probabilities


def expected_outputs(model: Model, form: Form, rows: FloatArray, query: str) -> FloatArray:
    """E[output | row], `(n_rows, n_outputs)`."""
    if isinstance(form, LinearForm):
        _, ones = literal_probabilities(model, encode(rows), query)
        return ones @ form.weight + form.bias
    if isinstance(form, EventForm):
        return np.atleast_1d(probability(model, form.event, rows))[:, np.newaxis]
    assert isinstance(form, LeafForm)
    log_p = log_probabilities(model, rows, query)
    out = np.tile(form.bias, (len(rows), 1))
    for leaf in range(form.n_leaves):
        lits = form.leaf_literal[form.leaf_start[leaf] : form.leaf_start[leaf + 1]]
        both = rows.copy()
        clash = np.zeros(len(rows), dtype=bool)
        for lit in lits:
            clash |= rows[:, lit // 2] == 1 - lit % 2
            both[:, lit // 2] = lit % 2
        p = np.where(clash, 0.0, np.exp(log_probabilities(model, both, query) - log_p))
        out += p[:, None] * form.leaf_value[leaf]
    return out
