"""Compression: a smaller circuit that is nearly as good, by undoing splits that matter little.

In:  a deterministic circuit, the rows it was learned from, and rows to check the loss on.
Out: a circuit with fewer edges that admits the same rows.

Two operations alternate, `merge_sums` from the leaves up and `unite_edges` from the root down. Both
weigh what they lose, in nats of all rows, against the edges they save. The price of an edge starts
at nothing, where only what loses nothing is done, and rises while validation allows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import FloatArray
from strudel.circuits.builder import keep_edges
from strudel.circuits.circuit import Circuit
from strudel.circuits.fingerprints import admits_the_same
from strudel.circuits.flows import flow_log_likelihood
from strudel.circuits.normalization import normalize
from strudel.circuits.properties import check_properties
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits
from strudel.learning.compression.merge_sums import merge_sums
from strudel.learning.compression.unite_edges import unite_edges
from strudel.learning.parameters import fit_parameters

FIRST_PRICES = (0.0, 0.01, 0.1, 0.3, 0.6, 1.0)  # nats of all rows, per edge
RISE = 1.5  # from one price to the next, after these
MOST_FAILURES = 2  # prices in a row at which too much is lost, before we stop
N_REFINEMENTS = 3  # prices tried between the last good one and the first bad one
ROUNDING = 1e-10  # nats per row that do not count as a loss
MOST_ROUNDS = 20  # of merging and uniting at one price
LEAST_PROGRESS = 0.01  # share of the edges that a round at some price must save to be followed


def compress(
    circuit: Circuit,
    train: BitMatrix | ArrayLike,
    valid: BitMatrix | ArrayLike | None = None,
    *,
    tolerance: float = 0.01,
    reference: Literal["best", "given"] = "best",
    pseudocount: float | None = 1.0,
) -> Circuit:
    """Make a deterministic circuit smaller and hardly worse.

    Sums that admit the same rows are merged, and splits are undone, where that changes little.
    Rows that were impossible stay so, and all others stay possible.

    Parameters
    ----------
    circuit : Circuit
        Deterministic and in normal form: learned, loaded or built by hand.
    train : BitMatrix or array-like of shape (n_rows, n_vars)
        Fully observed rows to fit the parameters of the result to; their number says how much the
        circuit's own parameters weigh.
    valid : BitMatrix or array-like, optional
        Rows on which the loss is measured. Without them it is measured on the training rows, which
        say more against a smaller circuit than new rows would.
    tolerance : float, default=0.01
        How much the mean log-likelihood of these rows may fall, in nats per row. Rows that the
        circuit excludes do not count.
    reference : {"best", "given"}, default="best"
        What it may fall from: the best circuit found on the way, which is often better than the
        given one; or the given one, which allows a smaller result.
    pseudocount : float or None, default=1.0
        Virtual rows per sum node when the parameters are fitted again, which is done where it is
        better on the rows above than pooling the parameters of what was merged; None only pools.

    Returns
    -------
    Circuit
        The smallest circuit found within the tolerance.

    Examples
    --------
    >>> from strudel.learning import learn_structure
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(600, 1)).repeat(6, axis=1) ^ (rng.random((600, 6)) < 0.2)
    >>> circuit, _ = learn_structure(X[:400], X[400:500])
    >>> small = compress(circuit, X[:400], X[400:500])
    >>> small.n_edges < circuit.n_edges and small.is_deterministic
    True
    """
    if not tolerance >= 0.0:
        raise ValueError(f"tolerance must be zero or more, but is {tolerance}.")
    if reference not in ("given", "best"):
        raise ValueError(f"reference must be 'given' or 'best', but is {reference!r}.")
    if pseudocount is not None and not pseudocount >= 0.0:
        raise ValueError(f"pseudocount must be zero or more, or None, but is {pseudocount}.")
    if not isinstance(circuit, Circuit):
        raise TypeError(
            f"compress takes a Circuit, but got {type(circuit).__name__}: give model.circuit_."
        )
    check_properties(circuit, "compress", "in_normal_form", "deterministic")
    train_bits = as_bits(train)
    judge = _Judge(circuit, train_bits if valid is None else as_bits(valid))
    if train_bits.total_weight == 0.0:
        raise ValueError("compress needs at least one training row with a positive weight.")
    if circuit.root < 2 * circuit.n_vars:  # a single variable, fixed
        return circuit
    start = _without_impossible_edges(circuit)
    descent = _Descent(start, train_bits, judge, tolerance, reference, pseudocount)
    for price in _prices(train_bits.total_weight):
        descent.follow(price)
        if descent.n_failures == MOST_FAILURES:
            break
    descent.refine()
    best = descent.smallest()
    assert admits_the_same(best, start)
    return best


class _Descent:
    """The way down, price by price, and every circuit met on it."""

    def __init__(
        self,
        start: Circuit,
        train: BitMatrix,
        judge: _Judge,
        tolerance: float,
        reference: str,
        pseudocount: float | None,
    ) -> None:
        self.train, self.judge = train, judge
        self.tolerance, self.reference = tolerance + ROUNDING, reference
        self.pseudocount = pseudocount
        self.found = [(judge.score(start), start)]
        self.top = self.found[0][0]
        self.now = start
        self.last_good = (0.0, start)  # price and circuit, with pooled parameters
        self.first_bad: float | None = None  # the price after it
        self.n_failures = 0

    def follow(self, price: float) -> None:
        """Continue from the last circuit."""
        self.now = _simplify(self.now, self.train.total_weight, price)
        if self._is_good(self.now):
            self.last_good, self.first_bad, self.n_failures = (price, self.now), None, 0
        else:
            self.first_bad = price if self.first_bad is None else self.first_bad
            self.n_failures += 1

    def refine(self) -> None:
        """Look for a better price between the last good one and the next."""
        for _ in range(N_REFINEMENTS if self.first_bad is not None else 0):
            low, circuit = self.last_good
            assert self.first_bad is not None
            price = (low + self.first_bad) / 2.0
            circuit = _simplify(circuit, self.train.total_weight, price)
            if self._is_good(circuit):
                self.last_good = (price, circuit)
            else:
                self.first_bad = price

    def smallest(self) -> Circuit:
        """The smallest circuit within the tolerance; the best of equally small ones."""
        good = [entry for entry in self.found if entry[0] >= self.top - self.tolerance]
        return min(good, key=lambda entry: (entry[1].n_edges, -entry[0]))[1]

    def _is_good(self, circuit: Circuit) -> bool:
        """Write down a circuit with its better parameters; whether it is within the tolerance."""
        score = self.judge.score(circuit)
        if self.pseudocount is not None:
            fitted = _possible_fit(circuit, self.train, self.pseudocount)
            fitted_score = self.judge.score(fitted)
            if fitted_score > score:
                score, circuit = fitted_score, fitted
        self.found.append((score, circuit))
        if self.reference == "best":
            self.top = max(self.top, score)
        return score >= self.top - self.tolerance


def _prices(total: float) -> Iterator[float]:
    """Rising prices, up to where every row could be given up for an edge."""
    yield from FIRST_PRICES
    price = FIRST_PRICES[-1] * RISE
    while price < total:
        yield price
        price *= RISE


def _simplify(circuit: Circuit, total: float, price: float) -> Circuit:
    """Merge and unite in turn until that saves nothing more."""
    # What hardly any row takes may change without being weighed: an edge's worth of rows.
    few = price
    progress = LEAST_PROGRESS if price > 0.0 else 0.0
    for _ in range(MOST_ROUNDS):
        smaller = merge_sums(unite_edges(circuit, total, price), total, price, few)
        if smaller.n_edges >= circuit.n_edges:
            break
        saved = circuit.n_edges - smaller.n_edges
        circuit = smaller
        if saved < progress * circuit.n_edges:
            break
    return circuit


class _Judge:
    """Mean log-likelihood of the rows that are possible under a circuit."""

    def __init__(self, circuit: Circuit, bits: BitMatrix) -> None:
        if bits.n_vars != circuit.n_vars:
            raise ValueError(
                f"The rows have {bits.n_vars} columns, but the circuit has {circuit.n_vars} "
                "variables."
            )
        self.bits = bits
        self.weight: FloatArray = np.where(
            flow_log_likelihood(circuit, bits) > -np.inf, bits.weights, 0.0
        )
        if self.weight.sum() == 0.0:
            raise ValueError(
                "compress measures its loss on rows that are possible under the circuit, but there "
                "are none."
            )

    def score(self, circuit: Circuit) -> float:
        """The mean; rows that the first circuit excludes do not count."""
        log_likelihood = flow_log_likelihood(circuit, self.bits)
        counts = self.weight > 0.0
        return float(np.average(log_likelihood[counts], weights=self.weight[counts]))


def _without_impossible_edges(circuit: Circuit) -> Circuit:
    """The same distribution without parameters of zero, and with sums that add up to one."""
    circuit, log_total = normalize(circuit)
    if log_total == -np.inf:
        raise ValueError("compress needs a distribution, but every row has probability zero.")
    kept = np.flatnonzero(circuit.edge_log_theta > -np.inf)
    return keep_edges(circuit, kept, circuit.edge_log_theta[kept])


def _possible_fit(circuit: Circuit, train: BitMatrix, pseudocount: float) -> Circuit:
    """Fitted parameters, unless they would make a possible row impossible."""
    fitted = fit_parameters(circuit, train, pseudocount=pseudocount)
    return circuit if np.any(fitted.edge_log_theta == -np.inf) else fitted
