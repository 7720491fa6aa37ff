"""Choose mixtures on validation rows, and average several.

In:  the circuits a structure search passes, and training and validation rows; or mixtures on
     structures of which the finest is made of all others by splits and clones.
Out: how many splits, components and runs a `BitMixture` should have, and every trial; or one on the
     finest structure, with the weights that suit validation rows best.

Successive halving: all settings get one short run; the best third gets more runs, longer ones, and
so on, until one setting is left that is filled up with runs to the largest size allowed. Runs of a
setting are averaged, so none is lost from one round to the next. Smoothing is chosen last, for the
average: the more runs, the less of it.

Of an encoded table the smallest mixture wins that is as good as the best, as far as the validation
rows can tell: every question takes time for every component.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from strudel._compiling import now
from strudel._types import FloatArray
from strudel.data.bits import BitMatrix, merge_equal_rows
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.mixture import BitMixture, average
from strudel.learning.mixtures.em import MixtureData, Runs, draw_bags, priors, train_runs
from strudel.learning.mixtures.em_steps import Prior, log_mean
from strudel.learning.mixtures.finer_structure import on_finer_structure
from strudel.learning.options import COMPONENTS, FIRST_ROUNDS, ROUNDS, SPLITS, MixtureOptions, Round
from strudel.learning.progress import MixtureHistory, offer

INDEPENDENT = -1  # splits of a structure that comes before the first: independent columns
MOST_RUNS = 64  # more hardly help
MOST_NUMBERS = 2**24  # parameters of all components, those that carry no choice included: 128 MiB
COLUMNS = 1024  # components that learn side by side
TOLERANCE = 1e-5  # steps that gain a smaller share of the likelihood do not count as better
PER_ROW = 3  # most components of all runs for every distinct row
FEW_RUNS = 4  # with fewer, the short run of the first round would still be heard
WEIGHT_STEPS = 300  # of EM on validation rows, for a handful of weights
SURE = 2.0  # standard errors of what a kind must gain where it was chosen on the same rows
NO_SHARE = 0.005  # of the weight: what has less is left out
NOTHING = 1e-4  # nats per row that are not worth more components
WORTH_GROWING = 0.01  # of the likelihood: with a smaller gain, longer prefixes hardly win


class Trial(NamedTuple):
    """What one setting reached in one round."""

    n_splits: int
    n_components: int  # of one run
    n_runs: int
    pseudocount: float
    valid: float  # mean log-likelihood of the average of its runs
    seconds: float  # since the search began
    method: str = "em"  # or "bagged_em", "continuous", "components", "latent_tree" or "pairs"


@dataclass(eq=False)
class Setting:
    """A structure, a number of components, and what it has been trained to so far."""

    n_splits: int
    data: MixtureData
    n_components: int
    most_runs: int
    priors: list[Prior]
    started: float  # when the search began
    method: str = "em"  # or "bagged_em", on bootstrap samples of the rows
    parts: list[Runs] = field(default_factory=list)
    log_p: list[FloatArray] = field(default_factory=list)  # (n_valid, n_runs) for each prior
    best: int = 0  # the prior that suits the average best
    valid: float = -math.inf  # and what it reaches

    @property
    def n_runs(self) -> int:
        """Runs so far."""
        return sum(runs.n_runs for runs in self.parts)

    @property
    def prior(self) -> Prior:
        """The smoothing that suits their average best."""
        return self.priors[self.best]

    @property
    def history(self) -> MixtureHistory:
        """How EM went in the last runs."""
        return self.parts[-1].history

    @property
    def trial(self) -> Trial:
        """What it has reached."""
        return Trial(
            self.n_splits,
            self.n_components,
            self.n_runs,
            self.prior.strength,
            self.valid,
            now() - self.started,
            self.method,
        )

    @property
    def size(self) -> int:
        """Parameters of all components."""
        return self.n_runs * self.n_components * self.data.single.n_edges

    def mixture(self) -> BitMixture:
        """The average of the runs."""
        return average([one for runs in self.parts for one in runs.mixtures(self.prior)])

    def bagged(self) -> Setting:
        """The same on bootstrap samples of the rows, without any run yet."""
        return replace(self, method="bagged_em", parts=[], log_p=[], best=0, valid=-math.inf)

    def add(self, runs: Runs, *, restart: bool = False, only_if_better: bool = False) -> bool:
        """Average with more runs, or begin again with these, and smooth; returns whether it did."""
        log_p = [runs.log_likelihoods(prior, self.data.valid) for prior in self.priors]
        parts = [runs]
        if self.parts and not restart:
            log_p = [np.hstack(pair) for pair in zip(self.log_p, log_p, strict=True)]
            parts = [*self.parts, runs]
        scores = [self.data.valid_score(one) for one in log_p]
        best = int(np.argmax(scores))
        if only_if_better and self.parts and not scores[best] > self.valid:
            return False
        self.parts, self.log_p, self.best, self.valid = parts, log_p, best, scores[best]
        return True


def _smallest_as_good(candidates: list[tuple[Setting, FloatArray]], weight: FloatArray) -> Setting:
    """The smallest mixture that is worse than the best by at most one standard error.

    That of the difference of the two on the validation rows (Breiman et al. 1984, section 3.4.3),
    whose log-likelihoods stand beside each. On eight tables of 600 to 4,200 rows and with 1 to 300
    times fewer components, the test log-likelihood was between 0.3 % lower and 0.8 % higher.
    """
    best, best_log_p = max(candidates, key=lambda one: one[0].valid)
    n_rows = float(weight.sum())

    def is_as_good(one: Setting, log_p: FloatArray) -> bool:
        loss = best.valid - one.valid
        if one is best or not math.isfinite(loss) or n_rows <= 1.0:
            return one is best
        variance = float(weight @ (best_log_p - log_p - loss) ** 2) / n_rows
        return loss <= math.sqrt(variance / (n_rows - 1.0))

    as_good = [one for one, log_p in candidates if is_as_good(one, log_p)]
    return min(as_good, key=lambda one: (one.size, -one.valid))


class MixtureSearch:
    """A search over settings: components of one run, and how far the structure has grown.

    `rounds` say how many runs the settings get, and how many of them are left. Without
    `max_seconds` the result depends on the seed alone. With `prefers_small`, the smallest mixture
    wins that the validation rows cannot tell from the best.
    """

    def __init__(
        self,
        options: MixtureOptions,
        *,
        n_components: Sequence[int] = COMPONENTS,
        rounds: Sequence[Round] = ROUNDS,
        max_components: int = 3200,
        max_seconds: float | None = None,
        rng: np.random.Generator | int | None = None,
        on_trial: Callable[[Trial, str], None] | None = None,
        prefers_small: bool = False,
    ) -> None:
        self.options = options
        self.prefers_small = prefers_small
        self._candidates: list[tuple[Setting, FloatArray]] = []
        self.n_components = n_components
        self.rounds = rounds
        self.max_components = max_components
        self._started = now()
        self.deadline = math.inf if max_seconds is None else self._started + max_seconds
        self.rng = np.random.default_rng(rng)
        self.on_trial = on_trial
        self.trials: list[Trial] = []
        self.stopped_because = ""

    def run(
        self,
        snapshot: Callable[[int], BitCircuit],
        prefixes: Sequence[int],
        train: BitMatrix,
        valid: BitMatrix,
        grow_on: Callable[[], Sequence[int]] | None = None,
        narrow: Callable[[list[Setting]], list[Setting]] | None = None,
    ) -> Setting:
        """Search over prefixes of a structure search; `snapshot` makes the structure of each.

        `grow_on` continues that search, if it can be continued, and returns the longer prefixes. It
        is asked while the longest prefix so far is the best by far. `narrow` says, after the first
        two rounds, which of all settings go on, where it is not for these rounds alone to say.
        """
        settings: list[Setting] = []
        try:
            settings = self._settings(snapshot, prefixes, train, valid)
            everything = [] if narrow is None else settings  # those that are out make room
            for number, round_ in enumerate(self.rounds, 1):
                words = f"round {number} of {len(self.rounds)}"
                settings = sorted(settings, key=lambda setting: -setting.valid)[: round_.n_kept]
                self._train_all(settings, round_, words)
                while number == 1 and grow_on is not None and _is_worth_growing(settings):
                    longer = [] if self.stopped_because else grow_on()
                    if not longer:
                        break
                    more = self._settings(snapshot, longer, train, valid)
                    self._train_all(more, round_, words)
                    settings += [setting for setting in more if setting.parts]
                    everything = [] if narrow is None else settings
                if self.stopped_because:
                    break
                if narrow is not None and number == len(FIRST_ROUNDS):
                    settings, everything = narrow(everything), []
        except KeyboardInterrupt:
            self.stopped_because = "interrupted"
            settings = [setting for setting in settings if setting.parts]
            if not settings:
                raise
        if self._candidates:
            weight = self._candidates[0][0].data.valid_weight
            return _smallest_as_good(self._candidates, weight)
        return max(settings, key=lambda setting: setting.valid)

    def _settings(
        self,
        snapshot: Callable[[int], BitCircuit],
        prefixes: Sequence[int],
        train: BitMatrix,
        valid: BitMatrix,
    ) -> list[Setting]:
        """All that fit into memory, and at least the smallest."""
        settings: list[Setting] = []
        most_for_rows = PER_ROW * merge_equal_rows(train)[0].n_rows
        for n_splits in prefixes:
            circuit = snapshot(n_splits)
            most = min(self.max_components, MOST_NUMBERS // circuit.n_edges)
            # More components than rows can tell apart are only tried when they were asked for.
            sensible = max(most_for_rows, min(self.n_components))
            sizes = [k for k in self.n_components if k <= min(most, sensible)]
            if not settings and not sizes:
                sizes = [max(1, min(*self.n_components, self.max_components))]
            if not sizes:
                continue
            data = MixtureData.of(circuit, train, valid, self.options)
            every = priors(data, self.options)
            for k in sizes:
                most_runs = max(1, min(MOST_RUNS, min(most, most_for_rows) // k))
                settings.append(Setting(n_splits, data, k, most_runs, every, self._started))
        return settings

    def _train_all(self, settings: list[Setting], round_: Round, words: str) -> None:
        """Give settings the runs of a round, until something says stop."""
        for setting in settings:
            self._train(setting, round_, words)
            if self.stopped_because:
                return

    def _train(self, setting: Setting, round_: Round, words: str) -> None:
        """Give a setting the runs of a round."""
        wanted = min(round_.n_runs, setting.most_runs)
        restart = setting.n_runs == wanted < FEW_RUNS  # no room for more runs: longer ones instead
        while restart or setting.n_runs < wanted:
            left = self.deadline - now()
            if left <= 0.0 and self.trials:
                self.stopped_because = "max_seconds"
                return
            missing = wanted if restart else wanted - setting.n_runs
            side_by_side = max(1, COLUMNS // (setting.n_components * self.options.n_init))
            options = replace(
                self.options,
                n_components=setting.n_components,
                n_runs=missing if restart else min(missing, side_by_side),
                max_iter=round_.max_iter,
                patience=round_.patience,
                tol=TOLERANCE * abs(setting.valid) if math.isfinite(setting.valid) else TOLERANCE,
                max_seconds=None if math.isinf(left) else max(left, 0.0),
            )
            bags = None
            if setting.method == "bagged_em":
                bags = draw_bags(setting.data.rows, options.n_runs, self.rng)
            runs = train_runs(setting.data, options, self.rng, row_weight=bags)
            stopped = runs.history.stopped_because
            if stopped in ("interrupted", "max_seconds"):
                self.stopped_because = stopped
            # Runs that were cut short may be worse than what there is.
            is_kept = setting.add(
                runs, restart=restart, only_if_better=restart or self.stopped_because != ""
            )
            if is_kept:
                offer(setting.mixture, setting.valid)
                self.trials.append(setting.trial)
                if self.prefers_small:
                    row_log_p = log_mean(setting.log_p[setting.best])
                    self._candidates.append((replace(setting, log_p=[]), row_log_p))
                if self.on_trial is not None:
                    self.on_trial(self.trials[-1], words)
            if restart or self.stopped_because:
                return


def _is_worth_growing(settings: list[Setting]) -> bool:
    """Whether the longest prefix is better than all others by so much that more may be better."""
    longest = max(setting.n_splits for setting in settings)
    best = max(setting.valid for setting in settings if setting.n_splits == longest)
    others = [setting.valid for setting in settings if setting.n_splits < longest]
    return bool(others) and best - max(others) > WORTH_GROWING * abs(best)


def prefixes_of(best: int, lengths: Sequence[int] | None = None) -> list[int]:
    """The prefixes of a search to be tried, up to the circuit that won it."""
    shorter = [n for n in lengths or SPLITS if n < best / 1.5]
    return [*shorter, best]


def describe(trial: Trial) -> str:
    """A setting and what it reached, in words."""
    words = {"bagged_em": "bag", "continuous": "network"}.get(trial.method, "run")
    runs = "" if trial.n_runs == 1 else f" x {trial.n_runs} {words}s"
    tied = " of a network" if trial.method == "continuous" else ""
    return (
        f"{components(trial.n_components)}{tied}{runs} on "
        f"{name_of_structure(trial.n_splits)}: valid {trial.valid:.4f}"
    )


def components(n: int, kind: str = "") -> str:
    """How many components, in words; a kind ends with a space."""
    return f"{n:,} {kind}component{'' if n == 1 else 's'}"


def name_of_structure(n_splits: int) -> str:
    """A structure in words."""
    return "independent columns" if n_splits == INDEPENDENT else f"a {n_splits}-split structure"


# Several mixtures become one


@dataclass(frozen=True, eq=False)
class Group:
    """A mixture that takes part in the average."""

    kind: str
    n_splits: int
    mixture: BitMixture
    log_p: FloatArray  # of the validation rows


def shares_of(groups: Sequence[Group], weight: FloatArray, virtual_rows: float = 0.0) -> FloatArray:
    """The weights of mixtures with which validation rows are most likely, by EM.

    `virtual_rows` are divided evenly among the mixtures, so that few rows do not decide alone.
    """
    likelihood = np.column_stack([group.log_p for group in groups])
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    even = np.full(len(groups), 1.0 / len(groups))
    share = even
    for _ in range(WEIGHT_STEPS):
        joint = likelihood * share
        count = weight @ (joint / joint.sum(axis=1, keepdims=True)) + virtual_rows * even
        share = count / (weight.sum() + virtual_rows)
    return share


def log_p_together(
    groups: Sequence[Group], weight: FloatArray, virtual_rows: float = 0.0
) -> FloatArray:
    """Log-likelihoods of rows under the average of mixtures that is best for them."""
    return log_p_of(groups, shares_of(groups, weight, virtual_rows))


def log_p_of(groups: Sequence[Group], shares: FloatArray) -> FloatArray:
    """Log-likelihoods of the validation rows under an average of mixtures."""
    log_p = np.column_stack([group.log_p for group in groups])
    with np.errstate(divide="ignore"):
        log_share = np.log(shares)
    found: FloatArray = np.logaddexp.reduce(log_p + log_share, axis=1)
    return found


def gain_in_errors(gain: FloatArray, weight: FloatArray) -> float:
    """What rows gain on average, in standard errors."""
    share = weight / weight.max()  # whose squares neither vanish nor overflow
    mean = np.average(gain, weights=share)
    error = np.sqrt(np.sum((share * (gain - mean)) ** 2)) / share.sum()
    return float(mean / max(error, NOTHING))


def that_count(
    groups: list[Group], weight: FloatArray, kinds: Sequence[str], virtual_rows: float = 0.0
) -> list[Group]:
    """The groups without that of some kinds which makes validation rows more likely least surely.

    All of them where it is sure of each: the mixtures were chosen on the same rows. On nltcs, EM
    gains 0.001 nats there, and loses 0.003 on test rows.
    """
    log_p, least, lowest = log_p_together(groups, weight, virtual_rows), groups, SURE
    for kind in kinds:
        others = [group for group in groups if group.kind != kind]
        if others:
            gain = log_p - log_p_together(others, weight, virtual_rows)
            if gain_in_errors(gain, weight) < lowest:
                lowest, least = gain_in_errors(gain, weight), others
    return least


def that_matter(groups: Sequence[Group], shares: FloatArray) -> tuple[list[Group], FloatArray]:
    """The groups without those of hardly any weight, and their shares."""
    kept = shares >= NO_SHARE
    matter = [group for group, is_kept in zip(groups, kept, strict=True) if is_kept]
    return matter, shares[kept] / shares[kept].sum()


def longest(groups: Sequence[Group]) -> Group:
    """One on the longest prefix."""
    return max(groups, key=lambda group: group.n_splits)


def weighted_average(groups: Sequence[Group], shares: FloatArray) -> BitMixture:
    """One mixture, on the longest prefix."""
    finest = longest(groups).mixture.structure
    mixtures = [on_finer_structure(group.mixture, finest) for group in groups]
    known = [group.mixture.known for group in groups if group.mixture.known is not None]
    return BitMixture(
        finest,
        np.hstack([mixture.edge_log_theta for mixture in mixtures]),
        np.concatenate(
            [
                mixture.log_weight + np.log(one)
                for mixture, one in zip(mixtures, shares, strict=True)
            ]
        ),
        np.hstack(known) if len(known) == len(groups) else None,
    )
