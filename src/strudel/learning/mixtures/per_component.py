"""Learn mixtures whose components own their structure (the paper's comparison in question Q4).

In:  training and validation rows.
Out: `CircuitMixture`, circuits on one vtree, the best on the validation rows.

Rounds of splits and EM steps take turns. A split takes the edge with most weight in any component,
where every row counts for a component as much as that component is responsible for it; the EM
steps then find new responsibilities and parameters. This is LearnPSDD's SoftEM with the splits of
this search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from strudel._compiling import now
from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.circuit_mixture import CircuitMixture, average_circuits
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits
from strudel.learning.history import MixtureHistory
from strudel.learning.mixture_methods import MixtureOptions
from strudel.learning.mixtures.em import STRENGTHS, distinct_rows
from strudel.learning.mixtures.em_steps import log_mean
from strudel.learning.mixtures.first_responsibilities import responsibilities
from strudel.learning.mixtures.per_component_growing import GrowingComponents
from strudel.learning.mixtures.per_component_parts import Part, Structure
from strudel.learning.mixtures.per_component_steps import OwnSteps, training_strength
from strudel.learning.search.learn_structure import (
    check_codes,
    check_rows,
    check_start,
    first_circuit,
)
from strudel.learning.search_options import SearchOptions

STEPS = 3  # of EM after every round of splits, as in LearnPSDD
IDLE_ROUNDS = 15  # many components may need this many to gain: plants with 20, 0.5 nats
GROWTH = 20  # a round adds one split to as many before, and at least one per component


def fit_circuit_mixture(
    X: BitMatrix | ArrayLike,
    n_components: int = 5,
    *,
    X_valid: BitMatrix | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    search: SearchOptions | None = None,
    options: MixtureOptions | None = None,
    n_bags: int | None = None,
    rng: np.random.Generator | int | None = None,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
    start: Circuit | None = None,
) -> CircuitMixture:
    """Learn a mixture whose components share the vtree, but not the structure.

    Parameters
    ----------
    X : BitMatrix or array-like of shape (n_rows, n_vars)
        Fully observed rows.
    n_components : int
        Components of one run; that of `options` is ignored.
    X_valid : BitMatrix or array-like, optional
        Rows that decide when to stop and which step to keep. Without them `search` needs a limit.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row counts.
    search : SearchOptions, optional
        How to split. `patience` counts the splits of all components, which also get 15 rounds to
        become better; `max_splits` and `max_edges` are for one component, on average.
    options : MixtureOptions, optional
        Starts, smoothing, averaging, and the limits of EM before the first split and after the
        last.
    n_bags : int, optional
        Average mixtures of this many bootstrap samples of the rows; `n_runs` is then ignored.
    rng : numpy Generator or seed
        For the starts, the bags, and random scores.
    on_iteration : callable, optional
        Called with the history after every EM step, for progress.
    start : Circuit, optional
        Where every component starts, instead of the circuit of `search.init`; see
        `learn_structure`.

    Returns
    -------
    CircuitMixture
        A keyboard interrupt ends the search, not the call: the best mixture so far is returned.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(300, 1)).repeat(6, axis=1) ^ (rng.random((300, 6)) < 0.1)
    >>> mixture = fit_circuit_mixture(X[:250], 2, X_valid=X[250:], rng=0)
    >>> mixture.n_components, all(part.is_deterministic for part in mixture.circuits)
    (2, True)
    """
    return learn_own_structures(
        as_bits(X, sample_weight),
        None if X_valid is None else as_bits(X_valid),
        search=search or SearchOptions(),
        options=replace(options or MixtureOptions(), n_components=n_components),
        n_bags=n_bags,
        rng=np.random.default_rng(rng),
        on_iteration=on_iteration,
        start=start,
    ).mixture


@dataclass(frozen=True, eq=False)
class OwnStructures:
    """A learned mixture, and how it came to be."""

    mixture: CircuitMixture
    history: MixtureHistory  # of the last run
    n_splits: int  # of one component, on average
    strength: float  # of smoothing


def learn_own_structures(
    train: BitMatrix,
    valid: BitMatrix | None,
    *,
    search: SearchOptions,
    options: MixtureOptions,
    n_bags: int | None,
    rng: np.random.Generator,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
    start: Circuit | None = None,
) -> OwnStructures:
    """The same as `fit_circuit_mixture`, with all that the estimator tells."""
    started = now()
    data = _Data.of(train, valid, search, options, start)
    n_runs = options.n_runs if n_bags is None else n_bags
    n_left = n_runs * options.n_init
    runs: list[_Run] = []
    for _ in range(n_runs):
        weight = data.train.weights
        if n_bags is not None:
            n_draws = max(round(float(weight.sum())), 1)
            weight = rng.multinomial(n_draws, weight / weight.sum()).astype(np.float64)
        tried: list[_Run] = []
        try:
            for _ in range(options.n_init):
                limited = options
                if options.max_seconds is not None:  # what is left, in even parts
                    left = max(options.max_seconds - (now() - started), 0.0)
                    limited = replace(options, max_seconds=left / n_left)
                tried.append(_train(data, weight, search, limited, rng, on_iteration))
                n_left -= 1
                if tried[-1].history.stopped_because == "interrupted":
                    break
        except KeyboardInterrupt:  # before anything was learned
            if not runs and not tried:
                raise
            last = (tried or runs)[-1]
            last.history.stopped_because = "interrupted"
        if tried:
            runs.append(max(tried, key=lambda run: run.score))
        if (tried or runs)[-1].history.stopped_because == "interrupted":
            runs[-1].history.stopped_because = "interrupted"
            break
    strength = _best_strength(runs, data.valid, options)
    return OwnStructures(
        average_circuits([run.mixture(strength) for run in runs]),
        runs[-1].history,
        round(float(np.mean([run.n_splits for run in runs]))),
        strength,
    )


@dataclass(frozen=True, eq=False)
class _Data:
    """The rows, and where every component starts."""

    train: BitMatrix  # distinct rows that count
    valid: BitMatrix
    first: Circuit

    @classmethod
    def of(
        cls,
        train: BitMatrix,
        valid: BitMatrix | None,
        search: SearchOptions,
        options: MixtureOptions,
        start: Circuit | None,
    ) -> _Data:
        rows, _ = distinct_rows(train)
        empty = BitMatrix(np.zeros((rows.n_vars, 0), dtype=np.uint64), 0)
        valid_rows = empty if valid is None else distinct_rows(valid)[0]
        check_rows(rows, valid_rows, replace(search, max_seconds=options.max_seconds))
        options.check_validation(has_valid=valid_rows.n_rows > 0)
        check_codes(search, train, valid_rows if valid is None else valid)
        if start is None:
            start = first_circuit(rows, search)
        else:
            check_start(start, rows, valid_rows)
        return cls(rows, valid_rows, start)


@dataclass(frozen=True, eq=False)
class _Run:
    """What one start led to."""

    parts: list[Part]
    log_weight: FloatArray
    score: float
    n_splits: float  # of one component, on average
    history: MixtureHistory

    def mixture(self, strength: float) -> CircuitMixture:
        """The mixture with so much smoothing."""
        circuits = [part.circuit.with_parameters(part.log_theta(strength)) for part in self.parts]
        return CircuitMixture(circuits, self.log_weight)


def _best_strength(runs: list[_Run], valid: BitMatrix, options: MixtureOptions) -> float:
    """The strength that is best for the average of all runs on the validation rows."""
    if options.pseudocount != "auto":
        return training_strength(options)
    of_run = []  # (n_strengths, n_rows) each
    for run in runs:
        log_p = np.empty((len(STRENGTHS), valid.n_rows, len(run.parts)))
        for c, part in enumerate(run.parts):
            structure = Structure.of_circuit(part.circuit, valid, valid)
            for i, strength in enumerate(STRENGTHS):
                log_p[i, :, c] = structure.log_likelihoods(part.log_theta(strength))
        of_run.append(logsumexp(log_p + run.log_weight, axis=2))
    of_average = [log_mean(np.column_stack(columns)) for columns in zip(*of_run, strict=True)]
    return STRENGTHS[int(np.argmax([valid.weights @ log_p for log_p in of_average]))]


def _train(
    data: _Data,
    weight: FloatArray,
    search: SearchOptions,
    options: MixtureOptions,
    rng: np.random.Generator,
    on_iteration: Callable[[MixtureHistory], None] | None,
) -> _Run:
    """Learn one mixture: EM, then splits and EM in turns, then EM on the best structures."""
    history = MixtureHistory()
    steps = OwnSteps(weight, data.valid.weights, options, history, on_iteration)
    growing = GrowingComponents(
        data.first, data.train, data.valid, options.n_components, search, rng
    )
    found: list[_Run] = []
    try:
        start = responsibilities(data.train, options.n_components, options.init_params, rng)
        steps.begin(growing.structures(), start(slice(0, data.train.n_rows)))
        steps.climb()
        _grow(growing, steps, search)
        found.append(_run_at(steps, growing))
        if options.n_components > 1 and history.stopped_because != "max_seconds":
            found.append(_polish(found[0], data, steps))
    except KeyboardInterrupt:
        history.stopped_because = "interrupted"
        if steps.best is None:
            raise
        if not found:
            found.append(_run_at(steps, growing))
    return max(found, key=lambda run: run.score)


def _run_at(steps: OwnSteps, growing: GrowingComponents) -> _Run:
    """The best step so far, with the structures of its time."""
    best = steps.best
    assert best is not None
    parts = [
        growing.part_at(c, best.n_splits[c], best.counts[c], best.priors[c])
        for c in range(len(best.counts))
    ]
    n_splits = float(np.mean(best.n_splits))
    return _Run(parts, best.log_weight, best.score, n_splits, steps.history)


def _grow(growing: GrowingComponents, steps: OwnSteps, search: SearchOptions) -> None:
    """Rounds of splits and EM steps, until validation says stop."""
    history, k = steps.history, len(growing.circuits)
    best, n_idle = steps.best, 0  # rounds without a better step
    while not history.stopped_because and not steps.is_late():
        n_idle = n_idle + 1 if steps.best is best else 0
        best = steps.best
        assert best is not None
        n_splits, limit = growing.n_splits, search.max_splits
        is_idle = k == 1 or n_idle > IDLE_ROUNDS
        if is_idle and n_splits - sum(best.n_splits) >= search.patience:
            history.stopped_because = "patience"
        elif limit is not None and n_splits >= limit * k:
            history.stopped_because = "max_splits"
        elif search.max_edges is not None and growing.n_edges >= search.max_edges * k:
            history.stopped_because = "max_edges"
        if history.stopped_because:
            return
        # Splits do not change the responsibilities of a single component: one at a time.
        n_wanted = 1 if k == 1 else max(k, n_splits // GROWTH)
        if limit is not None:
            n_wanted = min(n_wanted, limit * k - n_splits)
        growing.reweight(steps.weights, steps.counts)
        if not growing.split(n_wanted):
            history.stopped_because = "nothing left to split"
            return
        steps.change(growing.structures(), growing.counts(), growing.splits())
        for _ in range(1 if k == 1 else STEPS):
            steps.take()
            if steps.is_late():
                return


def _polish(run: _Run, data: _Data, before: OwnSteps) -> _Run:
    """EM once more, on the structures of the best step."""
    steps = OwnSteps(
        before.row_weight, before.valid_weight, before.options, before.history, before.on_iteration
    )
    structures = [Structure.of_circuit(part.circuit, data.train, data.valid) for part in run.parts]
    steps.resume(structures, [part.count for part in run.parts], run.log_weight)
    try:
        steps.climb()
    except KeyboardInterrupt:
        before.history.stopped_because = "interrupted"
    if steps.best is None:
        return run
    best = steps.best
    parts = [
        Part(part.circuit, count, prior)
        for part, count, prior in zip(run.parts, best.counts, best.priors, strict=True)
    ]
    return replace(run, parts=parts, log_weight=best.log_weight, score=best.score)
