"""Small models of every kind, and what the page should say of them: by enumeration.

Nothing here uses the explorer or a query: every answer is a sum over a table of all states.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from column_circuits import joint_of
from strudel import Strudel, StrudelClassifier
from strudel.circuits import figure_1_circuit
from strudel.queries.given import circuit_of
from strudel.tables import TableEncoder


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
    inputs, smoker = table.drop(columns="smoker"), table["smoker"]
    fast = {"max_splits": 3, "pseudocount": 1.0, "class_pseudocount": 5.0, "random_state": 0}
    return {
        "figure 1": figure_1_circuit(),
        "circuit": Strudel(n_components=1, columns=encoder, max_splits=25, random_state=0).fit(
            table
        ),
        "mixture": Strudel(n_components=5, columns=encoder, max_splits=5, random_state=0).fit(
            table
        ),
        "constrained": Strudel(
            n_components=1, constraint="x0 | x5", max_splits=10, random_state=0
        ).fit(rows[(rows[:, 0] | rows[:, 5]) == 1]),
        "class by class": StrudelClassifier(
            3, method="per_class", init="independent", columns=encoder, **fast
        ).fit(inputs, smoker),
        "joint classes": StrudelClassifier(
            3, method="joint", init="tree", columns=encoder, **fast
        ).fit(inputs, smoker),
    }


class Expected:
    """Answers to the questions of the page."""

    def __init__(self, model):
        self.columns = circuit_of(model).columns
        self.names = list(self.columns.names)
        self.sizes = [column.n_cells for column in self.columns]
        self.joint = joint_of(circuit_of(model))

    def states(self, evidence):
        """The joint probabilities of all states, 0 where they do not agree with what is given."""
        states = self.joint.copy()
        for c, values in evidence.items():
            others = np.setdiff1d(np.arange(self.sizes[c]), values)
            states.swapaxes(0, c)[others] = 0.0
        return states

    def table(self, evidence, *kept):
        """The joint probabilities of some columns and what is given."""
        others = tuple(c for c in range(len(self.sizes)) if c not in kept)
        return self.states(evidence).sum(axis=others)

    def log_p(self, evidence):
        """Log-probability that every column has one of the values that are given for it."""
        with np.errstate(divide="ignore"):
            return float(np.log(self.states(evidence).sum()))

    def posterior(self, c, evidence):
        table = self.table(evidence, c)
        return table / table.sum()

    def posteriors(self, evidence):
        return [self.posterior(c, evidence) for c in range(len(self.sizes))]

    def best(self, evidence):
        """The most probable state, and its log-probability."""
        states = self.states(evidence)
        place = int(states.argmax())
        values = [int(value) for value in np.unravel_index(place, states.shape)]
        return values, float(np.log(states.flat[place]))

    def information(self, a, b, evidence):
        """In nats, from the table of both columns."""
        p = self.table(evidence, a, b)
        p = p / p.sum()
        outer = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
        return float((p[p > 0] * np.log(p[p > 0] / outer[p > 0])).sum())
