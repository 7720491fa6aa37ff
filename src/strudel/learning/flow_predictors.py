"""Predictor circuits: linear models of the edges that rows take, on a structure that is chosen.

In:  the circuits to start from, training and validation rows of cells with a target, a loss.
Out: the structure; the penalty; the `PredictorCircuit`; and what was tried.

Every start is tried on the validation rows, then splits are added to the best one where the
predictor still errs, a few at a time. The smallest structure wins whose validation rows lose,
within one standard error, as little as those of the best (half of one for splits that were made
for the target): larger ones cost time in every expectation.

Both losses are written so that the penalty is ``alpha / 2`` times the squared coefficients, the
bias left out: scikit-learn's `Ridge(alpha)` and `LogisticRegression(C=1 / alpha)`.

Splits are those of a learner, over bits. Splitting an edge on a variable gives the rows of either
value a weight of their own. To second order the penalised loss then falls by half of
``G1^2 / (H1 + alpha) + G0^2 / (H0 + alpha)``, less what one weight for both would gain, where G and
H add up the gradient of the loss and its second derivative over the rows. Logistic circuits are
grown in much the same way (Liang and Van den Broeck 2019).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from strudel._numba import kernel, lowest_bit
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import lines_taken
from strudel.circuits.predictor import PredictorCircuit
from strudel.data.bits import pack_columns
from strudel.data.validation import slices
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES, Growth, undecided_places

ROUGH, EXACT = 1e-3, 1e-9  # tolerance of the solvers, while searching and in the end
BLOCK = 2**23  # entries that are looked at together
ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # what alpha="auto" tries
SEARCH_ALPHA = 10.0  # while structures are compared, if alpha is chosen only then
TARGET_SPLITS = 150  # most that target_splits="auto" tries
FEW_ROWS = 500  # with fewer validation rows the penalty is chosen by cross-validation
N_FOLDS = 5
FIRST_SPLITS, LATER_SHARE = 4, 4  # splits between two fits: four, or a quarter of those so far
FEWEST_ROWS = 10.0  # weight of the rows through an edge that is split
TIE = 1e-6  # gains that differ by less, relatively, are equal: BLAS libraries round differently


class LinearFit(NamedTuple):
    """A linear model of flow features."""

    coefficients: FloatArray  # (n_features, n_outputs)
    bias: FloatArray  # (n_outputs,)

    def output(self, features: Any) -> FloatArray:
        """The values `(n_rows, n_outputs)`."""
        return np.asarray(features @ self.coefficients) + self.bias


class SquaredLoss:
    """Half the squared error; the target is a column of numbers `(n_rows, 1)`.

    `solve` finds the coefficients with the least penalised loss, `of_rows` what every row loses,
    `derivatives` the negative first and the second derivative by the outputs.
    """

    kind: Literal["regression", "logistic"] = "regression"

    def solve(
        self, features: Any, target: FloatArray, weight: FloatArray, alpha: float, tolerance: float
    ) -> LinearFit:
        """Ridge regression by conjugate gradients."""
        from sklearn.linear_model import Ridge

        model = Ridge(alpha, solver="sparse_cg", tol=tolerance)
        model.fit(features, target[:, 0], sample_weight=weight)
        return LinearFit(model.coef_.reshape(-1, 1), np.array([float(model.intercept_)]))

    def of_rows(self, output: FloatArray, target: FloatArray) -> FloatArray:
        """Squared errors."""
        return ((output - target) ** 2)[:, 0]

    def derivatives(self, output: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals and ones."""
        return target - output, np.ones_like(output)


class LogLoss:
    """The log-loss of 0/1 targets `(n_rows, n_outputs)`, each column for itself.

    Two classes have one column, more have one each: the log-odds of a class against all others,
    which is what files of logistic circuits hold.
    """

    kind: Literal["regression", "logistic"] = "logistic"

    def solve(
        self, features: Any, target: FloatArray, weight: FloatArray, alpha: float, tolerance: float
    ) -> LinearFit:
        """Logistic regression for each column."""
        fits = [
            self._solve_one(features, column, weight, alpha, tolerance)
            for column in target.T.astype(np.int64)
        ]
        coefficients, bias = zip(*fits, strict=True)
        return LinearFit(np.hstack(coefficients), np.concatenate(bias))

    def _solve_one(
        self, features: Any, target: Any, weight: FloatArray, alpha: float, tolerance: float
    ) -> LinearFit:
        ones = float(weight @ target)
        if not 0.0 < ones < weight.sum():  # a fold without the only row of a class
            odds = (ones + 0.5) / (weight.sum() - ones + 0.5)
            return LinearFit(np.zeros((features.shape[1], 1)), np.array([np.log(odds)]))
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=1.0 / alpha, tol=tolerance, max_iter=2000)
        with warnings.catch_warnings():
            if tolerance == EXACT:  # lbfgs cannot always reach it: then it has converged
                warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(features, target, sample_weight=weight)
        return LinearFit(model.coef_.reshape(-1, 1), model.intercept_.astype(np.float64))

    def of_rows(self, output: FloatArray, target: FloatArray) -> FloatArray:
        """Added up over the columns."""
        return (np.logaddexp(0.0, output) - target * output).sum(axis=1)

    def derivatives(self, output: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals of the probabilities, and their variances."""
        probability = expit(output)
        return target - probability, probability * (1.0 - probability)


Loss: TypeAlias = SquaredLoss | LogLoss


class Rows(NamedTuple):
    """Complete rows with a target."""

    cells: AnyArray  # (n_rows, n_columns)
    target: FloatArray  # (n_rows, n_outputs)
    weight: FloatArray  # (n_rows,)

    def take(self, rows: AnyArray) -> Rows:
        """Some of the rows."""
        return Rows(self.cells[rows], self.target[rows], self.weight[rows])


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
        self._train_bits = pack_columns(train.cells, train.weight)
        self._valid_bits = pack_columns(train.cells[:0] if valid is None else valid.cells)

    @property
    def search_alpha(self) -> float:
        """The penalty while structures are compared."""
        return SEARCH_ALPHA if self.alpha is None else self.alpha

    def choose_start(self, starts: Sequence[tuple[int, BitCircuit]]) -> int:
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

    def split(self, start: BitCircuit, n_splits: int, most: int | None) -> tuple[BitCircuit, int]:
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
        n_train, n_rows = len(self.train.cells), len(rows.cells)
        _, features = features_of(structure, rows.cells, n_train)
        place = np.arange(n_rows)
        if n_rows - n_train >= FEW_ROWS:
            folds = [place >= n_train]
        else:
            folds = [place % N_FOLDS == fold for fold in range(min(N_FOLDS, len(place)))]
        tested = np.concatenate([place[fold] for fold in folds])
        losses = []
        for alpha in ALPHAS[::-1]:
            loss = np.empty(len(place))
            for fold in folds:
                kept = ~fold if (~fold).any() else slice(None)
                target, weight = rows.target[kept], rows.weight[kept]
                fit = self.loss.solve(features[kept], target, weight, alpha, ROUGH**2)
                loss[fold] = self.loss.of_rows(fit.output(features[fold]), rows.target[fold])
            losses.append(loss[tested])
        return ALPHAS[::-1][first_good(losses, rows.weight[tested])]

    def _growing(self, start: BitCircuit) -> GrowingCircuit:
        return GrowingCircuit(start, self._train_bits, self._valid_bits)

    def _features(self, growing: GrowingCircuit) -> tuple[Any, Any]:
        """Features of training and validation rows, by edges as they are numbered now."""
        g = growing.growth
        has_choice = g.node["width"][g.edge["parent"][: g.size[N_EDGES]]] > 1
        edges = chosen_lines(g.train_active.T, has_choice)
        n_cells = np.full(self.train.cells.shape[1], 2)
        train = flow_features(g.train_active.T, edges, self.train.cells, n_cells)
        if self.valid is None:
            return train, None
        return train, flow_features(g.valid_active.T, edges, self.valid.cells, n_cells)

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
    """The predictor circuit on an even structure, fitted to all the precision there is."""
    lines, features = features_of(structure, rows.cells, len(rows.cells))
    coefficients, bias = loss.solve(features, rows.target, rows.weight, alpha, EXACT)
    weight = np.zeros((structure.n_edges + len(structure.leaf_log_p), len(bias)))
    weight[lines] = coefficients[: len(lines)]
    edge_weight, cell_weight = np.split(weight, [structure.n_edges])
    of_columns = np.split(coefficients[len(lines) :], _first_cells(structure.columns.n_cells)[1:-1])
    for leaf, place in enumerate(structure.leaf_column.tolist()):
        first, last = structure.leaf_first[leaf : leaf + 2]
        cell_weight[first + 1 : last] += of_columns[place]
    return PredictorCircuit(structure, cell_weight, edge_weight, bias, loss.kind)


def features_of(structure: Circuit, cells: AnyArray, n_used: int) -> tuple[IntArray, Any]:
    """The lines that count, by the first `n_used` rows, and the features of all.

    In an even structure those lines (see `flows`) are zero that are no choice.
    """
    taken = lines_taken(structure, cells)[:, :-1]
    n_lines = structure.n_edges + len(structure.leaf_log_p)
    lines = chosen_lines(taken[:n_used], np.ones(n_lines, dtype=bool))
    return lines, flow_features(taken, lines, cells, structure.columns.n_cells)


def chosen_lines(taken: IntArray, has_choice: NDArray[np.bool_]) -> IntArray:
    """The lines, edges or cells of leaves, that some row takes and that had an alternative.

    `taken` is (n_rows, n_vtree_nodes), NONE where a row takes none; `has_choice` (n_lines,).
    """
    is_taken = np.zeros(len(has_choice) + 1, dtype=bool)
    is_taken[taken.ravel()] = True  # NONE marks the last entry, which is no line
    return np.flatnonzero(is_taken[:-1] & has_choice).astype(np.int32)


def flow_features(
    taken: IntArray, lines: IntArray, cells: AnyArray, n_cells: AnyArray
) -> sparse.csr_matrix[np.float64]:
    """A row as the lines it takes and the cells it has: a sparse 0/1 matrix.

    A linear model of these columns is a `PredictorCircuit`. Edges without a choice are left out,
    since the edge above says the same; the cells themselves, but the first of each column, stay,
    so that lines only have to say where their context makes a difference.
    """
    first = _first_cells(n_cells)
    place = np.full(max(lines.max(initial=0), taken.max(initial=0)) + 2, NONE, dtype=np.int32)
    place[lines] = np.arange(len(lines), dtype=np.int32)
    n_features = len(lines) + int(first[-1])
    parts = [sparse.csr_matrix((0, n_features))]
    for rows in slices(len(cells), max(1, BLOCK // (taken.shape[1] + cells.shape[1]))):
        of_cells = np.where(cells[rows] > 0, len(lines) + first[:-1] + cells[rows] - 1, NONE)
        line = np.hstack([place[taken[rows]], of_cells])
        ends = np.append(0, np.cumsum((line != NONE).sum(axis=1)))
        ones, columns = np.ones(ends[-1]), line[line != NONE]
        parts.append(sparse.csr_matrix((ones, columns, ends), shape=(len(line), n_features)))
    matrix = sparse.vstack(parts, format="csr")
    matrix.sort_indices()
    return matrix


def _first_cells(n_cells: AnyArray) -> AnyArray:
    """Where the cells of each column begin among those that are features."""
    return np.concatenate([[0], np.cumsum(n_cells - 1)])


def split_for_target(
    growing: GrowingCircuit,
    gradient: FloatArray,
    hessian: FloatArray,
    *,
    alpha: float,
    n_splits: int,
) -> int:
    """Make the best `n_splits` splits, or fewer if there are no more; returns how many.

    `gradient` and `hessian` are (n_rows, n_outputs) and carry the weights of the rows. No two of
    the splits are on the same variable, because the same residual often shows at many edges.
    """
    edges, places = _candidates(growing, gradient, hessian, alpha)
    taken: set[int] = set()
    for edge, place in zip(edges.tolist(), places.tolist(), strict=True):
        if len(taken) == n_splits:
            break
        # A split higher up may have ended this edge, or decided the variable for it.
        g = growing.growth
        is_alive = g.edge["death"][edge] == ALIVE
        if is_alive and place not in taken and place in undecided_places(g, edge).tolist():
            growing.split(edge, place)
            taken.add(place)
    return len(taken)


def _candidates(
    growing: GrowingCircuit, gradient: FloatArray, hessian: FloatArray, alpha: float
) -> tuple[IntArray, IntArray]:
    """Every edge that gains by a split, with the best place, by falling gain."""
    g = growing.growth
    n_edges = int(g.size[N_EDGES])
    gain, place = np.zeros(n_edges), np.full(n_edges, NONE, dtype=np.int32)
    slot = np.full(n_edges, NONE, dtype=np.int32)
    _score_splits(g, gradient, hessian, alpha, slot, gain, place)
    found = np.flatnonzero(gain > 0.0)
    rank = np.round(np.log(gain[found]) / TIE)  # ties go to the lowest edge
    edges: IntArray = found[np.argsort(-rank, kind="stable")].astype(np.int32)
    return edges, place[edges]


@kernel
def _score_splits(
    g: Growth,
    gradient: FloatArray,
    hessian: FloatArray,
    alpha: float,
    slot: IntArray,
    gain: FloatArray,
    place: IntArray,
) -> None:
    """Fill `gain` and `place` (n_edges,); `slot` (n_edges,) is NONE before and after."""
    active, words, weight, vtree = g.train_active, g.train_words, g.train_weight, g.vtree
    n_vtree_nodes, n_rows = active.shape
    row_slot = np.empty(n_rows, dtype=np.int32)
    order = np.empty(n_rows, dtype=np.int32)
    edge = np.empty(n_rows, dtype=np.int32)
    for v in range(n_vtree_nodes):
        first, last = vtree[v]["first"], vtree[v]["last"]
        if last - first < 2:
            continue
        # Sort the rows by their edge, edges in the order in which they appear.
        n_slots = 0
        end = np.zeros(n_rows + 1, dtype=np.int32)
        for s in range(n_rows):
            e = active[v, s]
            row_slot[s] = NONE
            if e == NONE:
                continue
            if slot[e] == NONE:
                slot[e] = n_slots
                edge[n_slots] = e
                n_slots += 1
            row_slot[s] = slot[e]
            end[slot[e] + 1] += 1
        for i in range(n_slots):
            slot[edge[i]] = NONE
            end[i + 1] += end[i]
        next_one = end[:n_slots].copy()
        for s in range(n_rows):
            if row_slot[s] != NONE:
                order[next_one[row_slot[s]]] = s
                next_one[row_slot[s]] += 1
        for i in range(n_slots):
            total = 0.0
            for at in range(end[i], end[i + 1]):
                total += weight[order[at]]
            if total < FEWEST_ROWS:
                continue
            rows = order[end[i] : end[i + 1]]
            gain[edge[i]], place[edge[i]] = _best_place(
                words, gradient, hessian, rows, first, last, alpha
            )


@kernel
def _best_place(
    words: WordArray,
    gradient: FloatArray,
    hessian: FloatArray,
    rows: IntArray,
    first: int,
    last: int,
    alpha: float,
) -> tuple[float, int]:
    """The most helpful place among ``first:last`` for some rows, and its gain."""
    n_outputs = gradient.shape[1]
    ones = np.zeros(last - first, dtype=np.int64)
    above = np.zeros((last - first, n_outputs))
    below = np.zeros((last - first, n_outputs))
    all_above = np.zeros(n_outputs)
    all_below = np.zeros(n_outputs)
    for s in rows:
        for k in range(n_outputs):
            all_above[k] += gradient[s, k]
            all_below[k] += hessian[s, k]
        for w in range(first // 64, (last - 1) // 64 + 1):
            word = words[s, w]
            while word:
                p = w * 64 + lowest_bit(word)
                word &= word - np.uint64(1)
                if first <= p < last:
                    ones[p - first] += 1
                    for k in range(n_outputs):
                        above[p - first, k] += gradient[s, k]
                        below[p - first, k] += hessian[s, k]
    best, best_place = 0.0, NONE
    for p in range(last - first):
        if ones[p] == 0 or ones[p] == len(rows):
            continue
        total = 0.0
        for k in range(n_outputs):
            zero_above = all_above[k] - above[p, k]
            zero_below = all_below[k] - below[p, k]
            total += (
                above[p, k] ** 2 / (below[p, k] + alpha)
                + zero_above**2 / (zero_below + alpha)
                - all_above[k] ** 2 / (all_below[k] + alpha)
            )
        if total > best * (1.0 + TIE):
            best, best_place = total, first + p
    return best, best_place
