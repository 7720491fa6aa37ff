"""Named sets of options, and the search that is accurate rather than quick.

A preset stands for the options that are not given.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from strudel.data.argument_checks import check_choice
from strudel.learning.options import named_options
from strudel.learning.search_options import SEARCHES, SearchOptions

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


def with_preset(preset: str, **given: Any) -> tuple[SearchOptions, int | Literal["auto"] | None]:
    """Options of a search, and how many rows to sample; "auto" and None: what the preset says."""
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
    if search.sampled_rows is not None:
        sampled_rows = search.sampled_rows
    return SearchOptions(**options | {"search": search}), sampled_rows or None
