"""Compiling ahead of time."""

import pytest

from strudel import warmup
from strudel._compiling import compiled


@pytest.mark.compiled
def test_what_is_warmed_up_is_compiled_once():
    told = []
    before = compiled()
    done = warmup(lambda work, so_far: told.append((work, so_far)))
    assert done.n_functions == (compiled() - before).n_functions == len(told)
    assert [so_far.n_functions for _, so_far in told] == list(range(1, len(told) + 1))
    assert all(" of " in work for work, _ in told)
    assert warmup().n_functions == 0
