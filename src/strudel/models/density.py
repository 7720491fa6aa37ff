"""The estimator of one circuit."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from strudel._numba import use_threads
from strudel.algebra.divergences import kl_divergence
from strudel.circuits.circuit import Circuit
from strudel.learning.history import History
from strudel.learning.options import SearchOptions
from strudel.learning.structure import learn_structure
from strudel.models.base import DensityEstimator, InterruptedWarning


class Strudel(DensityEstimator):
    """A structured-decomposable, deterministic circuit learned from 0/1 rows.

    Parameters
    ----------
    edge_score : {"flow", "random"}, default="flow"
        Which edge to split next: the one with most rows through it (eFLOW of the paper), or any.
    variable_score : {"mutual_information", "random"}, default="mutual_information"
        On which variable: the one that tells most about the others (vMI), or any.
    search : {"greedy", "beam"}, default="greedy"
        Take the best-scored split at once, as Algorithm 2 of the paper does; or keep, after every
        step, the `beam_width` best of the circuits that come of splitting each at its `beam_width`
        best-scored edges. A step then costs, for a width of 5, 13 to 50 times a greedy one.
    beam_width : int, default=5
        Circuits that a beam search keeps. One is the greedy search.
    beam_selection : {"train", "valid"}, default="train"
        The likelihood by which circuits stay in the beam.
    beam_kl_threshold : float, optional
        Leave a circuit out of the beam if the Kullback-Leibler divergence, in nats, of a better one
        from it is smaller: a more varied beam, at the cost of some passes over whole circuits per
        step. Circuits of equal size and likelihood are always left out.
    init : {"chow_liu", "independent"}, default="chow_liu"
        The first circuit.
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
    constraint : event, optional
        What every row satisfies: a formula over `variables`, a string such as ``"a >> (b | c)"``, a
        CNF, DNF or SDD. The search starts from its SDD times the circuit of `init`, and every row
        that violates it has probability zero. Needs PySDD (extra ``logic``), unless it is a count
        of variables such as ``"exactly(1, a, b, c)"``, a conjunction or a single clause.
    random_state : int, RandomState or None
        For the held-out rows and the random scores.
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
        edge_score: str = "flow",
        variable_score: str = "mutual_information",
        search: str = "greedy",
        init: str = "chow_liu",
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
        constraint: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.edge_score = edge_score
        self.variable_score = variable_score
        self.search = search
        self.init = init
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
        self.constraint = constraint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, X_valid: Any = None, sample_weight: Any = None
    ) -> Strudel:
        """Learn a circuit from fully observed rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1; numpy, lists, scipy sparse, pandas, polars. A row that violates the constraint
            is an error.
        y : ignored
        X_valid : array-like of shape (n_valid, n_vars), optional
            Rows that decide when to stop; a part of `X` is held out when not given.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        Strudel
            Itself. A keyboard interrupt keeps the best circuit so far and warns.
        """
        return self._fit(X, X_valid, sample_weight)

    def _fit(
        self,
        X: Any,
        X_valid: Any = None,
        sample_weight: Any = None,
        on_split: Callable[[History], None] | None = None,
    ) -> Strudel:
        """`fit` with a callback for progress."""
        search = self._options()
        rows = self._learning_rows(X, X_valid, sample_weight, search)
        with use_threads(self.n_jobs):
            circuit, self.history_ = learn_structure(
                rows.train,
                rows.valid,
                search=search,
                rng=rows.rng,
                on_split=on_split or (_Reporter() if self.verbose else None),
                first=rows.first,
                divergence=kl_divergence,
            )
        self.circuit_: Circuit = circuit.with_names(self._feature_names())
        if self.history_.stopped_because == "interrupted":
            warnings.warn(
                f"Learning was interrupted after {len(self.history_) - 1} splits; "
                "the best circuit so far was kept.",
                InterruptedWarning,
                stacklevel=3,
            )
        return self

    def _options(self) -> SearchOptions:
        return SearchOptions(
            edge_score=self.edge_score,  # type: ignore[arg-type]
            variable_score=self.variable_score,  # type: ignore[arg-type]
            init=self.init,  # type: ignore[arg-type]
            patience=self.patience,
            max_splits=self.max_splits,
            max_edges=self.max_edges,
            max_seconds=self.max_seconds,
            pseudocount=self.pseudocount,
            copy_depth=self.copy_depth,
            tie_rule=self.tie_rule,  # type: ignore[arg-type]
            search=self.search,  # type: ignore[arg-type]
            beam_width=self.beam_width,
            beam_selection=self.beam_selection,  # type: ignore[arg-type]
            beam_kl_threshold=self.beam_kl_threshold,
        )


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
