import pytest
from reproduce.claims import CLAIMS
from reproduce.items import ITEMS

from reproduce import facts
from strudel import dataset_names

BENCHMARKS = [name for name in dataset_names() if name != "digits"]


def test_the_paper_has_all_twenty_datasets():
    assert facts.paper_datasets() == BENCHMARKS


@pytest.mark.parametrize("is_checked", [True, False])
def test_wider_classes_have_better_records(is_checked):
    for dataset in BENCHMARKS:
        check_records(dataset, is_checked)


def check_records(dataset, is_checked):
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
