"""Which fit a checkpoint belongs to: the estimator, its options, its rows and where it starts.

In:  a `Checkpoint`, an estimator that is about to learn, and its rows.
Out: the `Journal` of the fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from numbers import Integral
from typing import Any, Protocol

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.learning.journal import Journal
from strudel.learning.options import Options
from strudel.trees.vtree import Vtree

WITHOUT_EFFECT = ("n_jobs", "verbose", "warm_start")  # on the result, or seen in where it starts


class OpensJournal(Protocol):
    """A file of what was done."""

    def open(self, fit: dict[str, Any]) -> Journal:
        """The journal of a fit, if the file belongs to it."""


def open_journal(
    checkpoint: OpensJournal | Journal | None, estimator: Any, digest_rows: Callable[[], str]
) -> Journal:
    """A new journal, or the one that a checkpoint holds; `digest_rows` tells tables apart."""
    if checkpoint is None:
        return Journal()
    if isinstance(checkpoint, Journal):
        return checkpoint
    seed = estimator.random_state
    if not isinstance(seed, Integral):
        raise ValueError(
            "A checkpoint needs a whole number as random_state, so that a resumed fit holds out "
            f"the same rows, but random_state is {seed!r}."
        )
    return checkpoint.open(
        {
            "estimator": type(estimator).__name__,
            "options": {
                name: _text(value)
                for name, value in sorted(estimator.get_params(deep=False).items())
                if name not in WITHOUT_EFFECT
            },
            "rows": digest_rows(),
        }
    )


def _text(value: Any) -> str:
    """An option in words, the same in every process."""
    if isinstance(value, Vtree):
        arrays = (value.node_left, value.node_right, value.node_var)
        return f"vtree {digest_of(*arrays)[:16]}"
    if value is None or isinstance(value, str | int | float | np.number | range):
        return str(value)
    if hasattr(value, "get_params"):  # a search, a training method or an encoder
        own = {name: _text(one) for name, one in sorted(value.get_params(deep=False).items())}
        return f"{type(value).__name__} {own}"
    if isinstance(value, Options | range):
        return repr(value)
    return type(value).__name__  # a constraint is in the circuit to start from


def digest_of_rows(train: BitMatrix, valid: BitMatrix | None, start: Circuit | None) -> str:
    """A digest of the rows of a fit and of where it starts."""
    parts: list[Any] = [np.array([train.n_vars, train.n_rows]), train.words, train.weights]
    if valid is not None:
        parts += [np.array([valid.n_vars, valid.n_rows]), valid.words, valid.weights]
    if start is not None:
        parts += [start.node_vtree, start.node_edges, start.edge_left, start.edge_right]
    return digest_of(*parts)


def digest_of(*arrays: Any) -> str:
    """Of the bytes of some arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
