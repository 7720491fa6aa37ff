"""The estimator of one circuit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

from strudel._compiling import on_compile
from strudel.circuits.circuit import Circuit
from strudel.data.argument_checks import check_common_options
from strudel.data.lazy import is_lazy
from strudel.errors import InterruptedWarning
from strudel.learning.constraint import check_vtree
from strudel.learning.fit import fit_circuit
from strudel.learning.history import History
from strudel.learning.learn_circuit import SampledRows
from strudel.learning.presets import PRESET_OPTIONS, with_preset
from strudel.learning.progress import Callback, Reporter
from strudel.learning.search_options import SearchOptions
from strudel.models.base import DensityEstimator


@dataclass(kw_only=True, eq=False, repr=False)
class Strudel(DensityEstimator):
    """A structured-decomposable, deterministic circuit learned from 0/1 rows.

    Parameters
    ----------
    preset : {"paper", "fast", "accurate"}, default="paper"
        Values for the options that are not given: the paper's search; the same within two
        seconds; or everything that makes a circuit accurate, within four minutes: a race of
        several searches and vtrees, hierarchical smoothing, and a second search with rows sampled
        from a mixture.
    search : str or Greedy, BestFirst, LearnPSDD, Beam, Race; default="auto"
        How the structure grows: "greedy" is Algorithm 2 of the paper; "best_first" takes the split
        or clone with the largest gain per new parameter, anywhere in the circuit; "learnpsdd"
        takes the one with the largest gain per new edge, with deeper copies; "beam" keeps several
        circuits after every step; "race" runs best-first search and LearnPSDD side by side. A
        name stands for the object with its defaults, for example ``LearnPSDD(copies="minimal")``.
        "auto" is "greedy", or "race" for the preset "accurate".
    init : {"chow_liu", "independent"}, optional
        The first circuit: the tree-shaped network with the most mutual information that fits the
        vtree, which is the Chow-Liu tree for the vtree made from it; or all variables
        independent. By default "chow_liu", for LearnPSDD "independent"; ``vtree="auto"``
        and a race try both.
    vtree : Vtree or str, optional
        How the circuit decomposes. A name is a method of `learn_vtree`: "chow_liu", "bottom_up",
        "top_down", "clusters", "balanced", "linear" or "random"; "auto" tries several. By default
        "chow_liu", for LearnPSDD "bottom_up", for a race and the preset "accurate" "auto".
    max_splits, max_edges : int, optional
        Bounds on the search.
    max_seconds : float, optional
        Stop after this many seconds with the best circuit so far. The preset sets the default;
        ``math.inf`` is no limit.
    patience : int, optional
        Stop after this many splits without a better validation likelihood. By default 100; 30 for
        the preset "fast", 500 for "accurate".
    pseudocount : float or "auto", default="auto"
        Virtual rows per sum node, shared by its edges; "auto" is 1.
    smoothing : {"auto", "uniform", "hierarchical"}, default="auto"
        What parameters are smoothed towards: equal ones for all edges of a sum; or, for copies,
        the parameters of the sum they were copied from. "auto" is "uniform", or "hierarchical" for
        the preset "accurate".
    smoothing_strength : float or "auto", default="auto"
        How strongly copies are smoothed in hierarchical smoothing, in virtual rows per sum;
        "auto" chooses on validation rows.
    validation_fraction : float or None, default=0.1
        Rows held out to decide when to stop, if `fit` gets no `X_valid`. With None, nothing is held
        out, and the search needs one of the bounds.
    constraint : event, optional
        What every row satisfies: a formula over `variables`, a string such as ``"a >> (b | c)"``, a
        CNF, DNF or SDD. The search starts from its SDD times the circuit of `init`, and every row
        that violates it has probability zero. Needs PySDD (extra ``logic``), unless it is a count
        of variables such as ``"exactly(1, a, b, c)"``, a conjunction or a single clause.
    encoder : TableEncoder or "auto", optional
        Turns a table with text, numbers or dates into 0/1 variables; "auto" is ``TableEncoder()``.
        `fit` and all queries then take the table's own columns, and answer in them.
    warm_start : bool, default=False
        Whether a second `fit` continues from `circuit_`, which may come from a file, instead of
        starting again; the columns must be the same, and every row must be possible in it. `init`
        and `vtree` then do not matter, `max_splits` and `max_seconds` count from here, and
        `history_` continues from the best circuit. What an earlier constraint excludes stays
        excluded; a constraint that `circuit_` was not learned under is multiplied in first. With
        the same rows, give `X_valid` or a number as `random_state`: otherwise rows that it has
        learned from are held out to decide when to stop.
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
    log_likelihoods_ : LogLikelihoods
        Mean log-likelihoods of the training and validation rows, `train` and `valid`.
    held_out_rows_ : ndarray or None
        Numbers of the rows of `X` that were held out; None if there were none.
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

    preset: str = "paper"
    search: Any = "auto"
    init: str | None = None
    vtree: Any = None
    max_splits: int | None = None
    max_edges: int | None = None
    max_seconds: float | None = None
    patience: int | None = None
    pseudocount: float | str = "auto"
    smoothing: str = "auto"
    smoothing_strength: float | str = "auto"
    validation_fraction: float | None = 0.1
    constraint: Any = None
    encoder: Any = None
    warm_start: bool = False
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
    ) -> Strudel:
        """Learn a circuit from rows; some of their values may be unknown.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1, or NaN where a value is unknown; numpy, lists, scipy sparse, pandas, polars;
            with an `encoder` any table. A Dask array or frame is learned from where it is. A row
            that violates the constraint is an error.
        y : array-like of shape (n_rows,), optional
            What an encoder with supervised edges tells apart; else ignored.
        X_valid : array-like of shape (n_valid, n_vars), optional
            Rows that decide when to stop; by default a part of `X` is held out.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.
        checkpoint : Checkpoint, optional
            A file from which a fit that was killed continues. A beam search starts again.
        callback : callable, optional
            Called after every split with a `Progress`: the stage, the step, the log-likelihoods so
            far and the seconds. A `KeyboardInterrupt` raised in it ends the search like Ctrl-C.

        Returns
        -------
        Strudel
            Itself. A keyboard interrupt keeps the best circuit so far and warns.
        """
        check_common_options(self)
        search, sampled_rows = self._options()
        last = getattr(self, "circuit_", None) if self.warm_start and not is_lazy(X) else None
        # A circuit from a file may have been learned under anything.
        is_restricted = last is not None and _is_same(
            self.constraint, getattr(self, "_constraint_of_circuit", False)
        )
        given = self._fit_input(X, y, X_valid, sample_weight, checkpoint, last, is_restricted)
        report = Reporter(callback, self.verbose)
        with on_compile(report.compiled):
            fitted = fit_circuit(given, search, sampled_rows, report)
        self._keep(fitted.rows, fitted.log_likelihoods, checkpoint)
        self.circuit_: Circuit = fitted.circuit.with_names(self._feature_names())
        is_longer = last is not None and hasattr(self, "history_")
        history = fitted.history
        self.history_: History = history.after(self.history_) if is_longer else history
        self._constraint_of_circuit = self.constraint
        if history.stopped_because == "interrupted":
            warnings.warn(
                f"Learning was interrupted after {len(history) - 1} splits; "
                "the best circuit so far was kept.",
                InterruptedWarning,
                stacklevel=2,
            )
        return self

    def _options(self) -> tuple[SearchOptions, SampledRows]:
        """The options of the search, and how many rows to sample, as the preset completes them."""
        given = {name: getattr(self, name) for name in PRESET_OPTIONS}
        search, sampled_rows = with_preset(self.preset, **given)
        check_vtree(self.vtree, self.constraint)
        if self.smoothing_strength != "auto" and search.smoothing != "hierarchical":
            raise ValueError(
                "smoothing_strength is for hierarchical smoothing: add smoothing='hierarchical'."
            )
        return (
            replace(
                search,
                init=self.init or search.init,  # type: ignore[arg-type]
                max_splits=self.max_splits,
                max_edges=self.max_edges,
                pseudocount=1.0 if self.pseudocount == "auto" else self.pseudocount,  # type: ignore[arg-type]
                smoothing_strength=self.smoothing_strength,  # type: ignore[arg-type]
            ),
            sampled_rows,
        )


def _is_same(constraint: Any, other: Any) -> bool:
    """Whether two constraints are the same without a doubt; `==` of events makes an event."""
    if isinstance(constraint, str) and isinstance(other, str):
        return constraint == other
    return constraint is other
