"""Parameters of a circuit or a mixture by EM on rows with unknown values.

In:  a model to begin with, and rows with unknown values.
Out: the model with better parameters, the best on the validation rows if there are any.

E-step: expected flows. M-step: shares of the expected counts, drawn to a prior. Every step raises
the likelihood of what is known plus the log of the prior, until it hardly does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from strudel._compiling import NO_LIMIT, Clock
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.data.bits import BitMatrix
from strudel.learning.incomplete.expected_flows import ExpectedFlows, Passes
from strudel.learning.incomplete.partial_rows import PartialRows, partial_rows
from strudel.learning.mixtures.em_steps import Prior, log_parameters, uniform_prior


class Countable(Protocol):
    """What EM asks of rows with unknown values: `PartialRows`, or such rows in partitions."""

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""

    @property
    def n_vars(self) -> int:
        """Number of columns."""

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""

    def expect(self, passes: Passes, mixture: Mixture, n_groups: int = 1) -> ExpectedFlows:
        """Expected flows of all rows."""

    def mean_log_probability(self, passes: Passes, mixture: Mixture) -> float:
        """Mean log-likelihood of what is known of the rows."""


@dataclass(frozen=True)
class EmLimits:
    """When EM stops."""

    max_iter: int = 100
    tol: float = 1e-4  # nats per row that a step must gain
    patience: int = 2  # steps without a better validation likelihood
    clock: Clock = NO_LIMIT


class Fitted(NamedTuple):
    """The best step of EM."""

    model: Mixture
    flows: ExpectedFlows | None  # the counts its parameters come from; None for the start
    train: float  # mean log-likelihood of what is known of the rows
    valid: float  # of the validation rows; nan without any
    n_iterations: int


def fit_incomplete(
    model: Circuit | Mixture,
    X: PartialRows | BitMatrix | ArrayLike,
    *,
    X_valid: PartialRows | BitMatrix | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    pseudocount: float = 1.0,
    max_iter: int = 100,
    tol: float = 1e-4,
) -> Circuit | Mixture:
    """Fit the parameters of a circuit or a mixture to rows with unknown values, by EM.

    Parameters
    ----------
    model : Circuit or Mixture
        Where EM begins; components of a mixture share their structure.
    X : array-like of shape (n_rows, n_vars)
        0, 1, or NaN where the value is unknown.
    X_valid : array-like, optional
        Rows that decide which step to keep; they may also have unknown values.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row counts.
    pseudocount : float
        Virtual rows per sum node, shared evenly by its edges.
    max_iter : int
        Stop after this many steps.
    tol : float
        Stop when a step gains less than this, in nats per row.

    Returns
    -------
    Circuit or Mixture
        On complete rows a circuit gets what `fit_parameters` gives, after one step.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> X = [[1, 0, 1, 0], [1, 1, 1, np.nan]]
    >>> fitted = fit_incomplete(figure_1_circuit(), X, pseudocount=0, tol=1e-9)
    >>> fitted.theta[-2:].round(3)  # X4 = 1 and X4 = 0: the one known value says all
    array([0., 1.])
    """
    rows = partial_rows(X, sample_weight, model.n_vars)
    valid = None if X_valid is None else partial_rows(X_valid, None, model.n_vars)
    passes = Passes.of(model, "fit_incomplete")
    prior = uniform_prior(passes.circuit, pseudocount)
    limits = EmLimits(max_iter, tol)
    start = as_mixture(model)
    best = climb(passes, start, rows, valid, prior, limits, survives_interrupt=True)
    return best.model.component(0) if isinstance(model, Circuit) else best.model


def climb(
    passes: Passes,
    start: Mixture,
    rows: Countable,
    valid: Countable | None,
    prior: Prior,
    limits: EmLimits,
    *,
    n_groups: int = 1,
    on_iteration: Callable[[float, float], None] | None = None,
    survives_interrupt: bool = False,
) -> Fitted:
    """EM steps until nothing is gained; groups of components are mixtures of their own.

    `on_iteration` gets the mean log-likelihoods of training and validation rows. An interrupt ends
    what the steps are a part of, or only the steps.
    """
    best: Fitted | None = None
    model, counts = start, None
    before, since_best = -np.inf, 0
    try:
        for i in range(limits.max_iter + 1):
            before_step = limits.clock.left()
            valid_mean = np.nan
            if valid is not None:
                valid_mean = valid.mean_log_probability(passes, model)
            flows = rows.expect(passes, model, n_groups)
            train = flows.log_likelihood / rows.total_weight
            since_best += 1
            if best is None or not valid_mean <= best.valid:
                best, since_best = Fitted(model, counts, train, valid_mean, i), 0
            if on_iteration is not None:
                on_iteration(train, valid_mean)
            left = limits.clock.left()  # another step takes as long as this one
            is_late = before_step is not None and left is not None and 2 * left <= before_step
            if train - before < limits.tol or since_best >= limits.patience or is_late:
                break
            before, counts = train, flows
            if i < limits.max_iter:
                model = maximise(passes.circuit, flows, prior, n_groups)
    except KeyboardInterrupt:
        if best is None or not survives_interrupt:
            raise
    assert best is not None  # the start at least
    return best


def maximise(circuit: Circuit, flows: ExpectedFlows, prior: Prior, n_groups: int = 1) -> Mixture:
    """The parameters that suit expected counts and a prior best."""
    log_theta = np.empty_like(flows.edge_count)
    log_parameters(flows.edge_count, circuit.node_edges, prior.mean, prior.strength, log_theta)
    mass = flows.component_weight.reshape(n_groups, -1)
    # One virtual row per group keeps every weight above zero.
    weight = (mass + 1.0 / mass.shape[1]) / (mass.sum(axis=1, keepdims=True) + 1.0) / n_groups
    return Mixture(circuit, log_theta, np.log(weight).ravel())
