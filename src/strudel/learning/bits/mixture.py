"""Mixtures: many circuits that share one structure, and so one flow per row.

A `BitMixture` is one `BitCircuit` for the structure, one column of log-parameters per component,
and the components' weights. What a row passes does not depend on the parameters, so its flow is
found once for all components (equation 1 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from strudel._display import Shown
from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import LARGEST_LOG, WEIGHT_TOLERANCE
from strudel.circuits.passes import LANES, are_moderate
from strudel.learning.bits.circuit import BitCircuit
from strudel.tables.table_code import TableCode
from strudel.trees.vtree import Vtree


@dataclass(frozen=True, eq=False)
class BitMixture(Shown):
    """A weighted mixture of circuits with one structure.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> log_theta = np.column_stack([circuit.edge_log_theta, circuit.edge_log_theta])
    >>> BitMixture(circuit, log_theta, np.log([0.3, 0.7]))
    BitMixture(n_components=2, n_vars=4, n_nodes=17, n_edges=16)
    """

    structure: BitCircuit  # its own parameters do not matter
    edge_log_theta: FloatArray  # (n_edges, n_components) natural log of the parameters
    log_weight: FloatArray  # (n_components,) natural log of the weights
    known: FloatArray | None = None  # (n_vars, n_components) share of rows that know the variable

    def __post_init__(self) -> None:
        # Copies, which no other code can change.
        for name in ("edge_log_theta", "log_weight", "known"):
            if getattr(self, name) is not None:
                own = np.array(getattr(self, name), dtype=np.float64, order="C")
                own.flags.writeable = False
                object.__setattr__(self, name, own)
        problem = _why_not_a_mixture(self)
        if problem is not None:
            raise ValueError(f"These arrays are not a mixture: {problem}.")

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.log_weight)

    @property
    def vtree(self) -> Vtree:
        """The vtree all components share."""
        return self.structure.vtree

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """One name per variable, if they have names."""
        return self.structure.feature_names

    @property
    def table_code(self) -> TableCode | None:
        """How the columns of a table became the variables, if they did."""
        return self.structure.table_code

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return self.structure.n_vars

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the structure."""
        return self.structure.n_nodes

    @property
    def n_edges(self) -> int:
        """Number of edges of the structure."""
        return self.structure.n_edges

    @property
    def n_parameters(self) -> int:
        """Number of parameters of all components, and their weights if there are several."""
        n_weights = self.n_components if self.n_components > 1 else 0
        return n_weights + self.n_components * self.structure.n_parameters

    @property
    def has_deterministic_components(self) -> bool:
        """Whether every component is deterministic."""
        return self.structure.is_deterministic

    @property
    def weights(self) -> FloatArray:
        """The weights themselves, not their logs."""
        return np.exp(self.log_weight)

    @cached_property
    def theta_lanes(self) -> FloatArray:
        """The parameters, not their logs, for passes that take LANES components side by side.

        Of shape `(n_blocks, n_edges, LANES)`; component c is lane ``c % LANES`` of block
        ``c // LANES``, and lanes without a component are zero. LANES / 2 components or fewer come
        several times, one copy after another, so that a pass can take several rows.
        """
        k, n_edges = self.n_components, self.n_edges
        lanes = np.zeros((-(-k // LANES), n_edges, LANES))
        columns = (
            np.tile(self.edge_log_theta, max(1, LANES // k)) if k < LANES else self.edge_log_theta
        )
        with np.errstate(over="ignore"):  # passes leave components with such parameters to logs
            for block, own in enumerate(lanes):
                part = columns[:, block * LANES : (block + 1) * LANES]
                np.exp(part, out=own[:, : part.shape[1]])
        return lanes

    @cached_property
    def is_moderate(self) -> AnyArray:
        """Whether the parameters of each component are neither absurdly small nor large."""
        return are_moderate(self.edge_log_theta)

    def component(self, c: int) -> BitCircuit:
        """Component number `c` as a circuit of its own."""
        return self.structure.with_parameters(self.edge_log_theta[:, c])

    def components(self) -> list[BitCircuit]:
        """All components as circuits, on the same vtree."""
        return [self.component(c) for c in range(self.n_components)]

    def to_circuit(self) -> BitCircuit:
        """The mixture as one circuit: its root chooses a component; it is not deterministic.

        It has as many edges as all components together.
        """
        return self._as_circuit

    @cached_property
    def _as_circuit(self) -> BitCircuit:
        if self.structure.root < 2 * self.n_vars:  # a single variable that is known: no choice
            return self.structure
        return _side_by_side(self)

    def known_by(self, components: AnyArray) -> FloatArray | None:
        """The column of `known` of each of some components."""
        return None if self.known is None else self.known[:, components]

    def with_names(self, feature_names: tuple[str, ...] | None) -> BitMixture:
        """The same mixture with other feature names."""
        return replace(self, structure=self.structure.with_names(feature_names))

    def with_table_code(self, code: TableCode | None) -> BitMixture:
        """The same mixture, which answers in the columns of a table; None for its variables."""
        return replace(self, structure=self.structure.with_table_code(code))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by making the mixture again, so that its arrays are checked and stay read-only."""
        return BitMixture, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        return (
            f"BitMixture(n_components={self.n_components}, n_vars={self.n_vars}, "
            f"n_nodes={self.n_nodes}, n_edges={self.n_edges})"
        )


def _side_by_side(mixture: BitMixture) -> BitCircuit:
    """The components under one root, which chooses one; literals are shared."""
    part, k = mixture.structure, mixture.n_components
    first, n_sums = 2 * part.n_vars, part.root - 2 * part.n_vars  # without the root
    root = first + k * n_sums
    edges = []  # parent, left, right
    for c in range(k):
        number = np.append(np.arange(part.n_nodes), NONE)  # NONE stays NONE
        number[first : part.root] += c * n_sums
        number[part.root] = root
        edges.append(number[np.stack([part.edge_parent, part.edge_left, part.edge_right])])
    at_root = (part.edge_parent == part.root)[:, np.newaxis]
    log_theta = mixture.edge_log_theta + np.where(at_root, mixture.log_weight, 0.0)
    node_vtree = part.node_vtree
    parent, left, right = np.concatenate(edges, axis=1).astype(np.int32)
    return assemble(
        part.vtree,
        np.concatenate(
            [node_vtree[:first], np.tile(node_vtree[first : part.root], k), node_vtree[part.root :]]
        ),
        parent,
        left,
        right,
        log_theta.T.ravel(),
        root=root,
        feature_names=part.feature_names,
    )


def as_mixture(model: BitCircuit | BitMixture) -> BitMixture:
    """A mixture itself, or a circuit as one of a single component."""
    if isinstance(model, BitMixture):
        return model
    return BitMixture(model, model.edge_log_theta[:, np.newaxis], np.zeros(1))


def average(mixtures: list[BitMixture]) -> BitMixture:
    """The even mixture of mixtures on one structure: all their components side by side."""
    log_share = -np.log(len(mixtures))
    known = [mixture.known for mixture in mixtures if mixture.known is not None]
    return BitMixture(
        mixtures[0].structure,
        np.concatenate([mixture.edge_log_theta for mixture in mixtures], axis=1),
        np.concatenate([mixture.log_weight + log_share for mixture in mixtures]),
        np.hstack(known) if len(known) == len(mixtures) else None,
    )


def _why_not_a_mixture(mixture: BitMixture) -> str | None:
    log_theta, log_weight = mixture.edge_log_theta, mixture.log_weight
    if log_weight.ndim != 1 or len(log_weight) == 0:
        return "there must be one weight per component, and at least one component"
    problem = _why_not_logs("weights", log_weight)
    if problem is not None:
        return problem
    total = float(np.exp(log_weight).sum())
    if not abs(total - 1.0) <= WEIGHT_TOLERANCE * len(log_weight):
        return f"the weights add up to {total:g} instead of 1"
    if log_theta.shape != (mixture.structure.n_edges, len(log_weight)):
        return (
            f"the parameters must have shape ({mixture.structure.n_edges}, {len(log_weight)}), one "
            f"row per edge and one column per component, but have {log_theta.shape}"
        )
    known = mixture.known
    if known is not None and known.shape != (mixture.n_vars, len(log_weight)):
        return (
            f"there must be a share of known values per variable and component, not {known.shape}"
        )
    if known is not None and not np.all((known >= 0.0) & (known <= 1.0)):  # NaN is neither
        return "shares of known values must be between 0 and 1"
    return _why_not_logs("parameters", log_theta)


def _why_not_logs(name: str, logs: FloatArray) -> str | None:
    if not np.all(logs <= LARGEST_LOG):  # nan is not, either
        return f"the logs of the {name} must be numbers up to {LARGEST_LOG:g}, or -inf"
    return None


Model: TypeAlias = BitCircuit | BitMixture


def structure_of(model: Model) -> BitCircuit:
    """The circuit itself, or the structure that all components share."""
    return model.structure if isinstance(model, BitMixture) else model


class Part(NamedTuple):
    """The components of a model, on one structure."""

    structure: BitCircuit
    edge_log_theta: FloatArray  # (n_edges, n_components)
    theta: FloatArray  # for passes: (1, n_edges) of a circuit, else `Mixture.theta_lanes`
    is_moderate: AnyArray  # (n_components,) whether passes lose no digits of the parameters

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.edge_log_theta.shape[1]


def part_of(model: Model) -> Part:
    """The components of a model; a circuit is a single one."""
    if isinstance(model, BitMixture):
        return Part(model.structure, model.edge_log_theta, model.theta_lanes, model.is_moderate)
    column = model.edge_log_theta[:, np.newaxis]
    with np.errstate(over="ignore"):  # such circuits are evaluated in logs
        return Part(model, column, model.theta[np.newaxis], are_moderate(column))


def log_weights_of(model: Model) -> FloatArray:
    """The logs of the components' weights; a circuit has weight 1."""
    return model.log_weight if isinstance(model, BitMixture) else np.zeros(1)
