"""Learn a mixture from prepared rows, in the way that suits them.

In:  `Prepared` rows, and the learner with what is asked for.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.
"""

from __future__ import annotations

from dataclasses import replace

from strudel._torch import has_torch
from strudel.learning.incomplete.known_shares import with_known_shares
from strudel.learning.learn_kinds import learn_kinds
from strudel.learning.mixture_learner import (
    LearnedMixture,
    MixtureLearner,
    learn_one_mixture,
)
from strudel.learning.mixture_methods import Auto
from strudel.learning.prepared_rows import Prepared

MANY_CELLS = 2**17  # of the training rows, from which "auto" also tries networks


def learn_mixture(rows: Prepared, learner: MixtureLearner) -> LearnedMixture:
    """The best mixture. By "auto" without networks, the average of several kinds."""
    task, method = learner.task, learner.task.method
    has_networks = task.effort.has_networks and needs_networks(rows)
    if not isinstance(method, Auto) or method.continuous or has_networks:
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


def needs_networks(rows: Prepared) -> bool:
    """Whether networks can learn, and are worth their time.

    With few cells EM ends in a moment, and of an encoded table small mixtures are wanted.
    """
    if rows.is_partitioned or rows.encoder is not None or not has_torch():
        return False
    return bool(rows.train.n_rows * rows.train.n_vars >= MANY_CELLS)
