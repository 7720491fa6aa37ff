"""Other densities on the same rows: baselines, and the packages that are installed.

In:  a table.
Out: per peer its likelihoods and seconds, or why there are none.

A package may be slow or crash, so each has its own process and a time limit.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from strudel.reproduce.benchmark_tables import WARM, load_table
from strudel.reproduce.experiments.measures import stopwatch
from strudel.reproduce.processes import call_within
from strudel.reproduce.tasks import Settings

BASELINES = {  # function in baselines.py: what it is called
    "independent": "independent variables (scikit-learn)",
    "clusters": "clusters of independent variables (scikit-learn)",
    "chow_liu": "Chow-Liu tree",
}
PACKAGES = {  # function in packages.py: what it is called, and the module it needs
    "deeprob_random_circuit": ("deeprob-kit, random circuit", "deeprob"),
    "deeprob_ensemble": ("deeprob-kit, ten random circuits", "deeprob"),
    "deeprob_learn_spn": ("deeprob-kit, LearnSPN", "deeprob"),
    "spflow_cutset_network": ("SPFlow, cutset network", "spflow"),
    "pyjuice_hidden_chow_liu_tree": ("pyjuice, hidden Chow-Liu tree", "pyjuice"),
}


def warm_up() -> None:
    """Load scikit-learn and the kernels of the Chow-Liu tree."""
    for peer in BASELINES:
        fit(peer, WARM[0], 0)


def run(name: str, settings: Settings) -> dict[str, Any]:
    """Fit every peer on one table."""
    found = {name_of(peer): fit(peer, name, settings.seed) for peer in BASELINES}
    for peer, (label, module) in PACKAGES.items():
        if find_spec(module) is None:
            found[label] = {"absent": f"{module} is not installed"}
            continue
        try:
            found[label] = call_within(settings.seconds, fit, peer, name, settings.seed)
        except (TimeoutError, RuntimeError) as error:
            found[label] = {"absent": str(error)}
    return {"peers": found}


def name_of(peer: str) -> str:
    """What the report calls it."""
    return BASELINES[peer] if peer in BASELINES else PACKAGES[peer][0]


def fit(peer: str, name: str, seed: int) -> dict[str, Any]:
    """Fit one peer, and say how long it took, reading the rows not counted."""
    from strudel.reproduce.experiments import baselines, packages

    data = load_table(name)
    with stopwatch() as watch:
        scores: dict[str, Any] = getattr(baselines if peer in BASELINES else packages, peer)(
            data, seed
        )
    return scores | {"seconds": watch.seconds}
