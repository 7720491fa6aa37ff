"""What the paper claims, checked on our numbers.

In:  `Results`.
Out: `Verdict`s: every claim holds, fails, or lacks results, with the figures behind it.

A claim is checked on the datasets that have results, and says how many those were. Its check is a
function of the results by dataset; it returns whether the claim holds, and the figures in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Literal, TypeAlias

import numpy as np

from reproduce.facts import paper, record, why_of
from reproduce.sections.expectations import SHOWN, mean_errors
from reproduce.sections.growth import CHOW_LIU, INDEPENDENT, mean_curve
from reproduce.store import Results

Status = Literal["holds", "fails", "not enough results"]
Found: TypeAlias = dict[str, Any]  # the result of every dataset
Finding: TypeAlias = tuple[bool, str]

SIGNS: dict[Status, str] = {
    "holds": "✓ holds",
    "fails": "✗ fails",
    "not enough results": "? not enough results",
}
ENOUGH = 2  # datasets without which a mean says nothing
ABOVE_ONE = 1 + 1e-12


@dataclass(frozen=True)
class Claim:
    """A sentence, and how to check it on the results of an experiment."""

    name: str
    item: str
    text: str
    experiment: str
    check: Callable[[Found], Finding]
    needs: Callable[[str], Any] | None = None  # what must be published about a dataset
    enough: int = ENOUGH


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds."""

    claim: Claim
    status: Status
    figures: str
    why: str = ""  # the reason, where a claim fails and we know it

    def facts(self) -> dict[str, str]:
        """The verdict as plain text, for a file."""
        own = {"status": self.status, "figures": self.figures, "why": self.why}
        return {"claim": self.claim.name, "text": self.claim.text, **own}


def check_claims(results: Results, items: Iterable[str]) -> list[Verdict]:
    """Check the claims that belong to some items."""
    wanted = set(items)
    return [_judge(claim, results) for claim in CLAIMS if claim.item in wanted]


def _judge(claim: Claim, results: Results) -> Verdict:
    found = results.by_dataset(claim.experiment)
    if claim.needs is not None:
        found = {name: one for name, one in found.items() if claim.needs(name)}
    if len(found) < claim.enough:
        return Verdict(claim, "not enough results", "")
    holds, figures = claim.check(found)
    if holds:
        return Verdict(claim, "holds", figures)
    return Verdict(claim, "fails", figures, why_of(claim.name).get("*", ""))


def _ratios(
    found: Found, of: Callable[[str, Any], float], least: float, *, on_all: bool = True
) -> Finding:
    """Whether a ratio is at least this large on all datasets, or on most; and its extremes."""
    ratios = {name: of(name, one) for name, one in found.items()}
    n_good = sum(ratio >= least for ratio in ratios.values())
    holds = n_good == len(ratios) if on_all else 2 * n_good > len(ratios)
    ends = [
        f"{word} {_short(ratios[name])} ({name})"
        for word, pick in (("least", min), ("most", max))
        for name in [pick(ratios, key=lambda name: ratios[name])]
    ]
    return holds, (
        f"on {n_good} of {len(ratios)} datasets; median {_short(median(ratios.values()))} times, "
        f"{', '.join(ends)}"
    )


def _short(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _figure_1(found: Found) -> Finding:
    """The probability of the example row, in two ways."""
    (result,) = found.values()
    p, product = result["probability"], result["product_of_active_edges"]
    return abs(p - 0.0192) < 1e-12 and abs(product - p) < 1e-12, f"{p:.4f} and {product:.4f}"


def _chow_liu_is_better(found: Found) -> Finding:
    """Mean curves of both starts, point by point."""
    chow_liu, independent = mean_curve(found, CHOW_LIU), mean_curve(found, INDEPENDENT)
    n_better = int(np.sum(chow_liu < independent))
    without = [mean_curve(found, label, "bits") for label in (CHOW_LIU, INDEPENDENT)]
    return n_better == len(chow_liu), (
        f"lower mean bits per dimension at {n_better} of {len(chow_liu)} points (without early "
        f"stopping at {int(np.sum(without[0] < without[1]))}), "
        f"{chow_liu[0]:.4f} against {independent[0]:.4f} at the start, {chow_liu[-1]:.4f} against "
        f"{independent[-1]:.4f} at the end; {len(found)} datasets"
    )


def _flow_is_better(found: Found) -> Finding:
    """Mean curves of eFLOW and eRAND, for both ways to choose the variable."""
    holds, words = True, []
    for variable in ("vMI", "vRAND"):
        flow, random = (mean_curve(found, f"{edge}-{variable}") for edge in ("eFLOW", "eRAND"))
        holds &= bool(flow[-1] < random[-1])
        n_better = int(np.sum(flow[1:] < random[1:]))
        words.append(
            f"{variable}: {flow[-1]:.4f} against {random[-1]:.4f} at the end, lower at "
            f"{n_better} of {len(flow) - 1} points"
        )
    return holds, "; ".join(words) + f"; {len(found)} datasets"


def _random_variables_are_slightly_better(found: Found) -> Finding:
    """Mean bits of eFLOW-vRAND and eFLOW-vMI after the last split."""
    random, chosen = mean_curve(found, "eFLOW-vRAND")[-1], mean_curve(found, "eFLOW-vMI")[-1]
    return bool(random < chosen), f"{random:.4f} against {chosen:.4f} at the end"


def _ten_of_twenty(found: Found) -> Finding:
    """How often Strudel is at least as good as LearnPSDD, to the paper's two digits."""
    published = sum(
        one["greedy"]["test"] >= paper(name)["learnpsdd_test"] - 0.005
        for name, one in found.items()
    )
    ours = sum(one["greedy"]["test"] >= one["learnpsdd"]["test"] for one in found.values())
    stated = sum(paper(name)["strudel_test"] >= paper(name)["learnpsdd_test"] for name in found)
    return 2 * published >= len(found), (
        f"at least as good as the published LearnPSDD on {published} of {len(found)} datasets (by "
        f"the paper's own table on {stated}), as our LearnPSDD on {ours}"
    )


def _mixtures_improve(found: Found) -> Finding:
    """What EM and bagged EM gain over the single circuit."""
    holds, words = True, []
    for kind in ("em", "bem"):
        gains = [one[kind]["test"] - one["single"]["test"] for one in found.values()]
        n_better = sum(gain > 0 for gain in gains)
        holds &= bool(np.mean(gains) > 0 and 2 * n_better > len(gains))
        words.append(
            f"{kind.upper()} on {n_better} of {len(found)} datasets, {np.mean(gains):+.2f} nats on "
            "average"
        )
    return holds, "; ".join(words)


def _against_learnpsdd(found: Found, kind: str, n_paper: int) -> Finding:
    """How often our mixtures beat the published ones of LearnPSDD."""
    n_better = sum(
        one[kind]["test"] > paper(name)[f"learnpsdd_{kind}_test"] for name, one in found.items()
    )
    return n_better >= n_paper / 20 * len(found), f"{n_better} of {len(found)} datasets"


def _circuit_beats_median(found: Found) -> Finding:
    """Errors of expectations under the circuit against median imputation, case by case."""
    is_better = []
    for one in found.values():
        for protocol in ("bits", "set"):
            ours, theirs = (
                mean_errors(one, "authors", protocol, method) for method in ("circuit", "median")
            )
            is_better += [ours[missing] < theirs[missing] for missing in SHOWN]
    return all(is_better), (
        f"lower error in {sum(is_better)} of {len(is_better)} cases ({len(found)} sets, two ways "
        "to remove, 20 to 80 % missing)"
    )


def _mixture_beats_circuit(found: Found) -> Finding:
    """Mean errors of expectations under the mixture and under the circuit."""

    def ratio(one: Any, protocol: str) -> float:
        mixture, circuit = (
            np.mean([errors[missing] for missing in SHOWN])
            for errors in (
                mean_errors(one, "authors", protocol, method) for method in ("mixture", "circuit")
            )
        )
        return float(mixture / circuit)

    ratios = {
        name: float(np.mean([ratio(one, protocol) for protocol in ("bits", "set")]))
        for name, one in found.items()
    }
    words = ", ".join(f"{name} {100 * (ratio - 1):+.1f} %" for name, ratio in ratios.items())
    is_lower = float(np.mean(list(ratios.values()))) < 1
    return is_lower, f"mean error against that of the circuit: {words}"


def _beats_record(found: Found, model_class: str) -> Finding:
    """How often we beat the best published model of a class, to two digits."""
    n_better = n_equal = 0
    for dataset, one in found.items():
        best = record(dataset, model_class)
        if best is not None:
            ours, theirs = round(one["test"], 2), round(float(best["test"]), 2)
            n_better += ours > theirs
            n_equal += ours == theirs
    words = f", equal to two digits on {n_equal} more" if n_equal else ""
    return 2 * n_better > len(found), f"{n_better} of {len(found)} datasets{words}"


# fmt: off
CLAIMS = (
    Claim("F1", "figure:1", "The row of figure 1 has probability 0.0192, the product of the "
          "parameters on its active edges.", "figure_1", _figure_1, enough=1),
    Claim("Q1", "figure:initialisation", "Chow-Liu starts are better on average at every iteration "
          "shown.", "growth", _chow_liu_is_better),
    Claim("Q2a", "figure:heuristics", "Splitting edges by flow (eFLOW) is better than at random "
          "(eRAND), whatever chooses the variable.", "growth", _flow_is_better),
    Claim("Q2b", "figure:heuristics", "eFLOW-vRAND makes larger circuits than eFLOW-vMI.",
          "growth", partial(_ratios, least=ABOVE_ONE, on_all=False, of=lambda _, one: (
              one["runs"]["eFLOW-vRAND"]["edges"][-1] / one["runs"]["eFLOW-vMI"]["edges"][-1]))),
    Claim("Q2c", "figure:heuristics", "eFLOW-vRAND is slightly more accurate on average than "
          "eFLOW-vMI.", "growth", _random_variables_are_slightly_better),
    Claim("Q3a", "table:single-models", "Strudel's test likelihoods are those of the paper, to "
          "1 %, or better.", "single",
          partial(_ratios, of=lambda name, one: paper(name)["strudel_test"] / one["greedy"]["test"],
                  least=1 / 1.01), paper),
    Claim("Q3b", "table:single-models", "Strudel is at least as accurate as the published "
          "LearnPSDD on half of the datasets.", "single", _ten_of_twenty, paper),
    Claim("Q3c", "table:seconds", "Strudel's seconds per iteration are at least ten times below "
          "LearnPSDD's as published.", "single",
          partial(_ratios, least=10, of=lambda name, one: (
              paper(name)["learnpsdd_seconds_per_iteration"]
              / one["greedy"]["seconds_per_iteration"])), paper),
    Claim("Q3d", "table:seconds", "They are at least ten times below those of our LearnPSDD.",
          "single", partial(_ratios, least=10, of=lambda _, one: (
              one["learnpsdd"]["seconds_per_iteration"]
              / one["greedy"]["seconds_per_iteration"]))),
    Claim("Q3e", "table:sizes", "Strudel's circuits are larger than LearnPSDD's.",
          "single", partial(_ratios, least=ABOVE_ONE, on_all=False, of=lambda _, one: (
              one["greedy"]["edges"] / one["learnpsdd"]["edges"]))),
    Claim("Q4a", "table:ensembles", "Mixtures improve on single models.",
          "ensembles", _mixtures_improve),
    Claim("Q4b", "table:ensembles", "Strudel-EM is better than the published LearnPSDD-EM on 15 "
          "datasets of 20.", "ensembles", partial(_against_learnpsdd, kind="em", n_paper=15),
          paper),
    Claim("Q4c", "table:ensembles", "Strudel-BEM is better than the published LearnPSDD-BEM on 11 "
          "datasets of 20.", "ensembles", partial(_against_learnpsdd, kind="bem", n_paper=11),
          paper),
    Claim("Q5", "figure:flows", "Shared flows evaluate a mixture at least 100 times faster than "
          "logs.", "flows",
          partial(_ratios, of=lambda _, one: one["times"][-1]["logs_ratio"], least=100)),
    Claim("Q6a", "figure:expectations", "Expectations under a circuit beat median imputation.",
          "expectations", _circuit_beats_median),
    Claim("Q6b", "figure:expectations", "Mixtures reduce the error further.",
          "expectations", _mixture_beats_circuit),
    Claim("R1", "table:records", "Our best circuit is better than every published deterministic "
          "structured-decomposable one, on most datasets.", "accurate",
          partial(_beats_record, model_class="deterministic structured"),
          partial(record, model_class="deterministic structured")),
    Claim("R2", "table:records", "Our best mixture is better than every published "
          "structured-decomposable model, on most datasets.", "mixture",
          partial(_beats_record, model_class="structured"),
          partial(record, model_class="structured")),
)
# fmt: on
