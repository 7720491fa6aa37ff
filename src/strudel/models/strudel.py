"""The estimator: one circuit, a mixture of a given size, or as many components as rows support."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from strudel import queries
from strudel._names import quote
from strudel._numba import use_threads
from strudel._torch import find_device, need_torch
from strudel._types import FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.data.argument_checks import (
    check_choice,
    check_common_options,
    check_count,
    random_state_from,
)
from strudel.data.lazy import is_lazy
from strudel.errors import InterruptedWarning, MisfitWarning, outer_stack_level
from strudel.learning.fit import Fitted, SampledRows, fit_circuit, fit_mixture
from strudel.learning.learn_mixture import STRUCTURE_SHARE, MixtureTask
from strudel.learning.options import (
    ACCURATE,
    EFFORTS,
    EM,
    METHODS,
    PRESET_OPTIONS,
    PRESETS,
    SEARCHES,
    Auto,
    BestFirst,
    Boosting,
    Continuous,
    Greedy,
    Method,
    SearchOptions,
    named_options,
    options_with,
    with_preset,
)
from strudel.learning.prepared_rows import FitInput, LogLikelihoods, check_vtree
from strudel.learning.progress import BestSoFar, Callback, History, Reporter, kept_in, model_in
from strudel.models.base import QueryMethods, check_features
from strudel.queries.by_block import lazily
from strudel.queries.cells import posterior_of_components
from strudel.queries.given import circuit_of, raise_if_impossible
from strudel.queries.pair_check import Check, check_cells, most_rows
from strudel.tables.columns import RawColumn, RawTable
from strudel.tables.encoder import (
    encoder_with,
    evidence_like,
    keep_features,
    names_to_match,
    new_encoder,
    text_names,
)


@dataclass(kw_only=True, eq=False, repr=False)
class StrudelOptions(QueryMethods):
    """The options and questions of `Strudel`, which the estimators that learn with it share."""

    n_components: Any = "auto"
    preset: str | None = None
    method: Any = "auto"
    search: Any = "auto"
    init: str | None = None
    vtree: Any = None
    max_splits: int | None = None
    max_components: int | None = None
    max_seconds: float | None = None
    patience: int | None = None
    pseudocount: float | str = "auto"
    smoothing: str = "auto"
    validation_fraction: float | None = 0.1
    constraint: Any = None
    columns: Any = None
    device: Any = "cpu"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: Any = "auto"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.columns is None
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set options; ``search__copies`` also works if `search` is a name or "auto".

        Parameters
        ----------
        **params : dict
            Options by name; those of a search or method after two underscores. So are those of
            `columns`, or what a column is: ``columns__zip="category"``.
        """
        for key in [key for key in params if key.startswith("columns__")]:
            columns = params.get("columns", self.columns)
            params["columns"] = encoder_with(columns, key.partition("__")[2], params.pop(key))
        for option, kinds in (("search", SEARCHES), ("method", METHODS)):
            inner = [key.split("__")[1] for key in params if key.startswith(f"{option}__")]
            value = params.get(option, getattr(self, option))
            size = params.get("n_components", self.n_components)
            is_auto = isinstance(value, str) and value == "auto"
            if option == "method" and is_auto and not isinstance(size, str):
                value = "em"
            if inner and isinstance(value, str):
                params[option] = options_with(inner, option, value, kinds)
        return super().set_params(**params)

    def _learn_with(
        self, learner: Any, X: Any, table: RawTable, target: RawColumn, kind: str, weight: Any
    ) -> RawTable:
        """Learn how a table and its target are distributed; returns the table with the target."""
        while target.name in table.names:
            target = replace(target, name=f"{target.name}_")
        encoder = new_encoder(learner.columns)
        encoder.kinds = (encoder.kinds or {}) | {target.name: kind}
        whole = replace(table, columns=(*table.columns, target))
        learner.set_params(columns=encoder).fit(whole, sample_weight=weight)
        if len(learner.circuit_.columns) == 1:
            raise ValueError(
                f"There is nothing to predict from: all columns of X, {quote(table.names)}, are to "
                "be ignored or look like identifiers."
            )
        keep_features(self, text_names(X), len(table.columns))
        self.target_name_ = target.name
        self.circuit_, self.check_ = learner.circuit_, getattr(learner, "check_", None)
        return whole

    def given_options(self) -> dict[str, Any]:
        """The options of `Strudel` that do not have their defaults."""
        given = {}
        for name, default in vars(StrudelOptions()).items():
            value = getattr(self, name)
            is_plain = isinstance(value, str | float)  # of which a worker has a copy of its own
            if value is not default and not (is_plain and value == default):
                given[name] = value
        return given


@dataclass(eq=False, repr=False)
class Strudel(StrudelOptions):
    """A structured-decomposable circuit, or a mixture of them on one structure, of any table.

    Parameters
    ----------
    n_components : int, list of int or "auto", default="auto"
        How many circuits that share one structure are averaged. "auto" takes as many as the
        validation rows support, which answers most truly. 1 is the deterministic circuit of the
        paper, whose most probable states are found in one pass; another number is the paper's
        mixture, and of a list the number that is best on the validation rows.
    preset : {"paper", "fast", "accurate"}, optional
        Values for the options that are not given. "paper" is the paper's greedy search for a single
        circuit, unless `n_components` says otherwise. "fast" takes seconds, "accurate" what it
        needs: where PyTorch is installed, networks that tie thousands of components take part; a
        single circuit is searched for in several ways within four minutes.
    method : str or EM, BaggedEM, Boosting, Continuous; default="auto"
        How components are trained: "em" on all rows; "bagged_em", EM on bootstrap samples of the
        rows, averaged; "boosting", components added one after another where the mixture so far
        fails; "continuous", many components whose parameters a network makes, which needs PyTorch.
        A name stands for the object with its defaults, for example ``BaggedEM(n_bags=5)``. "auto"
        is "em" for a given number of components or where an option is about structures; else the
        average of components, latent trees and components learned from pairs of columns.
    search : str or Greedy, BestFirst, LearnPSDD, Race; default="auto"
        How the structure grows: "greedy" is Algorithm 2 of the paper; "best_first" takes the split
        or clone with the largest gain per new parameter, anywhere in the circuit; "learnpsdd"
        takes the one with the largest gain per new edge, with deeper copies; "race" runs best-first
        search and LearnPSDD side by side. A name stands for the object with its defaults, for
        example ``LearnPSDD(copies="minimal")``. "auto" is "greedy" for a single circuit ("race" for
        the preset "accurate") and where `max_splits` and the number of components are given, else
        "best_first". A mixture takes "greedy" or "best_first".
    init : {"chow_liu", "independent"}, optional
        The first circuit: the tree-shaped network with the most mutual information that fits the
        vtree, which is the Chow-Liu tree for the vtree made from it; or all variables
        independent. By default "chow_liu", for LearnPSDD "independent"; ``vtree="auto"``
        and a race try both.
    vtree : Vtree or str, optional
        How the circuit decomposes. A name is a method of `learn_vtree`: "chow_liu", "bottom_up",
        "top_down", "clusters", "balanced", "linear" or "random"; "auto" tries several. By default
        "chow_liu", for LearnPSDD "bottom_up", for a race and an accurate single circuit "auto".
    max_splits : int, optional
        Stop the search after this many splits. A given number of components is trained on the
        structure that is reached; without it, and where the number of components is chosen, on the
        best of those on the way.
    max_components : int, optional
        The most components of all runs together, where their number is chosen.
    max_seconds : float, optional
        Stop after about this many seconds with the best model so far. The preset sets the default;
        ``math.inf`` is no limit. Without it, the result depends on the seed alone.
    patience : int, optional
        Stop the search after this many splits without a better validation likelihood. By default
        100; for one circuit 30 with the preset "fast", 500 with "accurate".
    pseudocount : float or "auto", default="auto"
        How strongly parameters are smoothed, in virtual rows per sum node. "auto" is 1 for a single
        circuit, and chosen on the validation rows for a mixture (1 if there are none, 2 in
        boosting). Not for `Continuous`, nor is `smoothing`.
    smoothing : {"auto", "uniform", "single", "hierarchical"}, default="auto"
        What parameters are smoothed towards: equal ones for all edges of a sum; those of the single
        circuit, for a mixture; or, for a single circuit, those of the sum that a sum was copied
        from. "auto" is "single" for a mixture, and "uniform" for a single circuit, or
        "hierarchical" with the preset "accurate".
    validation_fraction : float or None, default=0.1
        Rows held out to decide when to stop, and on which everything is chosen, if `fit` gets no
        `X_valid`. With None, nothing is held out, and nothing can be chosen.
    constraint : event, optional
        What every row satisfies: a formula over `variables`, a string such as ``"a >> (b | c)"``, a
        CNF, DNF or SDD. The search starts from its SDD times the circuit of `init`, and every row
        that violates it has probability zero. Needs PySDD (extra ``logic``), unless it is a count
        of variables such as ``"exactly(1, a, b, c)"``, a conjunction or a single clause.
    columns : dict, optional
        What a column is, where it cannot be seen: ``{"zip": "category", "id": "ignore"}``; the
        kinds are "boolean", "category", "ordinal", "number", "date" and "ignore", and a list of
        values is an ordinal in this order. A `TableEncoder` of `strudel.tables` sets all details.
        A table of 0, 1 and unknown values is learned from as it is, any other by its columns.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where "em", "bagged_em" and "continuous" learn. "cuda", or "cuda:1" and so on, is a GPU
        and needs PyTorch (``pip install 'strudel-pc[torch]'``); "auto" is a GPU where there is one.
        The mixture is as good as that of the CPU, but not the same: k-means starts elsewhere, and a
        number of splits that is chosen is above 300 only where these gain more than 1 %.
    random_state : int, RandomState or None
        For the held-out rows, the starts, the random scores and the random vtree.
    n_jobs : int or None
        Threads; all cores by default. The result does not depend on it; only with `Continuous` a
        seed repeats on the same number of threads.
    verbose : bool or "auto", default="auto"
        Whether to tell on stderr how the fit proceeds. "auto" shows a line in a terminal or a
        notebook once a fit takes longer than two seconds.

    Attributes
    ----------
    circuit_ : Circuit
        The best model on the validation rows.
    log_likelihoods_ : LogLikelihoods
        Mean log-likelihoods of the training and validation rows, `train` and `valid`.
    held_out_rows_ : ndarray or None
        Numbers of the rows of `X` that were held out; None if there were none.
    history_ : History or MixtureHistory
        One row per split of a single circuit; of a mixture per EM step of the last runs, per
        component in boosting, or per check of the validation rows in `Continuous`.
    chosen_ : dict
        `n_components` and the `valid` log-likelihood of a mixture; of one on the structure of a
        search also `n_splits` and `n_runs`. Where several models were averaged, their `shares`,
        and an `explanation` in a sentence: the average is then one component of `circuit_`;
        `init` where the variables of all components are independent.
    check_ : Check
        Where the model and the rows disagree, for every pair of columns; see `check`.
    missing_ : list of MissingRule
        On which columns it depends whether values are missing.
    trials_ : list of Trial
        All settings of a mixture that were tried, in order; empty if nothing had to be chosen.
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
    >>> Strudel(n_components=1, max_splits=3, random_state=0).fit(X).circuit_
    Circuit(n_components=1, n_columns=6, ...)
    """

    SKLEARN = ("DensityMixin",)

    n_components: Any = "auto"

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_valid: Any = None,
        sample_weight: Any = None,
        warm_start: Any = False,
        save_to: str | os.PathLike[str] | None = None,
        callback: Callback | None = None,
    ) -> Strudel:
        """Learn from rows; some of their values may be unknown.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Any table: numbers, text, dates, or 0 and 1; NaN or None where a value is unknown;
            numpy, lists, scipy sparse, pandas, polars, pyarrow. A Dask array or frame is learned
            from where it is; what is chosen is then chosen on a sample. A row that violates the
            constraint is an error.
        y : array-like of shape (n_rows,), optional
            What an encoder with supervised edges tells apart; else ignored.
        X_valid : array-like of shape (n_valid, n_columns), optional
            Rows that decide when to stop; by default a part of `X` is held out.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.
        warm_start : bool, model or path, default=False
            What to continue from instead of starting again: True for `circuit_`, or a circuit, a
            mixture, an estimator or a file of one. The columns must be the same, and every row must
            be possible in it. From a single circuit the search goes on: `init` and `vtree` do not
            matter, `max_splits` and `max_seconds` count from here, and with True `history_`
            continues from the best circuit. What an earlier constraint excludes stays excluded; a
            constraint that `circuit_` was not learned under is multiplied in first. From a mixture,
            its components learn on by EM, with their structure and number as they are; it is kept
            as it was where that does not help. With the same rows, give `X_valid` or a number as
            `random_state`: otherwise rows that it has learned from are held out to decide when to
            stop.
        save_to : path-like, optional
            A file for the best model so far, which is written about every minute, complete or not
            at all, and at the end. If the fit is killed, it can go on from there with `warm_start`.
        callback : callable, optional
            Called after every step with a `Progress`: the stage, the step, the log-likelihoods so
            far and the seconds. A `KeyboardInterrupt` raised in it ends the fit like Ctrl-C.

        Returns
        -------
        Strudel
            Itself. A keyboard interrupt keeps the best model so far and warns.
        """
        check_common_options(self)
        if self.preset is not None:
            check_choice("preset", self.preset, tuple(PRESETS))
        last = self._last(warm_start)
        given = self._fit_input(X, y, X_valid, sample_weight, last)
        if save_to is None:
            return self._learn(given, callback)
        keeper = BestSoFar(save_to, is_single=self.is_single)
        with kept_in(keeper):
            self._learn(given, callback)
        keeper.write(self.circuit_)
        return self

    def _fit_input(
        self, X: Any, y: Any, X_valid: Any, sample_weight: Any, last: Circuit | None
    ) -> FitInput:
        """What `fit` was given, after a look at the names of the columns."""
        if not is_lazy(X):
            names = text_names(X)  # refuses what are no names
            valid_names = None if is_lazy(X_valid) else text_names(X_valid)
            if names and valid_names and names != valid_names:
                raise ValueError(
                    "X_valid must have the columns of X in the same order, but their feature names "
                    f"differ: {quote(valid_names)} are not {quote(names)}."
                )
        return FitInput(
            X,
            y,
            X_valid,
            sample_weight,
            self,
            random_state_from(self.random_state),
            last,
            check_features=partial(check_features, self),
        )

    def _learn(self, given: FitInput, callback: Callback | None) -> Strudel:
        """Learn, keep what was learned, and compare it with the rows."""
        learn = self._learn_circuit if self.is_single else self._learn_mixture
        with Reporter(callback, self.verbose) as report:
            fitted = learn(given, report)
        table = fitted.table
        keep_features(self, *table.features)
        self.circuit_ = fitted.circuit
        self.history_: Any = fitted.history
        self.chosen_ = fitted.chosen
        self.trials_ = fitted.trials
        self.data_ = table.facts()
        (train, valid), (more, more_valid) = fitted.log_likelihoods, table.log_density
        self.log_likelihoods_ = LogLikelihoods(train + more, valid + more_valid)
        self.held_out_rows_ = table.held_out
        history = fitted.history
        if history.stopped_because == "interrupted":
            after = f" after {len(history) - 1} splits" if isinstance(history, History) else ""
            warnings.warn(
                f"Learning was interrupted{after}; the best model so far was kept.",
                InterruptedWarning,
                stacklevel=outer_stack_level(),
            )
        table = table.over(self.circuit_.columns)
        some = table.some(most_rows(len(table.columns)))
        with use_threads(self.n_jobs):
            self.check_: Check = check_cells(self.circuit_, *some)
        sentences = self.check_.sentences()
        if sentences:
            more_pairs = f", and {len(sentences) - 1} more pairs are lost" * (len(sentences) > 1)
            said = sentences[0][0].upper() + sentences[0][1:]
            warnings.warn(
                MisfitWarning(f"{said}{more_pairs}.", "See model.check_."),
                stacklevel=outer_stack_level(),
            )
        return self

    def _learn_circuit(self, given: FitInput, report: Reporter) -> Fitted:
        """One circuit."""
        search, sampled_rows = self._circuit_options()
        is_own = given.last is not None and given.last is getattr(self, "circuit_", None)
        # A circuit from a file may have been learned under anything.
        before = getattr(self, "_constraint_of_circuit", False)
        given = replace(given, is_restricted=is_own and _is_same(self.constraint, before))
        fitted = fit_circuit(given, search, sampled_rows, report)
        self._constraint_of_circuit = self.constraint
        history, earlier = fitted.history, getattr(self, "history_", None)
        if is_own and isinstance(history, History) and isinstance(earlier, History):
            return replace(fitted, history=history.after(earlier))
        return fitted

    def _last(self, warm_start: Any) -> Circuit | None:
        """The model to continue from, if there is one."""
        if warm_start is None or warm_start is False:
            return None
        if isinstance(warm_start, str | os.PathLike):
            warm_start = model_in(warm_start)
        if warm_start is True:
            last = circuit_of(self) if hasattr(self, "circuit_") else None
        else:
            last = circuit_of(warm_start)
        if last is not None and self.is_single and last.n_components > 1:
            raise ValueError(
                f"A fit with n_components=1 continues from a single circuit, but warm_start has "
                f"{last.n_components} components: use n_components='auto'."
            )
        if last is not None and not self.is_single:
            self._check_goes_on(last)
        return last

    def _check_goes_on(self, last: Circuit) -> None:
        """Refuse options that components which learn on by EM cannot follow."""
        wrong = ""
        if self.constraint is not None:
            wrong = "no constraint, but there is one"
        elif self.n_components not in ("auto", last.n_components):
            wrong = f"n_components='auto' or {last.n_components}, but it is {self.n_components!r}"
        elif not isinstance(named_options("method", self.method, METHODS), EM | Auto):
            wrong = f"the method em, but method is {self.method!r}"
        if wrong:
            raise ValueError(
                f"A fit that continues from {last.n_components} components takes {wrong}."
            )

    @property
    def is_single(self) -> bool:
        """Whether one circuit is asked for, by its number or by the preset of the paper."""
        if isinstance(self.n_components, str):
            check_choice(
                "n_components, if it is not a number or a list of numbers,",
                self.n_components,
                ("auto",),
            )
            return self.preset == "paper"
        if isinstance(self.n_components, Sequence | np.ndarray):
            return False
        check_count("n_components", self.n_components)
        return bool(self.n_components == 1)

    def _circuit_options(self) -> tuple[SearchOptions, SampledRows]:
        """The options of one search, and how many rows to sample, as the preset completes them."""
        named_options("method", self.method, METHODS)  # one component is trained by counting
        if self.max_components is not None:
            raise ValueError(
                "max_components is for several components, but n_components is 1: leave one of "
                "them out."
            )
        if self.device not in ("cpu", "auto"):
            raise ValueError(
                f"device={self.device!r} needs several components, but n_components is 1: use "
                "device='cpu'."
            )
        given = {name: getattr(self, name) for name in PRESET_OPTIONS}
        search, sampled_rows = with_preset(self.preset or "paper", **given)
        check_vtree(self.vtree, self.constraint)
        return (
            replace(
                search,
                init=self.init or search.init,  # type: ignore[arg-type]
                max_splits=self.max_splits,
                pseudocount=1.0 if self.pseudocount == "auto" else self.pseudocount,  # type: ignore[arg-type]
            ),
            sampled_rows,
        )

    def _learn_mixture(self, given: FitInput, report: Reporter) -> Fitted:
        """A mixture."""
        has_valid = given.X_valid is not None or self.validation_fraction is not None
        task = self._task(has_valid)
        task = replace(task, is_of_cells=task.is_of_cells and given.last is None)
        if task.search.search.structure_rows is not None:
            raise ValueError("structure_rows is for single circuits: leave it out for a mixture.")
        return fit_mixture(given, task, report)

    def _task(self, has_valid: bool) -> MixtureTask:
        """What is asked for, checked."""
        method = named_options("method", self.method, METHODS)
        if isinstance(method, Auto) and not isinstance(self.n_components, str):
            method = EM()  # nothing is to be chosen
        check_count("max_components", self.max_components, may_be_none=True)
        most = method.MOST if self.max_components is None else self.max_components
        n_components = self._sizes(method, most)
        sizes = [] if n_components == "auto" else np.atleast_1d(n_components).tolist()
        most = max([most, *sizes])
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
        if not has_valid:
            if self.max_splits is None or not isinstance(n_components, int):
                raise ValueError(
                    "n_components and max_splits are chosen on validation rows, but there are "
                    "none: give numbers, X_valid or a validation_fraction."
                )
            pseudocount = 1.0 if pseudocount == "auto" else pseudocount
        options = method.mixture_options(
            n_components=n_components if isinstance(n_components, int) else 1,
            smoothing="single" if self.smoothing == "auto" else self.smoothing,
            pseudocount=pseudocount,
            max_seconds=self.max_seconds,
            device=self._device(method),
        )
        is_chosen = self.max_splits is None or not isinstance(n_components, int)
        search = self._search_options(is_chosen)
        n_splits: Any = "auto" if is_chosen else search.max_splits
        effort = EFFORTS[self.preset or "default"] if isinstance(method, Auto) else ACCURATE
        task = MixtureTask(n_components, n_splits, method, most, search, options, effort=effort)
        return replace(task, is_of_cells=isinstance(method, Auto) and self._asks_for_no_structure())

    def _asks_for_no_structure(self) -> bool:
        """Whether the default learns: no option is about structures, their EM or a search."""
        return not self.given_options().keys() & {
            *("search", "init", "vtree", "max_splits", "patience", "method"),
            *("pseudocount", "smoothing", "constraint", "device"),
        }

    def _sizes(self, method: Method, most: int) -> Any:
        """Components of one run: a number, several to choose from, or "auto"."""
        if isinstance(self.n_components, str):
            return "auto"
        several = isinstance(self.n_components, Sequence | np.ndarray)
        sizes = tuple(self.n_components) if several else (self.n_components,)
        for size in sizes:
            check_count("n_components", size)
            if self.max_components is not None and size > most:
                raise ValueError(f"n_components is {size}, but max_components allows only {most}.")
        if not sizes:
            raise ValueError("n_components must hold at least one number, but is empty.")
        if several and isinstance(method, Boosting | Continuous):
            raise ValueError(
                "A list as n_components needs the method em or bagged_em, but method is "
                f"{self.method!r}."
            )
        return tuple(int(size) for size in sizes) if len(sizes) > 1 else int(sizes[0])

    def _device(self, method: Method) -> Any:
        """Where components learn; None for the CPU."""
        if not isinstance(method, Boosting):
            return find_device(self.device)
        if self.device not in ("cpu", "auto"):
            raise ValueError(
                f"device={self.device!r} needs the method em, bagged_em or continuous, but method "
                f"is {self.method!r}: use device='cpu'."
            )
        return None

    def _search_options(self, is_chosen: bool) -> SearchOptions:
        """How the structure grows, and how far."""
        check_count("max_splits", self.max_splits, 0, may_be_none=True)
        search = self.search
        if isinstance(search, str) and search == "auto":
            is_greedy = self.preset == "paper" or not is_chosen
            search = "greedy" if is_greedy else "best_first"
        kind = named_options("search", search, SEARCHES)
        if type(kind) not in (Greedy, BestFirst):
            raise ValueError(
                "search must be 'auto', 'greedy' or 'best_first', or a Greedy or BestFirst object, "
                f"for a mixture, but is {self.search!r}. Use n_components=1 for a single circuit."
            )
        check_vtree(self.vtree, self.constraint)
        if kind.sampled_rows:
            raise ValueError("sampled_rows is for single circuits: leave it out for a mixture.")
        patience = 100 if is_chosen else max(1, int(self.max_splits or 0))
        return SearchOptions(
            search=kind,
            init=self.init,  # type: ignore[arg-type]
            vtree=self.vtree,
            patience=patience if self.patience is None else self.patience,
            max_splits=self.max_splits,
            max_seconds=None if self.max_seconds is None else STRUCTURE_SHARE * self.max_seconds,
        )

    def score_samples(self, X: Any) -> FloatArray:
        """Log-likelihood of the known values of every row; unknown ones (NaN) are summed out."""
        circuit = self._fitted()
        if circuit.columns.are_bits and not is_lazy(X):
            names_to_match(self, X)  # warns if only one of them has names
        return queries.observed_log_likelihood(circuit, X)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows, in nats; for lazy rows, block by block."""
        log_p = self.score_samples(X)
        mean = log_p.mean()
        return float(mean.compute() if is_lazy(mean) else mean)

    def from_torch(self, module: Any) -> Self:
        """A copy with the parameters of a module that `to_torch` made of this model.

        Its `log_likelihoods_` are NaN, and it has no `check_`: they were those of the learned
        parameters.
        """
        found = copy(self)
        found.circuit_ = self._fitted().from_torch(module)
        found.log_likelihoods_ = LogLikelihoods(math.nan, math.nan)
        if hasattr(found, "check_"):
            del found.check_
        return found

    @lazily("X")
    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every component as the cluster of each row: its responsibilities.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            NaN or None where a value is unknown.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
        """
        circuit = self._fitted()
        shares = posterior_of_components(circuit, evidence_like(self, circuit.columns, X))
        raise_if_impossible(np.where(np.isnan(shares[:, 0]), -np.inf, 0.0))
        return shares

    @lazily("X")
    def predict(self, X: Any) -> IntArray:
        """The cluster of each row: the component that is most responsible for it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            NaN or None where a value is unknown.

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


def _is_same(constraint: Any, other: Any) -> bool:
    """Whether two constraints are the same without a doubt; `==` of events makes an event."""
    if isinstance(constraint, str) and isinstance(other, str):
        return constraint == other
    return constraint is other
