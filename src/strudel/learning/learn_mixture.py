"""Learn a mixture from prepared rows: candidates, short runs, keep the best, average.

In:  `Prepared` rows, and the `Job`: what is asked for, and the time there is.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.

A method that is named grows a structure, tries prefixes of the search and numbers of components in
short runs, and trains the best of them. Rows with unknown values are completed and learned from in
rounds. With the preset "accurate" and PyTorch, "auto" is an average with networks: EM compares
prefixes in short runs and goes on with the best, also on bags of rows. Networks learn on the most
promising prefixes, one after another: first one on each, and then more where those before count
most. The shortest prefix comes before the first circuit of the search: independent variables.

Independent columns are a special case of any structure on the same vtree, and longer prefixes are
made of shorter ones, so every average is one mixture. Validation rows say how much each part of it
counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from strudel._compiling import Clock, now
from strudel._torch import has_torch
from strudel._types import FloatArray
from strudel.errors import AlikeComponentsWarning
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.likelihood import (
    rows_log_likelihood,
    rows_responsibilities,
)
from strudel.learning.bits.mixture import BitMixture, Model
from strudel.learning.mixtures.choose import (
    INDEPENDENT,
    MOST_NUMBERS,
    Group,
    MixtureSearch,
    Setting,
    Trial,
    components,
    describe,
    gain_in_errors,
    log_p_together,
    longest,
    name_of_structure,
    prefixes_of,
    shares_of,
    that_count,
    that_matter,
    weighted_average,
)
from strudel.learning.mixtures.em import MixtureData, best_prior, train_runs
from strudel.learning.options import (
    ACCURATE,
    COMPONENTS,
    EM,
    FIRST_ROUNDS,
    Auto,
    BaggedEM,
    Boosting,
    Continuous,
    Effort,
    Method,
    MixtureOptions,
    SearchOptions,
)
from strudel.learning.prepared_rows import Prepared
from strudel.learning.progress import MixtureHistory, Reporter
from strudel.learning.search.learn_structure import first_circuit
from strudel.learning.structural_em import (
    Learned,
    learn_incomplete,
    mean_of_known,
    refit_mixture,
    with_known_shares,
)
from strudel.trees.vtree import Vtree

STRUCTURE_SHARE = 1 / 3  # of `max_seconds`; the rest is for EM
# Of what is left, where values are unknown: the model that completes the rows first, learning from
# rows that it completed, and EM on the rows themselves. The rest is for scores.
FIRST_SHARE, LEARN_SHARE, REFIT_SHARE = 0.15, 0.6, 0.7
# Operations of a structure search before EM says whether more are worth it, where EM is on a
# device: of 7 s for 2,357 operations on plants, 1 s is for the first 300. The last is no bound.
STAGES = (300, 1000, None)
FURTHER = 1.1  # times as many splits as before make a prefix worth trying: dna needs 361, not 293
QUICK_COPIES = 4  # completions of a row, if they are learned from once
CUT = ("interrupted", "max_seconds")
# Networks
MANY_CELLS = 2**17  # of the training rows, from which they are tried
# Shares of `max_seconds`: when the search for a structure ends at the latest, when EM does, and
# what one short run of a network may take.
STRUCTURE, EM_ENDS, SHORT_RUN = 0.1, 0.45, 0.05
SHORT = 2  # a short run, on a GPU, takes this part of the steps
MOST_PREFIXES = 4
FEWEST_STEPS = 1000  # of a network: with work for fewer, a structure is too large
POINTS = (256, 512, 1024, 2048, 4096)  # of one network, of which validation chooses
FEWEST_POINTS = 512  # of a network: with room for fewer, there are fewer networks
MOST_POINTS = 1024  # of one of several networks: so many can still be moved
ANOTHER = 0.5  # of the time of the last network must be left for one more
BETTER = 1.0  # standard errors that a longer prefix must gain (Breiman et al. 1984, section 3.4.3)
NETWORK_SPLITS = (0, 100, 300)  # lengths of structures that are tried for networks alone
TRIED = 8  # there, a run that chooses takes this part of the steps, and of the time


@dataclass(eq=False)
class LearnedMixture:
    """All that `fit` keeps, together, so that a fit that fails changes nothing."""

    mixture: BitMixture
    history: MixtureHistory
    chosen: dict[str, Any]


@dataclass(frozen=True)
class MixtureTask:
    """What is asked for: numbers, or "auto" where they are to be chosen."""

    n_components: Any  # a number, a tuple of them, or "auto"
    n_splits: int | str
    method: Method
    max_components: int
    search: SearchOptions
    options: MixtureOptions
    to_choose_from: tuple[int, ...] = COMPONENTS  # components of one run
    effort: Effort = ACCURATE
    of_start: int | None = None  # splits of the structure that the rows start with
    is_of_cells: bool = False  # whether no option asks for a structure

    @property
    def chooses_splits(self) -> bool:
        """Whether the number of splits is chosen."""
        return self.n_splits == "auto"

    @property
    def averages_all_it_can(self) -> bool:
        """Whether the number of runs is also chosen."""
        is_chosen = self.n_components == "auto"
        return isinstance(self.method, EM) and is_chosen and self.method.n_runs is None

    @property
    def sizes(self) -> list[int]:
        """Components of one run, to choose from."""
        if isinstance(self.n_components, tuple):
            return list(self.n_components)
        if self.n_components != "auto":
            return [int(self.n_components)]
        n_parts = self.method.n_bags if isinstance(self.method, BaggedEM) else self.options.n_runs
        most = max(1, self.max_components // n_parts)
        return [size for size in self.to_choose_from if size <= most] or [most]

    @property
    def stages(self) -> list[int | None]:
        """How far the structure grows before settings are compared, each time."""
        most, bound = self.search.max_splits, self.effort.max_splits
        most = bound if most is None else most if bound is None else min(most, bound)
        if self.options.device is None or not self.chooses_splits:
            return [most]
        return [*(n for n in STAGES if n is not None and (most is None or n < most)), most]


@dataclass(eq=False)
class Job:
    """What is asked for, the time there is, who is told, and what was tried."""

    task: MixtureTask
    clock: Clock
    report: Reporter
    trials: list[Trial]


def learn_mixture(rows: Prepared, job: Job, start: BitMixture | None = None) -> LearnedMixture:
    """The best mixture; with a `start`, the components of that one learn on."""
    task = job.task
    if start is not None:
        learned = _go_on_with(start, rows, job)
    elif isinstance(task.method, Auto) and not _can_tie(task, rows):
        most = min(task.max_components, task.effort.most_components(_n_cells(rows, task.effort)))
        task = replace(task, method=EM(), max_components=most, to_choose_from=task.effort.sizes)
        learned = learn_one(rows, replace(job, task=task))
    else:
        learned = learn_one(rows, job)
    mixture = learned.mixture
    if rows.code is not None:
        try:
            mixture = with_known_shares(mixture, rows.gaps)
        except KeyboardInterrupt:
            learned.history.stopped_because = "interrupted"
    return replace(learned, mixture=rows.whole(mixture))


def has_networks(effort: Effort, n_cells: int, *, are_bits: bool) -> bool:
    """Whether networks can learn, and are worth their time.

    With few cells EM ends in a moment, and of a table of values small mixtures are wanted.
    """
    return effort.has_networks and are_bits and n_cells >= MANY_CELLS and has_torch()


def _can_tie(task: MixtureTask, rows: Prepared) -> bool:
    n_cells = rows.train.n_rows * rows.train.n_vars
    return has_networks(task.effort, n_cells, are_bits=rows.code is None)


def _go_on_with(start: BitMixture, rows: Prepared, job: Job) -> LearnedMixture:
    """A mixture after steps of EM on all rows; the start itself if it remains better."""
    options = replace(
        job.task.options,
        n_components=start.n_components,
        n_runs=1,
        n_init=1,
        max_seconds=job.clock.left(),
    )
    found: list[MixtureHistory] = []

    def on_iteration(history: MixtureHistory) -> None:
        found[:] = [history]
        job.report.train_step(history)

    if rows.gaps is None:
        data = MixtureData.of(start.structure, rows.train, rows.valid, options)
        share = rows_responsibilities(start, data.rows.unpack().astype(np.float64))
        runs = train_runs(data, options, rows.rng, on_iteration, first_share=share)
        mixture = runs.mixtures(best_prior(data, [runs], options))[0]
    else:
        mixture = refit_mixture(start, rows.gaps, options, 1, job.clock)
        found = [MixtureHistory()]
        for one in (start, mixture):
            train, valid = (mean_of_known(one, rows.gaps, part) for part in ("train", "valid"))
            found[0].add(train, valid, options.tol)
    part = "train" if rows.valid is None else "valid"
    before, after = (rows.mean_log_likelihood(one, part) for one in (start, mixture))
    chosen = {"n_components": start.n_components, "n_runs": 1, "valid": max(before, after)}
    return LearnedMixture(start if before > after else mixture, found[0], chosen)


# One mixture


def learn_one(rows: Prepared, job: Job, completer: Model | None = None) -> LearnedMixture:
    """One mixture; rows with unknown values are completed and learned from in rounds.

    With a `completer`, which knows the rows already, in a single round.
    """
    if rows.gaps is None:
        return _learn_complete(rows, job)
    gaps, options, clock = rows.gaps, job.task.options, job.clock
    effort = job.task.effort
    max_rounds = min(options.max_rounds, effort.max_rounds)
    n_runs: dict[int, int] = {}  # of the mixture that is being learned
    stopped: list[str] = []  # why each round ended

    def learn(train: Any, valid: Any) -> Learned:
        in_time = replace(job, clock=clock.part(LEARN_SHARE))
        learned = _learn_complete(rows.with_rows(train, valid), in_time)
        stopped.append(learned.history.stopped_because)
        n_runs[id(learned.mixture)] = learned.chosen["n_runs"]
        return Learned(learned.mixture, learned, learned.history.stopped_because in CUT)

    def refit(model: Model) -> Model:
        assert isinstance(model, BitMixture)
        refit_clock = clock.part(REFIT_SHARE)
        return refit_mixture(
            model, gaps, options, n_runs[id(model)], refit_clock, effort.refit_work
        )

    # A single round is for those in a hurry: a tree completes the rows, fewer times each.
    is_quick = max_rounds == 1
    n_copies = min(gaps.n_copies, effort.max_copies, QUICK_COPIES if is_quick else gaps.n_copies)
    found = learn_incomplete(
        gaps,
        completer or rows.first_model(clock.part(FIRST_SHARE), is_quick=is_quick),
        learn,
        refit,
        rows.rng,
        n_copies=n_copies,
        max_rounds=max_rounds if completer is None else 1,
        clock=clock,
    )
    learned: LearnedMixture = found.learned.rest
    if found.is_interrupted or "interrupted" in stopped:
        learned.history.stopped_because = "interrupted"
    chosen = learned.chosen | {"valid": found.valid}
    return LearnedMixture(found.learned.model, learned.history, chosen)


def _learn_complete(rows: Prepared, job: Job) -> LearnedMixture:
    """One mixture of rows without unknown values."""
    if isinstance(job.task.method, Continuous):
        return _learn_continuous(rows, job, job.task.method)
    if isinstance(job.task.method, Auto):
        return _learn_with_networks(rows, job)
    return choose_and_train(rows, job)


def choose_and_train(
    rows: Prepared, job: Job, narrow: Callable[[list[Setting]], list[Setting]] | None = None
) -> LearnedMixture:
    """Grow a structure, choose what is to be chosen, and train by EM.

    `narrow` may say which settings go on after the first rounds. It is also shown independent
    variables.
    """
    task, report = job.task, job.report
    if task.of_start is None:
        report.say("structure", "growing the structure")
    stages = iter(task.stages)
    searched = rows.part(task.effort.structure_rows(rows.train.n_vars))
    grown = searched.grow(replace(task.search, max_splits=next(stages)), report.on_split)
    growing, splits = grown.growing, grown.history
    last = len(splits) - 1  # fewer than asked for if nothing was left to split
    prefixes = prefixes_of(splits.best, task.effort.splits) if task.chooses_splits else [last]
    independent: BitCircuit | None = None
    sizes = task.sizes
    n_splits, n_components = prefixes[-1], sizes[0]
    choice: Setting | None = None

    def snapshot(n: int) -> BitCircuit:
        if n == INDEPENDENT:
            assert independent is not None
            return independent
        found: BitCircuit = growing.snapshot(n)
        return found

    def on_trial(trial: Trial, words: str) -> None:
        if task.of_start is not None:
            trial = trial._replace(n_splits=task.of_start)
        _tell(job, trial, f"{words}: ")

    def grow_on() -> list[int]:
        """Continue the structure search by one stage; returns the longer prefixes."""
        before = splits.best
        if splits.stopped_because == "max_splits":
            for stage in stages:
                grown.continue_until(replace(task.search, max_splits=stage), report.on_split)
                break
        if splits.stopped_because == "interrupted":
            raise KeyboardInterrupt
        longer = prefixes_of(splits.best, task.effort.splits)
        return [n for n in longer if n > FURTHER * before]

    try:
        if splits.stopped_because == "interrupted":
            raise KeyboardInterrupt
        if narrow is not None and task.chooses_splits and prefixes[0] == 0:
            independent = _independent_structure(rows, task, growing.snapshot(0).vtree)
            prefixes = prefixes if independent is None else [INDEPENDENT, *prefixes]
        if len(prefixes) > 1 or len(sizes) > 1 or task.averages_all_it_can:
            assert rows.valid is not None
            chooser = MixtureSearch(
                task.options,
                n_components=sizes,
                rounds=task.effort.rounds if task.averages_all_it_can else FIRST_ROUNDS,
                max_components=task.max_components,
                max_seconds=job.clock.left(),
                rng=rows.rng,
                on_trial=on_trial,
                prefers_small=task.averages_all_it_can and rows.code is not None,
            )
            choice = chooser.run(snapshot, prefixes, rows.train, rows.valid, grow_on, narrow)
            n_splits, n_components = choice.trial.n_splits, choice.trial.n_components
            if not chooser.stopped_because and job.clock.is_up:
                chooser.stopped_because = "max_seconds"
            if task.averages_all_it_can or chooser.stopped_because:
                return _learned_from(choice, chooser.stopped_because or "all rounds are done")
        learned = _train(rows, job, snapshot(n_splits), n_splits, n_components)
        is_cut = learned.history.stopped_because in CUT
        if choice is not None and is_cut and learned.chosen["valid"] < choice.trial.valid:
            return _learned_from(choice, learned.history.stopped_because)
        return learned
    except KeyboardInterrupt:
        if choice is not None:
            return _learned_from(choice, "interrupted")
        return _single_circuit(rows, job, growing.snapshot(n_splits), n_splits)


def _train(
    rows: Prepared,
    job: Job,
    structure: BitCircuit,
    n_splits: int,
    n_components: int,
) -> LearnedMixture:
    """One fit with everything decided."""
    history, method = MixtureHistory(), job.task.method
    is_boosted = isinstance(method, Boosting)

    def on_iteration(latest: MixtureHistory) -> None:
        nonlocal history
        history = latest
        job.report.train_step(history, step="component" if is_boosted else "iteration")

    options = replace(
        job.task.options,
        n_components=n_components,
        max_seconds=job.clock.left(),
    )
    mixture = rows.train_mixture(structure, method, options, on_iteration)
    # Boosting may stop before it has all, and a mixture of few rows has fewer.
    size = mixture.n_components if is_boosted else min(n_components, mixture.n_components)
    return _learned(rows, mixture, history, n_splits, size)


def _single_circuit(
    rows: Prepared, job: Job, structure: BitCircuit, n_splits: int
) -> LearnedMixture:
    """The single circuit, for an interrupt before there is a mixture."""
    found: list[MixtureHistory] = []
    quick = replace(
        job.task.options,
        n_components=1,
        n_runs=1,
        n_init=1,
        init_params="random",
        max_iter=1,
        max_seconds=None,
    )
    mixture = rows.train_mixture(structure, EM(), quick, found.append)
    found[-1].stopped_because = "interrupted"
    return _learned(rows, mixture, found[-1], n_splits, 1)


def _learned(
    rows: Prepared, mixture: BitMixture, history: MixtureHistory, n_splits: int, n_components: int
) -> LearnedMixture:
    """What became of a fit; the history's likelihood is from before smoothing is chosen."""
    valid = rows.mean_log_likelihood(mixture, "valid")
    n_runs = mixture.n_components // n_components
    return LearnedMixture(mixture, history, _chosen(n_splits, n_components, n_runs, valid))


def _learned_from(choice: Setting, stopped_because: str) -> LearnedMixture:
    """What a search over settings found."""
    trial = choice.trial
    chosen = _chosen(trial.n_splits, trial.n_components, trial.n_runs, trial.valid)
    if trial.method != "em":  # one of several that were tried
        chosen["method"] = trial.method
    choice.history.stopped_because = stopped_because
    return LearnedMixture(choice.mixture(), choice.history, chosen)


def _chosen(n_splits: int, n_components: int, n_runs: int, valid: float) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "n_splits": max(n_splits, 0),
        "n_components": n_components,
        "n_runs": n_runs,
        "valid": valid,
    }
    return chosen | {"init": "independent"} if n_splits == INDEPENDENT else chosen


def _tell(job: Job, trial: Trial, words: str = "") -> None:
    job.trials.append(trial)
    job.report.say("choice", f"{words}{describe(trial)}", len(job.trials), trial.valid)


def _independent_structure(rows: Prepared, task: MixtureTask, vtree: Vtree) -> BitCircuit | None:
    """Independent variables, or columns, on a vtree; None where the rows start elsewhere."""
    if rows.start is not None or task.search.init == "independent":
        return None
    search = replace(task.search, init="independent", vtree=vtree, columns=rows.columns)
    return first_circuit(rows.train, search)


def _n_cells(rows: Prepared, effort: Effort) -> int:
    """Rows times variables, as far as they are in memory; those of completed rows."""
    n_copies = 1 if rows.gaps is None else min(rows.gaps.n_copies, effort.max_copies)
    return int(rows.train.n_rows * rows.train.n_vars * n_copies)


def _group(rows: Prepared, kind: str, n_splits: int, mixture: BitMixture) -> Group:
    """A mixture with the log-likelihoods of what is known of the validation rows."""
    known = None if rows.gaps is None else rows.gaps.valid_rows
    if known is None:
        log_p = rows_log_likelihood(mixture, rows.valid.unpack(), rows.device)
    else:
        log_p = rows_log_likelihood(mixture, known.evidence)
    return Group(kind, n_splits, mixture, log_p)


def _parts(groups: Sequence[Group], shares: FloatArray) -> dict[str, Any]:
    """What a mixture is made of: the share of each kind, and a sentence."""
    share_of: dict[str, float] = {}
    for group, share in zip(groups, shares, strict=True):
        share_of[group.kind] = share_of.get(group.kind, 0.0) + float(share)
    words = []
    for kind, share in share_of.items():
        own = [group for group in groups if group.kind == kind]
        size = sum(group.mixture.n_components for group in own)
        place = "learned from pairs of columns" if kind == "pairs" else f"on {_structures_of(own)}"
        name = {"continuous": "network ", "bagged_em": "bagged ", "tilted": "tilted "}.get(kind, "")
        words.append(f"{components(size, name)} {place} with {100.0 * share:.0f} % of the weight")
    return {"shares": share_of, "explanation": " and ".join(words)}


def _structures_of(groups: Sequence[Group]) -> str:
    """Such as "independent columns and 0 and 100 splits"."""
    known = sorted({group.n_splits for group in groups})
    if len(known) == 1:
        return name_of_structure(known[0])
    words = [f"{n}" for n in known if n != INDEPENDENT]
    if len(words) > 1:
        words = [", ".join(words[:-1]) + f" and {words[-1]}"]
    splits = [f"{word} split{'' if word == '1' else 's'}" for word in words]
    return " and ".join((["independent columns"] if INDEPENDENT in known else []) + splits)


# Networks


def _learn_continuous(rows: Prepared, job: Job, method: Continuous) -> LearnedMixture:
    """Grow a structure, try some of its prefixes in short runs, and train networks on the best."""
    task, search = job.task, job.task.search
    job.report.say("structure", "growing the structure")
    if task.chooses_splits:
        most = NETWORK_SPLITS[-1]
        most = most if search.max_splits is None else min(search.max_splits, most)
        search = replace(search, max_splits=most)
    grown = rows.grow(search, job.report.on_split)
    last = len(grown.history) - 1  # fewer than asked for if nothing was left to split
    prefixes = [last]
    if task.chooses_splits:
        prefixes = prefixes_of(grown.history.best, NETWORK_SPLITS)
    n_splits = prefixes[-1]
    best: LearnedMixture | None = None

    def train(n: int, method: Continuous, short: str = "") -> LearnedMixture:
        structure, left = grown.growing.snapshot(n), job.clock.left()
        sizes = [task.n_components]
        if task.n_components == "auto":
            room = min(task.max_components, MOST_NUMBERS // structure.n_edges)
            sizes = _points(max(1, room // method.n_runs))
        if short:
            sizes, left = sizes[:1], left if left is None else left / TRIED
        mixture, history = _fit_networks(rows, job, structure, method, sizes, left, short)
        return _learned(rows, mixture, history, n, mixture.n_components)

    try:
        if grown.history.stopped_because == "interrupted":
            raise KeyboardInterrupt
        for n in prefixes if len(prefixes) > 1 else []:
            started = now()
            short = replace(method, n_runs=1, max_iter=-(-method.max_iter // TRIED))
            tried = train(n, short, f"structure with {n} splits, ")
            n_points, valid = tried.chosen["n_components"], tried.chosen["valid"]
            _tell(job, Trial(n, n_points, 1, 0.0, valid, now() - started))
            if best is None or valid > best.chosen["valid"]:
                best, n_splits = tried, n
            if tried.history.stopped_because == "interrupted":
                raise KeyboardInterrupt
        learned = train(n_splits, method)
        stopped = learned.history.stopped_because
        if best is None or stopped not in CUT or learned.chosen["valid"] > best.chosen["valid"]:
            return learned
        best.history.stopped_because = stopped
        return best
    except KeyboardInterrupt:
        if best is None:
            return _single_circuit(rows, job, grown.growing.snapshot(n_splits), n_splits)
        best.history.stopped_because = "interrupted"
        return best


def _points(most: int) -> list[int]:
    """Points of one network, to choose from."""
    return [n for n in POINTS if n <= most] or [most]


def _fit_networks(
    rows: Prepared,
    job: Job,
    structure: BitCircuit,
    method: Continuous,
    sizes: Sequence[int],
    max_seconds: float | None,
    words: str = "",
) -> tuple[BitMixture, MixtureHistory]:
    """A mixture by networks; `words` say which of several it is, of which none warns."""
    from strudel.learning.mixtures.networks import fit_continuous_mixture  # late: needs torch

    history = MixtureHistory()

    def on_iteration(latest: MixtureHistory) -> None:
        nonlocal history
        history = latest
        job.report.train_step(latest, words, step="check")

    with warnings.catch_warnings():
        if words:  # then it is the single circuit, and hardly counts
            warnings.simplefilter("ignore", AlikeComponentsWarning)
        mixture = fit_continuous_mixture(
            structure,
            rows.train,
            sizes,
            method=method,
            X_valid=rows.valid,
            options=replace(job.task.options, max_seconds=max_seconds),
            rng=rows.rng,
            on_iteration=on_iteration,
        )
    return mixture, history


class NetworkEffort(NamedTuple):
    """What the networks of an average may cost on a machine."""

    work: float  # multiplications of all networks
    n_networks: int  # at most
    methods: tuple[Continuous, ...]  # one network by each, and then more by the best of them


# About six minutes on two cores, where a network of audio needs 2e12 multiplications, and a minute
# on a GPU, where large steps take hardly more time than small ones. With few rows, small
# ones are better.
SMALL_STEPS = Continuous()
LARGE_STEPS = Continuous(n_points=1024, batch_size=512, max_iter=4000, patience=1000)
ON_CPU = NetworkEffort(12e12, 12, (SMALL_STEPS,))
ON_GPU = NetworkEffort(1.2e15, 12, (LARGE_STEPS, SMALL_STEPS))


class _Prefix(NamedTuple):
    """A structure, and how many splits made it."""

    n_splits: int
    structure: BitCircuit

    def methods(self, effort: NetworkEffort) -> list[Continuous]:
        """How networks learn on it, and how long: as there is work for."""
        return [
            replace(method, max_iter=max(1, int(min(effort.work / per_step, method.max_iter))))
            for method in effort.methods
            for per_step in [self._per_step(method)]
        ]

    def work(self, effort: NetworkEffort, place: int) -> float:
        """Multiplications of a network by one of the methods."""
        method = self.methods(effort)[place]
        return self._per_step(method) * method.max_iter

    def can_learn(self, effort: NetworkEffort) -> bool:
        """Whether there is work enough for a network."""
        return self.methods(effort)[0].max_iter >= FEWEST_STEPS

    def _per_step(self, method: Continuous) -> float:
        n_free = max(self.structure.n_parameters, 1)
        return 6.0 * n_free * method.n_points * (method.batch_size + method.width)


def _learn_with_networks(rows: Prepared, job: Job) -> LearnedMixture:
    """EM, bagged EM and networks, averaged; nothing is lost if it ends early."""
    task, clock, left = job.task, job.clock, job.clock.left()
    effort = ON_GPU if _is_on_gpu(task) else ON_CPU
    most = max(1, min(task.max_components // 4, EM.MOST // 2))  # on the best prefix
    by_em = replace(task, method=EM(), max_components=most)
    if left is not None:
        by_em = replace(by_em, search=replace(task.search, max_seconds=STRUCTURE * left))
        clock = clock.part(EM_ENDS)
    prefixes: list[_Prefix] = []  # for networks, the best first
    beside_best: list[Group] = []  # by EM on other prefixes, one on each

    def narrow(settings: list[Setting]) -> list[Setting]:
        """The setting of EM that goes on, and its twin on bags; finds the prefixes."""
        best = max(settings, key=lambda setting: setting.valid)
        prefixes[:] = _prefixes_for_networks(rows, job, effort, settings, best)
        known = [best.n_splits]
        for setting in sorted(settings, key=lambda setting: -setting.valid):
            if setting.n_runs > 1 and setting.n_splits not in known:
                known.append(setting.n_splits)
                beside_best.append(_group(rows, "em", setting.n_splits, setting.mixture()))
        return [best, best.bagged()]

    learned = choose_and_train(rows, replace(job, task=by_em, clock=clock), narrow)
    if learned.history.stopped_because == "interrupted":
        return learned
    kind = learned.chosen.get("method", "em")
    n_splits = _n_splits(learned)
    prefixes = prefixes or [_Prefix(n_splits, learned.mixture.structure)]
    if not prefixes[0].can_learn(effort):
        return _alone(learned, "the structure is too large for networks")
    if task.max_components <= learned.mixture.n_components:
        return _alone(learned, "max_components leaves no room for networks")
    try:
        groups = [_group(rows, kind, n_splits, learned.mixture)]
        longest_of_all = max(n_splits, *(prefix.n_splits for prefix in prefixes))
        for group in beside_best:
            if group.n_splits <= longest_of_all and group.mixture.n_components <= most:
                most -= group.mixture.n_components
                groups.append(group)
        room = task.max_components - sum(group.mixture.n_components for group in groups)
        networks, history = _learn_networks(rows, job, effort, prefixes, room)
        weight = rows.valid.weights
        groups += networks
        groups = that_count(groups, weight, list(dict.fromkeys(group.kind for group in groups)))
        kept, shares = that_matter(groups, shares_of(groups, weight))
        if len(kept) == 1 and kept[0].mixture is learned.mixture:
            if history.stopped_because in CUT:
                learned.history.stopped_because = history.stopped_because
            return _alone(learned, "with networks, validation rows are not surely more likely")
        mixture = weighted_average(kept, shares)
        found = _learned(rows, mixture, history, longest(kept).n_splits, mixture.n_components)
    except KeyboardInterrupt:
        learned.history.stopped_because = "interrupted"
        return _alone(learned, "the fit was interrupted before its networks counted")
    gain = found.chosen["valid"] - learned.chosen["valid"]
    if gain < 0.0:
        return _alone(learned, "with networks, validation rows are less likely")
    found.chosen |= {"method": "auto"} | _parts(kept, shares)
    found.chosen["explanation"] += (
        f"; on validation rows {gain:.4f} nats per row better than EM alone"
    )
    return found


def _is_on_gpu(task: MixtureTask) -> bool:
    return task.options.device is not None and task.options.device.type == "cuda"


def _n_splits(learned: LearnedMixture) -> int:
    """Splits of its structure, or INDEPENDENT."""
    return INDEPENDENT if "init" in learned.chosen else int(learned.chosen["n_splits"])


def _alone(learned: LearnedMixture, why: str) -> LearnedMixture:
    """The mixture by EM, and why it is."""
    size, n_runs = learned.chosen["n_components"], learned.chosen["n_runs"]
    place = name_of_structure(_n_splits(learned))
    learned.chosen["explanation"] = f"{components(size)} x {n_runs} runs on {place}: {why}"
    return learned


def _prefixes_for_networks(
    rows: Prepared, job: Job, effort: NetworkEffort, settings: list[Setting], best: Setting
) -> list[_Prefix]:
    """Independent variables, the first circuit, the best for EM and the one before it.

    On a GPU, short runs of networks on all of them take seconds, and say which.
    """
    found = {setting.n_splits: setting.data.single for setting in settings if setting.parts}
    lengths = sorted(found)
    if not _is_on_gpu(job.task):
        grown = [setting for setting in settings if setting.n_splits != INDEPENDENT]
        most = max(grown or settings, key=lambda setting: setting.valid).n_splits
        shorter = [n for n in lengths if n <= most]
        lengths = list(dict.fromkeys([*shorter[:2], *shorter[-2:]]))
    prefixes = [_Prefix(n_splits, found[n_splits]) for n_splits in lengths]
    prefixes = [prefix for prefix in prefixes if prefix.can_learn(effort)]
    if _is_on_gpu(job.task) and len(prefixes) > 1:
        prefixes = _race(rows, job, effort, prefixes, best)
    return prefixes


def _race(
    rows: Prepared, job: Job, effort: NetworkEffort, prefixes: list[_Prefix], best: Setting
) -> list[_Prefix]:
    """The most promising prefixes by short runs, the best first.

    Of too many, the longest goes that is not better than all shorter ones by a standard error: on
    those, an average of several networks gains more. Otherwise the worst goes.
    """
    weight, by_em = rows.valid.weights, _group(rows, "em", best.n_splits, best.mixture())
    total = job.task.options.max_seconds
    log_p = {}
    for prefix in prefixes:
        method = prefix.methods(effort)[0]
        short = replace(method, n_runs=1, max_iter=-(-method.max_iter // SHORT))
        seconds = None if total is None else SHORT_RUN * total
        words = f"{name_of_structure(prefix.n_splits)}, "
        group, history = _learn_network(rows, job, prefix, short, POINTS[:1], seconds, words)
        if history.stopped_because == "interrupted":
            raise KeyboardInterrupt
        log_p[prefix] = log_p_together([by_em, group], weight)
    score = {one: float(np.average(log_p[one], weights=weight)) for one in log_p}
    kept = sorted(log_p, key=lambda one: one.n_splits)
    while len(kept) > MOST_PREFIXES:
        out = min(kept, key=lambda one: score[one])
        for i in range(1, len(kept)):
            rival = max(kept[:i], key=lambda one: score[one])
            if gain_in_errors(log_p[kept[i]] - log_p[rival], weight) < BETTER:
                out = kept[i]
        kept.remove(out)
    return sorted(kept, key=lambda one: -score[one])


def _learn_network(
    rows: Prepared,
    job: Job,
    prefix: _Prefix,
    method: Continuous,
    sizes: Sequence[int],
    max_seconds: float | None,
    words: str,
) -> tuple[Group, MixtureHistory]:
    """One network on a prefix, which is a trial."""
    started = now()
    mixture, history = _fit_networks(rows, job, prefix.structure, method, sizes, max_seconds, words)
    group = _group(rows, "continuous", prefix.n_splits, mixture)
    valid = float(np.average(group.log_p, weights=rows.valid.weights))
    seconds = now() - started
    size = mixture.n_components
    _tell(job, Trial(prefix.n_splits, size, 1, 0.0, valid, seconds, "continuous"))
    return group, history


def _learn_networks(
    rows: Prepared, job: Job, effort: NetworkEffort, prefixes: list[_Prefix], room: int
) -> tuple[list[Group], MixtureHistory]:
    """Networks one after another, while there is time; an interrupt leaves those so far.

    The first ones, on the best prefix, say which method is best.
    """
    n_edges = max(prefix.structure.n_edges for prefix in prefixes)
    most = max(1, min(room, MOST_NUMBERS // n_edges))
    n_runs = max(1, min(_n_networks(effort, prefixes), most // FEWEST_POINTS))
    n_runs = min(n_runs, room)
    sizes = _points(max(1, min(most // n_runs, MOST_POINTS)))
    weight, work = rows.valid.weights, effort.work
    groups: list[Group] = []
    scores: list[float] = []
    history, seconds = MixtureHistory(), 0.0  # of the last network
    try:
        while len(groups) < n_runs and history.stopped_because != "interrupted":
            started, left = now(), job.clock.left()
            if groups and left is not None and left < ANOTHER * seconds:
                break
            place, prefix = len(groups), prefixes[0]
            if place >= len(effort.methods):
                place = int(np.argmax(scores[: len(effort.methods)]))
                prefixes = [one for one in prefixes if one.work(effort, place) <= work]
                if not prefixes:
                    break
                prefix = _next_prefix(prefixes, groups, weight)
            method = replace(prefix.methods(effort)[place], n_runs=1)
            words = f"network {len(groups) + 1} of {n_runs}, "
            group, history = _learn_network(rows, job, prefix, method, sizes, left, words)
            groups.append(group)
            seconds = now() - started
            work -= prefix.work(effort, place)
            scores.append(float(np.average(group.log_p, weights=weight)))
    except KeyboardInterrupt:
        history.stopped_because = "interrupted"
    return groups, history


def _n_networks(effort: NetworkEffort, prefixes: Sequence[_Prefix]) -> int:
    """How many networks there is work for: one on each prefix, and then on the cheapest."""
    left, n_networks = effort.work, 0
    costs = [prefix.work(effort, 0) for prefix in prefixes]
    for cost in costs:
        if cost <= left:
            left, n_networks = left - cost, n_networks + 1
    return max(1, min(n_networks + int(left / min(costs)), effort.n_networks))


def _next_prefix(
    prefixes: Sequence[_Prefix], groups: Sequence[Group], weight: FloatArray
) -> _Prefix:
    """Where the next network learns: each prefix has networks in proportion to their share."""
    shares = shares_of(groups, weight)

    def share_with_one_more(prefix: _Prefix) -> float:
        own = [group.n_splits == prefix.n_splits for group in groups]
        return float(shares[own].sum() / (sum(own) + 1)) if any(own) else np.inf

    return max(prefixes, key=share_with_one_more)
