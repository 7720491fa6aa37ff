from pathlib import Path

import pytest
from reproduce.claims import CLAIMS
from reproduce.items import ITEMS

from reproduce import facts
from strudel import dataset_names

BENCHMARKS = [name for name in dataset_names() if name != "digits"]


def test_the_paper_has_all_twenty_datasets():
    assert facts.paper_datasets() == BENCHMARKS


def test_some_numbers_of_the_paper():
    msnbc, ad = facts.paper("msnbc"), facts.paper("ad")
    assert (msnbc["learnpsdd_test"], msnbc["strudel_seconds"]) == (-6.04, 1930.3)
    assert (ad["strudel_bem_test"], ad["strudel_edges"], ad["learnpsdd_p"]) == (
        -16.38,
        13152,
        9.9e-65,
    )
    assert facts.paper("digits") == {}


@pytest.mark.parametrize("dataset", BENCHMARKS)
@pytest.mark.parametrize("is_checked", [True, False])
def test_wider_classes_have_better_records(dataset, is_checked):
    best = [facts.record(dataset, name, is_checked=is_checked) for name in facts.CLASSES]
    values = [float(one["test"]) for one in best]
    assert values == sorted(values)
    assert all(one["source"] and one["method"] for one in best)


def test_records_include_the_paper():
    for dataset in BENCHMARKS:
        known = facts.paper(dataset)
        single = float(facts.record(dataset, "deterministic structured")["test"])
        mixture = float(facts.record(dataset, "structured")["test"])
        assert single >= max(known["strudel_test"], known["learnpsdd_test"]) - 0.01
        assert mixture >= max(known[name] for name in known if name.endswith("em_test")) - 0.01


def test_every_explanation_belongs_to_an_item_or_a_claim():
    for row in facts.read_facts("differences"):
        assert row["item"] in (*ITEMS, *(claim.name for claim in CLAIMS))
        assert row["dataset"] in (*BENCHMARKS, "*")


def test_the_facts_are_few_enough_to_read():
    folder = Path(facts.__file__).parent / "facts"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000
