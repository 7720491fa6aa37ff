"""Small tables, whole and as Dask arrays, and models that must be the same."""

from __future__ import annotations

import numpy as np


def two_causes(n_rows, seed=0):
    """Six columns, of which three and three have a common cause."""
    rng = np.random.default_rng(seed)
    cause = rng.integers(0, 2, size=(n_rows, 2))
    return (cause[:, [0, 0, 0, 1, 1, 1]] ^ (rng.random((n_rows, 6)) < 0.15)).astype(np.uint8)


TRAIN, VALID = two_causes(300), two_causes(80, seed=1)


def in_parts(X, cuts):
    """A Dask array with blocks of rows that end at `cuts`, and two blocks of columns."""
    import dask.array as da

    sizes = np.diff([0, *sorted(cuts), len(X)])
    return da.from_array(X, chunks=(tuple(map(int, sizes)), (2, X.shape[1] - 2)))


def assert_same_search(one, other):
    for column in ("n_splits", "train", "valid", "n_edges"):
        assert np.array_equal(getattr(one.history_, column), getattr(other.history_, column))
    assert one.history_.best == other.history_.best
    for name in ("leaf_log_p", "sum_edges", "edge_left", "edge_right", "edge_log_theta"):
        assert np.array_equal(getattr(one.circuit_, name), getattr(other.circuit_, name)), name


def assert_same_mixture(one, other):
    """Two fitted mixtures, to the last bit."""
    assert np.array_equal(one.history_.train, other.history_.train)
    assert np.array_equal(one.history_.valid, other.history_.valid)
    assert np.array_equal(one.circuit_.edge_log_theta, other.circuit_.edge_log_theta)
    assert np.array_equal(one.circuit_.log_weight, other.circuit_.log_weight)


def people(n_rows, seed=0):
    """A frame of numbers, text, booleans and dates, of which some depend on others."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    age = rng.integers(20, 80, n_rows)
    old = age > 50
    colours = np.array(["red", "green", "blue"])
    return pd.DataFrame(
        {
            "age": age,
            "colour": colours[np.where(old, 0, rng.integers(0, 3, n_rows))],
            "smoker": rng.random(n_rows) < np.where(old, 0.6, 0.2),
            "weight": np.round(50.0 + age / 2 + rng.normal(size=n_rows), 1),
            "seen": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 900, n_rows), unit="D"),
        }
    )
