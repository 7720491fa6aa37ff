"""The documentation site: every page is in the navigation, every public name in the API."""

import re
from collections import Counter
from pathlib import Path

import pytest

import strudel

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CONFIG = ROOT / "mkdocs.yml"

if not CONFIG.exists():  # an installed copy of the tests
    pytest.skip("the site is built from a checkout", allow_module_level=True)


def test_every_page_is_in_the_navigation_once():
    listed = re.findall(r": (\S+\.md)$", CONFIG.read_text(encoding="utf-8"), flags=re.MULTILINE)
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted(pages), "mkdocs.yml: nav lists other pages than docs/ holds"


def test_every_public_name_is_in_the_api_once():
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("api/*.md")))
    found = Counter(re.findall(r"^::: strudel\.(\w+)$", text, flags=re.MULTILINE))
    expected = Counter(name for name in strudel.__all__ if name != "__version__")
    assert found == expected, "add '::: strudel.<name>' to the page of its step in docs/api/"


def test_the_places_of_the_glossary_exist():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    places = re.findall(r"`([\w/]+(?:\.py|/))`", text)
    assert len(places) > 80
    assert not [place for place in places if not (ROOT / "src" / "strudel" / place).exists()]


def test_a_term_of_the_glossary_is_said_once():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    twice = [term for term, n in Counter(terms).items() if n > 1]
    assert twice == ["| term", "| ---"]
