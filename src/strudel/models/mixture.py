"""The estimator of a mixture of circuits that share one structure, or at least the vtree."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from strudel._numba import use_threads
from strudel._types import FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.data.argument_checks import check_choice, check_count
from strudel.data.lazy import is_lazy
from strudel.errors import InterruptedWarning
from strudel.learning.incomplete.learn import learn_incomplete_mixture
from strudel.learning.methods import (
    METHODS,
    BaggedEM,
    Boosting,
    Method,
    MixtureOptions,
    PerComponent,
)
from strudel.learning.mixtures.choose import (
    Trial,
)
from strudel.learning.mixtures.fit_mixture import MixtureFit, OnProgress, last_step
from strudel.learning.mixtures.learned_mixture import (
    Clock,
    LearnedMixture,
)
from strudel.learning.mixtures.mixture_history import MixtureHistory
from strudel.learning.options import named_options
from strudel.learning.searches import SEARCHES, BestFirst, Greedy, SearchOptions
from strudel.models.base import DensityEstimator
from strudel.queries.by_block import by_block
from strudel.queries.mixture_likelihood import responsibilities, rows_responsibilities
from strudel.queries.passes import decode
from strudel.tables.input_table import rows_like

STRUCTURE_SHARE = 1 / 3  # of `max_seconds`; the rest is for EM


class StrudelMixture(DensityEstimator):
    """A mixture of deterministic circuits on one vtree, learned from 0/1 rows.

    Parameters
    ----------
    n_components : int or "auto", default=10
        Components of one run. "auto" chooses on the validation rows, together with the number of
        runs to be averaged.
    n_splits : int, "auto" or range, default="auto"
        How far the structure search goes before training begins. "auto" chooses among the circuits
        the search passes: with many components a short search is often best; a range, for example
        ``range(300)``, chooses within it. With `PerComponent` the most splits that one component
        may have on average. Best-first search also counts its clones.
    method : str or EM, BaggedEM, Boosting, PerComponent; default="em"
        How the mixture is trained: "em" on all rows; "bagged_em", EM on bootstrap samples of the
        rows, averaged; "boosting", components added one after another where the mixture so far
        fails; "per_component", a structure for every component. A name stands for the object with
        its defaults, for example ``BaggedEM(n_bags=5)``.
    search : str or Greedy, BestFirst; default="auto"
        How the structure grows: by the splits of the paper, or by the best of all splits and
        clones, as in `Strudel`. "auto" is best-first search if the number of splits is chosen,
        and the paper's for a given number of splits and for a structure per component.
    init, vtree
        Where the search starts, as in `Strudel`.
    max_components : int, default=3200
        Most components of the whole mixture.
    max_edges : int, optional
        Most edges of the structure.
    max_seconds : float, optional
        Stop after about so many seconds with the best mixture so far. Without it the result depends
        on the seed alone.
    pseudocount : float or "auto", default="auto"
        How strongly parameters are smoothed, in virtual rows per sum node and component; "auto" is
        chosen on the validation rows (1 without), but is 2 in boosting.
    smoothing : {"auto", "single", "uniform"}, default="auto"
        What parameters are drawn to: those of the single circuit, or all alike. "auto" is "single".
    validation_fraction : float or None, default=0.1
        Rows held out when `fit` gets no `X_valid`; None holds nothing out, and nothing can be
        chosen then.
    constraint : event, optional
        What every row satisfies, as in `Strudel`.
    encoder : TableEncoder or "auto", optional
        Turns a table with text, numbers, dates into 0/1 variables; "auto" is ``TableEncoder()``.
        `fit` and all queries then take the table's own columns, and answer in them.
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
        n_splits: int | str | range = "auto",
        method: Any = "em",
        search: Any = "auto",
        init: str | None = None,
        vtree: Any = None,
        max_components: int = 3200,
        max_edges: int | None = None,
        max_seconds: float | None = None,
        pseudocount: float | str = "auto",
        smoothing: str = "auto",
        validation_fraction: float | None = 0.1,
        constraint: Any = None,
        encoder: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_splits = n_splits
        self.method = method
        self.search = search
        self.init = init
        self.vtree = vtree
        self.max_components = max_components
        self.max_edges = max_edges
        self.max_seconds = max_seconds
        self.pseudocount = pseudocount
        self.smoothing = smoothing
        self.validation_fraction = validation_fraction
        self.constraint = constraint
        self.encoder = encoder
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
            is_range = isinstance(self.n_splits, range)
            if is_range or "auto" in (self.n_components, self.n_splits):
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

        method = self._method()
        if isinstance(method, Boosting | PerComponent):
            raise ValueError("A partitioned table needs method='em' or 'bagged_em'.")
        learning = spread_rows(self, X, X_valid, sample_weight, checkpoint)
        clock = Clock(learning.journal.now(), self.max_seconds, learning.journal.now)
        n_bags = method.n_bags if isinstance(method, BaggedEM) else None
        n_splits, n_components, n_runs = self.n_splits, self.n_components, options.n_runs
        trials: list[Trial] = []
        learned: LearnedMixture | None = None
        with use_threads(self.n_jobs):
            if "auto" in (n_splits, n_components) or isinstance(n_splits, range):
                n_rows = search.search.structure_rows or CHOSEN_ON
                small = self._fit_small(learning, n_rows, tell)
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
        """How the structure grows, and how far."""
        is_chosen = self.n_splits == "auto" or isinstance(self.n_splits, range)
        if not is_chosen:
            check_count("n_splits, if it is not a range,", self.n_splits, 0, may_be_auto=True)
        search = self.search
        if isinstance(search, str) and search == "auto":
            is_shared = not isinstance(self._method(), PerComponent)
            search = "best_first" if is_chosen and is_shared else "greedy"
        kind = named_options("search", search, SEARCHES)
        if type(kind) not in (Greedy, BestFirst):
            raise ValueError(
                "search must be 'auto', 'greedy' or 'best_first', or a Greedy or BestFirst object, "
                f"for a mixture, but is {self.search!r}."
            )
        if isinstance(kind, BestFirst) and isinstance(self._method(), PerComponent):
            raise ValueError(
                "search='best_first' grows one structure for all components: take search='greedy' "
                "for method='per_component'."
            )
        if kind.sampled_rows:
            raise ValueError("sampled_rows is for one circuit: a mixture is learned without them.")
        max_splits: Any = None if self.n_splits == "auto" else self.n_splits
        if isinstance(max_splits, range):
            max_splits = max(max_splits, default=0)
        return SearchOptions(
            search=kind,
            init=self.init,  # type: ignore[arg-type]
            vtree=self.vtree,
            patience=100 if is_chosen else max(1, int(max_splits)),
            max_splits=max_splits,
            max_edges=self.max_edges,
            max_seconds=None if self.max_seconds is None else STRUCTURE_SHARE * self.max_seconds,
        )

    def _method(self) -> Method:
        return named_options("method", self.method, METHODS)

    def _mixture_options(self) -> MixtureOptions:
        """How the mixture is trained."""
        check_count("max_components", self.max_components)
        is_chosen = self.n_components == "auto"
        check_count("n_components", self.n_components, may_be_auto=True)
        if not is_chosen and int(self.n_components) > self.max_components:
            raise ValueError(
                f"n_components is {self.n_components}, but max_components allows "
                f"{self.max_components}."
            )
        check_choice("smoothing", self.smoothing, ("auto", "single", "uniform"))
        return self._method().mixture_options(
            n_components=1 if is_chosen else self.n_components,
            smoothing="single" if self.smoothing == "auto" else self.smoothing,
            pseudocount=self.pseudocount,
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
