"""What the paper claims, checked on our numbers.

In:  `Results`.
Out: `Verdict`s: every claim holds, fails, or has not enough results, with the figures behind it.

A claim is checked on the datasets that there are, and says how many those were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from strudel.reproduce import checks
from strudel.reproduce.facts import why_of
from strudel.reproduce.results import Results

Status = Literal["holds", "fails", "not enough results"]


@dataclass(frozen=True)
class Claim:
    """A sentence, and how to check it: `check` gives whether it holds, and the figures."""

    name: str
    item: str
    text: str
    check: Callable[[Results], checks.Finding]


@dataclass(frozen=True)
class Verdict:
    """What came of a claim."""

    claim: Claim
    status: Status
    figures: str
    why: str = ""  # the reason, where a claim fails and we know it


def check_claims(results: Results, items: Iterable[str]) -> list[Verdict]:
    """Check the claims that belong to some items."""
    wanted = set(items)
    return [_judge(claim, results) for claim in CLAIMS if claim.item in wanted]


def _judge(claim: Claim, results: Results) -> Verdict:
    found = claim.check(results)
    if found is None:
        return Verdict(claim, "not enough results", "")
    holds, figures = found
    if holds:
        return Verdict(claim, "holds", figures)
    return Verdict(claim, "fails", figures, why_of(claim.name).get("*", ""))


# fmt: off
CLAIMS = (
    Claim("F1", "figure:1", "The row of figure 1 has probability 0.0192, the product of the "
          "parameters on its active edges.", checks.figure_1),
    Claim("Q1", "figure:initialisation", "Chow-Liu starts are better on average at every iteration "
          "shown.", checks.chow_liu_is_better),
    Claim("Q2a", "figure:heuristics", "Splitting edges by flow (eFLOW) is better than at random "
          "(eRAND), whatever chooses the variable.", checks.flow_is_better),
    Claim("Q2b", "figure:heuristics", "eFLOW-vRAND makes larger circuits than eFLOW-vMI.",
          checks.random_variables_are_larger),
    Claim("Q2c", "figure:heuristics", "eFLOW-vRAND is slightly more accurate on average than "
          "eFLOW-vMI.", checks.random_variables_are_slightly_better),
    Claim("Q3a", "table:single-models", "Strudel's test likelihoods are those of the paper, to "
          "1 %, or better.", checks.near_the_paper),
    Claim("Q3b", "table:single-models", "Strudel is at least as accurate as the published "
          "LearnPSDD on half of the datasets.", checks.ten_of_twenty),
    Claim("Q3c", "table:seconds", "Strudel's seconds per iteration are at least ten times below "
          "LearnPSDD's as published.", checks.ten_times_faster),
    Claim("Q3d", "table:seconds", "They are at least ten times below those of our LearnPSDD.",
          checks.ten_times_faster_than_ours),
    Claim("Q3e", "table:sizes", "Strudel's circuits are larger than LearnPSDD's.",
          checks.larger_than_learnpsdd),
    Claim("Q4a", "table:ensembles", "Mixtures improve on single models.", checks.mixtures_improve),
    Claim("Q4b", "table:ensembles", "Strudel-EM is better than the published LearnPSDD-EM on 15 "
          "datasets of 20.", checks.against_learnpsdd("em", 15)),
    Claim("Q4c", "table:ensembles", "Strudel-BEM is better than the published LearnPSDD-BEM on 11 "
          "datasets of 20.", checks.against_learnpsdd("bem", 11)),
    Claim("Q5", "figure:flows", "Shared flows evaluate a mixture at least 100 times faster.",
          checks.flows_are_faster),
    Claim("Q6a", "figure:expectations", "Expectations under a circuit beat median imputation.",
          checks.circuit_beats_median),
    Claim("Q6b", "figure:expectations", "Mixtures reduce the error further.",
          checks.mixture_beats_circuit),
    Claim("R1", "table:records", "Our best circuit is better than every published deterministic "
          "structured-decomposable one, on most datasets.",
          checks.record("accurate", "deterministic structured")),
    Claim("R2", "table:records", "Our best mixture is better than every published "
          "structured-decomposable model, on most datasets.",
          checks.record("mixture", "structured")),
)
# fmt: on
