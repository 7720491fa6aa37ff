"""The items: tables and figures by name, what they need, and which section writes about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from reproduce.content import Section
from reproduce.facts import section_text
from reproduce.store import Results
from strudel._names import did_you_mean


@dataclass(frozen=True)
class Item:
    """One table or figure."""

    name: str
    title: str
    experiments: tuple[str, ...]
    section: str  # file and function in sections/

    def write(self, results: Results) -> Section:
        """What the report says about it."""
        file, function = self.section.split(".")
        module = import_module(f"reproduce.sections.{file}")
        section: Section = getattr(module, function)(results)
        return replace(section, item=self.name, title=self.title, text=section_text(self.name))


# fmt: off
ITEMS = {
    item.name: item
    for item in (
        Item("figure:1", "The example circuit",
             ("figure_1",), "figure_1.figure_1"),
        Item("figure:initialisation", "Q1: what a Chow-Liu start is worth",
             ("growth",), "growth.initialisation"),
        Item("figure:heuristics", "Q2: which edge and which variable to split",
             ("growth",), "growth.heuristics"),
        Item("table:single-models", "Q3: single circuits",
             ("single",), "single.single_models"),
        Item("table:sizes", "Q3: sizes of single circuits",
             ("single",), "single.sizes"),
        Item("table:seconds", "Q3: learning times of single circuits",
             ("single",), "single.seconds"),
        Item("table:wilcoxon", "Q3: are the differences significant?",
             ("single",), "single.wilcoxon"),
        Item("figure:search-curves", "Q3: the searches, iteration by iteration",
             ("single",), "single.search_curves"),
        Item("table:ensembles", "Q4: mixtures of circuits",
             ("ensembles", "mixture"), "ensembles.ensembles"),
        Item("figure:flows", "Q5: mixtures by shared flows",
             ("flows",), "flows.flows"),
        Item("figure:expectations", "Q6: predictions from incomplete rows",
             ("expectations",), "expectations.expectations"),
        Item("table:records", "Today: our best models against the best published ones",
             ("accurate", "mixture"), "today.records"),
        Item("table:peers", "Today: other densities on the same rows",
             ("peers", "single", "accurate", "mixture"), "today.peers"),
    )
}
# fmt: on


def find_items(names: Sequence[str]) -> list[Item]:
    """The items of these names, all of them for none; in the order of the report."""
    for name in names:
        if name not in ITEMS:
            raise ValueError(f"There is no item {name!r}. {did_you_mean(name, ITEMS)}")
    return [item for item in ITEMS.values() if not names or item.name in names]
