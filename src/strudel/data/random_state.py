"""Where random numbers come from: what people give as `random_state` -> a numpy Generator."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from strudel.data.argument_checks import check_seed

RandomState: TypeAlias = np.random.Generator | np.random.RandomState | int | None


def generator_from(random_state: RandomState) -> np.random.Generator:
    """The generator itself, or one from a seed, a `RandomState` or, for None, anywhere."""
    check_seed("random_state", random_state, may_be_generator=True)
    if isinstance(random_state, np.random.RandomState):
        # As `default_rng` does from NumPy 2.2 on: its numbers go on, so the next draws differ.
        return np.random.Generator(random_state._bit_generator)
    return np.random.default_rng(random_state)
