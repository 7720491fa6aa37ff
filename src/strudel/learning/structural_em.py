"""Learning from rows with unknown values: complete them, learn, complete them better, and so on.

In:  tables of 0, 1 and NaN, split into training and validation rows; any way to learn from complete
     rows; the circuit that a constraint makes the search start from.
Out: `Incomplete`, the rows with a first completion; the model that makes the known values of the
     validation rows most likely.

Searches and EM for mixtures work on complete rows, whose flows are quick to find and to move. So
every row gets several completions, drawn exactly from the best model so far given what is known of
the row, that share its weight: counts on them are expected counts up to chance. What is learned
from them gets its parameters by EM on the rows themselves (`refit`), and is judged by the exact
likelihood of what is known of the validation rows. If it is better than the model that completed
the rows, it completes them for another round.

The first completions are those of the Chow-Liu tree of available cases, with parameters by EM. They
are enough to tell components apart; EM on them, and then on the rows with their unknown values,
gives a mixture. A mixture on the tree is quick to fit and completes rows much better than the tree
does: of what 20 % unknown values cost the circuit learned from one completion of nltcs, it takes
away nine tenths.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from strudel._compiling import Clock
from strudel._names import names_of
from strudel._numba import kernel, run_blocks
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.walks import raise_if_impossible
from strudel.data.bits import UNKNOWN, BitMatrix, decode, exact_weights, pack_columns
from strudel.errors import NothingKnownWarning
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.compile import bits_of_tree, compile_column_tree
from strudel.learning.bits.likelihood import rows_responsibilities
from strudel.learning.bits.mixture import BitMixture, Model, as_mixture
from strudel.learning.incomplete import (
    EmLimits,
    ExpectedFlows,
    Layout,
    PartialRows,
    Passes,
    Reached,
    climb,
    known_words,
    maximise,
    merge_codes,
    pass_up,
    reach,
    room_for,
)
from strudel.learning.mixtures.em import STRENGTHS, TRAINING_STRENGTH, fit_mixture
from strudel.learning.mixtures.em_steps import Prior, uniform_prior
from strudel.learning.options import MixtureOptions
from strudel.learning.progress import MixtureHistory
from strudel.tables.column_codes import ColumnCode, complete_columns
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.column_tree import learn_column_tree
from strudel.trees.vtree import Vtree, vtree_from_chow_liu

BLOCK_NUMBERS = 2**22  # random numbers drawn at a time
PART_ROWS = 256  # that a thread takes
ENOUGH_ROWS = 2**16  # completed rows to aim for: with more of each, chance tells the search less
MOST_COPIES = 16
# The mixture that completes rows first: on completions by a tree, then on the rows themselves. The
# last digits of a model that only fills gaps are not worth more steps.
N_COMPONENTS = 20
COMPLETED = {"smoothing": "single", "pseudocount": TRAINING_STRENGTH, "max_iter": 30}
LIMITS = EmLimits(max_iter=10, tol=1e-3, patience=1)
PSEUDOCOUNT = 1.0
SHOWN = 8  # columns that a warning names
# Rows that the parameters learned from completions count for: they know of the model that
# completed the rows, which is worth most where rows are few.
STRENGTH = 4.0
MOST_STEPS = 10
MOST_WORK = 2**32  # rows x edges that a row passes x components in all steps, about half a minute
TOLERANCE = 1e-3
MOST_ROUNDS = 3
# How often a component knows a value: what is like the whole table, as a share of all rows; and
# rows to look at: a component has hundreds of them, which is enough for a share.
PRIOR, MOST_ROWS = 0.001, 4000


class Learned(NamedTuple):
    """A model, and what came with it."""

    model: Any
    rest: Any  # of the learner: histories and such
    is_cut: bool  # by an interrupt or a limit of time: no further round


class Result(NamedTuple):
    """The best of all rounds."""

    learned: Learned
    valid: float
    is_interrupted: bool


def learn_incomplete(
    rows: IncompleteRows,
    first: Model,
    learn: Callable[[Any, Any], Learned],
    refit: Callable[[Model], Model],
    rng: np.random.Generator,
    *,
    n_copies: int,
    clock: Clock,
    max_rounds: int = MOST_ROUNDS,
) -> Result:
    """Rounds of completing and learning while they make validation rows more likely.

    `learn` gets completed rows, `refit` the model that came out of it.
    """
    completer = first
    reached = mean_of_known(first, rows) if max_rounds > 1 else math.nan
    best: Result | None = None
    try:
        for _ in range(max_rounds):
            train, valid = rows.completed(completer, n_copies, rng)
            learned = learn(train, valid)
            if best is None:  # what an interrupt would keep
                best = Result(learned, -np.inf, False)
            learned = learned._replace(model=refit(learned.model))
            score = mean_of_known(learned.model, rows)
            if not score <= best.valid:
                best = Result(learned, score, False)
            # Without validation rows (nan) nothing says that another round would help.
            if learned.is_cut or clock.is_up or not score > reached:
                break
            completer, reached = learned.model, score
    except KeyboardInterrupt:
        if best is None:
            raise
        if best.valid == -np.inf:
            best = best._replace(valid=np.nan)
        return best._replace(is_interrupted=True)
    assert best is not None  # the first round at least
    return best


def refit_circuit(circuit: BitCircuit, rows: IncompleteRows, clock: Clock) -> BitCircuit:
    """A circuit with parameters between those it has and the best for what is known."""
    passes = Passes.of(circuit)
    prior = Prior(STRENGTH, circuit.theta)
    limits = EmLimits(MOST_STEPS, TOLERANCE, patience=1, clock=clock)
    start = as_mixture(circuit)
    return climb(passes, start, rows.train_rows, rows.valid_rows, prior, limits).model.component(0)


def refit_mixture(
    mixture: BitMixture,
    rows: IncompleteRows,
    options: MixtureOptions,
    n_runs: int,
    clock: Clock,
    max_work: float = MOST_WORK,
) -> BitMixture:
    """A mixture after a few EM steps on the rows, smoothed as its options say.

    `n_runs` mixtures that were averaged stay mixtures of their own.
    """
    train, valid = rows.train_rows, rows.valid_rows
    work = 4 * train.n_rows * train.n_vars * mixture.n_components
    n_steps = min(int(max_work // max(work, 1)), MOST_STEPS)
    if n_steps == 0 or clock.is_up:
        return mixture  # as learned: there are too many flows, or no time
    passes = Passes.of(mixture)
    prior = _prior(passes, mixture, train, options, n_runs)
    limits = EmLimits(n_steps, TOLERANCE, patience=1, clock=clock)
    found = climb(passes, mixture, train, valid, prior, limits, n_groups=n_runs)
    if found.flows is None or valid is None or options.pseudocount != "auto" or clock.is_up:
        return found.model
    tried = [
        maximise(passes.circuit, found.flows, Prior(strength, prior.mean), n_runs)
        for strength in STRENGTHS
    ]
    scores = [valid.mean_log_probability(passes, one) for one in tried]
    return tried[int(np.argmax(scores))] if max(scores) > found.valid else found.model


def _prior(
    passes: Passes, mixture: BitMixture, train: PartialRows, options: MixtureOptions, n_runs: int
) -> Prior:
    """What components are drawn to: the single circuit on the same rows, or all edges alike."""
    strength = TRAINING_STRENGTH if options.pseudocount == "auto" else options.pseudocount
    if options.smoothing != "single":
        return uniform_prior(passes.circuit, strength)
    flows = train.expect(passes, mixture, n_runs)
    # Of all components together, as if they were one.
    count = flows.edge_count.sum(axis=1, keepdims=True) / n_runs
    one = ExpectedFlows(count, np.ones(1), flows.log_likelihood)
    single = maximise(passes.circuit, one, uniform_prior(passes.circuit, 1.0))
    return Prior(strength, np.exp(single.edge_log_theta[:, 0]))


def mean_of_known(model: Model, gaps: IncompleteRows, part: str = "valid") -> float:
    """Mean log-likelihood of what is known of the rows of "train" or "valid"; nan without any."""
    rows = gaps.train_rows if part == "train" else gaps.valid_rows
    if rows is None:
        return math.nan
    return rows.mean_log_probability(Passes.of(model), as_mixture(model))


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """Rows in their order, all of which count and know something."""

    train: ByteArray  # (n_rows, n_vars) codes
    train_weight: FloatArray | None
    valid: ByteArray | None
    valid_weight: FloatArray | None

    @cached_property
    def train_rows(self) -> PartialRows:
        """Training rows, to fit parameters to."""
        return merge_codes(self.train, self.train_weight)

    @cached_property
    def valid_rows(self) -> PartialRows | None:
        """Validation rows, to judge by."""
        return None if self.valid is None else merge_codes(self.valid, self.valid_weight)

    @property
    def n_copies(self) -> int:
        """Completions of every row that make enough rows together: a power of two."""
        wanted = max(ENOUGH_ROWS // max(len(self.train), 1), 1)
        return min(2 ** (wanted.bit_length() - 1), MOST_COPIES)

    def completed(
        self, model: Model, n: int, rng: np.random.Generator
    ) -> tuple[BitMatrix, BitMatrix | None]:
        """`n` completions of every training and validation row, each of 1/n of the row's weight."""
        train = _complete(model, self.train, self.train_weight, n, rng)
        if self.valid is None:
            return train, None
        return train, _complete(model, self.valid, self.valid_weight, n, rng)

    def columns(self, is_kept: FloatArray) -> IncompleteRows:
        """The same rows with fewer columns."""
        valid = None if self.valid is None else np.ascontiguousarray(self.valid[:, is_kept])
        return replace(self, train=np.ascontiguousarray(self.train[:, is_kept]), valid=valid)


def _complete(
    model: Model, codes: ByteArray, weight: FloatArray | None, n: int, rng: np.random.Generator
) -> BitMatrix:
    if not np.any(codes == UNKNOWN):
        return pack_columns(codes, weight)
    rows = complete_rows(model, codes, n, rng).reshape(-1, codes.shape[1])
    if n == 1:
        return pack_columns(rows, weight)
    each = np.ones(len(codes)) if weight is None else exact_weights(weight)
    return pack_columns(rows, np.repeat(each / n, n))


def complete_rows(model: Model, codes: AnyArray, n: int, rng: np.random.Generator) -> ByteArray:
    """Draw `n` completions of every row, of shape `(n_rows, n, n_vars)`."""
    passes, mixture = Passes.of(model), as_mixture(model)
    n_rows, n_vars = codes.shape
    out = np.full((n_rows, n, n_vars), UNKNOWN, dtype=np.uint8)
    n_numbers = numbers_per_row(model)
    block = max(PART_ROWS, BLOCK_NUMBERS // (n * n_numbers))
    parameters = passes.layout, mixture.edge_log_theta, mixture.log_weight
    for start in range(0, n_rows, block):
        mine = out[start : start + block]
        known = known_words(passes.circuit, codes[start : start + block])
        numbers = rng.random((len(known), n, n_numbers))  # in order: threads cannot change them

        def run(part: slice, known: Any = known, numbers: Any = numbers, mine: Any = mine) -> None:
            _complete_rows(known[part], numbers[part], *parameters, mine[part])

        run_blocks(run, len(known), PART_ROWS)
    if n:
        impossible = np.any(out[:, 0] == UNKNOWN, axis=1)
        raise_if_impossible(np.where(impossible, -np.inf, 0.0))
    return out


def numbers_per_row(model: Model) -> int:
    """Random numbers that a completion takes: one per vtree node, one to choose the component."""
    circuit = model.structure if isinstance(model, BitMixture) else model
    return int(circuit.vtree.n_nodes + 1)


@kernel
def _complete_rows(
    known: WordArray,
    numbers: FloatArray,
    c: Layout,
    log_theta: FloatArray,
    log_weight: FloatArray,
    out: ByteArray,
) -> None:
    """Fill `out` (n_rows, n, n_vars): one pass up per row, then one walk down per completion."""
    n_edges, k = log_theta.shape
    r = room_for(c)
    value = np.empty((len(r.first), k))
    share = np.empty((n_edges, k))
    posterior = np.empty(k)
    stack = np.empty(numbers.shape[2] + 1, dtype=np.int32)
    for s in range(len(known)):
        n_slots = reach(known[s], c, r)
        if n_slots == 1:  # an impossible row, for the caller to find
            continue
        pass_up(r, n_slots, log_theta, value, share)
        total, top = 0.0, -np.inf
        for j in range(k):
            top = max(top, log_weight[j] + value[n_slots - 1, j])
        if top == -np.inf:
            continue
        for j in range(k):
            posterior[j] = np.exp(log_weight[j] + value[n_slots - 1, j] - top)
            total += posterior[j]
        for i in range(numbers.shape[1]):
            rest, chosen = numbers[s, i, 0] * total, 0
            for j in range(k):
                if posterior[j] > 0.0:
                    chosen = j  # rounding may leave a last crumb: the last possible one takes it
                    rest -= posterior[j]
                    if rest < 0.0:
                        break
            _walk(n_slots - 1, chosen, numbers[s, i], c, r, share, stack, out[s, i])


@kernel
def _walk(
    root: int,
    component: int,
    numbers: FloatArray,
    c: Layout,
    r: Reached,
    share: FloatArray,
    stack: AnyArray,
    row: ByteArray,
) -> None:
    """Choose one active edge at every sum on the way, in proportion to its share."""
    stack[0] = root
    size, n_used = 1, 1
    while size > 0:
        size -= 1
        i = stack[size]
        rest, chosen = numbers[n_used], r.first[i]
        n_used += 1
        for a in range(r.first[i], r.first[i + 1]):
            if share[a, component] > 0.0:
                chosen = a
                rest -= share[a, component]
                if rest < 0.0:
                    break
        e = r.edge[chosen]
        for side in range(2):
            child = c.edge_left[e] if side == 0 else c.edge_right[e]
            slot = r.left[chosen] if side == 0 else r.right[chosen]
            if slot > 0:
                stack[size] = slot
                size += 1
            elif child >= 0:
                row[child // 2] = child % 2


@dataclass(eq=False)
class Incomplete:
    """Rows that know something, of columns of which something is known."""

    rows: IncompleteRows
    of_all_columns: IncompleteRows  # the same rows, with columns of which nothing is known
    is_known: AnyArray  # (n_vars,) columns that the rows still have
    tree: BitCircuit | None = None  # the model that completed them first

    @classmethod
    def of(
        cls,
        train: ByteArray,
        weight: FloatArray | None,
        valid: ByteArray | None,
        valid_weight: FloatArray | None,
        names: Sequence[str] | None,
        can_drop: bool,
    ) -> Incomplete:
        """Leave out rows and, if `can_drop`, columns of which nothing is known, and say so."""
        train, weight = _rows_that_count(train, weight, "Training")
        if valid is not None:
            valid, valid_weight = _rows_that_count(valid, valid_weight, "Validation")
        if len(train) == 0:
            raise ValueError(
                "Learning needs at least one known value, but every value of the training rows is "
                "NaN."
            )
        if valid is not None and len(valid) == 0:  # there are no other rows to check against
            valid, valid_weight = train, weight
        is_known = np.any(train != UNKNOWN, axis=0)
        if not is_known.all():
            _warn_of_columns(np.flatnonzero(~is_known), names_of(train.shape[1], names))
        if not can_drop:
            is_known = np.ones_like(is_known)
        rows = IncompleteRows(train, weight, valid, valid_weight)
        return cls(rows if is_known.all() else rows.columns(is_known), rows, is_known)

    def completed(
        self,
        start: BitCircuit | None,
        rng: np.random.Generator,
        columns: Sequence[ColumnCode] | None = None,
    ) -> tuple[BitMatrix, BitMatrix | None]:
        """A first completion, by the circuit to continue from or by a tree."""
        if start is None:
            self.tree = first_tree(self.rows, columns)
        model = start or self.tree
        assert model is not None
        return self.rows.completed(model, 1, rng)


def _rows_that_count(
    table: ByteArray, weight: FloatArray | None, name: str
) -> tuple[ByteArray, FloatArray | None]:
    """The rows of positive weight that know something."""
    counts = np.ones(len(table), dtype=np.bool_) if weight is None else weight > 0.0
    knows = np.any(table != UNKNOWN, axis=1)
    n_left_out = int(np.count_nonzero(counts & ~knows))
    if n_left_out:
        warnings.warn(
            f"{name} rows without a known value are left out: {n_left_out} of {len(table)}.",
            NothingKnownWarning,
            stacklevel=6,
        )
    kept = counts & knows
    return table[kept], None if weight is None else weight[kept]


def _warn_of_columns(columns: AnyArray, names: Sequence[str]) -> None:
    shown = ", ".join(repr(names[column]) for column in columns[:SHOWN])
    shown += ", ..." if len(columns) > SHOWN else ""
    words = "column" if len(columns) == 1 else "columns"
    warnings.warn(
        f"The training rows have no known value in {words} {shown}: in the model each is a fair "
        "coin, independent of all others.",
        NothingKnownWarning,
        stacklevel=6,
    )


def first_tree(rows: IncompleteRows, columns: Sequence[ColumnCode] | None) -> BitCircuit:
    """The Chow-Liu tree of available cases as a circuit, its parameters by EM.

    Where the codes of columns are known, completions must be codes: a tree over columns.
    """
    partly_known, weight = decode(rows.train), rows.train_weight
    if columns is not None:
        every = complete_columns(columns, rows.train.shape[1])
        coded = learn_column_tree(partly_known, every, sample_weight=weight)
        return fit_first(compile_column_tree(*coded), rows)
    tree = learn_chow_liu_tree(partly_known, sample_weight=weight)
    return fit_first(bits_of_tree(tree, vtree_from_chow_liu(tree)), rows)


def fit_first(circuit: BitCircuit, rows: IncompleteRows) -> BitCircuit:
    """A first circuit with parameters by EM."""
    passes = Passes.of(circuit)
    prior = uniform_prior(circuit, PSEUDOCOUNT)
    found = climb(passes, as_mixture(circuit), rows.train_rows, rows.valid_rows, prior, LIMITS)
    return found.model.component(0)


def first_mixture(
    circuit: BitCircuit, rows: IncompleteRows, rng: np.random.Generator, clock: Clock
) -> BitMixture:
    """A mixture on the structure of a circuit that can complete the rows."""
    train, valid = rows.completed(circuit, 1, rng)
    k = min(N_COMPONENTS, len(rows.train))
    options = MixtureOptions(**COMPLETED, max_seconds=clock.part(0.5).left())  # type: ignore[arg-type]
    steps: list[MixtureHistory] = []
    mixture = fit_mixture(
        circuit, train, k, X_valid=valid, options=options, rng=rng, on_iteration=steps.append
    )
    if steps and steps[-1].stopped_because == "interrupted":
        raise KeyboardInterrupt
    passes = Passes.of(mixture)
    prior = Prior(TRAINING_STRENGTH, circuit.theta)
    limits = replace(LIMITS, clock=clock)
    return climb(passes, mixture, rows.train_rows, rows.valid_rows, prior, limits).model


def with_coins(model: Model, is_known: AnyArray) -> Model:
    """The model with a coin for every variable that `is_known` leaves out."""
    if np.all(is_known):
        return model
    if isinstance(model, BitMixture):
        structure = circuit_with_coins(model.structure, is_known)
        more = structure.edge_log_theta[model.n_edges :, np.newaxis]
        log_theta = np.vstack([model.edge_log_theta, np.repeat(more, model.n_components, axis=1)])
        known = None
        if model.known is not None:
            known = np.ones((structure.n_vars, model.n_components))
            known[is_known] = model.known
        return BitMixture(structure, log_theta, model.log_weight, known)
    return circuit_with_coins(model, is_known)


def circuit_with_coins(circuit: BitCircuit, is_known: AnyArray) -> BitCircuit:
    """The old edges keep their numbers; behind them come three for every coin: 1, 0 and both."""
    known, coins = np.flatnonzero(is_known), np.flatnonzero(~np.asarray(is_known))
    n_more = 2 * len(coins)  # literals
    # Where the old nodes are: literals of other variables, sums behind more literals, NONE.
    number = np.append(np.arange(circuit.n_nodes) + n_more, NONE)
    number[: 2 * circuit.n_vars] = 2 * np.repeat(known, 2) + np.tile([0, 1], len(known))
    vtree = _vtree_with_coins(circuit.vtree, known, coins)
    node_vtree = [*np.repeat(vtree.var_leaf, 2), *circuit.node_vtree[2 * circuit.n_vars :]]
    left, right = number[circuit.edge_left].tolist(), number[circuit.edge_right].tolist()
    log_theta = circuit.edge_log_theta.tolist()
    node_edges = [0] * n_more + circuit.node_edges.tolist()
    root = int(number[circuit.root])
    for coin in coins.tolist():
        leaf = len(node_vtree)
        node_vtree += [vtree.var_leaf[coin], vtree.node_parent[vtree.var_leaf[coin]]]
        left += [2 * coin + 1, 2 * coin, leaf]
        right += [NONE, NONE, root]
        log_theta += [np.log(0.5), np.log(0.5), 0.0]
        node_edges += [len(left) - 1, len(left)]
        root = leaf + 1
    return BitCircuit(
        vtree,
        _indices(node_vtree),
        _indices(node_edges),
        _indices(left),
        _indices(right),
        np.array(log_theta),
    )


def _vtree_with_coins(vtree: Vtree, known: AnyArray, coins: AnyArray) -> Vtree:
    """Old nodes keep their numbers; each coin adds its leaf and a root above it."""
    var = np.where(vtree.node_var == NONE, NONE, known[vtree.node_var]).tolist()
    left, right = vtree.node_left.tolist(), vtree.node_right.tolist()
    for coin in coins.tolist():
        below = len(var) - 1
        var += [coin, NONE]
        left += [NONE, below + 1]
        right += [NONE, below]
    return Vtree(_indices(left), _indices(right), _indices(var))


def _indices(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int32)


def with_known_shares(mixture: BitMixture, gaps: Any) -> BitMixture:
    """The mixture with the shares of known values; rows belong to components by what is known.

    As it is without unknown values.
    """
    rows = None if gaps is None else gaps.train_rows
    if mixture.known is not None or not isinstance(rows, PartialRows):
        return mixture
    evidence, weight = rows.evidence, rows.weight / rows.weight.sum()
    if len(weight) > MOST_ROWS:
        chosen = np.linspace(0, len(weight) - 1, MOST_ROWS).astype(np.int64)
        evidence, weight = evidence[chosen], weight[chosen]
    is_known = ~np.isnan(evidence)
    part = rows_responsibilities(mixture, evidence) * weight[:, np.newaxis]
    prior = PRIOR * np.average(is_known, axis=0, weights=weight)[:, np.newaxis]
    known = (is_known.T @ part + prior) / (part.sum(axis=0) + PRIOR)
    return replace(mixture, known=np.minimum(known, 1.0))
