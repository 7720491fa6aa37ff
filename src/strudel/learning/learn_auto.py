"""Learn the best mixture there is: EM, bagged EM and networks on one structure, averaged.

In:  `Prepared` rows in memory, and the learner with what is asked for.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.

EM compares prefixes of a structure search in short runs, as it does alone. Short runs of networks
on the most promising ones say on which of them both kinds together are best. There EM and bagged EM
go on, and then networks learn, one after another. The mixtures of all kinds are on one structure,
so an average of them is one mixture. Validation rows say how much each of them counts.
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
# Multiplications of all networks: about six minutes on two cores. Those of audio need 2e12 each.
WORK = 12e12
MOST_NETWORKS = 4
FEWEST_STEPS = 1000  # of a network: with work for fewer, a structure is too large
MOST_POINTS = 1024  # of one network: so many can still be moved
ANOTHER = 0.5  # of the time of the last network must be left for one more
WEIGHT_STEPS = 300  # of EM on validation rows, for a handful of weights
NO_SHARE = 0.005  # of the weight: what has less is left out
NAMES = {"em": "EM", "bagged_em": "bagged EM"}


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
    kind = learned.chosen.get("method", "em")
    groups = [_Group(kind, learned.mixture, _log_likelihoods(rows, learned.mixture))]
    groups += networks.learn(structure, n_splits)
    history = networks.history
    mixture, shares = _average(groups, rows.valid.weights)
    if set(shares) == {kind}:  # also if an interrupt came before there was a network
        learned.history.stopped_because = history.stopped_because
        return _alone(learned, "with networks, validation rows are no more likely")
    chosen = learner.chosen(rows, mixture, n_splits, mixture.n_components)
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
        self.history = MixtureHistory(clock=rows.journal.now)

    def can_learn_on(self, structure: Circuit) -> bool:
        """Whether there is work enough for a network."""
        return self.given is not None or self._method(structure).max_iter >= FEWEST_STEPS

    def narrow(self, settings: list[Setting]) -> list[Setting]:
        """The setting of EM that goes on, and its twin on bags: on the structure for all kinds."""
        settings = [setting for setting in settings if setting.parts]
        alone = max(settings, key=lambda setting: setting.valid)
        best, score = alone, alone.valid
        candidates = self._candidates(settings, alone)
        for setting in [] if candidates == [alone] else candidates:
            log_p = [_log_likelihoods(self.rows, setting.mixture()), self._try(setting)]
            weight = self.rows.valid.weights
            together = _score(log_p, _shares(log_p, weight), weight)
            if together > score:
                best, score = setting, together
        return [best, best.bagged()]

    def _candidates(self, settings: list[Setting], alone: Setting) -> list[Setting]:
        """The best settings of EM on the first structure, on the best, and on the one before it."""
        lengths = sorted({setting.n_splits for setting in settings})
        place = lengths.index(alone.n_splits)
        found = []
        for n_splits in sorted({lengths[0], lengths[max(place - 1, 0)], alone.n_splits}):
            own = [setting for setting in settings if setting.n_splits == n_splits]
            if self.can_learn_on(own[0].data.single):
                found.append(max(own, key=lambda setting: setting.valid))
        return found

    def _try(self, setting: Setting) -> FloatArray:
        """Log-likelihoods of the validation rows under a network after a short run."""
        started = self.rows.journal.now()
        method = self._method(setting.data.single)
        short = replace(method, n_runs=1, max_iter=-(-method.max_iter // SHORT))
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
        return log_p

    def learn(self, structure: Circuit, n_splits: int) -> list[_Group]:
        """Networks one after another, while there is time; an interrupt leaves those so far."""
        method, now = self._method(structure), self.rows.journal.now
        most = min(self.learner.task.max_components // 2, MOST_NUMBERS // structure.n_edges)
        most = max(1, min(most // method.n_runs, MOST_POINTS))
        sizes = [n for n in POINTS if n <= most] or [most]
        groups: list[_Group] = []
        seconds = 0.0  # of the last network
        try:
            for number in range(method.n_runs):
                started, left = now(), self.learner.clock.left()
                if number and left is not None and left < ANOTHER * seconds:
                    break
                words = f"network {number + 1} of {method.n_runs}, "
                mixture = self._fit(structure, replace(method, n_runs=1), left, words, sizes)
                seconds = now() - started
                groups.append(_Group("continuous", mixture, _log_likelihoods(self.rows, mixture)))
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

    def _method(self, structure: Circuit) -> Continuous:
        """How networks on a structure learn: as many, and as long, as there is work for."""
        if self.given is not None:
            return self.given
        method = Continuous()
        n_free = len(FreeEdges.of(structure).edge)
        per_step = 6.0 * max(n_free, 1) * method.n_points * (method.batch_size + method.width)
        steps = int(min(WORK / per_step, method.max_iter))
        n_runs = min(int(WORK / (per_step * method.max_iter)), MOST_NETWORKS)
        return replace(method, max_iter=max(1, steps), n_runs=max(1, n_runs))


def _log_likelihoods(rows: Prepared, mixture: Mixture) -> FloatArray:
    """Those of the validation rows."""
    return rows_log_likelihood(mixture, rows.valid.unpack(), rows.device)


def _shares(log_p: Sequence[FloatArray], weight: FloatArray) -> FloatArray:
    """The weights of mixtures with which validation rows are most likely, by EM."""
    likelihood = np.column_stack(log_p)
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    share = np.full(len(log_p), 1.0 / len(log_p))
    for _ in range(WEIGHT_STEPS):
        joint = likelihood * share
        share = weight @ (joint / joint.sum(axis=1, keepdims=True)) / weight.sum()
    return share


def _score(log_p: Sequence[FloatArray], share: FloatArray, weight: FloatArray) -> float:
    """Mean log-likelihood of rows under an average."""
    with np.errstate(divide="ignore"):
        together = np.logaddexp.reduce(np.column_stack(log_p) + np.log(share), axis=1)
    return float(np.average(together, weights=weight))


def _average(groups: Sequence[_Group], weight: FloatArray) -> tuple[Mixture, dict[str, float]]:
    """One mixture of all groups that count, and the share of every kind."""
    share = _shares([group.log_p for group in groups], weight)
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
