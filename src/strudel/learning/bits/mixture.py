"""Mixtures: many circuits over 0/1 variables that share one structure, and so one flow per row.

A `BitMixture` is one `BitCircuit` for the structure, one column of log-parameters per component,
and the components' weights. What a row passes does not depend on the parameters, so its flow is
found once for all components (equation 1 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import LARGEST_LOG, WEIGHT_TOLERANCE
from strudel.learning.bits.circuit import BitCircuit
from strudel.trees.vtree import Vtree


@dataclass(frozen=True, eq=False)
class BitMixture:
    """A weighted mixture of circuits with one structure."""

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
    def n_vars(self) -> int:
        """Number of variables."""
        return self.structure.n_vars

    @property
    def n_edges(self) -> int:
        """Number of edges of the structure."""
        return self.structure.n_edges

    @property
    def weights(self) -> FloatArray:
        """The weights themselves, not their logs."""
        return np.exp(self.log_weight)

    def component(self, c: int) -> BitCircuit:
        """Component number `c` as a circuit of its own."""
        return self.structure.with_parameters(self.edge_log_theta[:, c])


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
    total = float(np.exp(log_weight).sum())
    if not abs(total - 1.0) <= WEIGHT_TOLERANCE * len(log_weight):  # NaN is not, either
        return f"the weights add up to {total:g} instead of 1"
    if log_theta.shape != (mixture.n_edges, len(log_weight)):
        return (
            f"the parameters must have shape ({mixture.n_edges}, {len(log_weight)}), one "
            f"row per edge and one column per component, but have {log_theta.shape}"
        )
    if not np.all(log_theta <= LARGEST_LOG):
        return f"the logs of the parameters must be numbers up to {LARGEST_LOG:g}, or -inf"
    known: AnyArray | None = mixture.known
    if known is not None and known.shape != (mixture.n_vars, len(log_weight)):
        return (
            f"there must be a share of known values per variable and component, not {known.shape}"
        )
    if known is not None and not np.all((known >= 0.0) & (known <= 1.0)):
        return "shares of known values must be between 0 and 1"
    return None


Model: TypeAlias = BitCircuit | BitMixture
