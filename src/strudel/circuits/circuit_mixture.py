"""Mixtures whose components own their structure: any circuits on one vtree, with weights.

In:  circuits in normal form on one vtree, and the logs of their weights.
Out: `CircuitMixture`, a `Mixture` that answers every query.

What is asked of each component on its own (likelihoods, marginals, samples) is asked of its own
circuit. What needs all of them together gets the union: all sums side by side under one root, and
for every component a column of parameters that is zero on the edges of the others. The union is
made on first use, with a table of all edges times all components.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import FloatArray
from strudel.circuits.builder import keep_edges
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, SideBySide, as_mixture, side_by_side, why_not_weights
from strudel.circuits.properties import check_properties
from strudel.circuits.scopes import reached_nodes
from strudel.tables.table_code import TableCode


class CircuitMixture(Mixture):
    """A weighted mixture of circuits on one vtree, each with a structure of its own.

    Parameters
    ----------
    circuits : sequence of Circuit
        The components, in normal form on one vtree. Sums that nothing leads to are dropped.
    log_weight : array-like of shape (n_components,), optional
        Natural logs of the weights, which add up to one; all equal by default.

    Attributes
    ----------
    circuits : tuple of Circuit
    structure : Circuit
        The union of the components, made on first use. It is not deterministic, even if every
        component is: see `has_deterministic_components`.
    edge_log_theta : ndarray of shape (n_edges, n_components)
        The parameters of the components on the union, -inf on the edges of others.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> from strudel.circuits import compile_factorized, figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> other = compile_factorized(circuit.vtree).with_names(circuit.feature_names)
    >>> mixture = CircuitMixture([circuit, other], np.log([0.25, 0.75]))
    >>> mixture
    CircuitMixture(n_components=2, n_vars=4, n_nodes=23, n_edges=27)
    >>> np.exp(log_likelihood(mixture, [[1, 0, 1, 0]])).round(4)
    array([0.0517])
    """

    circuits: tuple[Circuit, ...]

    def __init__(self, circuits: Sequence[Circuit], log_weight: ArrayLike | None = None) -> None:
        circuits = tuple(circuits)
        if log_weight is None and circuits:
            log_weight = np.full(len(circuits), -np.log(len(circuits)))
        weight = np.array(log_weight, dtype=np.float64)
        problem = _why_not_together(circuits) or why_not_weights(weight)
        if problem is None and len(weight) != len(circuits):
            problem = f"there are {len(circuits)} circuits and {len(weight)} weights"
        if problem is not None:
            raise ValueError(f"These circuits are not a mixture: {problem}.")
        weight.flags.writeable = False
        # All others are made when they are needed; the class is frozen.
        object.__setattr__(self, "circuits", tuple(_without_idle_sums(part) for part in circuits))
        object.__setattr__(self, "log_weight", weight)

    @property
    def _any_circuit(self) -> Circuit:
        return self.circuits[0]

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the union: literals and the root count once."""
        n_literals = 2 * self.n_vars
        return n_literals + 1 + sum(max(part.root - n_literals, 0) for part in self.circuits)

    @property
    def n_edges(self) -> int:
        """Number of edges of all components."""
        return sum(max(part.n_edges, 1) for part in self.circuits)

    @cached_property
    def structure(self) -> Circuit:
        """All components side by side under one root."""
        return self._union.circuit

    @cached_property
    def edge_log_theta(self) -> FloatArray:
        """The parameters of the components on the union."""
        union = self._union
        log_theta = np.full((union.circuit.n_edges, self.n_components), -np.inf)
        edges = np.arange(union.circuit.n_edges)
        log_theta[edges, union.edge_component] = union.circuit.edge_log_theta
        log_theta.flags.writeable = False
        return log_theta

    @cached_property
    def _union(self) -> SideBySide:
        return side_by_side([(part, part.edge_log_theta) for part in self.circuits])

    @cached_property
    def _parts(self) -> list[Mixture]:
        return [as_mixture(part) for part in self.circuits]

    def parts(self) -> list[Mixture]:
        """One mixture of one component for each."""
        return self._parts

    def component(self, c: int) -> Circuit:
        """Component number `c`, with its own structure."""
        return self.circuits[c]

    @cached_property
    def _as_circuit(self) -> Circuit:
        return self._union.weighted(self.log_weight)

    def with_names(self, feature_names: tuple[str, ...] | None) -> CircuitMixture:
        """The same mixture with other feature names."""
        named = [part.with_names(feature_names) for part in self.circuits]
        return CircuitMixture(named, self.log_weight)

    def with_table_code(self, code: TableCode | None) -> CircuitMixture:
        """The same mixture, which answers in the columns of a table; None for its variables."""
        coded = [part.with_table_code(code) for part in self.circuits]
        return CircuitMixture(coded, self.log_weight)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by making the mixture again."""
        return CircuitMixture, (self.circuits, self.log_weight)


def _why_not_together(circuits: tuple[Circuit, ...]) -> str | None:
    if not circuits:
        return "there must be at least one"
    first = circuits[0]
    for c, part in enumerate(circuits):
        if part.vtree is not first.vtree and part.vtree != first.vtree:
            return f"components 0 and {c} are not on one vtree"
        if part.feature_names != first.feature_names:
            return f"components 0 and {c} name their variables differently"
        check_properties(part, "CircuitMixture", "in_normal_form")
    return None


def _without_idle_sums(circuit: Circuit) -> Circuit:
    """The circuit, or one without the sums that its root does not reach."""
    if reached_nodes(circuit)[2 * circuit.n_vars :].all():
        return circuit
    return keep_edges(circuit, np.arange(circuit.n_edges), circuit.edge_log_theta)


def average_circuits(mixtures: Sequence[CircuitMixture]) -> CircuitMixture:
    """The even mixture of mixtures on one vtree: all their components side by side."""
    log_share = -np.log(len(mixtures))
    return CircuitMixture(
        [part for mixture in mixtures for part in mixture.circuits],
        np.concatenate([mixture.log_weight + log_share for mixture in mixtures]),
    )


def with_own_structures(mixture: Mixture) -> Mixture:
    """The same mixture, each component with the edges that it takes and no others.

    A component that is zero everywhere takes none; then the mixture stays as it is.
    """
    circuit = mixture.structure
    at_root = mixture.edge_log_theta[circuit.edge_parent == circuit.root]
    if not np.all(np.any(at_root > -np.inf, axis=0)):
        return mixture
    parts = []
    for column in mixture.edge_log_theta.T:
        edges = np.flatnonzero(column > -np.inf)
        parts.append(keep_edges(circuit, edges, column[edges]))
    return CircuitMixture(parts, mixture.log_weight)
