"""Small models of every kind, and what the page should say of them: from queries on 0/1 rows.

Nothing here uses the explorer. A value is its codeword, a set of values the sum over its codewords,
and every probability one `log_marginal`.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from strudel import Strudel, StrudelClassifier, log_marginal
from strudel.circuits import figure_1_circuit
from strudel.queries.model import model_of
from strudel.tables import TableEncoder
from strudel.tables.table_code import code_of_bits


def people(n_rows=500, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n_rows)
    smoker = rng.choice(["never", "former", "yes"], n_rows, p=[0.5, 0.2, 0.3])
    table = pd.DataFrame(
        {
            "age": age,
            "smoker": smoker,
            "income": (rng.normal(30, 10, n_rows) + 0.3 * age).round(1),
            "joined": pd.to_datetime("2020-01-01")
            + pd.to_timedelta(5 * age + rng.integers(0, 400, n_rows), "D"),
            "grade": pd.Categorical(
                np.where(age > 60, "high", np.where(age > 40, "middle", "low")),
                categories=["low", "middle", "high"],
                ordered=True,
            ),
            "ill": age + 25 * (smoker == "yes") + rng.normal(0, 10, n_rows) > 75,
        }
    )
    table.loc[rng.random(n_rows) < 0.1, "income"] = np.nan
    return table


def bits(n_rows=300, n_vars=6, seed=1):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, (n_rows, n_vars))
    rows[:, 1] = rows[:, 0] ^ (rng.random(n_rows) < 0.15)
    rows[:, 3] = rows[:, 1] & rows[:, 2]
    return rows


def make_models():
    """All kinds, by name; learned in a second."""
    table, rows = people(), bits()
    encoder = TableEncoder(n_bins=5)
    loose = TableEncoder(n_bins=4, respect_one_hot=False)
    inputs, smoker = table.drop(columns="smoker"), table["smoker"]
    fast = {"max_splits": 3, "pseudocount": 1.0, "class_pseudocount": 5.0, "random_state": 0}
    return {
        "figure 1": figure_1_circuit(),
        "circuit": Strudel(n_components=1, columns=encoder, max_splits=25, random_state=0).fit(
            table
        ),
        "scattered": Strudel(n_components=1, columns=loose, max_splits=15, random_state=0).fit(
            table
        ),
        "mixture": Strudel(n_components=5, columns=encoder, max_splits=5, random_state=0).fit(
            table
        ),
        "constrained": Strudel(
            n_components=1, constraint="x0 | x5", max_splits=10, random_state=0
        ).fit(rows[(rows[:, 0] | rows[:, 5]) == 1]),
        "class by class": StrudelClassifier(
            3, method="per_class", init="tree", columns=encoder, **fast
        ).fit(inputs, smoker),
        "joint classes": StrudelClassifier(
            3, method="joint", init="tree", columns=encoder, **fast
        ).fit(inputs, smoker),
    }


class Expected:
    """Answers to the questions of the page, from rows of 0 and 1."""

    def __init__(self, model):
        self.model = model.joint_mixture() if hasattr(model, "joint_mixture") else model_of(model)
        names = self.model.feature_names or [f"x{v}" for v in range(self.model.n_vars)]
        self.code = self.model.table_code or code_of_bits(names, "numpy")
        self.sizes = [column.n_values for column in self.code.columns]

    def log_p(self, evidence):
        """Log-probability that every column has one of the values that are given for it."""
        choices = [[(c, k) for k in values] for c, values in evidence.items()]
        rows = np.full((int(np.prod([len(own) for own in choices])), self.model.n_vars), np.nan)
        log_share = np.zeros(len(rows))  # of values that share a cell with others
        for place, chosen in enumerate(itertools.product(*choices)):
            for c, k in chosen:
                column = self.code.columns[c]
                rows[place, column.start : column.stop] = column.codewords[k]
                log_share[place] += np.log(column.value_share[k])
        with np.errstate(divide="ignore"):
            return float(logsumexp(log_marginal(self.model, rows) + log_share))

    def posterior(self, c, evidence):
        allowed = evidence.get(c, range(self.sizes[c]))
        logs = np.full(self.sizes[c], -np.inf)
        for k in allowed:
            logs[k] = self.log_p({**evidence, c: [k]})
        return np.exp(logs - logsumexp(logs))

    def posteriors(self, evidence):
        return [self.posterior(c, evidence) for c in range(len(self.sizes))]

    def information(self, a, b, evidence):
        """In nats, from the table of both columns."""
        joint = np.array(
            [
                [self.log_p({**evidence, a: [i], b: [j]}) for j in range(self.sizes[b])]
                for i in range(self.sizes[a])
            ]
        )
        p = np.exp(joint - logsumexp(joint))
        outer = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
        return float((p[p > 0] * np.log(p[p > 0] / outer[p > 0])).sum())
