"""Named sets of options, and the search that is accurate rather than quick.

A preset stands for the options that are not given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.data.argument_checks import check_choice
from strudel.data.bits import BitMatrix, pack_columns
from strudel.learning.history import History
from strudel.learning.options import named_options
from strudel.learning.search.learn_structure import grow
from strudel.learning.searches import SEARCHES, Beam, SearchOptions
from strudel.models.base import LearningRows
from strudel.models.mixture import StrudelMixture
from strudel.queries.sampling import sample

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"search": "greedy", "smoothing": "uniform", "patience": 100},
    "fast": {"search": "greedy", "smoothing": "uniform", "patience": 30, "max_seconds": 2.0},
    "accurate": {
        "search": "race",
        "smoothing": "hierarchical",
        "vtree": "auto",
        "patience": 500,
        "max_seconds": 240.0,
        "sampled_rows": "auto",
    },
}
PRESET_OPTIONS = ("search", "smoothing", "vtree", "patience", "max_seconds")

# Shares of the time: learning from real rows, fitting the mixture, and when the last search ends.
REAL, MIXTURE, LAST = 0.5, 0.15, 0.92
N_SAMPLED = 60_000
# Beyond so many variables the first search may use all of the time, and "auto" samples rows, fewer
# of them, only if this share is left until LAST.
FEW_VARIABLES = 200
N_SAMPLED_WIDE = 12_000
LEFT_TO_SAMPLE = 0.4


def with_preset(preset: str, **given: Any) -> tuple[SearchOptions, int | Literal["auto"] | None]:
    """Options of a search, and how many rows to sample; "auto" and None are what the preset says.

    Examples
    --------
    >>> with_preset("fast", search="auto", patience=50)[0].patience
    50
    """
    check_choice("preset", preset, tuple(PRESETS))
    options = dict(PRESETS[preset])
    sampled_rows = options.pop("sampled_rows", None)
    for name, value in given.items():
        is_left_open = value is None or (value == "auto" and name != "vtree")
        if not is_left_open:
            options[name] = value
    if options.get("max_seconds") == math.inf:
        options["max_seconds"] = None
    search = named_options("search", options["search"], SEARCHES)
    if isinstance(search, Beam) and given.get("vtree") is None:  # a beam has one start
        options.pop("vtree", None)
    if search.sampled_rows is not None:
        sampled_rows = search.sampled_rows
    return SearchOptions(**options | {"search": search}), sampled_rows or None


def learn_with_sampled_rows(
    rows: LearningRows,
    search: SearchOptions,
    n_rows: int | Literal["auto"],
    on_split: Callable[[History], None] | None = None,
    n_jobs: int | None = None,
) -> tuple[Circuit, History]:
    """Learn from the rows alone, and once more from rows sampled from a mixture; keep the better.

    A mixture generalises better than one deterministic circuit can, but rows sampled from it teach
    a circuit much of what it knows: structure that the rows are too few to show, and parameters
    that are smooth where rows are rare. Validation rows decide.
    """
    if rows.valid is None:
        raise ValueError(
            "sampled_rows needs validation rows, which decide whether they helped: give X_valid or "
            "a validation_fraction."
        )
    started = rows.journal.now()
    total = search.max_seconds
    seed = int(rows.rng.integers(2**31))

    def bounded(share: float, **changes: Any) -> SearchOptions:
        seconds = None if total is None else share * total
        return replace(search, max_seconds=seconds, **changes)

    def left() -> float:
        """The share that the last search may take; fitting the parameters takes time, too."""
        return 1.0 if total is None else LAST - (rows.journal.now() - started) / total

    is_wide = n_rows == "auto" and rows.train.n_vars > FEW_VARIABLES
    first = bounded(LAST if is_wide else REAL)
    common: dict[str, Any] = {
        "rng": rows.rng,
        "on_split": on_split,
        "journal": rows.journal,
    }
    grown = grow(rows.train, rows.valid, search=first, **common)
    circuit, history = grown.best()
    if history.stopped_because == "interrupted" or (is_wide and left() < LEFT_TO_SAMPLE):
        return circuit, history
    try:
        n_sampled = N_SAMPLED_WIDE if is_wide else N_SAMPLED if n_rows == "auto" else int(n_rows)
        seconds = None if total is None else MIXTURE * total
        more = _with_samples(rows, n_sampled, seconds, seed, n_jobs)
    except KeyboardInterrupt:
        history.stopped_because = "interrupted"
        return circuit, history
    # The search and the vtree that were best on the real rows.
    again = bounded(max(left(), 0.01))
    again = replace(again, search=grown.search.search, vtree=circuit.vtree, init=grown.search.init)
    del grown  # its flows are as large as those to come
    other, later = grow(more, rows.valid, search=again, **common).best()
    if later.stopped_because == "interrupted":
        history.stopped_because = "interrupted"
    if later.valid[later.best] <= history.valid[history.best]:
        return circuit, history
    return other, later


def _with_samples(
    rows: LearningRows,
    n_sampled: int,
    max_seconds: float | None,
    seed: int,
    n_jobs: int | None,
) -> BitMatrix:
    """The training rows, and others sampled from a mixture."""
    assert rows.valid is not None
    table, weight = rows.train.unpack(), rows.train.weights
    # Best-first structures make better mixtures, but not better teachers in the time there is:
    # samples from greedy ones taught plants -12.82, from the others -12.95.
    mixture = StrudelMixture(
        "auto", search="greedy", max_seconds=max_seconds, random_state=seed, n_jobs=n_jobs
    )
    mixture._fit(
        table,
        rows.valid.unpack(),
        weight,
        checkpoint=rows.journal,
        columns=rows.search.columns,
    )
    sampled = sample(mixture, n_sampled, rng=seed)
    # A sampled row counts as much as a real one does on average.
    weights = np.concatenate([weight, np.full(n_sampled, weight.mean())])
    return pack_columns(np.vstack([table, sampled]), weights)
