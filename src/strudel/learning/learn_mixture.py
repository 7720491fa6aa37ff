"""Learn a mixture from prepared rows, in the way that suits them.

In:  `Prepared` rows, and the learner with what is asked for.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from strudel._torch import has_torch
from strudel.circuits.mixture import Mixture
from strudel.learning.learn_kinds import learn_kinds
from strudel.learning.mixture_learner import (
    LearnedMixture,
    MixtureLearner,
    learn_one_mixture,
)
from strudel.learning.mixtures.em import MixtureData, best_prior, train_runs
from strudel.learning.options import Auto
from strudel.learning.prepared_rows import Prepared
from strudel.learning.progress import MixtureHistory
from strudel.learning.structural_em import mean_of_known, refit_mixture, with_known_shares
from strudel.queries.mixture_likelihood import rows_responsibilities

MANY_CELLS = 2**17  # of the training rows, from which "auto" also tries networks


def learn_mixture(
    rows: Prepared, learner: MixtureLearner, start: Mixture | None = None
) -> LearnedMixture:
    """The best mixture; by "auto" without networks, the average of several kinds.

    With a `start`, EM goes on with the components of that mixture.
    """
    task, method = learner.task, learner.task.method
    has_networks = task.effort.has_networks and needs_networks(rows)
    if start is not None:
        learned = go_on_with(start.with_table_code(None), rows, learner)
    elif not isinstance(method, Auto) or method.continuous or has_networks:
        learned = learn_one_mixture(rows, learner)
    else:
        learned = learn_kinds(rows, learner.by_em(task))
    mixture = learned.mixture
    if rows.encoder is not None:
        try:
            mixture = with_known_shares(mixture, rows.gaps)
        except KeyboardInterrupt:
            learned.history.stopped_because = "interrupted"
    return replace(learned, mixture=rows.whole(mixture))


def go_on_with(start: Mixture, rows: Prepared, learner: MixtureLearner) -> LearnedMixture:
    """A mixture after steps of EM on all rows; the start itself if it remains better."""
    options = replace(
        learner.task.options,
        n_components=start.n_components,
        n_runs=1,
        n_init=1,
        max_seconds=learner.clock.left(),
    )
    found: list[MixtureHistory] = []

    def on_iteration(history: MixtureHistory) -> None:
        found[:] = [history]
        learner.report.train_step(history)

    if rows.gaps is None:
        data = MixtureData.of(start.structure, rows.train, rows.valid, options)
        share = rows_responsibilities(start, data.rows.unpack().astype(np.float64))
        runs = train_runs(data, options, rows.rng, on_iteration, first_share=share)
        mixture = runs.mixtures(best_prior(data, [runs], options))[0]
    else:
        mixture = refit_mixture(start, rows.gaps, options, 1, learner.clock)
        found = [MixtureHistory()]
        for one in (start, mixture):
            train, valid = (mean_of_known(one, rows.gaps, part) for part in ("train", "valid"))
            found[0].add(train, valid, options.tol)
    part = "train" if rows.valid is None else "valid"
    before, after = (rows.mean_log_likelihood(one, part) for one in (start, mixture))
    chosen = {"n_components": start.n_components, "n_runs": 1, "valid": max(before, after)}
    return LearnedMixture(start if before > after else mixture, found[0], chosen)


def needs_networks(rows: Prepared) -> bool:
    """Whether networks can learn, and are worth their time.

    With few cells EM ends in a moment, and of an encoded table small mixtures are wanted.
    """
    if rows.is_partitioned or rows.encoder is not None or not has_torch():
        return False
    return bool(rows.train.n_rows * rows.train.n_vars >= MANY_CELLS)
