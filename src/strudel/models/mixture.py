"""The estimator of a mixture of circuits that share one structure, or at least the vtree."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from strudel._numba import use_threads
from strudel._types import FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.data.lazy import is_lazy
from strudel.learning.incomplete.learn import learn_incomplete_mixture
from strudel.learning.mixtures.choose import (
    Trial,
)
from strudel.learning.mixtures.fit_mixture import MixtureFit, OnProgress, last_step
from strudel.learning.mixtures.learned_mixture import (
    Clock,
    LearnedMixture,
)
from strudel.learning.mixtures.mixture_history import MixtureHistory
from strudel.learning.options import MixtureOptions, SearchOptions, check_number
from strudel.models.base import DensityEstimator, InterruptedWarning
from strudel.queries.by_block import by_block
from strudel.queries.mixture_likelihood import responsibilities, rows_responsibilities
from strudel.queries.passes import decode
from strudel.tables.input_table import rows_like

METHODS = ("em", "bagged_em", "boosting")
STRUCTURES = ("shared", "per_component")
SEARCHES = ("auto", "greedy", "best_first")
STRUCTURE_SHARE = 1 / 3  # of `max_seconds`; the rest is for EM


class StrudelMixture(DensityEstimator):
    """A mixture of deterministic circuits on one vtree, learned from 0/1 rows.

    Parameters
    ----------
    n_components : int or "auto", default=10
        Components of one run. "auto" chooses on the validation rows, together with the number of
        runs to be averaged.
    structure : {"shared", "per_component"}, default="shared"
        Whether all components share one structure, or each grows its own on the rows it is
        responsible for, with splits and EM steps in turns. Their own is slower, and better only
        where few components are wanted. "auto" components are then 2, 5, 10 or 20, of one run.
    n_splits : int or "auto", default="auto"
        How far the structure search goes before EM begins. "auto" chooses among the circuits the
        search passes: with many components a short search is often best. Of components with
        their own structure, the most splits that one may have on average. Best-first search counts
        its clones, too.
    method : {"em", "bagged_em", "boosting"}, default="em"
        EM on all rows; EM on bootstrap samples of the rows, averaged; or components added one after
        another where the mixture so far fails (shared structure only).
    n_runs : int, optional
        EM runs from different starts whose mixtures are averaged: 1 by default, and as many as
        `max_components` allows when `n_components` is "auto" and the structure shared.
    n_bags : int, default=10
        Bootstrap samples of "bagged_em".
    n_restarts : int, default=1
        Starts of every run, of which the best is kept.
    start : {"k-means", "k-means++", "random"}, default="k-means"
        First responsibilities.
    smoothing : {"single", "uniform"}, default="single"
        What parameters are drawn to: those of the single circuit, or all alike.
    pseudocount : float or "auto", default="auto"
        How strongly, in virtual rows per sum node and component; "auto" is chosen on the validation
        rows, but is 2 in boosting.
    max_iterations, patience : int
        Stop EM after so many steps, or so many without a better validation likelihood.
        Components with their own structure stop growing after 100 splits and 15 rounds without.
    max_components : int, default=3200
        Most components of the whole mixture when their number is chosen.
    max_seconds : float, optional
        Stop after about so many seconds with the best mixture so far. Without it the result depends
        on the seed alone.
    search : {"auto", "greedy", "best_first"}, default="auto"
        How the shared structure grows: by the splits of the paper, or by the best of all splits and
        clones, as in `Strudel`. "auto" is best-first if `n_splits` is "auto", too; but the paper's
        search for a number of splits, if one of its options is given (`edge_score`,
        `variable_score`, `copy_depth`), and for components with their own structure.
    edge_score, variable_score, init, vtree, copy_depth, max_splits, max_edges
        Options of the structure search, as in `Strudel`.
    structure_rows : int, optional
        With Dask's tables, the rows on which numbers are chosen that are "auto", 50,000 by default.
    encoder : TableEncoder or "auto", optional
        Turns a table with text, numbers, dates into 0/1 variables; "auto" is ``TableEncoder()``.
        `fit` and all queries then take the table's own columns, and answer in them.
    respect_one_hot : bool, default=True
        Whether bits that are the code of no value have probability zero, as in `Strudel`.
    constraint : event, optional
        What every row satisfies, as in `Strudel`.
    validation_fraction : float or None, default=0.1
        Rows held out when `fit` gets no `X_valid`; None holds nothing out, and nothing can be
        chosen then.
    random_state : int, RandomState or None
        For the held-out rows and the starts.
    n_jobs : int or None
        Threads; all cores by default. The result does not depend on it.
    verbose : int, default=0
        Print how the search goes to stderr.

    Attributes
    ----------
    mixture_ : Mixture
        The best mixture on the validation rows.
    history_ : MixtureHistory
        One row per EM step of the last runs, or per component in boosting.
    chosen_ : dict
        `n_splits`, `n_components` and `n_runs` of the mixture, and its `valid` log-likelihood. To
        get a best-first structure again, give ``search="best_first"`` beside the number of splits.
    trials_ : list of Trial
        All settings that were tried, in order; empty if nothing had to be chosen.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import StrudelMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(300, 1)).repeat(6, axis=1) ^ (rng.random((300, 6)) < 0.1)
    >>> model = StrudelMixture(n_components=3, n_splits=0, random_state=0).fit(X)
    >>> model.mixture_
    Mixture(n_components=3, n_vars=6, ...)
    """

    def __init__(
        self,
        n_components: int | str = 10,
        *,
        structure: str = "shared",
        n_splits: int | str = "auto",
        method: str = "em",
        n_runs: int | None = None,
        n_bags: int = 10,
        n_restarts: int = 1,
        start: str = "k-means",
        smoothing: str = "single",
        pseudocount: float | str = "auto",
        max_iterations: int = 500,
        patience: int = 10,
        max_components: int = 3200,
        max_seconds: float | None = None,
        search: str = "auto",
        edge_score: str = "flow",
        variable_score: str = "mutual_information",
        init: str = "chow_liu",
        vtree: Any = "chow_liu",
        copy_depth: int = 1,
        max_splits: int | None = None,
        max_edges: int | None = None,
        structure_rows: int | None = None,
        constraint: Any = None,
        encoder: Any = None,
        respect_one_hot: bool = True,
        validation_fraction: float | None = 0.1,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.structure = structure
        self.n_splits = n_splits
        self.method = method
        self.n_runs = n_runs
        self.n_bags = n_bags
        self.n_restarts = n_restarts
        self.start = start
        self.smoothing = smoothing
        self.pseudocount = pseudocount
        self.max_iterations = max_iterations
        self.patience = patience
        self.max_components = max_components
        self.max_seconds = max_seconds
        self.search = search
        self.edge_score = edge_score
        self.variable_score = variable_score
        self.init = init
        self.vtree = vtree
        self.copy_depth = copy_depth
        self.max_splits = max_splits
        self.max_edges = max_edges
        self.structure_rows = structure_rows
        self.constraint = constraint
        self.encoder = encoder
        self.respect_one_hot = respect_one_hot
        self.validation_fraction = validation_fraction
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
    ) -> StrudelMixture:
        """Learn a mixture from rows of which some values may be unknown.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1, or NaN where a value is unknown; numpy, lists, scipy sparse, pandas, polars;
            with an `encoder` any table. A row that violates the constraint is an error.
        y : array-like of shape (n_rows,), optional
            What an encoder with supervised edges tells apart; else ignored.
        X_valid : array-like of shape (n_valid, n_vars), optional
            Rows by which everything is chosen; a part of `X` is held out when not given.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.
        checkpoint : Checkpoint, optional
            A file from which a fit that was killed goes on. Boosting, and components with their own
            structure, begin anew after it.

        Returns
        -------
        StrudelMixture
            Itself. A keyboard interrupt keeps the best mixture so far and warns.
        """
        self._fit(X, X_valid, sample_weight, y=y, checkpoint=checkpoint)
        return self._end(checkpoint)

    def _fit(
        self,
        X: Any,
        X_valid: Any = None,
        sample_weight: Any = None,
        on_progress: OnProgress | None = None,
        checkpoint: Any = None,
        y: Any = None,
        columns: Any = None,
    ) -> StrudelMixture:
        """`fit` with a callback that gets a line about what goes on, and codes to respect."""
        options = self._mixture_options()
        search = replace(self._search_options(), columns=columns)
        if X_valid is None and self.validation_fraction is None:
            if "auto" in (self.n_components, self.n_splits):
                raise ValueError(
                    "n_components and n_splits are chosen on validation rows, but there are none: "
                    "give numbers, X_valid or a validation_fraction."
                )
            if options.pseudocount == "auto":
                options = replace(options, pseudocount=1.0)
        tell = on_progress or (_print if self.verbose else _ignore)
        if is_lazy(X):
            return self._fit_spread(X, X_valid, sample_weight, search, options, tell, checkpoint)
        rows = self._learning_rows(X, X_valid, sample_weight, search, checkpoint=checkpoint, y=y)
        clock = Clock(rows.journal.now(), self.max_seconds, rows.journal.now)
        trials: list[Trial] = []
        with use_threads(self.n_jobs):
            fit = MixtureFit(self, rows.search, options, clock, trials, tell)
            if rows.incomplete is not None:
                learned = learn_incomplete_mixture(rows, options, fit.learn)
            else:
                learned = fit.learn(rows)
        rows.keep()
        self.mixture_: Mixture = learned.mixture.with_names(self._feature_names())
        self.history_: MixtureHistory = learned.history
        self.chosen_: dict[str, Any] = learned.chosen
        self.trials_: list[Trial] = trials
        _warn_if_interrupted(self.history_)
        return self

    def _fit_spread(
        self,
        X: Any,
        X_valid: Any,
        sample_weight: Any,
        search: SearchOptions,
        options: MixtureOptions,
        tell: OnProgress,
        checkpoint: Any,
    ) -> StrudelMixture:
        """`fit` on a Dask array or frame; what is "auto" is chosen on a sample of its rows."""
        from strudel.learning.partitioned.fit import CHOSEN_ON, fit_spread_components
        from strudel.learning.partitioned.fit_rows import spread_rows

        if self.method == "boosting" or self.structure != "shared":
            raise ValueError(
                "Rows in parts need method='em' or 'bagged_em', and structure='shared'."
            )
        if self.structure_rows is not None:
            check_number("structure_rows", self.structure_rows, 1, Integral, "a whole number")
        learning = spread_rows(self, X, X_valid, sample_weight, checkpoint)
        clock = Clock(learning.journal.now(), self.max_seconds, learning.journal.now)
        n_bags = self.n_bags if self.method == "bagged_em" else None
        n_splits, n_components, n_runs = self.n_splits, self.n_components, options.n_runs
        trials: list[Trial] = []
        learned: LearnedMixture | None = None
        with use_threads(self.n_jobs):
            if "auto" in (n_splits, n_components):
                small = self._fit_small(learning, self.structure_rows or CHOSEN_ON, tell)
                n_splits, n_components = (small.chosen_[k] for k in ("n_splits", "n_components"))
                n_runs, trials = small.chosen_["n_runs"], small.trials_
                if small.history_.stopped_because == "interrupted":
                    learned = LearnedMixture(small.mixture_, small.history_, small.chosen_)
            if learned is None:
                learned = fit_spread_components(
                    learning,
                    search,
                    replace(options, n_components=int(n_components), n_runs=n_runs),
                    int(n_splits),
                    n_bags,
                    clock,
                    lambda latest: tell(last_step(latest, learning)),
                )
                _warn_if_interrupted(learned.history)
        learning.keep(self)
        self.mixture_ = learned.mixture.with_names(self._feature_names())
        self.history_, self.chosen_, self.trials_ = learned.history, learned.chosen, trials
        return self

    def _fit_small(self, learning: Any, n_rows: int, tell: OnProgress) -> StrudelMixture:
        """Choose what is to be chosen on a sample, in a third of the time."""
        X, weight = learning.sample(n_rows)
        valid = learning.valid_sample(n_rows)
        if learning.has_gaps:
            X, valid = decode(X), None if valid is None else (decode(valid[0]), valid[1])
        small = clone(self).set_params(random_state=learning.seed, encoder=None)
        if self.max_seconds is not None:
            small.set_params(max_seconds=STRUCTURE_SHARE * self.max_seconds)
        return small._fit(
            X,
            None if valid is None else valid[0],
            None if np.all(weight == 1.0) else weight,
            on_progress=tell,
            checkpoint=learning.journal,
            columns=learning.columns,
        )

    def _search_options(self) -> SearchOptions:
        n_splits: Any = self.n_splits
        if n_splits != "auto" and not (isinstance(n_splits, Integral) and int(n_splits) >= 0):
            raise ValueError(
                f"n_splits must be a whole number of at least 0 or 'auto', but is {n_splits!r}."
            )
        max_splits = self.max_splits if n_splits == "auto" else int(n_splits)
        return SearchOptions(
            search=self._search_kind(),  # type: ignore[arg-type]
            edge_score=self.edge_score,  # type: ignore[arg-type]
            variable_score=self.variable_score,  # type: ignore[arg-type]
            init=self.init,  # type: ignore[arg-type]
            vtree=self.vtree,
            patience=100 if n_splits == "auto" else max(1, int(n_splits)),
            max_splits=max_splits,
            max_edges=self.max_edges,
            max_seconds=None if self.max_seconds is None else STRUCTURE_SHARE * self.max_seconds,
            copy_depth=self.copy_depth,
        )

    def _search_kind(self) -> str:
        """How the structure grows; "auto" spoken out."""
        is_shared = self.structure == "shared"
        if self.search not in SEARCHES:
            raise ValueError(
                f"search must be one of {', '.join(SEARCHES)}, but is {self.search!r}."
            )
        if self.search == "best_first" and not is_shared:
            raise ValueError(
                "search='best_first' grows a shared structure: take search='greedy' for "
                "structure='per_component'."
            )
        if self.search != "auto":
            return self.search
        greedy = (self.edge_score, self.variable_score, self.copy_depth)
        is_plain = greedy == ("flow", "mutual_information", 1)
        return "best_first" if is_shared and is_plain and self.n_splits == "auto" else "greedy"

    def _mixture_options(self) -> MixtureOptions:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, but is {self.method!r}.")
        if self.structure not in STRUCTURES:
            raise ValueError(
                f"structure must be one of {', '.join(STRUCTURES)}, but is {self.structure!r}."
            )
        if self.structure == "per_component" and self.method == "boosting":
            raise ValueError(
                "Boosting needs a shared structure: take method='em' or 'bagged_em' for "
                "structure='per_component'."
            )
        for name in ("n_bags", "max_components"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, but is {value!r}.")
        return MixtureOptions(
            n_components=1 if self.n_components == "auto" else self.n_components,  # type: ignore[arg-type]
            n_runs=1 if self.n_runs is None else self.n_runs,
            n_restarts=self.n_restarts,
            start=self.start,  # type: ignore[arg-type]
            smoothing=self.smoothing,  # type: ignore[arg-type]
            pseudocount=self.pseudocount,  # type: ignore[arg-type]
            max_iterations=self.max_iterations,
            patience=self.patience,
            max_seconds=self.max_seconds,
        )

    def responsibilities(self, X: Any) -> FloatArray:
        """Probability of every component, given complete or partly observed rows."""
        return responsibilities(self._fitted(), X)

    @by_block("X")
    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every component as the cluster of each row: its responsibilities.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0, 1, or NaN where the value is unknown.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
        """
        check_is_fitted(self)
        return rows_responsibilities(self._fitted(), rows_like(self, X))

    @by_block("X")
    def predict(self, X: Any) -> IntArray:
        """The cluster of each row: the component that is most responsible for it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0, 1, or NaN where the value is unknown.

        Returns
        -------
        ndarray of shape (n_rows,)
            Numbers of components; of equally responsible ones the lowest.
        """
        clusters: IntArray = self.predict_proba(X).argmax(axis=1).astype(np.int32)
        return clusters

    def fit_predict(
        self, X: Any, y: Any = None, *, X_valid: Any = None, sample_weight: Any = None
    ) -> IntArray:
        """Learn a mixture, and give the cluster of each row."""
        return self.fit(X, y, X_valid=X_valid, sample_weight=sample_weight).predict(X)


def _warn_if_interrupted(history: MixtureHistory) -> None:
    if history.stopped_because == "interrupted":
        warnings.warn(
            "Learning was interrupted; the best mixture so far was kept.",
            InterruptedWarning,
            stacklevel=4,
        )


def _print(line: str) -> None:
    print(line, file=sys.stderr)


def _ignore(line: str) -> None:
    pass
