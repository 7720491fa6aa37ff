"""Several mixtures become one: their average, with the weights that suit validation rows best.

In:  mixtures on structures of which the finest is made of all others by splits and clones, and the
     log-likelihoods of the validation rows under each of them.
Out: one `Mixture` on the finest structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strudel._types import FloatArray
from strudel.algebra.finer_structure import on_finer_structure
from strudel.circuits.mixture import Mixture

WEIGHT_STEPS = 300  # of EM on validation rows, for a handful of weights
SURE = 2.0  # standard errors of what a kind must gain where it was chosen on the same rows
NO_SHARE = 0.005  # of the weight: what has less is left out
NOTHING = 1e-4  # nats per row that are not worth more components


@dataclass(frozen=True, eq=False)
class Group:
    """A mixture that takes part in the average."""

    kind: str
    n_splits: int
    mixture: Mixture
    log_p: FloatArray  # of the validation rows


def shares_of(groups: Sequence[Group], weight: FloatArray, virtual_rows: float = 0.0) -> FloatArray:
    """The weights of mixtures with which validation rows are most likely, by EM.

    `virtual_rows` are divided evenly among the mixtures, so that few rows do not decide alone.
    """
    likelihood = np.column_stack([group.log_p for group in groups])
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    even = np.full(len(groups), 1.0 / len(groups))
    share = even
    for _ in range(WEIGHT_STEPS):
        joint = likelihood * share
        count = weight @ (joint / joint.sum(axis=1, keepdims=True)) + virtual_rows * even
        share = count / (weight.sum() + virtual_rows)
    return share


def log_p_together(groups: Sequence[Group], weight: FloatArray) -> FloatArray:
    """Log-likelihoods of rows under the average of mixtures that is best for them."""
    return log_p_of(groups, shares_of(groups, weight))


def log_p_of(groups: Sequence[Group], shares: FloatArray) -> FloatArray:
    """Log-likelihoods of the validation rows under an average of mixtures."""
    log_p = np.column_stack([group.log_p for group in groups])
    with np.errstate(divide="ignore"):
        log_share = np.log(shares)
    found: FloatArray = np.logaddexp.reduce(log_p + log_share, axis=1)
    return found


def gain_in_errors(gain: FloatArray, weight: FloatArray) -> float:
    """What rows gain on average, in standard errors."""
    share = weight / weight.max()  # whose squares neither vanish nor overflow
    mean = np.average(gain, weights=share)
    error = np.sqrt(np.sum((share * (gain - mean)) ** 2)) / share.sum()
    return float(mean / max(error, NOTHING))


def that_matter(groups: Sequence[Group], shares: FloatArray) -> tuple[list[Group], FloatArray]:
    """The groups without those of hardly any weight, and their shares."""
    kept = shares >= NO_SHARE
    matter = [group for group, is_kept in zip(groups, kept, strict=True) if is_kept]
    return matter, shares[kept] / shares[kept].sum()


def longest(groups: Sequence[Group]) -> Group:
    """One on the longest prefix."""
    return max(groups, key=lambda group: group.n_splits)


def weighted_average(groups: Sequence[Group], shares: FloatArray) -> Mixture:
    """One mixture, on the longest prefix."""
    finest = longest(groups).mixture.structure
    mixtures = [on_finer_structure(group.mixture, finest) for group in groups]
    known = [group.mixture.known for group in groups if group.mixture.known is not None]
    return Mixture(
        finest,
        np.hstack([mixture.edge_log_theta for mixture in mixtures]),
        np.concatenate(
            [
                mixture.log_weight + np.log(one)
                for mixture, one in zip(mixtures, shares, strict=True)
            ]
        ),
        np.hstack(known) if len(known) == len(groups) else None,
    )
