"""The one pipeline of a fit: prepare -> learn -> what the estimator keeps.

In:  `FitInput`, the options of a search or of a mixture, and a reporter of progress.
Out: `Fitted`, whose circuit is over the columns of the table.

Rows with unknown values are completed and learned from in rounds (structural EM). The search for
one circuit may go on with rows sampled from a mixture. A Dask table goes the same way by a sample
of its rows; then all of them count (`blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from strudel._compiling import Clock, now
from strudel._numba import use_threads
from strudel._types import NONE, ByteArray
from strudel.circuits.circuit import Circuit
from strudel.data.argument_checks import BYTES_OF_A_SPLIT, check_fits
from strudel.data.bits import BitMatrix, pack_columns
from strudel.data.lazy import is_lazy
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.fold import folded
from strudel.learning.bits.likelihood import rows_log_likelihood
from strudel.learning.bits.mixture import Model
from strudel.learning.learn_mixture import (
    CUT,
    FIRST_SHARE,
    LEARN_SHARE,
    REFIT_SHARE,
    STRUCTURE_SHARE,
    Job,
    MixtureTask,
    has_networks,
    learn_mixture,
)
from strudel.learning.mixtures.choose import Trial
from strudel.learning.options import EM, SPLITS, Auto, Greedy, SearchOptions
from strudel.learning.prepared_rows import (
    Cells,
    FitInput,
    LogLikelihoods,
    Prepared,
    Table,
    check_fraction,
    prepare_rows,
    read_table,
)
from strudel.learning.progress import History, Record, Reporter, finish_with, kept_in
from strudel.learning.search.learn_structure import Grown
from strudel.learning.structural_em import Learned, learn_incomplete, refit_circuit
from strudel.queries.cells import log_probabilities
from strudel.queries.sampling import sample
from strudel.tables.evidence import nothing_known

# Shares of the time: learning from real rows, and fitting the mixture; the rest is for the search
# that goes on with sampled rows until LAST, and with more of them if at least LEAST is left.
REAL, MIXTURE, LEAST, LAST = 0.25, 0.15, 0.1, 0.92
# Rows that "auto" samples for the search: so many, and then twice as many if there is time, but at
# most so many for every real one. With 60,000 beside 1,600 real rows, dna loses 0.7 nats.
N_SAMPLED, SAMPLED_PER_ROW = 30_000, 8
PATIENCE = 2  # times the usual: where samples teach, validation rows are slow to tell
FOR_PARAMETERS = (0.25, 1, 4)  # times as many rows that parameters are fitted to: the best of them
# Beyond this many variables the first search takes more of the time, and "auto" samples fewer rows.
FEW_VARIABLES = 200
REAL_WIDE, N_SAMPLED_WIDE = 0.7, 12_000
# Seconds for the mixture in which networks learn enough to be worth it. With them, in 53 of 240
# seconds, jester has -53.54, and -53.86 without. On a structure of the better search they need more
# time: accidents has -26.92 with them, and -26.88 without.
FOR_NETWORKS, FOR_NETWORKS_FAR = 45.0, 54.0
# Best-first structures make better mixtures, but not better teachers in the time there is: samples
# from greedy ones taught plants -12.82, from the others -12.95. Only where the greedy circuit is
# worse by this share of the likelihood, as on accidents, its mixture knows less than the circuit.
FAR = 0.05
MOST_SPLITS = SPLITS[-1]  # of the structure then
FEWEST_COPIES = 4  # completions of a row with unknown values: on one, chance stops a search early

SampledRows = int | Literal["auto"] | None
# Seconds in which networks learn something, beside those in which torch is loaded. In 10 seconds
# plants has -11.72 with them and -11.68 by EM alone, in 20 seconds -11.65 and -11.68.
FEWEST_SECONDS = 15.0
FOR_BLOCKS = 0.4  # of the time, for EM on all rows of a Dask table after learning from a sample


def learn_circuit(
    rows: Prepared, search: SearchOptions, sampled_rows: SampledRows, report: Reporter
) -> tuple[BitCircuit, History]:
    """The best circuit, and the history of the search that found it."""
    if rows.gaps is None:
        return _learn_complete(rows, search, sampled_rows, report)
    gaps, clock = rows.gaps, Clock(search.max_seconds)

    def learn(train: Any, valid: Any) -> Learned:
        limits = replace(search, max_seconds=clock.part(LEARN_SHARE).left())
        complete = rows.with_rows(train, valid)
        circuit, history = _learn_complete(complete, limits, sampled_rows, report)
        is_late = search.max_seconds is not None and history.stopped_because in CUT
        return Learned(circuit, history, is_late or history.stopped_because == "interrupted")

    def refit(model: Model) -> Model:
        assert isinstance(model, BitCircuit)
        return model if clock.is_up else refit_circuit(model, gaps, clock.part(REFIT_SHARE))

    n_copies = max(gaps.n_copies, FEWEST_COPIES)
    first = rows.first_model(clock.part(FIRST_SHARE))
    found = learn_incomplete(gaps, first, learn, refit, rows.rng, n_copies=n_copies, clock=clock)
    history: History = found.learned.rest
    if found.is_interrupted:
        history.stopped_because = "interrupted"
    return rows.whole(found.learned.model), history


def _learn_complete(
    rows: Prepared, search: SearchOptions, sampled_rows: SampledRows, report: Reporter
) -> tuple[BitCircuit, History]:
    """Learn from rows without unknown values; the structure perhaps from some of them only."""
    part = rows.part(search.search.structure_rows)
    if sampled_rows and rows.start is None:
        circuit, history = learn_with_sampled_rows(part, search, sampled_rows, report)
    else:
        circuit, history = part.grow(search, report.on_split).best()
    if part is not rows:
        circuit = rows.fit_parameters(circuit, search.pseudocount)
    return circuit, history


def learn_with_sampled_rows(
    rows: Prepared, search: SearchOptions, n_rows: int | Literal["auto"], report: Reporter
) -> tuple[BitCircuit, History]:
    """Learn from the rows alone, and go on with rows sampled from a mixture as well.

    A mixture generalises better than one deterministic circuit can, but rows sampled from it teach
    a circuit much of what it knows: parameters that are smooth where rows are rare, and structure
    that the rows are too few to show. Validation rows decide whether they help.
    """
    if rows.valid is None:
        raise ValueError(
            "sampled_rows needs validation rows, which decide whether they helped: give X_valid or "
            "a validation_fraction."
        )
    started = now()
    total = search.max_seconds
    seed = int(rows.rng.integers(2**31))

    def seconds(share: float) -> float | None:
        return None if total is None else share * total

    def left() -> float:
        """The share that the last search may take; fitting the parameters also takes time."""
        return 1.0 if total is None else LAST - (now() - started) / total

    is_wide = n_rows == "auto" and rows.train.n_vars > FEW_VARIABLES
    if n_rows == "auto":
        most = N_SAMPLED_WIDE if is_wide else N_SAMPLED
        n_sampled = int(min(most, SAMPLED_PER_ROW * rows.train.n_rows))
        sizes = [math.ceil(times * n_sampled) for times in FOR_PARAMETERS]
        twice = min(2 * n_sampled, SAMPLED_PER_ROW * rows.train.n_rows)
    else:
        n_sampled, sizes, twice = n_rows, [n_rows], n_rows
    first = replace(search, max_seconds=seconds(REAL_WIDE if is_wide else REAL))
    grown = rows.grow(first, report.on_split)
    best = grown.best()
    # The search and the vtree that were best on the real rows.
    search = replace(
        search, search=grown.search.search, vtree=best[0].vtree, init=grown.search.init
    )
    prefix = _long_prefix(grown, rows.train.n_rows)
    del grown  # its flows are as large as those to come
    if best[1].stopped_because == "interrupted":
        return best
    try:
        # Where the first search ended early, the mixture gets a third of what is left.
        limit = seconds(max(MIXTURE, left() / 3.0))
        samples = _samples(rows, sizes[-1], limit, seed, search, _score(best), prefix)
        tables = [rows.with_rows(_joined(rows.train, samples[:n]), rows.valid) for n in sizes]
        best = _with_best_parameters(rows, tables, best, search)
        # Few rows are quick; more overfit less, if there is time for them.
        for n in dict.fromkeys([n_sampled, twice]):
            if left() < LEAST:
                break
            most_splits = search.max_splits
            if most_splits is not None:
                most_splits = max(0, most_splits - int(best[1].n_splits[best[1].best]))
            longer = replace(
                search,
                max_seconds=seconds(left()),
                max_splits=most_splits,
                patience=PATIENCE * search.patience,
            )
            more = rows.with_rows(_joined(rows.train, samples[:n]), rows.valid)
            circuit, history = replace(more, start=best[0]).grow(longer, report.on_split).best()
            found = _with_best_parameters(rows, tables, (circuit, history.after(best[1])), search)
            is_better = _score(found) > _score(best)
            best = found if is_better else best
            best[1].stopped_because = history.stopped_because
            if not is_better or history.stopped_because == "interrupted":
                break
    except KeyboardInterrupt:
        best[1].stopped_because = "interrupted"
    return best


def _long_prefix(grown: Grown, n_rows: int) -> BitCircuit | None:
    """The structure after as many splits as a mixture may have, if it has a row for every edge."""
    if grown.history.best < MOST_SPLITS:
        return None
    prefix = grown.growing.snapshot(MOST_SPLITS)
    return prefix if prefix.n_edges <= n_rows else None


def _score(learned: tuple[BitCircuit, History]) -> float:
    history = learned[1]
    return float(history.valid[history.best])


def _with_best_parameters(
    rows: Prepared,
    tables: Sequence[Prepared],
    learned: tuple[BitCircuit, History],
    search: SearchOptions,
) -> tuple[BitCircuit, History]:
    """A circuit with its own parameters, or with those fitted to a table, if these are better."""
    best = learned
    for table in tables:
        circuit = table.fit_parameters(learned[0], search.pseudocount)
        train, valid = (rows.mean_log_likelihood(circuit, part) for part in ("train", "valid"))
        history = History()
        history.add_row((0, train, valid, circuit.n_edges, 0, 0.0))
        best = max(best, (circuit, history.after(learned[1])), key=_score)
    best[1].stopped_because = learned[1].stopped_because
    return best


def _samples(
    rows: Prepared,
    n_sampled: int,
    max_seconds: float | None,
    seed: int,
    best: SearchOptions,
    score: float,
    prefix: BitCircuit | None,
) -> ByteArray:
    """Rows sampled from the best mixture that can be learned in the time.

    Its structure is greedy, but where the search so far has reached a far better `score`, it is
    by that one: a `prefix`, or searched for again, so that its length can be chosen.
    """
    assert rows.valid is not None
    rng = np.random.default_rng(np.random.RandomState(seed).randint(2**31))
    seconds = None if max_seconds is None else STRUCTURE_SHARE * max_seconds
    search = SearchOptions(search=Greedy(), max_seconds=seconds, columns=rows.columns)
    greedy = rows.grow(search).best()
    is_far = _score(greedy) < score - FAR * abs(score)
    if is_far:
        most_splits = MOST_SPLITS if prefix is None else 0
        search = replace(best, max_seconds=seconds, max_splits=most_splits)
    least = FOR_NETWORKS_FAR if is_far else FOR_NETWORKS
    has_time = max_seconds is None or max_seconds >= least
    method = Auto() if has_time else EM()
    options = method.mixture_options(
        n_components=1, smoothing="single", pseudocount="auto", max_seconds=max_seconds
    )
    task = MixtureTask("auto", "auto", method, method.MOST, search, options)
    teacher = Prepared(
        train=rows.train,
        valid=pack_columns(rows.valid.unpack()),
        rng=rng,
        columns=rows.columns,
        start=prefix if is_far else None,
    )
    clock = Clock(max_seconds)
    with kept_in(None):  # a mixture, where a circuit is asked for
        learned = learn_mixture(teacher, Job(task, clock, Reporter(), []))
    if "interrupted" in (greedy[1].stopped_because, learned.history.stopped_because):
        raise KeyboardInterrupt
    sampled: ByteArray = sample(folded(learned.mixture), n_sampled, random_state=seed)
    return sampled


def _joined(train: BitMatrix, sampled: ByteArray) -> BitMatrix:
    """Training rows, and sampled ones; each of these counts as a real one does on average."""
    weights = np.concatenate([train.weights, np.full(len(sampled), train.weights.mean())])
    return pack_columns(np.vstack([train.unpack(), sampled]), weights)


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that `fit` keeps, together, so that a fit that fails changes nothing."""

    table: Table
    circuit: Circuit
    history: Record
    log_likelihoods: LogLikelihoods
    chosen: dict[str, Any] = field(default_factory=dict)  # of a mixture
    trials: list[Trial] = field(default_factory=list)


def with_rows_in_memory(given: FitInput) -> FitInput:
    """The same without Dask, if the table is no larger than a sample of one."""
    check_fraction(given.estimator.validation_fraction)
    if not (is_lazy(given.X) or is_lazy(given.X_valid)):
        return given
    from strudel.learning.blocks import in_memory  # late: no other table needs it

    return in_memory(given)


def prepare(given: FitInput, search: SearchOptions) -> Prepared:
    """Rows that can be learned from: all of them, or a sample of a Dask table."""
    if not is_lazy(given.X):
        return prepare_rows(read_table(given), given, search)
    from strudel.learning.blocks import prepare_blocks  # late: no other table needs it

    return prepare_blocks(given, search)


def fit_circuit(
    given: FitInput, search: SearchOptions, sampled_rows: SampledRows, report: Reporter
) -> Fitted:
    """Learn one circuit."""
    is_asked_for = bool(search.search.sampled_rows)  # not only by the preset
    started = now()
    rows = prepare(with_rows_in_memory(given), search)
    finish_with(rows.over_columns)
    clock = Clock(_left(search.max_seconds, started))
    search = replace(search, max_seconds=_for_sample(rows, clock))
    report.within(clock)
    if is_asked_for and rows.start is not None:
        raise ValueError("sampled_rows cannot be used with a constraint or with warm_start.")
    search = replace(search, columns=rows.columns)
    with use_threads(given.estimator.n_jobs):
        circuit, history = learn_circuit(rows, search, sampled_rows, report)
        last = None if rows.last is None else rows.last.structure
        if last is not None and rows.valid is not None and search.smoothing == "hierarchical":
            circuit = _better(last, circuit, rows.valid)
        knows_rows = rows.gaps is None and not sampled_rows and circuit is not last
        if knows_rows and search.search.structure_rows is None:  # the history is about all rows
            best = history.last_row(history.best)
            likelihoods = LogLikelihoods(best["train"], best["valid"])
        else:
            likelihoods = _log_likelihoods(rows, circuit)
        if rows.blocks is not None and history.stopped_because != "interrupted":
            circuit, likelihoods, stopped = _from_blocks(circuit, rows, search, clock, report)
            history.stopped_because = stopped or history.stopped_because
        found = rows.over_columns(circuit)
    assert rows.table is not None
    return Fitted(rows.table, found, history, likelihoods)


def fit_mixture(given: FitInput, task: MixtureTask, report: Reporter) -> Fitted:
    """Learn a mixture, or by default the average of several kinds of models of the cells."""
    started = now()
    given = with_rows_in_memory(given)
    if is_lazy(given.X):
        return _fit_mixture(prepare(given, task.search), given, task, report, started)
    table = read_table(given)
    n_cells = len(table.kept) * len(table.columns)
    are_bits = table.encoder is None
    _check_memory(task, len(table.kept), len(table.columns))
    if task.is_of_cells and not has_networks(task.effort, n_cells, are_bits=are_bits):
        return _fit_table(table, given, task, report, started)
    return _fit_mixture(prepare_rows(table, given, task.search), given, task, report, started)


def _fit_table(
    table: Table, given: FitInput, task: MixtureTask, report: Reporter, started: float
) -> Fitted:
    from threadpoolctl import threadpool_limits

    from strudel.learning.tables.learn_table import EFFORTS, learn_table  # late: needs SciPy

    clock = Clock(_left(task.options.max_seconds, started))
    report.within(clock)
    with use_threads(given.estimator.n_jobs), threadpool_limits(1, "blas"):  # the same digits
        learned = learn_table(
            table.columns,
            *table.parts(),
            EFFORTS[given.estimator.preset or "default"],
            max_components=task.max_components,
            rng=table.rng,
            clock=clock,
            report=report,
        )
        likelihoods = LogLikelihoods(
            *(_mean_of_known(learned.circuit, rows) for rows in table.parts())
        )
    chosen, trials = learned.chosen | {"valid": likelihoods.valid}, learned.trials
    return Fitted(table, learned.circuit, learned.history, likelihoods, chosen, trials)


def _mean_of_known(circuit: Circuit, rows: Cells) -> float:
    """The mean log-probability of the cells that rows have."""
    codes = np.where(rows.cells == NONE, circuit.columns.n_cells, rows.cells).astype(np.int32)
    evidence = replace(nothing_known(circuit.columns), codes=codes)
    log_p = log_probabilities(circuit, evidence)
    counts = slice(None) if rows.weight is None else rows.weight > 0.0
    weight = None if rows.weight is None else rows.weight[counts]
    return float(np.average(log_p[counts], weights=weight))


def _fit_mixture(
    rows: Prepared, given: FitInput, task: MixtureTask, report: Reporter, started: float
) -> Fitted:
    rows = replace(rows, device=task.options.device)
    finish_with(rows.over_columns)
    _check_memory(task, rows.train.n_rows, rows.train.n_vars)
    total, search = task.options.max_seconds, replace(task.search, columns=rows.columns)
    clock = Clock(_left(total, started))
    left = _for_sample(rows, clock)
    if total and left is not None and search.max_seconds is not None:
        search = replace(search, max_seconds=search.max_seconds * left / total)
    task = replace(task, search=search, options=replace(task.options, max_seconds=left))
    if task.method == Auto() and left is not None and left < FEWEST_SECONDS:
        task = replace(task, method=EM())
    job = Job(task, Clock(left), report, [])
    report.within(clock)
    with use_threads(given.estimator.n_jobs):
        learned = learn_mixture(rows, job, rows.last)
        mixture, history, chosen = learned.mixture, learned.history, learned.chosen
        likelihoods = _log_likelihoods(rows, mixture)
        if rows.blocks is not None and history.stopped_because != "interrupted":
            mixture, likelihoods, stopped = _from_blocks(mixture, rows, task, clock, report)
            history.stopped_because = stopped or history.stopped_because
            chosen = chosen | {"valid": likelihoods.valid}
        found = rows.over_columns(mixture)
    assert rows.table is not None
    return Fitted(rows.table, found, history, likelihoods, chosen, job.trials)


def _for_sample(rows: Prepared, clock: Clock) -> float | None:
    """Seconds to learn from these rows in, where all others wait for steps of EM."""
    left = clock.left()
    return left if left is None or rows.blocks is None else (1.0 - FOR_BLOCKS) * left


def _from_blocks(
    model: Any, rows: Prepared, asked: SearchOptions | MixtureTask, clock: Clock, report: Reporter
) -> Any:
    """The model with parameters from all rows, its likelihoods, and why that ended early."""
    from strudel.learning.blocks import refit, smoothing_of

    return refit(model, rows, smoothing_of(asked), clock=clock, report=report)


def _left(max_seconds: float | None, started: float) -> float | None:
    """What is left when rows are encoded and completed: a little at least."""
    if max_seconds is None:
        return None
    return max(max_seconds - (now() - started), min(0.5 + 0.1 * max_seconds, max_seconds))


def _check_memory(task: MixtureTask, n_rows: int, n_vars: int) -> None:
    """Refuse more components than the memory can hold, before anything is allocated.

    A component has at least two edges per variable, each in four arrays of EM; a run also has its
    share of every row.
    """
    bytes_each = 64 * n_vars
    n_components = task.sizes[0]
    if isinstance(task.n_splits, int):
        check_fits("max_splits", task.n_splits, BYTES_OF_A_SPLIT)
    check_fits("n_components", n_components, bytes_each + 8 * n_rows)
    check_fits("max_components", task.max_components, bytes_each)
    for name in ("n_runs", "n_bags"):
        n_parts = getattr(task.method, name, None) or 1
        check_fits(name, n_parts, bytes_each * n_components)


def _log_likelihoods(rows: Prepared, model: Any) -> LogLikelihoods:
    return LogLikelihoods(
        rows.mean_log_likelihood(model, "train"), rows.mean_log_likelihood(model, "valid")
    )


def _better(last: BitCircuit, circuit: BitCircuit, valid: BitMatrix) -> BitCircuit:
    """The circuit of the last fit, if it remains better: what its copies came from is not known."""
    before = rows_log_likelihood(last, valid.unpack()) @ valid.weights
    after = rows_log_likelihood(circuit, valid.unpack()) @ valid.weights
    return last if before > after else circuit
