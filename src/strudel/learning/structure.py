"""Grow a circuit until validation says stop: by greedy splits (Algorithm 2), or as LearnPSDD does.

In:  training and validation rows.
Out: the best circuit seen, with its parameters, and the `History` of the search.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import AnyArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import compile_chow_liu, compile_factorized
from strudel.circuits.flows import flow_log_likelihood
from strudel.circuits.properties import check_in_normal_form, why_not_deterministic
from strudel.data.bits import BitMatrix, merge_equal_rows
from strudel.data.validation import as_bits
from strudel.errors import CircuitPropertyError
from strudel.learning.growing import GrowingCircuit
from strudel.learning.heuristics import VariablePicker, pick_edge
from strudel.learning.history import History
from strudel.learning.learnpsdd import LearnPsdd
from strudel.learning.options import SearchOptions
from strudel.learning.parameters import fit_parameters
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.fitting_tree import learn_tree_for_vtree
from strudel.trees.vtree import Vtree, vtree_from_chow_liu
from strudel.trees.vtree_learning import learn_vtree

MERGE_BELOW = 0.5  # merge equal rows when that at least halves them


def learn_structure(
    train: BitMatrix | ArrayLike,
    valid: BitMatrix | ArrayLike | None = None,
    *,
    search: SearchOptions | None = None,
    rng: np.random.Generator | int | None = None,
    on_split: Callable[[History], None] | None = None,
    start: Circuit | None = None,
) -> tuple[Circuit, History]:
    """Learn a structured-decomposable, deterministic circuit, by greedy splits (Algorithm 2).

    Parameters
    ----------
    train : BitMatrix or array-like of shape (n_rows, n_vars)
        Fully observed 0/1 rows; a `BitMatrix` may carry weights.
    valid : BitMatrix or array-like, optional
        Rows that decide when to stop. Without them the search needs `max_splits`, `max_edges` or
        `max_seconds`, and returns its last circuit.
    search : SearchOptions, optional
        The paper's defaults when not given.
    rng : numpy Generator or seed
        Used by the random scores only.
    on_split : callable, optional
        Called with the history after every split, for progress.
    start : Circuit, optional
        Where to start, instead of the circuit of `search.init` and `search.vtree`: one that was
        learned before, read from a file or made by hand, as long as it is deterministic, in normal
        form, and every row is possible. Its parameters do not matter. Splits never make a row
        possible that it excludes, so a circuit of a logical constraint (`uniform_circuit`) stays
        one. The bounds of the search, but for `max_edges`, count from here.

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
    >>> circuit.is_deterministic and circuit.is_structured_decomposable
    True
    """
    search = search or SearchOptions()
    train_bits, growing, history = grow(
        train, valid, search=search, rng=rng, on_split=on_split, start=start
    )
    try:
        best = growing.snapshot(history.best)
    except KeyboardInterrupt:  # the search is over: finish what it found
        history.stopped_because = "interrupted"
        best = growing.snapshot(history.best)
    del growing  # its flows are as large as those to come
    try:
        return fit_parameters(best, train_bits, pseudocount=search.pseudocount), history
    except KeyboardInterrupt:
        history.stopped_because = "interrupted"
        return fit_parameters(best, train_bits, pseudocount=search.pseudocount), history


def grow(
    train: BitMatrix | ArrayLike,
    valid: BitMatrix | ArrayLike | None,
    *,
    search: SearchOptions,
    rng: np.random.Generator | int | None = None,
    on_split: Callable[[History], None] | None = None,
    start: Circuit | None = None,
) -> tuple[BitMatrix, GrowingCircuit, History]:
    """The search itself: the training rows as it saw them, and every circuit it passed."""
    rng = np.random.default_rng(rng)
    history = History()
    train_bits = as_bits(train)
    valid_bits = _empty_like(train_bits) if valid is None else as_bits(valid)
    _check(train_bits, valid_bits, search)
    if start is not None:
        check_start(start, train_bits, valid_bits)
    train_bits, valid_bits = _merged(train_bits), _merged(valid_bits)

    if start is None:
        start = first_circuit(train_bits, search, rng)
    growing = GrowingCircuit(
        start,
        train_bits,
        valid_bits,
        pseudocount=search.pseudocount,
        copy_depth=1 if search.search == "learnpsdd" else search.copy_depth,
    )
    history.add(growing)
    try:
        steps = (LearnPsdd if search.search == "learnpsdd" else Greedy)(growing, search, rng)
        while not history.is_finished(search):
            if not steps.step():
                history.stopped_because = steps.STOPPED
                break
            history.add(growing)
            if on_split is not None:
                on_split(history)
    except KeyboardInterrupt:
        history.stopped_because = "interrupted"
    return train_bits, growing, history


class Greedy:
    """Algorithm 2: split the edge and the variable with the best scores."""

    STOPPED = "nothing left to split"

    def __init__(
        self, growing: GrowingCircuit, search: SearchOptions, rng: np.random.Generator
    ) -> None:
        self.growing = growing
        self.search = search
        self.rng = rng
        self.variables = VariablePicker(growing, search.variable_score, search.alpha)

    def step(self) -> bool:
        """Split once; False when no variable is undecided anywhere."""
        search = self.search
        edge = pick_edge(self.growing, search.edge_score, self.rng, search.tie_rule)
        if edge is None:
            return False
        self.growing.split(edge, self.variables.pick(edge, self.rng))
        return True


def first_circuit(
    train: BitMatrix, search: SearchOptions, rng: np.random.Generator | int | None = None
) -> Circuit:
    """The circuit before the first split, when there is none to start from."""
    is_independent = search.init == "independent"
    if search.vtree == "chow_liu":
        tree = learn_chow_liu_tree(train, alpha=search.alpha)
        vtree = vtree_from_chow_liu(tree)
        return compile_factorized(vtree) if is_independent else compile_chow_liu(tree, vtree)
    if isinstance(search.vtree, Vtree):
        vtree = search.vtree
    else:
        assert search.vtree is not None  # the options have put in the default
        vtree = learn_vtree(train, search.vtree, alpha=search.alpha, rng=rng)
    if vtree.n_vars != train.n_vars:
        raise ValueError(
            f"The training rows have {train.n_vars} columns, but the vtree has {vtree.n_vars} "
            "variables."
        )
    if is_independent:
        return compile_factorized(vtree)
    return compile_chow_liu(learn_tree_for_vtree(train, vtree, alpha=search.alpha), vtree)


def check_start(start: Circuit, train: BitMatrix, valid: BitMatrix) -> None:
    """Refuse a circuit that cannot be grown, or that excludes a row it should learn from."""
    if start.n_vars != train.n_vars:
        raise ValueError(
            f"The training rows have {train.n_vars} columns, but the circuit to start from has "
            f"{start.n_vars} variables."
        )
    check_in_normal_form(start, "learn_structure")
    if not start.is_deterministic:
        raise CircuitPropertyError(
            "learn_structure starts from a deterministic circuit, but "
            f"{why_not_deterministic(start)}."
        )
    for name, bits in (("training", train), ("validation", valid)):
        impossible = impossible_rows(start, bits)
        if len(impossible):
            raise ValueError(
                f"The circuit to start from must give every row a chance, but row {impossible[0]} "
                f"of the {name} rows satisfies none of its products."
            )


def impossible_rows(circuit: Circuit, bits: BitMatrix) -> AnyArray:
    """The rows that no parameters of a deterministic circuit make possible."""
    no_choice = circuit.with_parameters(np.zeros(circuit.n_edges))
    return np.flatnonzero(flow_log_likelihood(no_choice, bits) == -np.inf)


def _merged(bits: BitMatrix) -> BitMatrix:
    """Merge equal rows where that pays: most rows of a narrow table are copies of one another."""
    if bits.n_rows < 2:
        return bits
    merged, _ = merge_equal_rows(bits)
    return merged if merged.n_rows <= MERGE_BELOW * bits.n_rows else bits


def _empty_like(bits: BitMatrix) -> BitMatrix:
    return BitMatrix(np.zeros((bits.n_vars, 0), dtype=np.uint64), 0)


def _check(train: BitMatrix, valid: BitMatrix, search: SearchOptions) -> None:
    if train.total_weight == 0.0 or train.n_vars == 0:
        raise ValueError("Learning needs a column, and at least one row that counts.")
    if valid.n_vars != train.n_vars:
        raise ValueError(
            f"The validation rows have {valid.n_vars} columns, "
            f"but the training rows have {train.n_vars}."
        )
    limits = (search.max_splits, search.max_edges, search.max_seconds)
    if valid.total_weight == 0.0 and all(limit is None for limit in limits):
        raise ValueError(
            "Without validation rows the search would never stop: give some, or one of "
            "max_splits, max_edges and max_seconds."
        )
