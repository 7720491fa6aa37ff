"""What all tests share: one seed, Hypothesis without deadlines, and the folder of real data.

Warnings are errors (`pyproject.toml`). Real data is looked for in ``$STRUDEL_DATA``, or else in
``shared/data`` beside the checkout; tests that need it skip, by name, where there is none.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# Compiling a kernel makes one example slow, so no deadline; the same examples on every run.
settings.register_profile("strudel", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("strudel")

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if "STRUDEL_DATA" not in os.environ and _SHARED.is_dir():
    os.environ["STRUDEL_DATA"] = str(_SHARED)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("STRUDEL_DATA")
    if not folder or not (Path(folder) / "debd").is_dir():
        pytest.skip("needs the real datasets: set STRUDEL_DATA to the folder that holds debd/")
    return Path(folder)
