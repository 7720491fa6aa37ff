import numpy as np
import pytest
from reproduce.claims import CLAIMS, check_claims
from reproduce.items import ITEMS
from reproduce.store import Outcome, Results


def results_of(experiment, by_dataset):
    return Results([Outcome(experiment, name, {}, one) for name, one in by_dataset.items()])


def status(results, name):
    return next(one.status for one in check_claims(results, ITEMS) if one.claim.name == name)


def growth(start, last, edges=100):
    """Curves that fall from `start` to `last` per choice."""
    runs = {}
    for label in start:
        bits = list(np.linspace(start[label], last[label], 11))
        runs[label] = {"bits": bits, "kept_bits": bits, "edges": [edges] * 11}
    return {"splits": list(range(0, 101, 10)), "runs": runs}


LABELS = ("eFLOW-vMI", "eFLOW-vRAND", "eRAND-vMI", "eRAND-vRAND", "independent start")


def test_every_item_and_claim_belong_together():
    assert {claim.item for claim in CLAIMS} <= set(ITEMS)
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    assert {f"Q{n}" for n in range(1, 7)} <= {claim.name[:2] for claim in CLAIMS}


def test_nothing_is_claimed_without_results():
    assert {one.status for one in check_claims(Results([]), ITEMS)} == {"not enough results"}


@pytest.mark.parametrize(("last", "expected"), [(0.6, "holds"), (0.4, "fails")])
def test_a_start_that_loses_at_one_point_fails(last, expected):
    start = dict.fromkeys(LABELS, 0.9)
    end = dict.fromkeys(LABELS, 0.5)
    start["independent start"], end["independent start"] = 1.0, last
    results = results_of("growth", {"a": growth(start, end), "b": growth(start, end)})
    assert status(results, "Q1") == expected


@pytest.mark.parametrize(("seconds", "expected"), [(0.12, "holds"), (0.14, "fails")])
def test_seconds_per_iteration_against_the_paper(seconds, expected):
    # LearnPSDD: 1.3 s per iteration on nltcs, 18.6 on msnbc.
    one = {
        search: {"test": -6.1, "seconds_per_iteration": seconds, "edges": 10}
        for search in ("greedy", "learnpsdd")
    }
    assert status(results_of("single", {"nltcs": one, "msnbc": one}), "Q3c") == expected


def test_mixtures_have_to_improve_on_most_datasets():
    good = {"single": {"test": -6.0}, "em": {"test": -5.0}, "bem": {"test": -5.5}}
    bad = {"single": {"test": -6.0}, "em": {"test": -6.5}, "bem": {"test": -5.5}}
    assert status(results_of("ensembles", {"a": good, "b": good, "c": bad}), "Q4a") == "holds"
    assert status(results_of("ensembles", {"a": good, "b": bad, "c": bad}), "Q4a") == "fails"


@pytest.mark.parametrize(("ratio", "expected"), [(100.0, "holds"), (99.0, "fails")])
def test_flows_have_to_be_faster_everywhere(ratio, expected):
    fast, other = ({"times": [{"components": 100, "logs_ratio": r}]} for r in (5000.0, ratio))
    assert status(results_of("flows", {"a": fast, "b": other}), "Q5") == expected
