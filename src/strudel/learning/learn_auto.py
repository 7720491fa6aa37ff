"""Learn the best mixture there is: EM, bagged EM and networks, averaged.

In:  `Prepared` rows in memory, and the learner with what is asked for.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.

EM compares prefixes of a structure search in short runs, as it does alone, and goes on with the
best, also on bags of rows. Networks learn on the most promising prefixes, one after another: first
one on each, and then more where those before count most. The shortest of them comes before the
first circuit of the search: independent variables. Longer prefixes are made of shorter ones, so
mixtures on several of them are one mixture on the longest. Validation rows say how much each of
them counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strudel._compiling import now
from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.errors import AlikeComponentsWarning
from strudel.learning.learn_continuous import POINTS
from strudel.learning.mixture_learner import (
    CUT,
    MOST_FREE,
    LearnedMixture,
    MixtureLearner,
)
from strudel.learning.mixtures.choose import (
    INDEPENDENT,
    MOST_NUMBERS,
    Setting,
    Trial,
    describe,
    name_of_structure,
)
from strudel.learning.mixtures.networks import FreeEdges, fit_continuous_mixture
from strudel.learning.mixtures.weighted_average import (
    SURE,
    Group,
    gain_in_errors,
    log_p_together,
    longest,
    shares_of,
    that_matter,
    weighted_average,
)
from strudel.learning.options import Auto, Continuous
from strudel.learning.prepared_rows import Prepared
from strudel.learning.progress import MixtureHistory
from strudel.queries.likelihood import rows_log_likelihood

# Shares of `max_seconds`: when the search for a structure ends at the latest, when EM does, and
# what one short run of a network may take.
STRUCTURE, EM_ENDS, SHORT_RUN = 0.1, 0.45, 0.05
SHORT = 2  # a short run, on a GPU, takes this part of the steps
MOST_PREFIXES = 4  # for networks
FEWEST_STEPS = 1000  # of a network: with work for fewer, a structure is too large
FEWEST_POINTS = 512  # of a network: with room for fewer, there are fewer networks
MOST_POINTS = 1024  # of one network: so many can still be moved
ANOTHER = 0.5  # of the time of the last network must be left for one more
BETTER = 1.0  # those of what a longer prefix must gain (Breiman et al. 1984, section 3.4.3)
NAMES = {"em": "EM", "bagged_em": "bagged EM"}


@dataclass(frozen=True)
class _Effort:
    """What networks may cost on a machine."""

    work: float  # multiplications of all networks
    n_networks: int  # at most
    methods: tuple[Continuous, ...]  # one network by each, and then more by the best of them


# About six minutes on two cores, where a network of audio needs 2e12 multiplications, and a minute
# on a GPU, where large steps take hardly more time than small ones. With few rows, small
# ones are better.
SMALL_STEPS = Continuous()
LARGE_STEPS = Continuous(n_points=1024, batch_size=512, max_iter=4000, patience=1000)
ON_CPU = _Effort(12e12, 12, (SMALL_STEPS,))
ON_GPU = _Effort(1.2e15, 12, (LARGE_STEPS, SMALL_STEPS))


def learn_auto(rows: Prepared, learner: MixtureLearner, method: Auto) -> LearnedMixture:
    """Everything, one after another; nothing is lost if it ends early."""
    task, clock = learner.task, learner.clock
    left = clock.left()
    most = max(1, min(task.max_components // 4, MOST_FREE // 2))  # on the best prefix
    task = replace(task, max_components=most)
    if left is not None:
        task = replace(task, search=replace(task.search, max_seconds=STRUCTURE * left))
        clock = clock.part(EM_ENDS)
    networks = _Networks(rows, learner, method.continuous)
    learned = learner.by_em(task, clock).choose_and_train(rows, networks.narrow)
    if learned.history.stopped_because == "interrupted":
        return learned
    kind, n_splits = learned.chosen.get("method", "em"), _n_splits(learned.chosen)
    prefixes = networks.prefixes or [_Prefix(n_splits, learned.mixture.structure)]
    if not networks.can_learn_on(prefixes[0]):
        return _alone(learned, "the structure is too large for networks")
    if networks.room(learned.mixture.n_components) < 1:
        return _alone(learned, "max_components leaves no room for networks")
    try:
        groups = [_group(rows, kind, n_splits, learned.mixture)]
        longest_of_all = max(n_splits, *(prefix.n_splits for prefix in prefixes))
        for group in networks.beside_best:
            if group.n_splits <= longest_of_all and group.mixture.n_components <= most:
                most -= group.mixture.n_components
                groups.append(group)
        groups += networks.learn(prefixes, sum(group.mixture.n_components for group in groups))
        weight = rows.valid.weights
        groups = list(_that_count(groups, weight))
        kept, shares = that_matter(groups, shares_of(groups, weight))
        history = networks.history
        if len(kept) == 1 and kept[0].mixture is learned.mixture:
            if history.stopped_because in CUT:
                learned.history.stopped_because = history.stopped_because
            return _alone(learned, "with networks, validation rows are not surely more likely")
        mixture = weighted_average(kept, shares)
        n_splits = longest(kept).n_splits
        chosen = learner.chosen(rows, mixture, max(n_splits, 0), mixture.n_components)
    except KeyboardInterrupt:
        learned.history.stopped_because = "interrupted"
        return _alone(learned, "the fit was interrupted before its networks counted")
    if chosen["valid"] < learned.chosen["valid"]:
        return _alone(learned, "with networks, validation rows are less likely")
    if n_splits == INDEPENDENT:
        chosen["init"] = "independent"
    chosen["method"], chosen["shares"] = "auto", {}
    for group, share in zip(kept, shares, strict=True):
        chosen["shares"][group.kind] = chosen["shares"].get(group.kind, 0.0) + float(share)
    chosen["explanation"] = _explain(chosen, kept, learned)
    return LearnedMixture(mixture, history, chosen)


@dataclass(frozen=True, eq=False)
class _Prefix:
    """A structure, and how many splits made it."""

    n_splits: int
    structure: Circuit


class _Networks:
    """Networks on prefixes of a structure search."""

    def __init__(self, rows: Prepared, learner: MixtureLearner, method: Continuous | None) -> None:
        self.rows, self.learner, self.given = rows, learner, method
        self._effort = ON_GPU if self._is_on_gpu else ON_CPU
        self.history = MixtureHistory()
        self.prefixes: list[_Prefix] = []  # for networks, the best first
        self.beside_best: list[Group] = []  # by EM on other prefixes, one on each

    @property
    def _is_on_gpu(self) -> bool:
        device = self.learner.task.options.device
        return device is not None and device.type == "cuda"

    def can_learn_on(self, prefix: _Prefix) -> bool:
        """Whether there is work enough for a network."""
        return self.given is not None or self._methods(prefix)[0].max_iter >= FEWEST_STEPS

    def room(self, n_by_em: int) -> int:
        """Components that networks may have beside those by EM."""
        return self.learner.task.max_components - n_by_em

    def narrow(self, settings: list[Setting]) -> list[Setting]:
        """The setting of EM that goes on, and its twin on bags; finds the prefixes for networks.

        Those are independent variables, the first circuit, the best for EM and the one before it.
        On a GPU, short runs of networks on all of them take seconds, and say which.
        """
        best = max(settings, key=lambda setting: setting.valid)
        found = {setting.n_splits: setting.data.single for setting in settings if setting.parts}
        lengths = sorted(found)
        if not self._is_on_gpu:
            grown = [setting for setting in settings if setting.n_splits != INDEPENDENT]
            most = max(grown or settings, key=lambda setting: setting.valid).n_splits
            shorter = [n for n in lengths if n <= most]
            lengths = list(dict.fromkeys([*shorter[:2], *shorter[-2:]]))
        prefixes = [_Prefix(n_splits, found[n_splits]) for n_splits in lengths]
        self.prefixes = [prefix for prefix in prefixes if self.can_learn_on(prefix)]
        if self._is_on_gpu and len(self.prefixes) > 1:
            self.prefixes = self._race(_group(self.rows, "em", best.n_splits, best.mixture()))
        for setting in sorted(settings, key=lambda setting: -setting.valid):
            known = [best.n_splits, *(one.n_splits for one in self.beside_best)]
            if setting.n_runs > 1 and setting.n_splits not in known:
                group = _group(self.rows, "em", setting.n_splits, setting.mixture())
                self.beside_best.append(group)
        return [best, best.bagged()]

    def _race(self, by_em: Group) -> list[_Prefix]:
        """The most promising prefixes by short runs, the best first.

        Of too many, the longest goes that is not better than all shorter ones by a standard error:
        on those, an average of several networks gains more. Otherwise the worst goes.
        """
        weight = self.rows.valid.weights
        log_p = {one: log_p_together([by_em, self._try(one)], weight) for one in self.prefixes}
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

    def _try(self, prefix: _Prefix) -> Group:
        """A network after a short run."""
        method = self._methods(prefix)[0]
        short = replace(method, n_runs=1, max_iter=-(-method.max_iter // SHORT))
        total = self.learner.task.options.max_seconds
        seconds = None if total is None else SHORT_RUN * total
        words = f"{name_of_structure(prefix.n_splits)}, "
        group = self._fit(prefix, short, seconds, words, POINTS[:1])
        if self.history.stopped_because == "interrupted":
            raise KeyboardInterrupt
        return group

    def learn(self, prefixes: Sequence[_Prefix], n_by_em: int) -> list[Group]:
        """Networks one after another, while there is time; an interrupt leaves those so far.

        The first ones, on the best prefix, say which method is best.
        """
        methods = self._methods(prefixes[0])
        work, n_runs = self._effort.work, self._n_runs(prefixes)
        n_edges = max(prefix.structure.n_edges for prefix in prefixes)
        room = self.room(n_by_em)
        most = max(1, min(room, MOST_NUMBERS // n_edges))
        if self.given is None:
            n_runs = max(1, min(n_runs, most // FEWEST_POINTS))
        n_runs = min(n_runs, room)
        most = max(1, min(most // n_runs, MOST_POINTS))
        sizes = [n for n in POINTS if n <= most] or [most]
        groups: list[Group] = []
        scores: list[float] = []
        seconds, place = 0.0, 0  # of the last network, and its method
        try:
            while len(groups) < n_runs:
                started, left = now(), self.learner.clock.left()
                if groups and left is not None and left < ANOTHER * seconds:
                    break
                place = len(groups)
                prefix = prefixes[0]
                if place >= len(methods):
                    place = int(np.argmax(scores[: len(methods)]))
                    prefixes = [one for one in prefixes if self._work(one, place) <= work]
                    if not prefixes:
                        break
                    prefix = self._next(prefixes, groups)
                method = replace(self._methods(prefix)[place], n_runs=1)
                words = f"network {len(groups) + 1} of {n_runs}, "
                groups.append(self._fit(prefix, method, left, words, sizes))
                seconds = now() - started
                work -= self._work(prefix, place)
                scores.append(float(np.average(groups[-1].log_p, weights=self.rows.valid.weights)))
                if self.history.stopped_because == "interrupted":
                    break
        except KeyboardInterrupt:
            self.history.stopped_because = "interrupted"
        return groups

    def _n_runs(self, prefixes: Sequence[_Prefix]) -> int:
        """How many networks there is work for: one on each prefix, and then on the cheapest."""
        if self.given is not None:
            return self.given.n_runs
        left, n_runs = self._effort.work, 0
        costs = [self._work(prefix, 0) for prefix in prefixes]
        for cost in costs:
            if cost <= left:
                left, n_runs = left - cost, n_runs + 1
        return max(1, min(n_runs + int(left / min(costs)), self._effort.n_networks))

    def _next(self, prefixes: Sequence[_Prefix], groups: Sequence[Group]) -> _Prefix:
        """Where the next network learns: each prefix has networks in proportion to their share."""
        shares = shares_of(groups, self.rows.valid.weights)

        def share_with_one_more(prefix: _Prefix) -> float:
            own = [group.n_splits == prefix.n_splits for group in groups]
            return float(shares[own].sum() / (sum(own) + 1)) if any(own) else np.inf

        return max(prefixes, key=share_with_one_more)

    def _fit(
        self,
        prefix: _Prefix,
        method: Continuous,
        max_seconds: float | None,
        words: str,
        sizes: Sequence[int],
    ) -> Group:
        started = now()

        def on_iteration(latest: MixtureHistory) -> None:
            self.history = latest
            self.learner.report.train_step(latest, words, step="check")

        with warnings.catch_warnings():  # then it is the single circuit, and hardly counts
            warnings.simplefilter("ignore", AlikeComponentsWarning)
            mixture = fit_continuous_mixture(
                prefix.structure,
                self.rows.train,
                sizes,
                method=method,
                X_valid=self.rows.valid,
                options=replace(self.learner.task.options, max_seconds=max_seconds),
                rng=self.rows.rng,
                on_iteration=on_iteration,
            )
        group = _group(self.rows, "continuous", prefix.n_splits, mixture)
        valid = float(np.average(group.log_p, weights=self.rows.valid.weights))
        took = now() - started
        trial = Trial(prefix.n_splits, mixture.n_components, 1, 0.0, valid, took, "continuous")
        self.learner.trials.append(trial)
        self.learner.report.say("choice", describe(trial), len(self.learner.trials), valid)
        return group

    def _methods(self, prefix: _Prefix) -> list[Continuous]:
        """How networks on a structure learn, and how long: as there is work for."""
        if self.given is not None:
            return [self.given]
        work, found = self._effort.work, []
        for method in self._effort.methods:
            steps = min(work / self._per_step(prefix, method), method.max_iter)
            found.append(replace(method, max_iter=max(1, int(steps))))
        return found

    def _work(self, prefix: _Prefix, place: int) -> float:
        """Multiplications of a network; those of given ones are not counted."""
        method = self._methods(prefix)[place]
        return 0.0 if self.given else self._per_step(prefix, method) * method.max_iter

    @staticmethod
    def _per_step(prefix: _Prefix, method: Continuous) -> float:
        """Multiplications of a step."""
        n_free = max(len(FreeEdges.of(prefix.structure).edge), 1)
        return 6.0 * n_free * method.n_points * (method.batch_size + method.width)


def _group(rows: Prepared, kind: str, n_splits: int, mixture: Mixture) -> Group:
    """A mixture with the log-likelihoods of the validation rows."""
    log_p = rows_log_likelihood(mixture, rows.valid.unpack(), rows.device)
    return Group(kind, n_splits, mixture, log_p)


def _that_count(groups: Sequence[Group], weight: FloatArray) -> Sequence[Group]:
    """The groups without a kind that hardly makes validation rows more likely.

    What it gains on them must be sure: the mixtures were chosen on the same rows. On nltcs, EM
    gains 0.001 nats there, and loses 0.003 on test rows.
    """
    log_p, least = log_p_together(groups, weight), groups
    lowest = SURE
    for kind in dict.fromkeys(group.kind for group in groups):
        others = [group for group in groups if group.kind != kind]
        if others:
            gain = log_p - log_p_together(others, weight)
            if gain_in_errors(gain, weight) < lowest:
                lowest, least = gain_in_errors(gain, weight), others
    return least


def _n_splits(chosen: dict[str, Any]) -> int:
    """Splits of a chosen structure, or INDEPENDENT."""
    return INDEPENDENT if chosen.get("init") == "independent" else int(chosen["n_splits"])


def _alone(learned: LearnedMixture, why: str) -> LearnedMixture:
    """The mixture by EM, and why it is."""
    chosen = learned.chosen
    words = (
        f"{NAMES[chosen.get('method', 'em')]} alone, {chosen['n_components']} components x "
        f"{chosen['n_runs']} runs on {name_of_structure(_n_splits(chosen))}: {why}"
    )
    return replace(learned, chosen=chosen | {"explanation": words})


def _explain(chosen: dict[str, Any], groups: Sequence[Group], learned: LearnedMixture) -> str:
    """What the mixture is made of, and what the average gains, in a sentence."""
    parts = []
    for kind, share in chosen["shares"].items():
        lengths = [group.n_splits for group in groups if group.kind == kind]
        name = NAMES.get(kind, "a network" if len(lengths) == 1 else f"{len(lengths)} networks")
        if len(set(lengths)) > 1 or (kind == "continuous" and INDEPENDENT in lengths):
            name += f" on {_list_of_structures(lengths)}"
        parts.append(f"{name} with {100.0 * share:.0f} % of the weight")
    gain = chosen["valid"] - learned.chosen["valid"]
    by_em = NAMES[learned.chosen.get("method", "em")]
    return (
        f"{' and '.join(parts)}, {chosen['n_components']:,} components on "
        f"{name_of_structure(_n_splits(chosen))}; on validation rows {gain:.4f} nats per row "
        f"better than {by_em} alone"
    )


def _list_of_structures(lengths: Sequence[int]) -> str:
    """Such as "independent columns and 0 and 100 splits"."""
    known = sorted(set(lengths))
    words = [f"{n}" for n in known if n != INDEPENDENT]
    if len(words) > 1:
        words = [", ".join(words[:-1]) + f" and {words[-1]}"]
    splits = [f"{word} split{'' if word == '1' else 's'}" for word in words]
    return " and ".join((["independent columns"] if INDEPENDENT in known else []) + splits)
