"""One fit of a mixture in memory: grow the structure, choose what is to be chosen, and train.

In:  complete rows, and a `StrudelMixture` that says what it wants.
Out: `LearnedMixture`, the best so far if the fit is interrupted or runs out of time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.methods import (
    EM,
    METHODS,
    BaggedEM,
    Boosting,
    Method,
    MixtureOptions,
    PerComponent,
)
from strudel.learning.mixtures.bagged_em import fit_bagged_mixture
from strudel.learning.mixtures.boosting import fit_boosted_mixture
from strudel.learning.mixtures.choose import (
    COMPONENTS,
    FIRST_ROUNDS,
    ROUNDS,
    Choice,
    MixtureSearch,
    Trial,
    describe,
    prefixes_of,
)
from strudel.learning.mixtures.em import fit_mixture
from strudel.learning.mixtures.learned_mixture import (
    Clock,
    LearnedMixture,
    chosen_for,
    settle,
    single_circuit,
)
from strudel.learning.mixtures.mixture_history import MixtureHistory
from strudel.learning.mixtures.per_component import learn_own_structures
from strudel.learning.options import named_options
from strudel.learning.search.learn_structure import grow
from strudel.learning.searches import SearchOptions
from strudel.models.base import LearningRows

OWN_COMPONENTS = (2, 5, 10, 20)  # tried in this order, while validation improves
OnProgress = Callable[[str], None]


@dataclass(eq=False)
class MixtureFit:
    """What a fit wants, the time it has, and what it tried."""

    wanted: Any  # the estimator
    search: SearchOptions
    options: MixtureOptions
    clock: Clock
    trials: list[Trial]
    tell: OnProgress

    @property
    def method(self) -> Method:
        """How to train."""
        return named_options("method", self.wanted.method, METHODS)

    @property
    def chooses_splits(self) -> bool:
        """Whether the number of splits is chosen."""
        return self.wanted.n_splits == "auto" or isinstance(self.wanted.n_splits, range)

    def learn(self, rows: LearningRows) -> LearnedMixture:
        """A mixture of components with a shared structure, or each with its own."""
        return self._own(rows) if isinstance(self.method, PerComponent) else self._shared(rows)

    def _shared(self, rows: LearningRows) -> LearnedMixture:
        """Grow a structure, choose what is to be chosen, and train."""
        self.tell("growing the structure")
        grown = grow(
            rows.train,
            rows.valid,
            search=self.search,
            rng=rows.rng,
            start=rows.start,
            journal=rows.journal,
        )
        growing, splits = grown.growing, grown.history
        last = len(splits) - 1  # fewer than asked for if nothing was left to split
        prefixes = self._prefixes(splits.best) if self.chooses_splits else [last]
        sizes = self._sizes()
        n_splits, n_components = prefixes[-1], sizes[0]
        choice: Choice | None = None

        def on_trial(trial: Trial, words: str) -> None:
            self.trials.append(trial)
            self.tell(f"{words}: {describe(trial)}")

        try:
            if splits.stopped_because == "interrupted":
                raise KeyboardInterrupt
            if len(prefixes) > 1 or len(sizes) > 1 or self._averages_all_it_can():
                assert rows.valid is not None
                chooser = MixtureSearch(
                    self.options,
                    n_components=sizes,
                    rounds=ROUNDS if self._averages_all_it_can() else FIRST_ROUNDS,
                    max_components=max(self.wanted.max_components, sizes[0]),
                    max_seconds=self.clock.left(),
                    rng=rows.rng,
                    on_trial=on_trial,
                    journal=rows.journal,
                )
                choice = chooser.run(growing, prefixes, rows.train, rows.valid)
                n_splits, n_components = choice.trial.n_splits, choice.trial.n_components
                if not chooser.stopped_because and self.clock.left() == 0.0:
                    chooser.stopped_because = "max_seconds"
                if self._averages_all_it_can() or chooser.stopped_because:
                    return settle(choice, chooser.stopped_because or "all rounds are done")
            structure = growing.snapshot(n_splits)
            options = replace(self.options, max_seconds=self.clock.left())
            learned = self._train(structure, rows, options, n_splits, n_components)
            is_cut = learned.history.stopped_because in ("interrupted", "max_seconds")
            if choice is not None and is_cut and learned.chosen["valid"] < choice.trial.valid:
                return settle(choice, learned.history.stopped_because)
            return learned
        except KeyboardInterrupt:
            if choice is not None:
                return settle(choice, "interrupted")
            return single_circuit(growing.snapshot(n_splits), n_splits, rows, self.options)

    def _own(self, rows: LearningRows) -> LearnedMixture:
        """Grow components with their own structure, of several sizes if that is to be chosen."""
        search = self.search
        if not self.chooses_splits:  # all of them, whatever the validation rows say
            search = replace(search, patience=np.iinfo(np.int64).max)
        started = time.perf_counter()
        n_bags = self.method.n_bags if isinstance(self.method, PerComponent) else None
        is_choosing = self.wanted.n_components == "auto"
        most = self.wanted.max_components if is_choosing else 0
        sizes = [k for k in OWN_COMPONENTS if k <= most]
        best: LearnedMixture | None = None

        def train(k: int, n_bags: int | None) -> LearnedMixture:
            words = f"{k} component{'s' if k > 1 else ''}"
            learned = learn_own_structures(
                rows.train,
                rows.valid,
                search=search,
                options=replace(self.options, n_components=k, max_seconds=self.clock.left()),
                n_bags=n_bags,
                rng=rows.rng,
                on_iteration=lambda history: self.tell(f"{words}, {last_step(history, rows)}"),
                start=rows.start,
            )
            chosen = chosen_for(learned.mixture, learned.n_splits, k, rows)
            if is_choosing and n_bags is None:
                seconds = time.perf_counter() - started
                self.trials.append(
                    Trial(
                        learned.n_splits,
                        k,
                        chosen["n_runs"],
                        learned.strength,
                        chosen["valid"],
                        seconds,
                    )
                )
            return LearnedMixture(learned.mixture, learned.history, chosen)

        try:
            for k in sizes:
                learned = train(k, None)
                is_better = best is None or learned.chosen["valid"] > best.chosen["valid"]
                stopped = learned.history.stopped_because
                best = learned if best is None or is_better else best
                if stopped in ("interrupted", "max_seconds"):
                    best.history.stopped_because = stopped
                    return best
                if not is_better:  # more components are worse still
                    break
            if best is None:
                return train(self._sizes()[0], n_bags)
            return best if n_bags is None else train(best.chosen["n_components"], n_bags)
        except KeyboardInterrupt:
            if best is None:
                raise
            best.history.stopped_because = "interrupted"
            return best

    def _train(
        self,
        structure: Circuit,
        rows: LearningRows,
        options: MixtureOptions,
        n_splits: int,
        n_components: int,
    ) -> LearnedMixture:
        """One fit with everything decided."""
        history, method = MixtureHistory(), self.method

        def on_iteration(latest: MixtureHistory) -> None:
            nonlocal history
            history = latest
            self.tell(last_step(history, rows, "component" if isinstance(method, Boosting) else ""))

        arguments: dict[str, Any] = {
            "X_valid": rows.valid,
            "options": options,
            "rng": rows.rng,
            "on_iteration": on_iteration,
        }
        learn: Callable[..., Mixture] = fit_mixture
        if isinstance(method, BaggedEM):
            learn, arguments["n_bags"] = fit_bagged_mixture, method.n_bags
        if isinstance(method, Boosting):
            learn = fit_boosted_mixture
        else:  # boosting begins again
            arguments["journal"] = rows.journal
        mixture = learn(structure, rows.train, n_components, **arguments)
        if isinstance(method, Boosting):  # may stop before it has all
            n_components = mixture.n_components
        return LearnedMixture(mixture, history, chosen_for(mixture, n_splits, n_components, rows))

    def _sizes(self) -> list[int]:
        """Components of one run, to choose from."""
        if self.wanted.n_components != "auto":
            return [int(self.wanted.n_components)]
        most = max(1, self.wanted.max_components // self._n_parts())
        return [size for size in COMPONENTS if size <= most] or [most]

    def _prefixes(self, best: int) -> list[int]:
        """Numbers of splits to choose from."""
        lowest = min(self.wanted.n_splits, default=0) if self.wanted.n_splits != "auto" else 0
        prefixes = prefixes_of(best)
        return [n for n in prefixes if n >= lowest] or [prefixes[-1]]

    def _averages_all_it_can(self) -> bool:
        """Whether the number of runs is also chosen."""
        is_chosen = self.wanted.n_components == "auto"
        return isinstance(self.method, EM) and is_chosen and self.method.n_runs is None

    def _n_parts(self) -> int:
        """Mixtures that are averaged."""
        method = self.method
        if isinstance(method, BaggedEM):
            return method.n_bags
        return (method.n_runs or 1) if isinstance(method, EM) else 1


def last_step(history: MixtureHistory, rows: Any, step: str = "") -> str:
    """The last step in words."""
    valid = "" if rows.valid is None else f", valid {history.valid[-1]:.4f}"
    step = step or "iteration"
    return f"{step} {len(history) - 1}: train {history.train[-1]:.4f}{valid}"
