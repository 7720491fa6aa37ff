"""Learn one mixture: grow the structure, choose what is to be chosen, and train.

In:  `Prepared` rows, and `MixtureTask`: what is asked for.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strudel._compiling import Clock
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.mixtures.choose import (
    INDEPENDENT,
    Choice,
    MixtureSearch,
    Setting,
    Trial,
    describe,
    prefixes_of,
)
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
from strudel.learning.prepared_rows import Prepared, rows_of_codes
from strudel.learning.progress import MixtureHistory, Reporter
from strudel.learning.search.learn_structure import first_circuit
from strudel.learning.structural_em import Learned, learn_incomplete, refit_mixture
from strudel.queries.model import Model
from strudel.trees.vtree import Vtree

CHOSEN_ON = 50_000  # rows of a partitioned table on which numbers are chosen
STRUCTURE_SHARE = 1 / 3  # of `max_seconds`; the rest is for EM
# Of what is left, where values are unknown: the model that completes the rows first, learning from
# rows that it completed, and EM on the rows themselves. The rest is for scores.
FIRST_SHARE, LEARN_SHARE, REFIT_SHARE = 0.15, 0.6, 0.7
# Operations of a structure search before EM says whether more are worth it, where EM is on a
# device: of 7 s for 2,357 operations on plants, 1 s is for the first 300. The last is no bound.
STAGES = (300, 1000, None)
FURTHER = 1.1  # times as many splits as before make a prefix worth trying: dna needs 361, not 293
MOST_FREE = 3200  # components that no network ties, unless more are asked for
MOST_OF_ALL = 8192  # where networks tie some of them
QUICK_COPIES = 4  # completions of a row, if they are learned from once
CUT = ("interrupted", "max_seconds")


@dataclass(eq=False)
class LearnedMixture:
    """All that `fit` keeps, together, so that a fit that fails changes nothing."""

    mixture: Mixture
    history: MixtureHistory
    chosen: dict[str, Any]


def learned_from_choice(choice: Choice, stopped_because: str) -> LearnedMixture:
    """Keep what the search found."""
    trial = choice.trial
    chosen: dict[str, Any] = {
        "n_splits": max(trial.n_splits, 0),
        "n_components": trial.n_components,
        "n_runs": trial.n_runs,
        "valid": trial.valid,
    }
    if trial.n_splits == INDEPENDENT:
        chosen["init"] = "independent"
    if trial.method != "em":  # one of several that were tried
        chosen["method"] = trial.method
    choice.history.stopped_because = stopped_because
    return LearnedMixture(choice.mixture(), choice.history, chosen)


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

    def prefixes(self, best: int) -> list[int]:
        """Numbers of splits to choose from."""
        return prefixes_of(best, self.effort.splits)


def independent_structure(rows: Prepared, task: MixtureTask, vtree: Vtree) -> Circuit | None:
    """Independent variables, or columns, on a vtree; None where the rows start elsewhere."""
    if rows.is_partitioned or rows.start is not None or task.search.init == "independent":
        return None
    search = replace(task.search, init="independent", vtree=vtree, columns=rows.columns)
    return first_circuit(rows.train, search)


def learn_one_mixture(
    rows: Prepared, learner: MixtureLearner, completer: Model | None = None
) -> LearnedMixture:
    """A mixture; rows with unknown values are completed and learned from in rounds.

    With a `completer`, which knows the rows already, in a single round.
    """
    if rows.gaps is None:
        return learner.learn(rows)
    gaps, options, clock = rows.gaps, learner.task.options, learner.clock
    effort = learner.task.effort
    max_rounds = min(options.max_rounds, effort.max_rounds)
    n_runs: dict[int, int] = {}  # of the mixture that is being learned
    stopped: list[str] = []  # why each round ended

    def learn(train: Any, valid: Any) -> Learned:
        in_time = replace(learner, clock=clock.part(LEARN_SHARE))
        learned = in_time.learn(rows.with_rows(train, valid))
        stopped.append(learned.history.stopped_because)
        n_runs[id(learned.mixture)] = learned.chosen["n_runs"]
        return Learned(learned.mixture, learned, learned.history.stopped_because in CUT)

    def refit(model: Model) -> Model:
        assert isinstance(model, Mixture)
        if options.is_tilted:  # EM on the rows would make all parameters their own
            return model
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


def learn_on_structure(
    rows: Prepared,
    learner: MixtureLearner,
    structure: Circuit,
    n_splits: int,
    *,
    max_components: int,
    to_choose_from: tuple[int, ...],
    is_tilted: bool = False,
    completer: Model | None = None,
) -> LearnedMixture:
    """A mixture by EM on a structure that is known, made by so many splits."""
    task = learner.task
    task = replace(
        task,
        n_splits=0,
        of_start=n_splits,
        search=replace(task.search, max_splits=0, patience=1),
        options=replace(task.options, is_tilted=is_tilted),
        max_components=max_components,
        to_choose_from=to_choose_from,
    )
    return learn_one_mixture(replace(rows, start=structure), learner.by_em(task), completer)


@dataclass(eq=False)
class MixtureLearner:
    """What is asked for, the time there is, and what was tried."""

    task: MixtureTask
    clock: Clock
    report: Reporter
    trials: list[Trial]

    def learn(self, rows: Prepared) -> LearnedMixture:
        """A mixture of components with a shared structure."""
        if isinstance(self.task.method, Continuous):
            from strudel.learning.learn_continuous import learn_continuous  # late: needs torch

            return learn_continuous(rows, self, self.task.method)
        if isinstance(self.task.method, Auto):
            from strudel.learning.learn_auto import learn_auto  # late: needs torch

            return learn_auto(rows, self, self.task.method)
        if not rows.is_partitioned:
            return self.choose_and_train(rows)
        task = self.task
        if task.chooses_splits or not isinstance(task.n_components, int):
            chosen = self._choose_on_sample(rows)
            if chosen.history.stopped_because == "interrupted":
                return chosen
            task = replace(
                task,
                n_components=chosen.chosen["n_components"],
                n_splits=chosen.chosen["n_splits"],
                options=replace(task.options, n_runs=chosen.chosen["n_runs"]),
            )
        n_splits = int(task.n_splits)
        search = replace(task.search, max_splits=n_splits, patience=max(1, n_splits))
        return self._grow_and_train(rows, search, task)

    def by_em(self, task: MixtureTask, clock: Clock | None = None) -> MixtureLearner:
        """The same with EM alone."""
        em_alone = replace(task, method=EM())
        return MixtureLearner(em_alone, clock or self.clock, self.report, self.trials)

    def _choose_on_sample(self, rows: Any) -> LearnedMixture:
        """Choose what is to be chosen on a sample of the rows, in a third of the time."""
        n_rows = self.task.search.search.structure_rows or CHOSEN_ON
        codes, weight = rows.sample(n_rows)
        valid = rows.valid_sample(n_rows)
        seeded = np.random.RandomState(rows.seed)
        sample = rows_of_codes(
            (codes, None if np.all(weight == 1.0) else weight),
            None if valid is None else (valid[0], None),
            np.random.default_rng(seeded.randint(2**31)),
            self.task.search,
            names=rows.names,
        )
        task, seconds = self.task, self.task.options.max_seconds
        if seconds is not None:
            share = STRUCTURE_SHARE * seconds
            task = replace(
                task,
                options=replace(task.options, max_seconds=share),
                search=replace(task.search, max_seconds=STRUCTURE_SHARE * share),
            )
        clock = Clock(task.options.max_seconds)
        learned = learn_one_mixture(sample, MixtureLearner(task, clock, self.report, self.trials))
        return replace(learned, mixture=sample.whole(learned.mixture))

    def choose_and_train(
        self, rows: Prepared, narrow: Callable[[list[Setting]], list[Setting]] | None = None
    ) -> LearnedMixture:
        """Grow a structure, choose what is to be chosen, and train.

        `narrow` may say which settings go on after the first rounds. It is also shown independent
        variables.
        """
        task = self.task
        if task.of_start is None:
            self.report.say("structure", "growing the structure")
        stages = iter(task.stages)
        searched = rows.part(task.effort.structure_rows(rows.train.n_vars))
        search = replace(task.search, max_splits=next(stages))
        grown = searched.grow(search, self.report.on_split)
        growing, splits = grown.growing, grown.history
        last = len(splits) - 1  # fewer than asked for if nothing was left to split
        prefixes = task.prefixes(splits.best) if task.chooses_splits else [last]
        independent: Circuit | None = None
        sizes = task.sizes
        n_splits, n_components = prefixes[-1], sizes[0]
        choice: Choice | None = None

        def snapshot(n: int) -> Circuit:
            if n == INDEPENDENT:
                assert independent is not None
                return independent
            found: Circuit = growing.snapshot(n)
            return found

        def on_trial(trial: Trial, words: str) -> None:
            if task.of_start is not None:
                trial = trial._replace(n_splits=task.of_start)
            self.trials.append(trial)
            message = f"{words}: {describe(trial)}"
            self.report.say("choice", message, len(self.trials), trial.valid)

        def grow_on() -> list[int]:
            """Continue the structure search by one stage; returns the longer prefixes."""
            before = splits.best
            if splits.stopped_because == "max_splits":
                for stage in stages:
                    further = replace(task.search, max_splits=stage)
                    grown.continue_until(further, self.report.on_split)
                    break
            if splits.stopped_because == "interrupted":
                raise KeyboardInterrupt
            return [n for n in task.prefixes(splits.best) if n > FURTHER * before]

        try:
            if splits.stopped_because == "interrupted":
                raise KeyboardInterrupt
            if narrow is not None and task.chooses_splits and prefixes[0] == 0:
                independent = independent_structure(rows, task, growing.snapshot(0).vtree)
                prefixes = prefixes if independent is None else [INDEPENDENT, *prefixes]
            if len(prefixes) > 1 or len(sizes) > 1 or task.averages_all_it_can:
                assert rows.valid is not None
                chooser = MixtureSearch(
                    task.options,
                    n_components=sizes,
                    rounds=task.effort.rounds if task.averages_all_it_can else FIRST_ROUNDS,
                    max_components=task.max_components,
                    max_seconds=self.clock.left(),
                    rng=rows.rng,
                    on_trial=on_trial,
                    prefers_small=task.averages_all_it_can and rows.encoder is not None,
                )
                choice = chooser.run(snapshot, prefixes, rows.train, rows.valid, grow_on, narrow)
                n_splits, n_components = choice.trial.n_splits, choice.trial.n_components
                if not chooser.stopped_because and self.clock.is_up:
                    chooser.stopped_because = "max_seconds"
                if task.averages_all_it_can or chooser.stopped_because:
                    because = chooser.stopped_because or "all rounds are done"
                    return learned_from_choice(choice, because)
            learned = self._train(rows, snapshot(n_splits), n_splits, n_components)
            is_cut = learned.history.stopped_because in CUT
            if choice is not None and is_cut and learned.chosen["valid"] < choice.trial.valid:
                return learned_from_choice(choice, learned.history.stopped_because)
            return learned
        except KeyboardInterrupt:
            if choice is not None:
                return learned_from_choice(choice, "interrupted")
            return self.single_circuit(rows, growing.snapshot(n_splits), n_splits)

    def _grow_and_train(
        self, rows: Prepared, search: SearchOptions, task: MixtureTask
    ) -> LearnedMixture:
        """Grow a structure by this many splits, and train, with everything decided."""
        grown = rows.grow(search, self.report.on_split)
        last = len(grown.history) - 1  # fewer if nothing was left to split
        structure = grown.growing.snapshot(last)
        was_interrupted = grown.history.stopped_because == "interrupted"
        del grown  # the flows of the search make room for those of EM
        try:
            if was_interrupted:
                raise KeyboardInterrupt
            size = int(task.n_components)
            return self._train(rows, structure, last, size, task.options.n_runs)
        except KeyboardInterrupt:
            return self.single_circuit(rows, structure, last)

    def _train(
        self,
        rows: Prepared,
        structure: Circuit,
        n_splits: int,
        n_components: int,
        n_runs: int | None = None,
    ) -> LearnedMixture:
        """One fit with everything decided."""
        history, method = MixtureHistory(), self.task.method
        is_boosted = isinstance(method, Boosting)

        def on_iteration(latest: MixtureHistory) -> None:
            nonlocal history
            history = latest
            self.report.train_step(history, step="component" if is_boosted else "iteration")

        options = replace(
            self.task.options,
            n_components=n_components,
            n_runs=n_runs or self.task.options.n_runs,
            max_seconds=self.clock.left(),
        )
        mixture = rows.train_mixture(structure, method, options, on_iteration)
        # Boosting may stop before it has all, and a mixture of few rows have fewer.
        size = mixture.n_components if is_boosted else min(n_components, mixture.n_components)
        chosen = self.chosen(rows, mixture, n_splits, size)
        return LearnedMixture(mixture, history, chosen)

    def single_circuit(self, rows: Prepared, structure: Circuit, n_splits: int) -> LearnedMixture:
        """The single circuit, for an interrupt before there is a mixture."""
        found: list[MixtureHistory] = []
        quick = replace(
            self.task.options,
            n_components=1,
            n_runs=1,
            n_init=1,
            init_params="random",
            max_iter=1,
            max_seconds=None,
        )
        mixture = rows.train_mixture(structure, EM(), quick, found.append)
        found[-1].stopped_because = "interrupted"
        return LearnedMixture(mixture, found[-1], self.chosen(rows, mixture, n_splits, 1))

    def chosen(
        self, rows: Prepared, mixture: Any, n_splits: int, n_components: int
    ) -> dict[str, Any]:
        """What became of a mixture; the history's likelihood is from before smoothing is chosen."""
        return {
            "n_splits": n_splits,
            "n_components": n_components,
            "n_runs": mixture.n_components // n_components,
            "valid": rows.mean_log_likelihood(mixture, "valid"),
        }
