"""The estimator of one circuit."""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from strudel._numba import use_threads
from strudel._types import ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import pack_columns
from strudel.data.validation import check_binary, check_sample_weight
from strudel.learning.history import History
from strudel.learning.options import SearchOptions
from strudel.learning.structure import learn_structure
from strudel.models.base import QueryMethods, check_rows
from strudel.queries.likelihood import log_likelihood


class InterruptedWarning(UserWarning):
    """Learning was interrupted; the best circuit so far was kept."""


class Strudel(QueryMethods, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A structured-decomposable, deterministic circuit learned from 0/1 rows.

    Parameters
    ----------
    edge_score : {"flow", "random"}, default="flow"
        Which edge to split next: the one with most rows through it (eFLOW of the paper), or any.
    variable_score : {"mutual_information", "random"}, default="mutual_information"
        On which variable: the one that tells most about the others (vMI), or any.
    search : {"greedy"}, default="greedy"
        Take the best-scored split at once, as Algorithm 2 of the paper does.
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
        One row per split.
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
            0 and 1; numpy, lists, scipy sparse, pandas, polars.
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
        # All is checked before anything is kept: a refused table leaves a fitted model alone.
        train, _ = check_binary(X)
        if X_valid is not None:
            check_binary(X_valid, n_vars=train.shape[1], name="X_valid")
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(train))
        train = check_rows(self, X, reset=True)
        valid = None if X_valid is None else check_rows(self, X_valid, reset=False, name="X_valid")
        random_state = check_random_state(self.random_state)
        self.data_ = _describe(train)
        valid_weight = None
        if valid is None:
            train, valid, weight, valid_weight = self._hold_out(train, weight, random_state)
        rng = np.random.default_rng(random_state.randint(2**31))
        with use_threads(self.n_jobs):
            circuit, self.history_ = learn_structure(
                pack_columns(train, weight),
                None if valid is None else pack_columns(valid, valid_weight),
                search=search,
                rng=rng,
                on_split=on_split or (_Reporter() if self.verbose else None),
            )
        names = getattr(self, "feature_names_in_", None)
        self.circuit_: Circuit = circuit.with_names(None if names is None else tuple(names))
        if self.history_.stopped_because == "interrupted":
            warnings.warn(
                f"Learning was interrupted after {len(self.history_) - 1} splits; "
                "the best circuit so far was kept.",
                InterruptedWarning,
                stacklevel=3,
            )
        return self

    def _options(self) -> SearchOptions:
        if self.search != "greedy":
            raise ValueError(f"search must be 'greedy', but is {self.search!r}.")
        fraction = self.validation_fraction
        is_share = isinstance(fraction, int | float | np.number) and 0.0 < fraction < 1.0
        if fraction is not None and not is_share:
            raise ValueError(
                f"validation_fraction must be between 0 and 1, or None, but is {fraction!r}."
            )
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
        )

    def _hold_out(
        self, X: ByteArray, weight: FloatArray | None, random_state: np.random.RandomState
    ) -> tuple[ByteArray, ByteArray | None, FloatArray | None, FloatArray | None]:
        """Training rows, validation rows, and the weights of both."""
        if self.validation_fraction is None:
            return X, None, weight, None
        if len(X) == 1:  # a single row can only be checked against itself
            return X, X, weight, weight
        n_valid = min(max(1, round(self.validation_fraction * len(X))), len(X) - 1)
        order = random_state.permutation(len(X))
        held, kept = np.sort(order[:n_valid]), np.sort(order[n_valid:])
        if weight is None:
            return X[kept], X[held], None, None
        if not (weight[kept].sum() > 0 and weight[held].sum() > 0):
            return (
                X,
                X,
                weight,
                weight,
            )  # all the weight is on one side: no other rows to check against
        return X[kept], X[held], weight[kept], weight[held]

    def score_samples(self, X: Any) -> FloatArray:
        """Log-likelihood of every row."""
        check_is_fitted(self)
        return log_likelihood(self.circuit_, check_rows(self, X, reset=False))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows, in nats."""
        return float(self.score_samples(X).mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _describe(X: ByteArray) -> dict[str, Any]:
    """Shape and hash of the training table, for provenance."""
    digest = hashlib.sha256(np.packbits(X, axis=1).tobytes()).hexdigest()
    return {"rows": X.shape[0], "columns": X.shape[1], "sha256": digest}


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
