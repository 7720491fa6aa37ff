"""The items: tables and figures by name, what they need, and who writes about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from strudel.data.names import did_you_mean
from strudel.reproduce.content import Section
from strudel.reproduce.results import Results


@dataclass(frozen=True)
class Item:
    """One table or figure."""

    name: str
    about: str
    experiments: tuple[str, ...]
    section: str  # file and function in sections/

    def write(self, results: Results) -> Section:
        """What the report says about it."""
        file, function = self.section.split(".")
        module = import_module(f"strudel.reproduce.sections.{file}")
        section: Section = getattr(module, function)(results)
        return section


# fmt: off
ITEMS = {
    item.name: item
    for item in (
        Item("figure:1", "the example circuit with its active flow in red",
             ("figure_1",), "figure_1.figure_1"),
        Item("figure:initialisation", "Q1: Chow-Liu against factorised start, split by split",
             ("growth",), "starts.initialisation"),
        Item("figure:heuristics", "Q2: four ways to choose a split, with time and size",
             ("growth",), "heuristics.heuristics"),
        Item("table:single-models", "Q3: test likelihoods of single circuits, LearnPSDD's too",
             ("single",), "single_models.single_models"),
        Item("table:sizes", "Q3: their sizes",
             ("single",), "costs.sizes"),
        Item("table:seconds", "Q3: their learning times",
             ("single",), "costs.seconds"),
        Item("table:wilcoxon", "Q3: paired tests against our LearnPSDD",
             ("single",), "single_models.wilcoxon"),
        Item("figure:search-curves", "Q3: likelihood and seconds, iteration by iteration",
             ("single",), "search_curves.search_curves"),
        Item("table:ensembles", "Q4: mixtures by EM and bagged EM, and our best",
             ("ensembles", "mixture"), "ensembles.ensembles"),
        Item("figure:flows", "Q5: mixtures by shared flows against classical evaluation",
             ("flows",), "flows.flows"),
        Item("figure:expectations", "Q6: predictions from incomplete rows",
             ("expectations",), "expectations.expectations"),
        Item("table:records", "our best circuit and mixture against the best published",
             ("accurate", "mixture"), "records.records"),
        Item("table:peers", "baselines and other packages on the same rows",
             ("peers", "single", "accurate", "mixture"), "peers.peers"),
    )
}
# fmt: on


def find_items(names: Sequence[str]) -> list[Item]:
    """The items of these names, all of them for none; in the order of the report.

    Examples
    --------
    >>> [item.name for item in find_items(["table:sizes", "figure:1"])]
    ['figure:1', 'table:sizes']
    """
    for name in names:
        if name not in ITEMS:
            raise ValueError(f"There is no item {name!r}. {did_you_mean(name, ITEMS)}")
    return [item for item in ITEMS.values() if not names or item.name in names]
