"""The estimator of a mixture of circuits that share one structure, or at least the vtree."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from strudel._compiling import on_compile
from strudel._torch import find_device, need_torch
from strudel._types import FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.data.argument_checks import check_choice, check_common_options, check_count
from strudel.data.lazy import is_lazy
from strudel.errors import InterruptedWarning
from strudel.learning.constraint import check_vtree
from strudel.learning.fit import fit_mixture
from strudel.learning.history import MixtureHistory
from strudel.learning.mixture_learner import (
    MOST_FREE,
    MOST_OF_ALL,
    STRUCTURE_SHARE,
    MixtureTask,
)
from strudel.learning.mixture_methods import (
    EM,
    METHODS,
    Auto,
    BaggedEM,
    Boosting,
    Continuous,
    Method,
    PerComponent,
)
from strudel.learning.mixtures.choose import Trial
from strudel.learning.options import named_options
from strudel.learning.progress import Callback, Reporter
from strudel.learning.search_options import SEARCHES, BestFirst, Greedy, SearchOptions
from strudel.models.base import DensityEstimator
from strudel.queries.by_block import by_block
from strudel.queries.mixture_likelihood import responsibilities, rows_responsibilities
from strudel.tables.input_table import rows_like

MOST_POINTS = 4096  # where a network ties the components: they cost less, and more of them help


@dataclass(eq=False, repr=False)
class StrudelMixture(DensityEstimator):
    """A mixture of deterministic circuits on one vtree, learned from 0/1 rows.

    Parameters
    ----------
    n_components : int or "auto", optional
        Components of one run; 10 by default. "auto" chooses on the validation rows, together with
        the number of runs to be averaged. With `Continuous`, the points of one network, "auto" by
        default.
    n_splits : int, "auto" or range, default="auto"
        Splits of the structure before training begins. "auto" chooses among the circuits of the
        search: with many components a short search is often best; a range, for example
        ``range(300)``, chooses within it. With `PerComponent`, the most splits per component, on
        average. Best-first search also counts its clones.
    method : str or EM, BaggedEM, Boosting, PerComponent, Continuous; default="auto"
        How the mixture is trained: "em" on all rows; "bagged_em", EM on bootstrap samples of the
        rows, averaged; "boosting", components added one after another where the mixture so far
        fails; "per_component", a structure for every component; "continuous", many components
        whose parameters a network makes, which needs PyTorch. A name stands for the object with its
        defaults, for example ``BaggedEM(n_bags=5)``. "auto" is "em" for a given number of
        components. Where the number is chosen, the average of EM, bagged EM and continuous mixtures
        is returned, with weights found on the validation rows. Without PyTorch, with an `encoder`,
        and for fewer than 131,072 cells it is the average of up to three mixtures by EM: one on the
        structure of the search, one whose components have independent columns, and one whose
        components are the circuit of the search, in which values of columns count more or less.
    search : str or Greedy, BestFirst; default="auto"
        How the structure grows: by the splits of the paper, or by the best of all splits and
        clones, as in `Strudel`. "auto" is best-first search if the number of splits is chosen,
        and the paper's for a given number of splits and for a structure per component.
    init, vtree
        Where the search starts, as in `Strudel`.
    max_components : int, optional
        Limit on the components of the whole mixture; 3200 by default if their number is chosen,
        4096 with `Continuous`, and 8192 where networks take part. Of a table with an `encoder`, the
        smallest mixture of each kind is chosen that the validation rows cannot tell from the best.
    max_edges : int, optional
        Limit on the edges of the structure.
    max_seconds : float, optional
        Stop after about this many seconds with the best mixture so far. Without it, the result
        depends on the seed alone.
    pseudocount : float or "auto", default="auto"
        How strongly parameters are smoothed, in virtual rows per sum node and component; "auto" is
        chosen on the validation rows (1 if there are none), but is 2 in boosting. Not for
        `Continuous`, nor is `smoothing`.
    smoothing : {"auto", "single", "uniform"}, default="auto"
        What parameters are smoothed towards: those of the single circuit, or equal ones. "auto" is
        "single".
    validation_fraction : float or None, default=0.1
        Rows held out when `fit` gets no `X_valid`; with None, nothing is held out, and
        nothing can be chosen.
    constraint : event, optional
        What every row satisfies, as in `Strudel`.
    encoder : TableEncoder or "auto", optional
        Turns a table with text, numbers or dates into 0/1 variables; "auto" is ``TableEncoder()``.
        `fit` and all queries then take the table's own columns, and answer in them.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where "em", "bagged_em" and "continuous" learn. "cuda", or "cuda:1" and so on, is a GPU
        and needs PyTorch (``pip install 'strudel-pc[torch]'``); "auto" is a GPU where there is one.
        The mixture is as good as that of the CPU, but not the same: k-means starts elsewhere, and a
        number of splits that is chosen is above 300 only where these gain more than 1 %.
    random_state : int, RandomState or None
        For the held-out rows and the starts.
    n_jobs : int or None
        Threads; all cores by default. The result does not depend on it; only with `Continuous` a
        seed repeats on the same number of threads.
    verbose : int, default=0
        Print progress to stderr.

    Attributes
    ----------
    mixture_ : Mixture
        The best mixture on the validation rows.
    log_likelihoods_ : LogLikelihoods
        Mean log-likelihoods of the training and validation rows, `train` and `valid`.
    held_out_rows_ : ndarray or None
        Numbers of the rows of `X` that were held out; None if there were none.
    history_ : MixtureHistory
        One row per EM step of the last runs, per component in boosting, or per check of the
        validation rows in `Continuous`.
    chosen_ : dict
        `n_splits`, `n_components` and `n_runs` of the mixture, and its `valid` log-likelihood. To
        get a best-first structure again, also give ``search="best_first"``. Where several mixtures
        were averaged, also their `shares`, and an `explanation` in a sentence; `init` where the
        variables of all components are independent.
    trials_ : list of Trial
        All settings that were tried, in order; empty if nothing had to be chosen. Independent
        variables count as -1 splits; `method` is "em", "bagged_em", "tilted" or "continuous".
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

    n_components: int | str | None = None
    _: KW_ONLY
    n_splits: int | str | range = "auto"
    method: Any = "auto"
    search: Any = "auto"
    init: str | None = None
    vtree: Any = None
    max_components: int | None = None
    max_edges: int | None = None
    max_seconds: float | None = None
    pseudocount: float | str = "auto"
    smoothing: str = "auto"
    validation_fraction: float | None = 0.1
    constraint: Any = None
    encoder: Any = None
    device: Any = "cpu"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_valid: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        callback: Callback | None = None,
    ) -> StrudelMixture:
        """Learn a mixture from rows; some of their values may be unknown.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1, or NaN where a value is unknown; numpy, lists, scipy sparse, pandas, polars;
            with an `encoder` any table. A Dask array or frame is learned from where it is; what is
            "auto" is then chosen on a sample. A row that violates the constraint is an error.
        y : array-like of shape (n_rows,), optional
            What an encoder with supervised edges tells apart; else ignored.
        X_valid : array-like of shape (n_valid, n_vars), optional
            Rows on which everything is chosen; by default a part of `X` is held out.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.
        checkpoint : Checkpoint, optional
            A file from which a fit that was killed continues. Boosting, and components with their
            own structure, start again.
        callback : callable, optional
            Called after every step with a `Progress`: the stage, the step, the log-likelihoods so
            far and the seconds. A `KeyboardInterrupt` raised in it ends the fit like Ctrl-C.

        Returns
        -------
        StrudelMixture
            Itself. A keyboard interrupt keeps the best mixture so far and warns.
        """
        check_common_options(self)
        task = self._task(
            has_valid=X_valid is not None or self.validation_fraction is not None,
            is_partitioned=is_lazy(X),
        )
        if is_lazy(X) and not isinstance(task.method, EM | BaggedEM | Auto):
            raise ValueError(
                "A partitioned table needs the method em or bagged_em, but method is "
                f"{self.method!r}."
            )
        is_chosen = task.n_components == "auto" or task.chooses_splits
        if task.search.search.structure_rows is not None and not (is_lazy(X) and is_chosen):
            raise ValueError(
                "structure_rows of a mixture is the size of the sample on which n_components and "
                "n_splits of a partitioned table are chosen: leave it out for a table in memory, "
                "or if both are given."
            )
        given = self._fit_input(X, y, X_valid, sample_weight, checkpoint)
        report = Reporter(callback, self.verbose)
        with on_compile(report.compiled):
            fitted = fit_mixture(given, task, report)
        self._keep(fitted.rows, fitted.log_likelihoods, checkpoint)
        self.mixture_: Mixture = fitted.mixture.with_names(self._feature_names())
        self.history_: MixtureHistory = fitted.history
        self.chosen_: dict[str, Any] = fitted.chosen
        self.trials_: list[Trial] = fitted.trials
        if self.history_.stopped_because == "interrupted":
            warnings.warn(
                "Learning was interrupted; the best mixture so far was kept.",
                InterruptedWarning,
                stacklevel=2,
            )
        return self

    def _task(self, has_valid: bool, is_partitioned: bool = False) -> MixtureTask:
        """What is asked for, checked."""
        method = named_options("method", self.method, METHODS)
        if isinstance(method, Auto):
            method = self._automatic(method, is_partitioned)
        check_count("max_components", self.max_components, may_be_none=True)
        most = self.max_components
        if most is None:
            most = {Auto: MOST_OF_ALL, Continuous: MOST_POINTS}.get(type(method), MOST_FREE)
        n_components: Any = self.n_components
        if n_components is None:
            n_components = "auto" if isinstance(method, Continuous) else 10
        if n_components != "auto":
            check_count("n_components", n_components, may_be_auto=True)
            if self.max_components is not None and n_components > most:
                raise ValueError(
                    f"n_components is {n_components}, but max_components allows only {most}."
                )
            most = max(most, int(n_components))
        check_choice("smoothing", self.smoothing, ("auto", "single", "uniform"))
        pseudocount: Any = self.pseudocount
        if isinstance(method, Continuous):
            need_torch("The method continuous")
            for name in ("smoothing", "pseudocount"):
                if getattr(self, name) != "auto":
                    raise ValueError(
                        f"{name} is for components that are not tied: leave it out for the method "
                        "continuous, which stops early."
                    )
        is_chosen = "auto" in (n_components, self.n_splits) or isinstance(self.n_splits, range)
        if not has_valid:
            if is_chosen:
                raise ValueError(
                    "n_components and n_splits are chosen on validation rows, but there are none: "
                    "give numbers, X_valid or a validation_fraction."
                )
            pseudocount = 1.0 if pseudocount == "auto" else pseudocount
        options = method.mixture_options(
            n_components=1 if n_components == "auto" else n_components,
            smoothing="single" if self.smoothing == "auto" else self.smoothing,
            pseudocount=pseudocount,
            max_seconds=self.max_seconds,
            device=self._device(method, is_partitioned),
        )
        search = self._search_options(method)
        return MixtureTask(n_components, self.n_splits, method, most, search, options)

    def _automatic(self, method: Auto, is_partitioned: bool) -> Method:
        """What "auto" stands for: EM, where nothing is to be chosen."""
        if method.continuous is not None:
            need_torch("The method auto with options of continuous")
            if self.n_components != "auto" or is_partitioned:
                raise ValueError(
                    "Auto(continuous=...) needs n_components='auto' and a table in memory."
                )
        return method if self.n_components == "auto" else EM()

    def _device(self, method: Method, is_partitioned: bool) -> Any:
        """Where components learn; None for the CPU."""
        problem = None
        if isinstance(method, Boosting | PerComponent):
            problem = f"the method em, bagged_em or continuous, but method is {self.method!r}"
        elif is_partitioned:
            problem = "a table in memory, but X is partitioned"
        if problem is None:
            return find_device(self.device)
        if self.device not in ("cpu", "auto"):
            raise ValueError(f"device={self.device!r} needs {problem}: use device='cpu'.")
        return None

    def _search_options(self, method: Method) -> SearchOptions:
        """How the structure grows, and how far."""
        is_chosen = self.n_splits == "auto" or isinstance(self.n_splits, range)
        if not is_chosen:
            check_count("n_splits, if it is not a range,", self.n_splits, 0, may_be_auto=True)
        search = self.search
        if isinstance(search, str) and search == "auto":
            is_shared = not isinstance(method, PerComponent)
            search = "best_first" if is_chosen and is_shared else "greedy"
        kind = named_options("search", search, SEARCHES)
        if type(kind) not in (Greedy, BestFirst):
            raise ValueError(
                "search must be 'auto', 'greedy' or 'best_first', or a Greedy or BestFirst object, "
                f"for a mixture, but is {self.search!r}."
            )
        if isinstance(kind, BestFirst) and isinstance(method, PerComponent):
            raise ValueError(
                "search='best_first' grows one structure for all components: use search='greedy' "
                "for method='per_component'."
            )
        check_vtree(self.vtree, self.constraint)
        is_auto = isinstance(self.vtree, str) and self.vtree == "auto"
        if is_auto and isinstance(method, PerComponent):
            raise ValueError(
                "vtree='auto' compares structures that all components share: name a vtree for "
                "method='per_component'."
            )
        if kind.sampled_rows:
            raise ValueError("sampled_rows is for single circuits: leave it out for a mixture.")
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

    def responsibilities(self, X: Any, *, device: Any = "cpu") -> FloatArray:
        """Probability of every component, given complete or partly observed rows."""
        return responsibilities(self._fitted(), X, device=device)

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
            Numbers of components; the lowest of equally responsible ones.
        """
        clusters: IntArray = self.predict_proba(X).argmax(axis=1).astype(np.int32)
        return clusters

    def fit_predict(
        self, X: Any, y: Any = None, *, X_valid: Any = None, sample_weight: Any = None
    ) -> IntArray:
        """Learn a mixture, and return the cluster of each row."""
        return self.fit(X, y, X_valid=X_valid, sample_weight=sample_weight).predict(X)
