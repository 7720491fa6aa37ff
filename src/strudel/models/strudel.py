"""The estimator of one circuit."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np

from strudel._numba import use_threads
from strudel.algebra.divergences import kl_divergence
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import flow_log_likelihood
from strudel.data.bits import BitMatrix, pack_columns
from strudel.data.lazy import is_lazy
from strudel.learning.history import History
from strudel.learning.incomplete.learn import learn_incomplete_circuit
from strudel.learning.options import SearchOptions, check_number
from strudel.learning.parameters import fit_parameters
from strudel.learning.presets import learn_with_sampled_rows, with_preset
from strudel.learning.search.learn_structure import learn_structure
from strudel.models.base import DensityEstimator, InterruptedWarning, LearningRows


class Strudel(DensityEstimator):
    """A structured-decomposable, deterministic circuit learned from 0/1 rows.

    Parameters
    ----------
    preset : {"paper", "fast", "accurate"}, default="paper"
        What the options stand for that are left at their defaults: the paper's search; the same
        within two seconds; or everything that makes a circuit accurate, within four
        minutes (`max_seconds`): the best of several searches and vtrees, hierarchical smoothing,
        and a second search with rows sampled from a mixture.
    edge_score : {"flow", "random"}, default="flow"
        Which edge to split next: the one with most rows through it (eFLOW of the paper), or any.
    variable_score : {"mutual_information", "random", "gain"}, default="mutual_information"
        On which variable: the one that tells most about the others (vMI), any, or the one with the
        largest gain of training likelihood per new parameter.
    search : {"greedy", "best_first", "beam", "learnpsdd", "auto"}, default="greedy"
        Take the best-scored split at once, as Algorithm 2 of the paper does; or, of all splits and
        clones everywhere, the one with the largest gain per new parameter; or keep, after every
        step, the `beam_width` best of the circuits that come of splitting each at its `beam_width`
        best-scored edges; a step then costs, for a width of 5, 13 to 50 times a greedy one. Or, as
        LearnPSDD does, start from independent variables and carry out the split or clone, with
        deeper copies, that raises the training log-likelihood most per edge that it adds.
    copies : {"minimal", "depth", "complete"}, default="depth"
        LearnPSDD: how far an operation copies: what it must; also `copy_levels` levels of sums
        below; or all that is below.
    copy_levels : int, default=3
        LearnPSDD: levels for ``copies="depth"``.
    operation_score : {"per_edge", "gain", "heuristic"}, default="per_edge"
        LearnPSDD: the best operation gains most per new edge, or most; or it is the split of the
        greedy search, which needs ``clones=False`` and ``split_sides="both"``.
    split_sides : {"left", "both"}, default="left"
        LearnPSDD: split on variables below the left child of an edge only, or on any.
    beam_width : int, default=5
        Circuits that a beam search keeps. One is the greedy search.
    beam_selection : {"train", "valid"}, default="train"
        The likelihood by which circuits stay in the beam.
    beam_kl_threshold : float, optional
        Leave a circuit out of the beam if the Kullback-Leibler divergence, in nats, of a better one
        from it is smaller: a more varied beam, at the cost of some passes over whole circuits per
        step. Circuits of equal size and likelihood are always left out.
    init : {"chow_liu", "independent"}, optional
        The first circuit: the tree-shaped network with most mutual information among those that
        the vtree has room for, which is the Chow-Liu tree for the vtree made from it; or all
        variables independent. By default "chow_liu", for LearnPSDD "independent".
    vtree : Vtree or str, optional
        How the circuit decomposes. A name is a method of `learn_vtree`: "chow_liu", "bottom_up",
        "top_down", "clusters", "balanced", "linear" or "random"; "auto" tries several. By default
        "chow_liu", for LearnPSDD "bottom_up".
    max_splits, max_edges, max_seconds : optional
        Bounds on the search.
    patience : int, default=100
        Stop after so many splits without a better validation likelihood.
    pseudocount : float, default=1.0
        Virtual rows per sum node, shared by its edges.
    copy_depth : int, default=1
        How far a split copies below its edge beyond what it must.
    validation_fraction : float or None, default=0.1
        Rows held out to decide when to stop, when `fit` gets no `X_valid`. None holds nothing out;
        the search then needs one of the bounds.
    tie_rule : {"root_first", "depth_first"}, default="root_first"
        Which of several edges with equally many rows comes first.
    clones : bool, default=True
        Whether best-first search and LearnPSDD may also copy a shared sum for some edges above.
    smoothing : {"uniform", "hierarchical"}, default="uniform"
        What parameters are drawn to: all edges of a sum alike; or, for copies, the parameters of
        the sum they were copied from.
    smoothing_strength : float or "auto", default="auto"
        How strongly copies are drawn, in virtual rows per sum; chosen on validation rows.
    sampled_rows : int, "auto" or None, default=None
        Learn a second time, from the rows and as many more sampled from a mixture, and keep the
        better circuit on the validation rows; "auto" samples 60,000, and of more than 200
        variables 12,000 if time is left. Not used with a constraint or `warm_start`.
    structure_rows : int, optional
        Search the structure on about so many rows, drawn by the seed; the parameters are then found
        on all of them. For tables of which a part tells enough, above all Dask's.
    encoder : TableEncoder or "auto", optional
        Turns a table with text, numbers, dates into 0/1 variables; "auto" is ``TableEncoder()``.
        `fit` and all queries then take the table's own columns, and answer in them.
    respect_one_hot : bool, default=True
        With an encoder: whether bits that are the code of no value have probability zero, because
        the search starts from a tree over whole columns; else from one over 0/1 variables, any
        bits of which are possible.
    constraint : event, optional
        What every row satisfies: a formula over `variables`, a string such as ``"a >> (b | c)"``, a
        CNF, DNF or SDD. The search starts from its SDD times the circuit of `init`, and every row
        that violates it has probability zero. Needs PySDD (extra ``logic``), unless it is a count
        of variables such as ``"exactly(1, a, b, c)"``, a conjunction or a single clause.
    warm_start : bool, default=False
        Whether a second `fit` continues from `circuit_`, which may come from a file, instead of
        starting anew; the columns must be the same, and every row must be possible in it. `init`
        and `vtree` then do not matter, `max_splits` and `max_seconds` count from here, and
        `history_` goes on from the best circuit. What an earlier constraint excludes stays
        excluded; a constraint that `circuit_` was not learned under is multiplied in first. With
        the same rows, give `X_valid` or a number as `random_state`: else rows that it has learned
        from are held out to decide when to stop.
    random_state : int, RandomState or None
        For the held-out rows, the random scores and the random vtree.
    n_jobs : int or None
        Threads; all cores by default. The result does not depend on it.
    verbose : int, default=0
        Print a line about every second to stderr.

    Attributes
    ----------
    circuit_ : Circuit
        The best circuit on the validation rows.
    history_ : History
        One row per split. After a beam search, the path of the best circuit, and then, for every
        later step, the circuit of the beam with the best validation likelihood.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import Strudel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(300, 1)).repeat(6, axis=1) ^ (rng.random((300, 6)) < 0.1)
    >>> model = Strudel(random_state=0).fit(X)
    >>> bool(model.score(X) > -6 * np.log(2))  # better than fair coins
    True
    >>> X = X[X.any(axis=1)]
    >>> model = Strudel(constraint="at_least(1, x0, x1, x2, x3, x4, x5)", random_state=0).fit(X)
    >>> model.log_likelihood([[0] * 6])
    array([-inf])
    """

    def __init__(
        self,
        *,
        preset: str = "paper",
        edge_score: str = "flow",
        variable_score: str = "mutual_information",
        search: str = "greedy",
        copies: str = "depth",
        copy_levels: int = 3,
        operation_score: str = "per_edge",
        split_sides: str = "left",
        init: str | None = None,
        vtree: Any = None,
        max_splits: int | None = None,
        patience: int = 100,
        max_edges: int | None = None,
        max_seconds: float | None = None,
        pseudocount: float = 1.0,
        copy_depth: int = 1,
        validation_fraction: float | None = 0.1,
        tie_rule: str = "root_first",
        beam_width: int = 5,
        beam_selection: str = "train",
        beam_kl_threshold: float | None = None,
        clones: bool = True,
        smoothing: str = "uniform",
        smoothing_strength: float | str = "auto",
        sampled_rows: int | str | None = None,
        structure_rows: int | None = None,
        constraint: Any = None,
        encoder: Any = None,
        respect_one_hot: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.preset = preset
        self.edge_score = edge_score
        self.variable_score = variable_score
        self.search = search
        self.copies = copies
        self.copy_levels = copy_levels
        self.operation_score = operation_score
        self.split_sides = split_sides
        self.init = init
        self.vtree = vtree
        self.max_splits = max_splits
        self.patience = patience
        self.max_edges = max_edges
        self.max_seconds = max_seconds
        self.pseudocount = pseudocount
        self.copy_depth = copy_depth
        self.validation_fraction = validation_fraction
        self.tie_rule = tie_rule
        self.beam_width = beam_width
        self.beam_selection = beam_selection
        self.beam_kl_threshold = beam_kl_threshold
        self.clones = clones
        self.smoothing = smoothing
        self.smoothing_strength = smoothing_strength
        self.sampled_rows = sampled_rows
        self.structure_rows = structure_rows
        self.constraint = constraint
        self.encoder = encoder
        self.respect_one_hot = respect_one_hot
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_valid: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
    ) -> Strudel:
        """Learn a circuit from rows of which some values may be unknown.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1, or NaN where a value is unknown; numpy, lists, scipy sparse, pandas, polars;
            with an `encoder` any table. A row that violates the constraint is an error.
        y : array-like of shape (n_rows,), optional
            What an encoder with supervised edges tells apart; else ignored.
        X_valid : array-like of shape (n_valid, n_vars), optional
            Rows that decide when to stop; a part of `X` is held out when not given.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.
        checkpoint : Checkpoint, optional
            A file from which a fit that was killed goes on. A beam search begins anew.

        Returns
        -------
        Strudel
            Itself. A keyboard interrupt keeps the best circuit so far and warns.
        """
        self._fit(X, X_valid, sample_weight, y=y, checkpoint=checkpoint)
        return self._end(checkpoint)

    def _fit(
        self,
        X: Any,
        X_valid: Any = None,
        sample_weight: Any = None,
        on_split: Callable[[History], None] | None = None,
        checkpoint: Any = None,
        y: Any = None,
    ) -> Strudel:
        """`fit` with a callback for progress."""
        search, sampled_rows = self._options()
        if self.structure_rows is not None:
            check_number("structure_rows", self.structure_rows, 1, Integral, "a whole number")
        if is_lazy(X):
            if isinstance(self.sampled_rows, Integral):
                raise ValueError("sampled_rows needs all rows in one place: take a sample of them.")
            return self._fit_spread(X, X_valid, sample_weight, search, on_split, checkpoint)
        last = getattr(self, "circuit_", None) if self.warm_start else None
        # A circuit from a file may have been learned under anything.
        is_restricted = last is not None and _is_same(
            self.constraint, getattr(self, "_constraint_of_circuit", False)
        )
        rows = self._learning_rows(
            X, X_valid, sample_weight, search, last, is_restricted, checkpoint, y
        )
        search = rows.search
        tell = on_split or (_Reporter() if self.verbose else None)

        def learn(rows: LearningRows, search: SearchOptions) -> tuple[Circuit, History]:
            if sampled_rows is not None and rows.start is None:
                return learn_with_sampled_rows(rows, search, sampled_rows, tell, self.n_jobs)
            return learn_structure(
                rows.train,
                rows.valid,
                search=search,
                rng=rows.rng,
                on_split=tell,
                start=rows.start,
                divergence=kl_divergence,
                journal=rows.journal,
            )

        with use_threads(self.n_jobs):
            if rows.incomplete is not None:
                circuit, history = learn_incomplete_circuit(rows, search, learn)
            else:
                part = _part_of(rows.train, self.structure_rows, rows.rng)
                circuit, history = learn(rows._replace(train=part), search)
                if part is not rows.train:
                    circuit = fit_parameters(circuit, rows.train, pseudocount=search.pseudocount)
        if last is not None and rows.valid is not None and search.smoothing == "hierarchical":
            circuit = _better(last, circuit, rows.valid)
        rows.keep()
        self.circuit_: Circuit = circuit.with_names(self._feature_names())
        is_longer = last is not None and hasattr(self, "history_")
        self.history_: History = history.after(self.history_) if is_longer else history
        self._constraint_of_circuit = self.constraint
        self._saw_completions = rows.incomplete is not None  # what the history speaks of
        _warn_if_interrupted(history)
        return self

    def _fit_spread(
        self,
        X: Any,
        X_valid: Any,
        sample_weight: Any,
        search: SearchOptions,
        on_split: Callable[[History], None] | None,
        checkpoint: Any,
    ) -> Strudel:
        """`fit` on a Dask array or frame."""
        from strudel.learning.partitioned.fit import fit_spread_circuit
        from strudel.learning.partitioned.fit_rows import spread_rows

        learning = spread_rows(self, X, X_valid, sample_weight, checkpoint)
        tell = on_split or (_Reporter() if self.verbose else None)
        with use_threads(self.n_jobs):
            circuit, history = fit_spread_circuit(learning, search, self.structure_rows, tell)
        learning.keep(self)
        self.circuit_ = circuit.with_names(self._feature_names())
        self.history_ = history
        self._constraint_of_circuit = None
        self._saw_completions = learning.has_gaps
        _warn_if_interrupted(history)
        return self

    def _options(self) -> tuple[SearchOptions, Any]:
        """The options of the search, and how many rows to sample, as the preset completes them."""
        names = [field.name for field in fields(SearchOptions) if hasattr(self, field.name)]
        given = {name: getattr(self, name) for name in (*names, "sampled_rows")}
        parameters = signature(type(self)).parameters
        defaults = {name: parameters[name].default for name in given}
        options = with_preset(given, self.preset, defaults)
        sampled_rows = options.pop("sampled_rows")
        if sampled_rows is not None and sampled_rows != "auto":
            check_number("sampled_rows", sampled_rows, 1, Integral, "a whole number")
        return SearchOptions(**options), sampled_rows


def _part_of(bits: BitMatrix, n_rows: int | None, rng: np.random.Generator) -> BitMatrix:
    """So many of the rows, in their order; all of them if they are fewer."""
    if n_rows is None or n_rows >= bits.n_rows:
        return bits
    chosen = np.sort(rng.choice(bits.n_rows, n_rows, replace=False))
    return pack_columns(bits.unpack()[chosen], bits.weights[chosen])


def _warn_if_interrupted(history: History) -> None:
    if history.stopped_because == "interrupted":
        warnings.warn(
            f"Learning was interrupted after {len(history) - 1} splits; "
            "the best circuit so far was kept.",
            InterruptedWarning,
            stacklevel=4,
        )


def _better(last: Circuit, circuit: Circuit, valid: BitMatrix) -> Circuit:
    """The circuit of the last fit, if it remains better: what its copies came from is not known."""
    before = flow_log_likelihood(last, valid) @ valid.weights
    after = flow_log_likelihood(circuit, valid) @ valid.weights
    return last if before > after else circuit


def _is_same(constraint: Any, other: Any) -> bool:
    """Whether two constraints are the same without a doubt; `==` of events makes an event."""
    if isinstance(constraint, str) and isinstance(other, str):
        return constraint == other
    return constraint is other


class _Reporter:
    """Prints the state of the search about once a second."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def __call__(self, history: History) -> None:
        now = time.perf_counter()
        if now - self.last >= 1.0:
            self.last = now
            latest = {name: column[-1] for name, column in history.columns().items()}
            print(
                "split {n_splits}: train {train:.4f}, valid {valid:.4f}, {n_edges} edges, "
                "{seconds:.1f} s".format(**latest),
                file=sys.stderr,
            )
