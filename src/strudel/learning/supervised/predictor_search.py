"""Choose a structure and a penalty for a predictor circuit.

In:  the circuits to start from, training and validation rows with a target, a loss.
Out: the structure; the penalty; the `PredictorCircuit`; and what was tried.

Every start is tried on the validation rows, then splits are added to the best one where the
predictor still errs, a few at a time. The smallest structure wins whose validation rows lose,
within one standard error, as little as those of the best (half of one for splits that were made
for the target): larger ones cost time in every expectation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import compute_flows
from strudel.circuits.predictor import PredictorCircuit
from strudel.data.bits import pack_columns
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import N_EDGES
from strudel.learning.supervised.losses import EXACT, ROUGH, LinearFit, Loss
from strudel.learning.supervised.target_splits import split_for_target

BLOCK = 2**23  # entries that are looked at together
ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # what alpha="auto" tries
SEARCH_ALPHA = 10.0  # while structures are compared, if alpha is chosen only then
TARGET_SPLITS = 150  # most that target_splits="auto" tries
FEW_ROWS = 500  # with fewer validation rows the penalty is chosen by cross-validation
N_FOLDS = 5
FIRST_SPLITS, LATER_SHARE = 4, 4  # splits between two fits: four, or a quarter of those so far


def chosen_edges(active: IntArray, has_choice: NDArray[np.bool_]) -> IntArray:
    """The edges that some row takes and that had an alternative, in order.

    `active` is (n_vtree_nodes, n_rows), NONE where a row takes no edge; `has_choice` (n_edges,).
    """
    is_taken = np.zeros(len(has_choice) + 1, dtype=bool)
    is_taken[active.ravel()] = True  # NONE marks the last entry, which is no edge
    return np.flatnonzero(is_taken[:-1] & has_choice).astype(np.int32)


def flow_features(
    active: IntArray, edges: IntArray, n_edges: int, X: ByteArray
) -> sparse.csr_matrix[np.float64]:
    """A row as the edges it takes: a sparse 0/1 matrix `(n_rows, len(edges) + n_vars)`.

    A linear model of these columns is a `PredictorCircuit`. Edges without a choice are left out,
    since the edge above says the same; the variables themselves stay, so that edges only have to
    say where their context makes a difference.
    """
    place = np.full(n_edges + 1, NONE, dtype=np.int32)
    place[edges] = np.arange(len(edges), dtype=np.int32)
    n_rows, n_vars = X.shape
    columns, widths = [], []
    step = max(1, BLOCK // (len(active) + n_vars))
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        variable = np.where(X[rows] == 1, len(edges) + np.arange(n_vars, dtype=np.int32), NONE)
        line = np.hstack([place[active[:, rows].T], variable])
        columns.append(line[line != NONE])
        widths.append((line != NONE).sum(axis=1))
    indices: AnyArray = np.concatenate([np.empty(0, dtype=np.int32), *columns]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, int), *widths]))])
    shape = (n_rows, len(edges) + n_vars)
    matrix = sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=shape)
    matrix.sort_indices()
    return matrix


def has_choice(circuit: Circuit) -> NDArray[np.bool_]:
    """Whether the sum of every edge has another one `(n_edges,)`."""
    width = np.diff(circuit.node_edges)
    return np.asarray(width[circuit.edge_parent] > 1)


def predictor_from_weights(
    structure: Circuit, edges: IntArray, coefficients: FloatArray, bias: FloatArray, kind: str
) -> PredictorCircuit:
    """The circuit of a linear model: `coefficients` has shape (len(edges) + n_vars, n_outputs)."""
    n_outputs = len(bias)
    edge_weight = np.zeros((structure.n_edges, n_outputs))
    edge_weight[edges] = coefficients[: len(edges)]
    literal_weight = np.zeros((2 * structure.n_vars, n_outputs))
    literal_weight[1::2] = coefficients[len(edges) :]
    return PredictorCircuit(
        structure=structure,
        literal_weight=literal_weight,
        edge_weight=edge_weight,
        bias=np.asarray(bias, dtype=np.float64),
        kind=kind,  # type: ignore[arg-type]
    )


class Rows(NamedTuple):
    """Complete rows with a target."""

    X: ByteArray
    target: FloatArray  # (n_rows, n_outputs)
    weight: FloatArray  # (n_rows,)

    def take(self, rows: AnyArray) -> Rows:
        """Some of the rows."""
        return Rows(self.X[rows], self.target[rows], self.weight[rows])


class StructureTrial(NamedTuple):
    """A structure that was tried."""

    n_splits: int  # of the density search
    n_target_splits: int
    n_edges: int
    valid: float  # mean loss of the validation rows


class PredictorSearch:
    """A search over structures for one target.

    Without `valid` rows nothing can be chosen. The penalty `alpha` is chosen in the end if it is
    None.
    """

    def __init__(self, loss: Loss, train: Rows, valid: Rows | None, alpha: float | None) -> None:
        self.loss = loss
        self.train = train
        self.valid = valid
        self.alpha = alpha
        self.trials: list[StructureTrial] = []
        self._train_bits = pack_columns(train.X, train.weight)
        self._valid_bits = pack_columns(train.X[:0] if valid is None else valid.X)

    @property
    def search_alpha(self) -> float:
        """The penalty while structures are compared."""
        return SEARCH_ALPHA if self.alpha is None else self.alpha

    def choose_start(self, starts: Sequence[tuple[int, Circuit]]) -> int:
        """The best of some circuits, each with the number of its splits; returns which."""
        if len(starts) == 1:
            return 0
        assert self.valid is not None
        losses = []
        for n_splits, circuit in starts:
            growing = self._growing(circuit)
            train, valid = self._features(growing)
            losses.append(self._try(growing, self._rough_fit(train), valid, n_splits, 0))
        return first_good(losses, self.valid.weight)

    def split(self, start: Circuit, n_splits: int, most: int | None) -> tuple[Circuit, int]:
        """The start with `most` more splits, or as many as help if that is None."""
        growing = self._growing(start)
        losses: dict[int, FloatArray] = {}  # by the number of splits
        limit = TARGET_SPLITS if most is None else most
        made = 0
        while made < limit or most is None:
            train, valid = self._features(growing)
            fit = self._rough_fit(train)
            if most is None:
                losses[made] = self._try(growing, fit, valid, n_splits, made)
            gradient, hessian = self.loss.derivatives(fit.output(train), self.train.target)
            weight = self.train.weight[:, np.newaxis]
            new = split_for_target(
                growing,
                gradient * weight,
                hessian * weight,
                alpha=self.search_alpha,
                n_splits=min(max(FIRST_SPLITS, made // LATER_SHARE), limit - made),
            )
            if new == 0:  # nothing left that helps, or as many as allowed
                break
            made += new
        if most is None:
            assert self.valid is not None
            held_out = list(losses.values())
            made = list(losses)[first_good(held_out, self.valid.weight, n_errors=0.5)]
        return growing.snapshot(made), made

    def choose_alpha(self, structure: Circuit) -> float:
        """The largest penalty that is within one standard error of the best.

        A few validation rows cannot rank penalties: all rows then take part, by cross-validation.
        """
        if self.alpha is not None:
            return self.alpha
        assert self.valid is not None
        pool = [self.train, self.valid]
        rows = Rows(*(np.concatenate(parts) for parts in zip(*pool, strict=True)))
        active = compute_flows(structure, rows.X).active_edge
        edges = chosen_edges(active[:, : len(self.train.X)], has_choice(structure))
        features = flow_features(active, edges, structure.n_edges, rows.X)
        place = np.arange(len(rows.X))
        if len(self.valid.X) >= FEW_ROWS:
            folds = [place >= len(self.train.X)]
        else:
            folds = [place % N_FOLDS == fold for fold in range(min(N_FOLDS, len(place)))]
        tested = np.concatenate([place[fold] for fold in folds])
        losses = []
        for alpha in ALPHAS[::-1]:
            loss = np.empty(len(place))
            for fold in folds:
                kept = rows.take(~fold) if (~fold).any() else rows
                fit = self.loss.solve(
                    features[~fold] if (~fold).any() else features,
                    kept.target,
                    kept.weight,
                    alpha,
                    ROUGH**2,
                )
                loss[fold] = self.loss.of_rows(fit.output(features[fold]), rows.target[fold])
            losses.append(loss[tested])
        return ALPHAS[::-1][first_good(losses, rows.weight[tested])]

    def _growing(self, start: Circuit) -> GrowingCircuit:
        return GrowingCircuit(start, self._train_bits, self._valid_bits)

    def _features(self, growing: GrowingCircuit) -> tuple[Any, Any]:
        """Features of training and validation rows, by edges as they are numbered now."""
        g = growing.growth
        n_edges = int(g.size[N_EDGES])
        choice = g.node["width"][g.edge["parent"][:n_edges]] > 1
        edges = chosen_edges(g.train_active, choice)
        train = flow_features(g.train_active, edges, n_edges, self.train.X)
        if self.valid is None:
            return train, None
        return train, flow_features(g.valid_active, edges, n_edges, self.valid.X)

    def _rough_fit(self, features: Any) -> LinearFit:
        return self.loss.solve(
            features, self.train.target, self.train.weight, self.search_alpha, ROUGH
        )

    def _try(
        self, growing: GrowingCircuit, fit: LinearFit, valid: Any, n_splits: int, n_target: int
    ) -> FloatArray:
        """What every validation row loses by a fit to the training rows."""
        assert self.valid is not None
        loss = self.loss.of_rows(fit.output(valid), self.valid.target)
        mean = float(self.valid.weight @ loss / self.valid.weight.sum())
        self.trials.append(StructureTrial(n_splits, n_target, growing.n_edges, mean))
        return loss


def first_good(losses: Sequence[FloatArray], weight: FloatArray, n_errors: float = 1.0) -> int:
    """The first of some losses of rows that is within `n_errors` standard errors of the best."""
    share = weight / weight.sum()
    best = losses[int(np.argmin([share @ loss for loss in losses]))]
    for place, loss in enumerate(losses):
        worse = loss - best
        mean = float(share @ worse)
        if mean <= n_errors * float(np.sqrt(share**2 @ (worse - mean) ** 2)):
            return place
    raise AssertionError("the best is as good as itself")


def fit_circuit(structure: Circuit, rows: Rows, loss: Loss, alpha: float) -> PredictorCircuit:
    """The predictor circuit on a structure, fitted to all the precision there is."""
    active = compute_flows(structure, rows.X).active_edge
    edges = chosen_edges(active, has_choice(structure))
    features = flow_features(active, edges, structure.n_edges, rows.X)
    fit = loss.solve(features, rows.target, rows.weight, alpha, EXACT)
    return predictor_from_weights(structure, edges, fit.coefficients, fit.bias, loss.kind)
