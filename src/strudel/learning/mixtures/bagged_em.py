"""Bagged EM: mixtures of bootstrapped rows, averaged (the paper's BEM).

In:  a deterministic `Circuit` for the structure, and fully observed rows.
Out: `Mixture`, the average of one mixture per bag: still one structure, and one flow per row.

A bag is only other weights of the same rows, so all bags learn in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from strudel._compiling import now
from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, average
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits
from strudel.learning.history import MixtureHistory
from strudel.learning.mixtures.em import MixtureData, Runs, best_prior, train_runs
from strudel.learning.mixtures.shared_flows import Choices
from strudel.learning.options import MixtureOptions

MOST_BYTES = 2**30  # of the tables of EM; bags that need more wait for the others


def fit_bagged_mixture(
    circuit: Circuit,
    X: BitMatrix | ArrayLike,
    n_components: int = 10,
    *,
    n_bags: int = 10,
    X_valid: BitMatrix | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    options: MixtureOptions | None = None,
    rng: np.random.Generator | int | None = None,
    on_iteration: Callable[[MixtureHistory], None] | None = None,
) -> Mixture:
    """Average mixtures that EM fits to bootstrap samples of the rows.

    Takes what `fit_mixture` takes, and returns `n_bags * n_components` components; `n_runs` of the
    options does not count. A bag has as many draws as the rows weigh, rounded. The validation rows
    judge the average, and all bags stop at the same step. Bags that are too large to learn together
    learn one batch after the other, each with a history of its own.
    """
    options = replace(options or MixtureOptions(), n_components=n_components, n_runs=n_bags)
    rng = np.random.default_rng(rng)
    data = MixtureData.of(circuit, as_bits(X, sample_weight), X_valid, options)
    bags = draw_bags(data.rows, n_bags, rng)

    def train(first: int, limits: MixtureOptions) -> Runs:
        batch = bags[first : first + limits.n_runs]
        return train_runs(data, limits, rng, on_iteration, batch)

    n_rows = max(bag.n_rows for bag in [*data.train, *data.valid])
    parts = train_batches(train, n_batches(n_rows, data.choices, options), options)
    prior = best_prior(data, parts, options)
    mixtures = [mixture for runs in parts for mixture in runs.mixtures(prior)]
    return average(mixtures).with_names(circuit.feature_names)


def train_batches(
    train: Callable[[int, MixtureOptions], Runs],
    n_batches: int,
    options: MixtureOptions,
) -> list[Runs]:
    """Train all runs, one batch after the other; `train` gets the first of a batch, and options."""
    parts: list[Runs] = []
    started = now()
    try:
        for i, batch in enumerate(np.array_split(np.arange(options.n_runs), n_batches)):
            limits = replace(options, n_runs=len(batch))
            if options.max_seconds is not None:  # what is left, in even parts
                left = max(options.max_seconds - (now() - started), 0.0)
                limits = replace(limits, max_seconds=left / (n_batches - i))
            parts.append(train(int(batch[0]), limits))
            if parts[-1].history.stopped_because == "interrupted":
                break
    except KeyboardInterrupt:
        if not parts:
            raise
    return parts


def draw_bags(rows: BitMatrix, n_bags: int, rng: np.random.Generator) -> FloatArray:
    """How often each bag holds each distinct row, `(n_bags, n_rows)`."""
    n_draws = max(round(rows.total_weight), 1)
    share = rows.weights / rows.total_weight
    return rng.multinomial(n_draws, share, size=n_bags).astype(np.float64)


def n_batches(n_rows: int, choices: Choices, options: MixtureOptions) -> int:
    """How many times to learn, so that the tables of EM fit into memory."""
    # Per column, shares in float32; per state, counts and theirs of the best step and
    # log-parameters in float64, and differences in float32.
    per_column = 4 * n_rows + 28 * choices.n_states
    per_bag = per_column * options.n_components * options.n_init
    return min(-(-per_bag * options.n_runs // MOST_BYTES), options.n_runs)
