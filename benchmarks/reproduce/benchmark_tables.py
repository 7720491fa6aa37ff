"""The tables that experiments learn from: benchmarks, digits, and generated ones for tests.

In:  a name.
Out: a `Dataset`.

Generated tables need no file and no network, so that everything can be tried anywhere.
"""

from __future__ import annotations

import numpy as np

from strudel._names import names_of
from strudel.data.datasets import (
    ALIASES,
    Dataset,
    dataset_names,
    load_dataset,
    search_folders,
    unknown_dataset_message,
)

GENERATED = {"generated-10": 10, "generated-20": 20, "generated-30": 30}  # variables
WARM = ("generated-10", "generated-30")  # one with many equal rows, one without: other kernels
QUICK = ("nltcs", "dna", "plants", "jester")
QUICK_OFFLINE = ("digits", *GENERATED)
N_ROWS = (1200, 300, 400)  # of a generated table, by part
N_CLUSTERS = 5


def load_table(name: str) -> Dataset:
    """A dataset by name; ``generated-20`` is made on the spot."""
    return _generate(name, GENERATED[name]) if name in GENERATED else load_dataset(name)


def canonical(name: str) -> str:
    """The file name of a dataset, or an error that says which names come close."""
    known = ALIASES.get(name, name)
    if known not in (*dataset_names(), *GENERATED):
        raise ValueError(unknown_dataset_message(name))
    return known


def is_here(name: str) -> bool:
    """Whether a table can be loaded without the network."""
    if name == "digits" or name in GENERATED:
        return True
    return any((folder / "debd" / f"{name}.npz").is_file() for folder in search_folders())


def _generate(name: str, n_vars: int) -> Dataset:
    """Rows of a mixture of chains: clusters, and neighbours that resemble each other."""
    rng = np.random.default_rng(n_vars)
    n_rows = sum(N_ROWS)
    share = rng.beta(0.5, 0.5, size=(N_CLUSTERS, n_vars))
    cluster = rng.integers(N_CLUSTERS, size=n_rows)
    rows = (rng.random((n_rows, n_vars)) < share[cluster]).astype(np.uint8)
    for var in range(1, n_vars):
        copied = rng.random(n_rows) < 0.4
        rows[copied, var] = rows[copied, var - 1]
    train, valid, test = np.split(rows, np.cumsum(N_ROWS)[:-1])
    return Dataset(name, train, valid, test, names_of(n_vars, None))
