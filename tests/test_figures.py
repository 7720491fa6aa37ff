"""The figures on pages are those of the result files.

`python scripts/write_figures.py` writes them again.
"""

import csv
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "write_figures.py"

if not SCRIPT.exists():  # an installed copy of the tests
    pytest.skip("the pages are in a checkout", allow_module_level=True)

figures = runpy.run_path(str(SCRIPT))
PAGES = [page for page in figures["pages"]() if "<!-- figure" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_the_files_say(page):
    text = page.read_text(encoding="utf-8")
    assert figures["written"](text) == text, "run python scripts/write_figures.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_figure_that_is_opened_is_closed(page):
    text = page.read_text(encoding="utf-8")
    n_opened, n_closed = text.count("<!-- figure"), text.count("<!-- /figure -->")
    assert n_opened == n_closed == len(figures["FIGURE"].findall(text))
    assert not re.findall(r"^<!-- figure.*-->.", text, flags=re.MULTILINE), "it ends a paragraph"


def test_another_value_is_replaced():
    text = "nltcs: <!-- figure: seconds of nltcs -->7<!-- /figure --> s"
    assert figures["written"](text) == text.replace("7", figures["seconds_of"]("nltcs"))


def test_claims_are_told_alike_by_the_page_and_the_file():
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    with (ROOT / "docs" / "reproduction" / "claims.csv").open(encoding="utf-8", newline="") as file:
        claims = list(csv.DictReader(file))
    for claim in claims:
        line = re.search(rf"^\| {claim['claim']} \|.*$", text, flags=re.MULTILINE)[0]
        assert claim["status"] in line
        assert claim["figures"] in line
    said = {claim["claim"]: claim["figures"] for claim in claims}
    counts = [
        figures["count"]("circuit_test", figures["RECORDS"], figures["record"], equal=equal)
        for equal in (False, True)
    ]
    assert said["R1"] == f"{counts[0]} of 20 datasets, equal to two digits on {counts[1]} more"
