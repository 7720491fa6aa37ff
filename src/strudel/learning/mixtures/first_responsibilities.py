"""Where EM begins: first responsibilities of the components for the rows.

In:  the rows and the number of components.
Out: for any block of rows, one share per row and component.

Components that begin alike stay alike for ever, so a start has to tell them apart: by clusters of
similar rows, or at random.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.learning.options import InitParams
from strudel.queries.variable_probabilities import covariance
from strudel.tables.column_codes import ColumnCode, as_column_codes, complete_columns

Responsibilities = Callable[[slice], FloatArray]  # rows -> (n_rows, n_components)

CLUSTERED_ROWS = 2**15  # rows that k-means looks at; the others go to the nearest centre
UNEVEN = 0.1  # shape of the gamma variates of a random start: most of a row goes to few components
N_DIRECTIONS, NO_DIRECTION = 8, 1e-9  # that a circuit lacks; no variance, but for rounding
MOST_VARIABLES = 1000  # that are compared in pairs
LIGHT = 1e-30  # of a weight: sums of 32 bits stay far from their ends
_alone = RLock()


def responsibilities(
    bits: BitMatrix,
    n_components: int,
    start: InitParams,
    rng: np.random.Generator,
    table: AnyArray | None = None,
) -> Responsibilities:
    """First responsibilities of one mixture.

    Rows are similar where their variables are alike, or their lines of a `table`, if there is one.
    """
    if start == "random":
        seed = int(rng.integers(2**63))
        return lambda rows: _random_shares(rows, n_components, seed)
    if table is None:
        table = bits.unpack()
    chosen = np.arange(bits.n_rows)
    if bits.n_rows > CLUSTERED_ROWS:
        chosen = np.sort(rng.choice(bits.n_rows, CLUSTERED_ROWS, replace=False))
    clusters = find_clusters(table[chosen], bits.weights[chosen], n_components, start, rng)
    label = clusters.label(table)
    return lambda rows: (label[rows, np.newaxis] == np.arange(n_components)).astype(np.float64)


def scaled_columns(bits: BitMatrix, columns: Sequence[ColumnCode]) -> AnyArray:
    """A table in which all columns count alike, however many variables they have."""
    table = bits.unpack()
    scaled: AnyArray = table.astype(np.float32) * _scales(table, bits.weights, columns)
    return scaled


def lacking_directions(
    circuit: Circuit, bits: BitMatrix, columns: Sequence[ColumnCode] | None
) -> AnyArray | None:
    """A table of the directions in which rows vary together, and the circuit does not say so.

    They are the first principal components of what the covariances of the rows exceed those of the
    circuit by: clusters along them tell what the circuit does not know. None if there are none, or
    too many variables.
    """
    if not 1 < bits.n_vars <= MOST_VARIABLES or bits.n_rows < 2:
        return None
    columns = complete_columns(as_column_codes(columns or ()), bits.n_vars)
    table = bits.unpack()
    scale = _scales(table, bits.weights, columns).astype(np.float64)
    scaled = table * scale
    scaled -= bits.weights @ scaled / bits.weights.sum()
    seen = (scaled * bits.weights[:, np.newaxis]).T @ scaled / bits.weights.sum()
    known = covariance(circuit) * np.outer(scale, scale)
    with _one_thread():
        size, direction = np.linalg.eigh(seen - known)
    chosen = np.argsort(-size, kind="stable")[:N_DIRECTIONS]
    chosen = chosen[size[chosen] > NO_DIRECTION]
    if len(chosen) == 0:
        return None
    found = scaled @ direction[:, chosen]
    spread = np.sqrt(bits.weights @ found**2 / bits.weights.sum())
    lacking: AnyArray = found * (np.sqrt(size[chosen]) / np.maximum(spread, NO_DIRECTION))
    return lacking.astype(np.float32)


def _scales(table: AnyArray, weight: FloatArray, columns: Sequence[ColumnCode]) -> AnyArray:
    """For every variable a factor, with which all columns that vary have the same variance.

    A number of eight cells has seven variables, a category of two values one: without the factors
    clusters are made of numbers alone.
    """
    mean = weight @ table / weight.sum()
    scale, variance = np.ones(table.shape[1], dtype=np.float32), mean * (1.0 - mean)
    for column in columns:
        own = slice(column.start, column.stop)
        if variance[own].sum() > 0.0:
            scale[own] = 1.0 / np.sqrt(variance[own].sum())
    return scale


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of similar rows."""

    k_means: Any

    def label(self, table: AnyArray) -> IntArray:
        """The nearest centre of every row."""
        with _one_thread():
            labels = [
                self.k_means.predict(table[first : first + CLUSTERED_ROWS].astype(np.float32))
                for first in range(0, len(table), CLUSTERED_ROWS)
            ]
        return np.concatenate(labels) if labels else np.zeros(0, dtype=np.int32)


def find_clusters(
    sample: AnyArray,
    weight: FloatArray,
    n_components: int,
    start: InitParams,
    rng: np.random.Generator,
) -> Clusters:
    """Clusters of some rows, by k-means."""
    from sklearn.cluster import MiniBatchKMeans  # late: the rest of learning needs neither

    k_means = MiniBatchKMeans(
        min(n_components, len(sample)),
        init="random" if start == "kmeans" else "k-means++",
        max_iter=5,
        n_init=1,
        random_state=int(rng.integers(2**31)),
    )
    most = weight.max()
    if not LIGHT <= most <= 1.0 / LIGHT:  # k-means takes 32 bits; only shares matter
        weight = weight / most
    with _one_thread():
        k_means.fit(sample.astype(np.float32), sample_weight=weight)
    return Clusters(k_means)


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread: the work is small, and pools of several libraries would wait for one another.

    Both settings are those of the whole process, so only one thread at a time may change them.
    """
    with _alone, _thread_pools().limit(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows than clusters: some stay empty
        yield


@cache
def _thread_pools() -> Any:
    """The thread pools of other libraries: to find them takes 20 ms, and mixtures start often."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _random_shares(rows: slice, n_components: int, seed: int) -> FloatArray:
    rng = np.random.default_rng([seed, rows.start])
    share = rng.gamma(UNEVEN, size=(rows.stop - rows.start, n_components)) + 1e-300
    return share / share.sum(axis=1, keepdims=True)
