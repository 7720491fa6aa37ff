"""EM on rows with unknown values for a model that was learned from their completions.

In:  a circuit or a mixture, and the rows.
Out: the same structure with the best parameters for what is known, unless validation rows prefer
     those it had.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.circuit_mixture import CircuitMixture
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.learning.incomplete.em import Countable, EmLimits, climb, maximise
from strudel.learning.incomplete.expected_flows import ExpectedFlows, Passes
from strudel.learning.incomplete.partial_rows import PartialRows
from strudel.learning.mixture_methods import MixtureOptions
from strudel.learning.mixtures.em import STRENGTHS, TRAINING_STRENGTH
from strudel.learning.mixtures.em_steps import Prior, uniform_prior
from strudel.queries.model import Model
from strudel.queries.probabilities import log_probabilities

# Rows that the parameters learned from completions count for: they know of the model that
# completed the rows, which is worth most where rows are few.
STRENGTH = 4.0
MOST_STEPS = 10
MOST_WORK = 2**32  # rows x edges that a row passes x components in all steps, about half a minute
TOLERANCE = 1e-3


class RowsWithGaps(Protocol):
    """Rows to fit and rows to check by: `IncompleteRows`, or such rows in partitions."""

    @property
    def train_rows(self) -> Countable:
        """Training rows."""

    @property
    def valid_rows(self) -> Countable | None:
        """Validation rows."""


def refit_circuit(circuit: Circuit, rows: RowsWithGaps) -> Circuit:
    """A circuit with parameters between those it has and the best for what is known."""
    passes = Passes.of(circuit, "fit")
    prior = Prior(STRENGTH, circuit.theta)
    limits = EmLimits(MOST_STEPS, TOLERANCE, patience=1)
    start = as_mixture(circuit)
    return climb(passes, start, rows.train_rows, rows.valid_rows, prior, limits).model.component(0)


def refit_mixture(
    mixture: Mixture, rows: RowsWithGaps, options: MixtureOptions, n_runs: int
) -> Mixture:
    """A mixture after a few EM steps on the rows, smoothed as its options say.

    `n_runs` mixtures that were averaged stay mixtures of their own.
    """
    train, valid = rows.train_rows, rows.valid_rows
    work = 4 * train.n_rows * train.n_vars * mixture.n_components
    n_steps = min(MOST_WORK // max(work, 1), MOST_STEPS)
    if isinstance(mixture, CircuitMixture) or n_steps == 0:
        return mixture  # as learned: every component has its own flows, or there are too many
    passes = Passes.of(mixture, "fit")
    prior = _prior(passes, mixture, train, options, n_runs)
    limits = EmLimits(n_steps, TOLERANCE, patience=1)
    found = climb(passes, mixture, train, valid, prior, limits, n_groups=n_runs)
    if found.flows is None or valid is None or options.pseudocount != "auto":
        return found.model
    tried = [
        maximise(passes.circuit, found.flows, Prior(strength, prior.mean), n_runs)
        for strength in STRENGTHS
    ]
    scores = [valid.mean_log_probability(passes, one) for one in tried]
    return tried[int(np.argmax(scores))] if max(scores) > found.valid else found.model


def _prior(
    passes: Passes, mixture: Mixture, train: Countable, options: MixtureOptions, n_runs: int
) -> Prior:
    """What components are drawn to: the single circuit on the same rows, or all edges alike."""
    strength = TRAINING_STRENGTH if options.pseudocount == "auto" else options.pseudocount
    if options.smoothing != "single":
        return uniform_prior(passes.circuit, strength)
    flows = train.expect(passes, mixture, n_runs)
    # Of all components together, as if they were one.
    count = flows.edge_count.sum(axis=1, keepdims=True) / n_runs
    one = ExpectedFlows(count, np.ones(1), flows.log_likelihood)
    single = maximise(passes.circuit, one, uniform_prior(passes.circuit, 1.0))
    return Prior(strength, np.exp(single.edge_log_theta[:, 0]))


def mean_of_known(model: Model, gaps: RowsWithGaps, part: str = "valid") -> float:
    """Mean log-likelihood of what is known of the rows of "train" or "valid"; nan without any."""
    rows = gaps.train_rows if part == "train" else gaps.valid_rows
    if rows is None:
        return math.nan
    if isinstance(model, CircuitMixture):
        assert isinstance(rows, PartialRows)  # in partitions, components share their structure
        log_p = log_probabilities(model, rows.evidence, "fit")
        return float(rows.weight @ log_p / rows.total_weight)
    return rows.mean_log_probability(Passes.of(model, "fit"), as_mixture(model))
