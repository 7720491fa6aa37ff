"""Learn the best mixture there is: EM, bagged EM and networks on one structure, averaged.

In:  `Prepared` rows in memory, and the learner with what is asked for.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.

EM compares prefixes of a structure search in short runs, as it does alone. Short runs of networks
on the most promising ones say on which of them both kinds together are best. There EM and bagged EM
go on, and then networks learn, one after another. The mixtures of all kinds are on one structure,
so an average of them is one mixture. Validation rows say how much each of them counts. Where EM
alone is best on another structure, it goes on there, too, and may win.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.errors import AlikeComponentsWarning
from strudel.learning.history import MixtureHistory
from strudel.learning.learn_continuous import POINTS, SHORT
from strudel.learning.learn_mixture import MOST_FREE, Clock, LearnedMixture, MixtureLearner
from strudel.learning.mixture_methods import Auto, Continuous
from strudel.learning.mixtures.choose import MOST_NUMBERS, Setting, Trial, describe
from strudel.learning.mixtures.continuous import fit_continuous_mixture
from strudel.learning.mixtures.free_edges import FreeEdges
from strudel.learning.prepared_rows import Prepared
from strudel.queries.likelihood import rows_log_likelihood

# Shares of `max_seconds`: when the search for a structure ends at the latest, when EM does, and
# what one short run of a network may take.
STRUCTURE, EM_ENDS, SHORT_RUN = 0.1, 0.45, 0.05
SHORT_ON_GPU = 2  # a short run takes this part of the steps: there it is a second or two
FEWEST_STEPS = 1000  # of a network: with work for fewer, a structure is too large
FEWEST_POINTS = 256  # of a network: with room for fewer, there are fewer networks
MOST_POINTS = 1024  # of one network: so many can still be moved
ANOTHER = 0.5  # of the time of the last network must be left for one more
WEIGHT_STEPS = 300  # of EM on validation rows, for a handful of weights
NO_SHARE = 0.005  # of the weight: what has less is left out
SURE = 2.0  # standard errors of what a kind must gain
BETTER = 1.0  # those of what a longer prefix must gain (Breiman et al. 1984, section 3.4.3)
NOTHING = 1e-4  # nats per row that are not worth more components
NAMES = {"em": "EM", "bagged_em": "bagged EM"}


@dataclass(frozen=True)
class _Effort:
    """What networks may cost on a machine."""

    work: float  # multiplications of all networks
    n_networks: int  # at most
    methods: tuple[Continuous, ...]  # one network by each, and then more by the best of them


# About six minutes on two cores, where a network of audio needs 2e12 multiplications, and half a
# minute on a GPU, where large steps take hardly more time than small ones. With few rows, small
# ones are better.
SMALL_STEPS = Continuous()
LARGE_STEPS = Continuous(n_points=1024, batch_size=512, max_iter=4000, patience=1000)
ON_CPU = _Effort(12e12, 4, (SMALL_STEPS,))
ON_GPU = _Effort(1.2e15, 8, (LARGE_STEPS, SMALL_STEPS))


def learn_auto(rows: Prepared, learner: MixtureLearner, method: Auto) -> LearnedMixture:
    """Everything, one after another; nothing is lost if it ends early."""
    task, clock = learner.task, learner.clock
    total, left = task.options.max_seconds, clock.left()
    task = replace(task, max_components=max(1, min(task.max_components // 2, MOST_FREE)))
    if total is not None and left is not None:
        now = rows.journal.now
        task = replace(task, search=replace(task.search, max_seconds=STRUCTURE * total))
        clock = Clock(now(), max(left - (1.0 - EM_ENDS) * total, 0.0), now)
    networks = _Networks(rows, learner, method.continuous)
    learned = learner.by_em(task, clock).choose_and_train(rows, networks.narrow)
    structure, n_splits = learned.mixture.structure, learned.chosen["n_splits"]
    if learned.history.stopped_because == "interrupted":
        return learned
    if not networks.can_learn_on(structure):
        return _alone(learned, "the structure is too large for networks")
    kind, by_em = learned.chosen.get("method", "em"), learned.mixture
    if networks.settings:  # on their structure, which EM alone may not have chosen
        setting = max(networks.settings, key=lambda setting: setting.valid)
        structure, n_splits, by_em = setting.data.single, setting.n_splits, setting.mixture()
        kind = "bagged_em" if setting.is_bagged else "em"
    groups = [_Group(kind, by_em, _log_likelihoods(rows, by_em))]
    groups += networks.learn(structure, n_splits)
    history = networks.history
    mixture, shares = _average(groups, rows.valid.weights)
    if set(shares) == {kind}:  # also if an interrupt came before there was a network
        learned.history.stopped_because = history.stopped_because
        return _alone(learned, "with networks, validation rows are not surely more likely")
    chosen = learner.chosen(rows, mixture, n_splits, mixture.n_components)
    if chosen["valid"] < learned.chosen["valid"]:
        return _alone(
            learned, f"on {n_splits} splits, with networks, validation rows are less likely"
        )
    chosen |= {"method": "auto", "shares": shares}
    chosen["explanation"] = _explain(chosen, groups, learned)
    return LearnedMixture(mixture, history, chosen)


@dataclass(frozen=True, eq=False)
class _Group:
    """A mixture that takes part in the average."""

    kind: str
    mixture: Mixture
    log_p: FloatArray  # of the validation rows


class _Networks:
    """Networks on prefixes of a structure search."""

    def __init__(self, rows: Prepared, learner: MixtureLearner, method: Continuous | None) -> None:
        self.rows, self.learner, self.given = rows, learner, method
        device = learner.task.options.device
        self._is_on_gpu = device is not None and device.type == "cuda"
        self.history = MixtureHistory(clock=rows.journal.now)
        self.settings: list[Setting] = []  # of EM, on the structure for all kinds

    def can_learn_on(self, structure: Circuit) -> bool:
        """Whether there is work enough for a network."""
        return self.given is not None or self._methods(structure)[0].max_iter >= FEWEST_STEPS

    def narrow(self, settings: list[Setting]) -> list[Setting]:
        """The setting of EM that goes on, and its twin on bags: on the structure for all kinds.

        So does the best of EM alone, if that is on another structure. A longer prefix must be
        better by a standard error: on a shorter one, an average of several networks gains more.
        """
        settings = [setting for setting in settings if setting.parts]
        alone = max(settings, key=lambda setting: setting.valid)
        best, best_log_p, weight = alone, None, self.rows.valid.weights
        candidates = self._candidates(settings, alone)
        for setting in [] if candidates == [alone] else candidates:
            by_em = setting.mixture()
            groups = [_Group("em", by_em, _log_likelihoods(self.rows, by_em)), self._try(setting)]
            log_p = _together(_that_count(groups, weight), weight)
            if best_log_p is None or _gain_in_errors(log_p - best_log_p, weight) > BETTER:
                best, best_log_p = setting, log_p
        if best_log_p is not None and np.average(best_log_p, weights=weight) < alone.valid:
            best = alone
        self.settings = [best, best.bagged()]
        return self.settings + ([] if alone.n_splits == best.n_splits else [alone])

    def _candidates(self, settings: list[Setting], alone: Setting) -> list[Setting]:
        """The best settings of EM on the first structure, on the best, and on the one before it.

        On a GPU, where short runs take a second, on all structures.
        """
        lengths = sorted({setting.n_splits for setting in settings})
        place = lengths.index(alone.n_splits)
        some = {lengths[0], lengths[max(place - 1, 0)], alone.n_splits}
        found = []
        for n_splits in lengths if self._is_on_gpu else sorted(some):
            own = [setting for setting in settings if setting.n_splits == n_splits]
            if self.can_learn_on(own[0].data.single):
                found.append(max(own, key=lambda setting: setting.valid))
        return found

    def _try(self, setting: Setting) -> _Group:
        """A network after a short run."""
        started = self.rows.journal.now()
        method = self._methods(setting.data.single)[0]
        part = SHORT_ON_GPU if self._is_on_gpu else SHORT
        short = replace(method, n_runs=1, max_iter=-(-method.max_iter // part))
        total = self.learner.task.options.max_seconds
        seconds = None if total is None else SHORT_RUN * total
        words = f"structure with {setting.n_splits} splits, "
        mixture = self._fit(setting.data.single, short, seconds, words, POINTS[:1])
        if self.history.stopped_because == "interrupted":
            raise KeyboardInterrupt
        log_p = _log_likelihoods(self.rows, mixture)
        valid = float(np.average(log_p, weights=self.rows.valid.weights))
        trial = Trial(
            setting.n_splits,
            mixture.n_components,
            1,
            0.0,
            valid,
            self.rows.journal.now() - started,
            "continuous",
        )
        self.learner.trials.append(trial)
        self.learner.report.say("choice", describe(trial), len(self.learner.trials), valid)
        return _Group("continuous", mixture, log_p)

    def learn(self, structure: Circuit, n_splits: int) -> list[_Group]:
        """Networks one after another, while there is time; an interrupt leaves those so far."""
        methods, now = self._methods(structure), self.rows.journal.now
        n_runs = methods[0].n_runs
        most = min(self.learner.task.max_components // 2, MOST_NUMBERS // structure.n_edges)
        if self.given is None:
            n_runs = max(1, min(n_runs, most // FEWEST_POINTS))
        most = max(1, min(most // n_runs, MOST_POINTS))
        sizes = [n for n in POINTS if n <= most] or [most]
        groups: list[_Group] = []
        scores: list[float] = []
        seconds = 0.0  # of the last network
        try:
            for number in range(n_runs):
                started, left = now(), self.learner.clock.left()
                if number and left is not None and left < ANOTHER * seconds:
                    break
                words = f"network {number + 1} of {n_runs}, "
                place = number if number < len(methods) else int(np.argmax(scores[: len(methods)]))
                mixture = self._fit(
                    structure, replace(methods[place], n_runs=1), left, words, sizes
                )
                seconds = now() - started
                groups.append(_Group("continuous", mixture, _log_likelihoods(self.rows, mixture)))
                scores.append(float(np.average(groups[-1].log_p, weights=self.rows.valid.weights)))
                if self.history.stopped_because == "interrupted":
                    break
        except KeyboardInterrupt:
            self.history.stopped_because = "interrupted"
        return groups

    def _fit(
        self,
        structure: Circuit,
        method: Continuous,
        max_seconds: float | None,
        words: str,
        sizes: Sequence[int],
    ) -> Mixture:
        def on_iteration(latest: MixtureHistory) -> None:
            self.history = latest
            self.learner.report.train_step(latest, words, step="check")

        with warnings.catch_warnings():  # then it is the single circuit, and hardly counts
            warnings.simplefilter("ignore", AlikeComponentsWarning)
            return fit_continuous_mixture(
                structure,
                self.rows.train,
                sizes,
                method=method,
                X_valid=self.rows.valid,
                options=replace(self.learner.task.options, max_seconds=max_seconds),
                rng=self.rows.rng,
                on_iteration=on_iteration,
                journal=self.rows.journal,
            )

    def _methods(self, structure: Circuit) -> list[Continuous]:
        """How networks on a structure learn: as many, and as long, as there is work for."""
        if self.given is not None:
            return [self.given]
        effort = ON_GPU if self._is_on_gpu else ON_CPU
        n_free, found = max(len(FreeEdges.of(structure).edge), 1), []
        for method in effort.methods:
            per_step = 6.0 * n_free * method.n_points * (method.batch_size + method.width)
            steps = int(min(effort.work / per_step, method.max_iter))
            n_runs = min(int(effort.work / (per_step * method.max_iter)), effort.n_networks)
            found.append(replace(method, max_iter=max(1, steps), n_runs=max(1, n_runs)))
        return found


def _log_likelihoods(rows: Prepared, mixture: Mixture) -> FloatArray:
    """Those of the validation rows."""
    return rows_log_likelihood(mixture, rows.valid.unpack(), rows.device)


def _shares(groups: Sequence[_Group], weight: FloatArray) -> FloatArray:
    """The weights of mixtures with which validation rows are most likely, by EM."""
    likelihood = np.column_stack([group.log_p for group in groups])
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    share = np.full(len(groups), 1.0 / len(groups))
    for _ in range(WEIGHT_STEPS):
        joint = likelihood * share
        share = weight @ (joint / joint.sum(axis=1, keepdims=True)) / weight.sum()
    return share


def _together(groups: Sequence[_Group], weight: FloatArray) -> FloatArray:
    """Log-likelihoods of rows under the average of mixtures that is best for them."""
    log_p = np.column_stack([group.log_p for group in groups])
    with np.errstate(divide="ignore"):
        log_share = np.log(_shares(groups, weight))
    found: FloatArray = np.logaddexp.reduce(log_p + log_share, axis=1)
    return found


def _that_count(groups: Sequence[_Group], weight: FloatArray) -> Sequence[_Group]:
    """The groups without a kind that hardly makes validation rows more likely.

    What it gains on them must be sure: the mixtures were chosen on the same rows. On nltcs, EM
    gains 0.001 nats there, and loses 0.003 on test rows.
    """
    log_p, least = _together(groups, weight), groups
    lowest = SURE
    for kind in dict.fromkeys(group.kind for group in groups):
        others = [group for group in groups if group.kind != kind]
        if others:
            gain = log_p - _together(others, weight)
            if _gain_in_errors(gain, weight) < lowest:
                lowest, least = _gain_in_errors(gain, weight), others
    return least


def _gain_in_errors(gain: FloatArray, weight: FloatArray) -> float:
    """What rows gain on average, in standard errors."""
    mean = np.average(gain, weights=weight)
    error = np.sqrt(np.sum((weight * (gain - mean)) ** 2)) / weight.sum()
    return float(mean / max(error, NOTHING))


def _average(groups: Sequence[_Group], weight: FloatArray) -> tuple[Mixture, dict[str, float]]:
    """One mixture of all groups that count, and the share of every kind."""
    groups = _that_count(groups, weight)
    share = _shares(groups, weight)
    share[share < NO_SHARE] = 0.0
    share /= share.sum()
    kept = [(group, one) for group, one in zip(groups, share, strict=True) if one > 0.0]
    mixture = Mixture(
        groups[0].mixture.structure,
        np.hstack([group.mixture.edge_log_theta for group, _ in kept]),
        np.concatenate([group.mixture.log_weight + np.log(one) for group, one in kept]),
    )
    shares: dict[str, float] = {}
    for group, one in kept:
        shares[group.kind] = shares.get(group.kind, 0.0) + float(one)
    return mixture, shares


def _alone(learned: LearnedMixture, why: str) -> LearnedMixture:
    """The mixture by EM, and why it is."""
    chosen = learned.chosen
    words = (
        f"{NAMES[chosen.get('method', 'em')]} alone, {chosen['n_components']} components x "
        f"{chosen['n_runs']} runs on a {chosen['n_splits']}-split structure: {why}"
    )
    return replace(learned, chosen=chosen | {"explanation": words})


def _explain(chosen: dict[str, Any], groups: Sequence[_Group], learned: LearnedMixture) -> str:
    """What the mixture is made of, and what the average gains, in a sentence."""
    n_networks = sum(group.kind == "continuous" for group in groups)
    networks = "a network" if n_networks == 1 else f"{n_networks} networks"
    parts = [
        f"{NAMES.get(kind, networks)} with {100.0 * share:.0f} % of the weight"
        for kind, share in chosen["shares"].items()
    ]
    gain = chosen["valid"] - learned.chosen["valid"]
    by_em = NAMES[learned.chosen.get("method", "em")]
    return (
        f"{' and '.join(parts)}, {chosen['n_components']:,} components on a "
        f"{chosen['n_splits']}-split structure; on validation rows {gain:.4f} nats per row better "
        f"than {by_em} alone"
    )
