"""The first run on a machine learns what every later run learns."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest


@pytest.mark.compiled
def test_a_fast_fit_on_a_new_machine_is_not_cut_by_the_compiler(tmp_path, rng):
    """Two seconds are enough for three splits, but not for the compiler."""
    kind = np.repeat(rng.integers(0, 2, (400, 3)), 3, axis=1)
    rows = (rng.random((400, 9)) < 0.1 + 0.8 * kind).astype(int)
    np.savetxt(tmp_path / "rows.csv", rows, fmt="%d", delimiter=",")

    options = ["--preset", "fast", "--max-splits", "3", "--json"]

    def fit():
        done = subprocess.run(
            [sys.executable, "-m", "strudel", "fit", "--components", "1", "rows.csv", *options],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_NUM_THREADS": "2"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    cold, warm = fit(), fit()
    assert cold["seconds"]["compiling"] > 2.0
    assert warm["seconds"]["compiling"] == 0.0
    assert cold["log_likelihood"] == warm["log_likelihood"]
    assert cold["n_edges"] == warm["n_edges"]
    assert cold["stopped_because"] != "max_seconds"
