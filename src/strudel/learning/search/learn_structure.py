"""Algorithm 2 of the paper: grow a circuit by splits until validation says stop.

In:  training and validation rows.
Out: the best circuit seen, with its parameters, and the `History` of the search.

`Grown` does one operation after another and can be continued; of several, a race continues the
best.

Hierarchical smoothing: a copy keeps, as the mean of a Dirichlet prior, the exact conditional
distribution of the sum it was copied from, so a split or a clone changes nothing until rows speak.
The sum that stays behind is drawn to what both were together. Parameters remain closed-form. How
strongly copies are drawn changes every parameter, but no structure, so the search is replayed with
other strengths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from strudel._compiling import now
from strudel._types import AnyArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import why_no_deterministic_components
from strudel.data.bits import BitMatrix, merge_if_it_pays
from strudel.data.validation import as_bits
from strudel.errors import CircuitPropertyError
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.compile import bits_of_tree, compile_column_tree, independent_bits
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.fold import folded, unfold
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation, apply, replay
from strudel.learning.options import BestFirst, Greedy, Init, LearnPSDD, Race, SearchOptions
from strudel.learning.parameters import closed_form
from strudel.learning.progress import History, offer
from strudel.learning.search.best_first import BestFirstSearch
from strudel.learning.search.greedy import VariablePicker, pick_edge
from strudel.learning.search.learnpsdd import LearnPsddSearch
from strudel.tables.column_codes import ColumnCode, column_values, complete_columns
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.column_tree import learn_column_tree
from strudel.trees.vtree import Vtree, vtree_from_chow_liu
from strudel.trees.vtree_learning import VtreeMethod, learn_tree_for_vtree, learn_vtree

# What vtree="auto" tries, and what a race tries: search, vtree and first circuit. The latter
# begins with those that are also tried on many variables, where every start takes its time.
VTREES: tuple[tuple[str, VtreeMethod, Init], ...] = (
    ("", "chow_liu", "chow_liu"),
    ("", "bottom_up", "chow_liu"),
    ("", "top_down", "chow_liu"),
    ("", "clusters", "chow_liu"),
    ("", "clusters", "independent"),
)
STARTS: tuple[tuple[str, VtreeMethod, Init], ...] = (
    ("learnpsdd", "chow_liu", "chow_liu"),
    ("learnpsdd", "bottom_up", "independent"),
    ("best_first", "chow_liu", "chow_liu"),
    ("best_first", "bottom_up", "chow_liu"),
    ("learnpsdd", "clusters", "chow_liu"),
    ("learnpsdd", "bottom_up", "chow_liu"),
)
N_STARTS = 2  # of them, for many variables
FEW_VARIABLES = 200
# Nodes that most greedy searches end with fewer of: no table is copied into a larger one in their
# midst. Memory is taken when it is written to; of small tables only little is reserved.
FEWEST_NODES, MOST_NODES, CELLS_PER_NODE = 2**10, 2**18, 4
ROUNDS = (150, 500, 1500)  # operations after which the worse half of the runs ends
SHARE = 0.25  # of the time: the most that all runs together may take in a round
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # virtual rows per copied sum
MIDDLE = 30.0  # while the structure is sought


def learn_structure(
    train: BitMatrix | ArrayLike,
    valid: BitMatrix | ArrayLike | None = None,
    *,
    search: SearchOptions | None = None,
    rng: np.random.Generator | int | None = None,
    on_split: Callable[[History], None] | None = None,
    start: Circuit | None = None,
) -> tuple[Circuit, History]:
    """Learn a structured-decomposable, deterministic circuit by splits (Algorithm 2).

    Parameters
    ----------
    train : BitMatrix or array-like of shape (n_rows, n_vars)
        Fully observed 0/1 rows; a `BitMatrix` may carry weights.
    valid : BitMatrix or array-like, optional
        Rows that decide when to stop. Without them the search needs `max_splits`, `max_edges` or
        `max_seconds`, and returns its last circuit.
    search : SearchOptions, optional
        By default those of the paper.
    rng : numpy Generator or seed
        Used by the random scores only.
    on_split : callable, optional
        Called with the history after every split, for progress.
    start : Circuit, optional
        Where to start, instead of the circuit of `search.init` and `search.vtree`: one that was
        learned before, read from a file or made by hand, as long as it is deterministic and every
        row is possible. Its parameters do not matter. Splits never make a row possible that it
        excludes. The bounds of the search, except `max_edges`, count from here.

    Returns
    -------
    circuit : Circuit
        The circuit with the best validation likelihood; a keyboard interrupt ends the search, not
        the call.
    history : History

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(200, 1)).repeat(5, axis=1) ^ (rng.random((200, 5)) < 0.1)
    >>> circuit, history = learn_structure(X[:150], X[150:])
    >>> circuit.n_components, bool(history.best > 0)
    (1, True)
    """
    search = search or SearchOptions()
    first = None if start is None else unfold(start, None).structure
    grown = grow(train, valid, search=search, rng=rng, on_split=on_split, start=first)
    circuit, history = grown.best()
    return folded(circuit), history


def grow(
    train: BitMatrix | ArrayLike,
    valid: BitMatrix | ArrayLike | None,
    *,
    search: SearchOptions,
    rng: np.random.Generator | int | None = None,
    on_split: Callable[[History], None] | None = None,
    start: BitCircuit | None = None,
) -> Grown:
    """The search itself."""
    started = now()
    rng = np.random.default_rng(rng)
    train_bits = as_bits(train)
    nothing = BitMatrix(np.zeros((train_bits.n_vars, 0), dtype=np.uint64), 0)
    valid_bits = nothing if valid is None else as_bits(valid)
    _check_rows(train_bits, valid_bits, search)
    kind = search.search
    if start is not None:
        _check_start(start, train_bits, valid_bits)
    train_bits, valid_bits = merge_if_it_pays(train_bits), merge_if_it_pays(valid_bits)

    room = FEWEST_NODES
    if isinstance(kind, Greedy):
        n_cells = train_bits.n_rows * train_bits.n_vars
        room = int(np.clip(n_cells // CELLS_PER_NODE, FEWEST_NODES, MOST_NODES))
    searches = entrants(search, train_bits.n_vars, has_start=start is not None)

    def make(
        first: BitCircuit,
        strength: float | None = None if search.smoothing == "uniform" else MIDDLE,
        valid: BitMatrix = valid_bits,
    ) -> GrowingCircuit:
        return GrowingCircuit(
            first,
            train_bits,
            valid,
            pseudocount=search.pseudocount,
            copy_depth=kind.copy_depth if isinstance(kind, Greedy) else 1,
            strength=strength,
            room=room,
        )

    makes = [
        partial(make, start or first_circuit(train_bits, entrant, rng)) for entrant in searches
    ]
    runs = [
        Grown(one, entrant, rng, started, train_bits)
        for one, entrant in zip(makes, searches, strict=True)
    ]
    if len(runs) > 1:
        return race(runs, search, on_split)
    runs[0].continue_until(search, on_split)
    return runs[0]


def entrants(search: SearchOptions, n_vars: int, *, has_start: bool = False) -> list[SearchOptions]:
    """The searches to be compared, each with its start; one, unless something is "auto"."""
    searches = search.search.entrants if isinstance(search.search, Race) else {}
    if not searches and (search.vtree != "auto" or has_start):
        return [search]
    if has_start:  # there is nothing to choose but the search itself
        return [replace(search, search=searches[kind]) for kind in ("learnpsdd", "best_first")]
    is_wide = n_vars > FEW_VARIABLES
    tried = STARTS[: N_STARTS if is_wide else None] if searches else VTREES
    starts = [
        (kind, method, search.init or init)
        for kind, method, init in tried
        if kind == "learnpsdd" or init == "chow_liu" or not is_wide
    ]
    return [
        replace(
            search,
            search=searches.get(kind, search.search),
            vtree=method if search.vtree == "auto" else search.vtree,
            init=init,
        )
        for kind, method, init in dict.fromkeys(starts)
    ]


def first_circuit(
    train: BitMatrix, search: SearchOptions, rng: np.random.Generator | int | None = None
) -> BitCircuit:
    """The circuit before the first split, when there is none to start from."""
    columns = complete_columns(search.columns or (), train.n_vars)
    if not all(column.is_bit for column in columns):
        return _first_circuit_of_columns(train, columns, search, rng)
    is_independent = search.init == "independent"
    if search.vtree in ("chow_liu", "auto"):  # under a constraint there is nothing to compare
        tree = learn_chow_liu_tree(train, alpha=search.alpha)
        vtree = vtree_from_chow_liu(tree)
        return independent_bits(vtree) if is_independent else bits_of_tree(tree, vtree)
    if isinstance(search.vtree, Vtree):
        vtree = search.vtree
    else:
        method = cast(VtreeMethod, search.vtree)
        vtree = learn_vtree(train, method, alpha=_vtree_alpha(search), rng=rng)
    if vtree.n_vars != train.n_vars:
        raise ValueError(
            f"The training rows have {train.n_vars} columns, but the vtree has {vtree.n_vars} "
            "variables."
        )
    if is_independent:
        return independent_bits(vtree)
    return bits_of_tree(learn_tree_for_vtree(train, vtree, alpha=search.alpha), vtree)


def _first_circuit_of_columns(
    train: BitMatrix,
    columns: tuple[ColumnCode, ...],
    search: SearchOptions,
    rng: np.random.Generator | int | None,
) -> BitCircuit:
    """The same, where some columns have several variables, or not all codes."""
    vtree = "chow_liu" if search.vtree == "auto" else search.vtree
    return compile_column_tree(
        *learn_column_tree(
            train,
            columns,
            vtree=cast(Vtree | VtreeMethod, vtree),
            is_independent=search.init == "independent",
            alpha=search.alpha,
            vtree_alpha=_vtree_alpha(search),
            rng=rng,
        )
    )


def _vtree_alpha(search: SearchOptions) -> float:
    """LearnPSDD weighs pairs by plain counts; virtual rows give -25.0, not -24.3, on pumsb_star."""
    return 0.0 if isinstance(search.search, LearnPSDD) else search.alpha


def _check_start(start: BitCircuit, train: BitMatrix, valid: BitMatrix) -> None:
    """Refuse a circuit that cannot be grown, or that excludes a row it should learn from."""
    if start.n_vars != train.n_vars:
        raise ValueError(
            f"The training rows have {train.n_vars} columns, but the circuit to start from has "
            f"{start.n_vars} variables."
        )
    reason = None
    if not start.is_known_deterministic:
        reason = why_no_deterministic_components(folded(start))
    if reason is not None:
        raise CircuitPropertyError(f"A search starts from a deterministic circuit, but {reason}.")
    for name, bits in (("training", train), ("validation", valid)):
        impossible = impossible_rows(start, bits)
        if len(impossible):
            raise ValueError(
                f"Every row must be possible under the circuit to start from, but row "
                f"{impossible[0]} of the {name} rows is not."
            )


def impossible_rows(circuit: BitCircuit, bits: BitMatrix) -> AnyArray:
    """The rows that no parameters of a deterministic circuit make possible."""
    return np.flatnonzero(~compute_flows(circuit, bits).is_possible)


def _check_rows(train: BitMatrix, valid: BitMatrix, search: SearchOptions) -> None:
    """Refuse rows from which a search cannot learn, or that would never stop it."""
    if train.total_weight == 0.0 or train.n_vars == 0:
        raise ValueError("Learning needs a column, and at least one row with a positive weight.")
    if valid.n_vars != train.n_vars:
        raise ValueError(
            f"The validation rows have {valid.n_vars} columns, "
            f"but the training rows have {train.n_vars}."
        )
    if search.compares_starts and valid.total_weight == 0.0:
        raise ValueError(
            "search='race' and vtree='auto' need validation rows: give such rows, or name another "
            "search and a vtree."
        )
    search.check_ends(has_valid=valid.total_weight > 0.0)
    if search.columns is not None:  # a code may stand for no value of its column
        columns = complete_columns(search.columns, train.n_vars)
        column_values(train, columns)
        column_values(valid, columns, "validation")


class Grown:
    """A greedy or best-first search, or LearnPSDD, and what it has seen; it can be continued."""

    def __init__(
        self,
        make: Callable[..., GrowingCircuit],
        search: SearchOptions,
        rng: np.random.Generator,
        started: float,
        train: BitMatrix,
    ) -> None:
        self.make = make  # gives the growing circuit before the first operation
        self.search = search
        self.rng = rng
        self.train = train  # rows as the search sees them, equal ones merged
        self.history = History(started)
        self.operations: list[Operation] = []
        self.growing = make()  # knows every circuit up to the best one
        self.history.add(self.growing)
        self._next: Callable[[], Operation | None] | None = None

    def continue_until(
        self, search: SearchOptions, on_split: Callable[[History], None] | None = None
    ) -> None:
        """Do one operation after another until the bounds in `search` say stop."""
        self.history.stopped_because = ""
        try:
            self._next = self._next or self._chooser()
            while not self.history.is_finished(search):
                operation = self._next()
                if operation is None:
                    self.history.stopped_because = "nothing left to split"
                    return
                apply(self.growing, operation)
                self.operations.append(operation)
                self.history.add(self.growing)
                offer(self._best_circuit, self.best_likelihood)
                if on_split is not None:
                    on_split(self.history)
        except KeyboardInterrupt:
            self.history.stopped_because = "interrupted"

    def best(self) -> tuple[BitCircuit, History]:
        """The best circuit with its parameters, and the history that led there."""
        try:
            return self._finished()
        except KeyboardInterrupt:  # the search is over: finish what it found
            self.history.stopped_because = "interrupted"
            return self._finished()

    def _finished(self) -> tuple[BitCircuit, History]:
        if self.search.smoothing == "hierarchical":
            return shrink(self.make, self.operations, self.history)
        return self._best_circuit(), self.history

    def _best_circuit(self) -> BitCircuit:
        best = self.growing.snapshot(self.history.best)
        return closed_form(best, self.train, pseudocount=self.search.pseudocount)

    @property
    def best_likelihood(self) -> float:
        """Mean log-likelihood of the validation rows under the best circuit so far."""
        return self.history.best_score

    def _chooser(self) -> Callable[[], Operation | None]:
        """What says which operation comes next."""
        growing, rng, kind = self.growing, self.rng, self.search.search
        if isinstance(kind, BestFirst):
            return BestFirstSearch(growing, clones=kind.clones).next
        if isinstance(kind, LearnPSDD):
            return LearnPsddSearch(growing, kind).next
        picker = VariablePicker(growing, kind.variable_score, self.search.alpha)

        def next_split() -> Operation | None:
            edge = pick_edge(growing, kind.edge_score, rng, kind.tie_rule)
            return None if edge is None else Operation(edge, picker.pick(edge, rng))

        return next_split


def race(
    runs: list[Grown], search: SearchOptions, on_split: Callable[[History], None] | None = None
) -> Grown:
    """Race several runs; in every round the better half continues.

    The likelihood of the first circuit does not show which start is best; a few hundred operations
    do. The last run continues to its end. If there is a time limit, those that were left behind
    use what remains of it, the best first.
    """
    left_behind: list[Grown] = []
    for n_operations in ROUNDS:
        share = SHARE / len(runs)
        for run in runs:
            bound = run.search
            if bound.max_splits is None or n_operations < bound.max_splits:
                bound = replace(bound, max_splits=n_operations)
            if search.max_seconds is not None:
                until = min(search.max_seconds, run.history.elapsed + share * search.max_seconds)
                bound = replace(bound, max_seconds=until)
            run.continue_until(bound, on_split)
            if run.history.stopped_because == "interrupted":
                return _stopped(runs)
        runs.sort(key=lambda run: -run.best_likelihood)
        n_kept = (len(runs) + 1) // 2
        left_behind = runs[n_kept:] + left_behind
        del runs[n_kept:]
    ended: list[Grown] = []
    for run in runs + left_behind:
        if ended and (search.max_seconds is None or run.history.elapsed >= search.max_seconds):
            break
        run.continue_until(run.search, on_split)
        ended.append(run)
        if run.history.stopped_because == "interrupted":
            return _stopped(ended)
    return max(ended, key=lambda run: run.best_likelihood)


def _stopped(runs: list[Grown]) -> Grown:
    """The best run after an interrupt."""
    best = max(runs, key=lambda run: run.best_likelihood)
    best.history.stopped_because = "interrupted"
    return best


def shrink(
    make: Callable[..., GrowingCircuit], operations: list[Operation], history: History
) -> tuple[BitCircuit, History]:
    """The best circuit on the way, with its parameters, and the history with those parameters.

    `make` gives the growing circuit before the first operation, for a strength: virtual rows per
    copied sum. The history is that of the search, for the seconds and the reason to stop.
    """
    best, strength = history, MIDDLE
    if not np.isnan(history.valid[0]):
        best, strength = _climb(make, operations, history)
    growing = replay(make(strength=strength), operations[: best.best])
    return growing.shrunk(), best


def _climb(
    make: Callable[..., GrowingCircuit], operations: list[Operation], history: History
) -> tuple[History, float]:
    """From the strength of the search to weaker and stronger ones, as long as validation gains."""

    def likelihood(some: History) -> float:
        return float(some.valid[some.best])

    best, middle = history, STRENGTHS.index(MIDDLE)
    chosen = middle
    for step in (1, -1):
        i = middle + step
        while 0 <= i < len(STRENGTHS):
            other = _likelihoods(make, operations, STRENGTHS[i], history)
            if likelihood(other) <= likelihood(best):
                break
            best, chosen = other, i
            i += step
        if chosen != middle:
            break
    return best, STRENGTHS[chosen]


def _likelihoods(
    make: Callable[..., GrowingCircuit],
    operations: list[Operation],
    strength: float,
    earlier: History,
) -> History:
    """The history with another strength; seconds are those of the search."""
    history = History()
    growing = make(strength=strength)
    history.add(growing)
    replay(growing, operations, history.add)
    columns = history.columns()
    columns["seconds"] = earlier.seconds[: len(history)]
    return History.from_columns(columns, history.best, earlier.stopped_because)
