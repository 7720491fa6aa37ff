"""How the claims are checked: one function per claim.

In:  `Results`.
Out: whether the claim holds, with the figures behind it; None without enough results.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from strudel.reproduce.facts import paper
from strudel.reproduce.results import Results
from strudel.reproduce.sections.expectations import SHOWN, mean_errors
from strudel.reproduce.sections.records import count_better
from strudel.reproduce.sections.starts import CHOW_LIU, INDEPENDENT, mean_curve

ENOUGH = 2  # datasets without which a mean says nothing
Finding = tuple[bool, str] | None


def figure_1(results: Results) -> Finding:
    """The probability of the example row, in two ways."""
    for result in results.by_dataset("figure_1").values():
        p, product = result["probability"], result["product_of_active_edges"]
        return abs(p - 0.0192) < 1e-12 and abs(product - p) < 1e-12, f"{p:.4f} and {product:.4f}"
    return None


def _growth(results: Results) -> dict[str, Any] | None:
    found = results.by_dataset("growth")
    return found if len(found) >= ENOUGH else None


def chow_liu_is_better(results: Results) -> Finding:
    """Mean curves of both starts, point by point."""
    found = _growth(results)
    if found is None:
        return None
    chow_liu, independent = mean_curve(found, CHOW_LIU), mean_curve(found, INDEPENDENT)
    n_better = int(np.sum(chow_liu < independent))
    without = [mean_curve(found, label, "bits") for label in (CHOW_LIU, INDEPENDENT)]
    return n_better == len(chow_liu), (
        f"lower mean bits per dimension at {n_better} of {len(chow_liu)} points (without early "
        f"stopping at {int(np.sum(without[0] < without[1]))}), "
        f"{chow_liu[0]:.4f} against {independent[0]:.4f} at the start, {chow_liu[-1]:.4f} against "
        f"{independent[-1]:.4f} at the end; {len(found)} datasets"
    )


def flow_is_better(results: Results) -> Finding:
    """Mean curves of eFLOW and eRAND, for both ways to choose the variable."""
    found = _growth(results)
    if found is None:
        return None
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


def random_variables_are_larger(results: Results) -> Finding:
    """Edges of eFLOW-vRAND over those of eFLOW-vMI."""
    found = _growth(results)
    if found is None:
        return None
    ratios = {
        name: one["runs"]["eFLOW-vRAND"]["edges"][-1] / one["runs"]["eFLOW-vMI"]["edges"][-1]
        for name, one in found.items()
    }
    most = max(ratios, key=lambda name: ratios[name])
    n_larger = sum(ratio > 1 for ratio in ratios.values())
    mean = geometric_mean(ratios.values())
    return mean > 1 and 2 * n_larger > len(ratios), (
        f"larger on {n_larger} of {len(ratios)} datasets, {mean:.1f} times on (geometric) average, "
        f"at most {ratios[most]:.0f} times ({most})"
    )


def random_variables_are_slightly_better(results: Results) -> Finding:
    """Mean bits of eFLOW-vRAND and eFLOW-vMI after the last split."""
    found = _growth(results)
    if found is None:
        return None
    random, chosen = mean_curve(found, "eFLOW-vRAND")[-1], mean_curve(found, "eFLOW-vMI")[-1]
    return bool(random < chosen), f"{random:.4f} against {chosen:.4f} at the end"


def _single(results: Results) -> dict[str, Any] | None:
    found = {name: one for name, one in results.by_dataset("single").items() if paper(name)}
    return found if len(found) >= ENOUGH else None


def near_the_paper(results: Results) -> Finding:
    """Greedy test likelihoods against the paper's."""
    found = _single(results)
    if found is None:
        return None
    shares = {
        name: 1 - one["greedy"]["test"] / paper(name)["strudel_test"] for name, one in found.items()
    }
    worst = min(shares, key=lambda name: shares[name])
    n_near = sum(share >= -0.01 for share in shares.values())
    return n_near == len(shares), (
        f"{n_near} of {len(shares)} datasets; the worst is {worst}, {100 * shares[worst]:+.2f} %"
    )


def ten_of_twenty(results: Results) -> Finding:
    """How often Strudel is at least as good as LearnPSDD, to the paper's two digits."""
    found = _single(results)
    if found is None:
        return None
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


def ten_times_faster(results: Results) -> Finding:
    """Published seconds per iteration of LearnPSDD over Strudel's here."""
    found = _single(results)
    if found is None:
        return None
    ratios = {
        name: paper(name)["learnpsdd_seconds_per_iteration"]
        / one["greedy"]["seconds_per_iteration"]
        for name, one in found.items()
    }
    worst = min(ratios, key=lambda name: ratios[name])
    return ratios[worst] >= 10, (
        f"{ratios[worst]:,.0f} times ({worst}) or more, median {median(ratios.values()):,.0f}"
    )


def ten_times_faster_than_ours(results: Results) -> Finding:
    """Seconds per iteration of our LearnPSDD over Strudel's."""
    found = results.by_dataset("single")
    if len(found) < ENOUGH:
        return None
    ratios = {
        name: one["learnpsdd"]["seconds_per_iteration"] / one["greedy"]["seconds_per_iteration"]
        for name, one in found.items()
    }
    worst = min(ratios, key=lambda name: ratios[name])
    n_ten = sum(ratio >= 10 for ratio in ratios.values())
    return n_ten == len(ratios), (
        f"on {n_ten} of {len(ratios)} datasets; median {median(ratios.values()):.0f} times, least "
        f"{ratios[worst]:.1f} ({worst})"
    )


def larger_than_learnpsdd(results: Results) -> Finding:
    """Edges of Strudel over those of our LearnPSDD."""
    found = results.by_dataset("single")
    if len(found) < ENOUGH:
        return None
    ratios = [one["greedy"]["edges"] / one["learnpsdd"]["edges"] for one in found.values()]
    n_larger = sum(ratio > 1 for ratio in ratios)
    return 2 * n_larger > len(ratios), (
        f"larger than our LearnPSDD's on {n_larger} of {len(ratios)} datasets, "
        f"{geometric_mean(ratios):.1f} times on (geometric) average"
    )


def mixtures_improve(results: Results) -> Finding:
    """What EM and bagged EM gain over the single circuit."""
    found = results.by_dataset("ensembles")
    if len(found) < ENOUGH:
        return None
    gains = {
        kind: [one[kind]["test"] - one["single"]["test"] for one in found.values()]
        for kind in ("em", "bem")
    }
    words = [
        f"{kind.upper()} on {sum(gain > 0 for gain in gains[kind])} of {len(found)} datasets, "
        f"{np.mean(gains[kind]):+.2f} nats on average"
        for kind in gains
    ]
    holds = all(
        np.mean(gain) > 0 and 2 * sum(g > 0 for g in gain) > len(gain) for gain in gains.values()
    )
    return holds, "; ".join(words)


def against_learnpsdd(kind: str, n_paper: int) -> Callable[[Results], Finding]:
    """A check of how often our mixtures beat the published ones of LearnPSDD."""

    def check(results: Results) -> Finding:
        found = {n: one for n, one in results.by_dataset("ensembles").items() if paper(n)}
        if len(found) < ENOUGH:
            return None
        n_better = sum(
            one[kind]["test"] > paper(name)[f"learnpsdd_{kind}_test"] for name, one in found.items()
        )
        return n_better >= n_paper / 20 * len(found), f"{n_better} of {len(found)} datasets"

    return check


def flows_are_faster(results: Results) -> Finding:
    """Times faster than the classical evaluation in logs, with most components."""
    found = results.by_dataset("flows")
    if len(found) < ENOUGH:
        return None
    ratios = {name: one["times"][-1]["logs_ratio"] for name, one in found.items()}
    worst, best = (pick(ratios, key=lambda name: ratios[name]) for pick in (min, max))
    n_hundred = sum(ratio >= 100 for ratio in ratios.values())
    k = min(one["times"][-1]["components"] for one in found.values())
    return n_hundred == len(ratios), (
        f"{k} components, against logs: at least 100 times on {n_hundred} of {len(ratios)} "
        f"datasets, median {median(ratios.values()):,.0f}, least {ratios[worst]:,.0f} "
        f"({worst}), most {ratios[best]:,.0f} ({best})"
    )


def circuit_beats_median(results: Results) -> Finding:
    """Errors of expectations under the circuit against median imputation."""
    return _compare_errors(results, "circuit", "median")


def mixture_beats_circuit(results: Results) -> Finding:
    """Mean errors of expectations under the mixture and under the circuit."""
    found = results.by_dataset("expectations")
    if len(found) < ENOUGH:
        return None
    ratios = {
        name: float(
            np.mean(
                [
                    _mean(one, protocol, "mixture") / _mean(one, protocol, "circuit")
                    for protocol in ("bits", "set")
                ]
            )
        )
        for name, one in found.items()
    }
    words = ", ".join(f"{name} {100 * (ratio - 1):+.1f} %" for name, ratio in ratios.items())
    return float(
        np.mean(list(ratios.values()))
    ) < 1, f"mean error against that of the circuit: {words}"


def _compare_errors(results: Results, ours: str, theirs: str) -> Finding:
    found = results.by_dataset("expectations")
    if len(found) < ENOUGH:
        return None
    n_cases = n_better = 0
    for one in found.values():
        for protocol in ("bits", "set"):
            mine, other = (mean_errors(one, "authors", protocol, m) for m in (ours, theirs))
            for missing in SHOWN:
                n_cases += 1
                n_better += mine[missing] < other[missing]
    return n_better == n_cases, (
        f"lower error in {n_better} of {n_cases} cases ({len(found)} sets, two ways to remove, "
        "20 to 80 % missing)"
    )


def _mean(one: dict[str, Any], protocol: str, method: str) -> float:
    errors = mean_errors(one, "authors", protocol, method)
    return float(np.mean([errors[missing] for missing in SHOWN]))


def record(experiment: str, model_class: str) -> Callable[[Results], Finding]:
    """A check of how often we beat the best published model of a class."""

    def check(results: Results) -> Finding:
        n_better, n_known = count_better(results, experiment, model_class)
        if n_known < ENOUGH:
            return None
        return 2 * n_better > n_known, f"{n_better} of {n_known} datasets"

    return check
