"""The documentation site: pages in the navigation, names in the API, figures of result files."""

import re
import runpy
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import strudel
from strudel._lazy import read_contents

PACKAGES = [name for name, module in read_contents(strudel.__path__[0]).items() if not module]
ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CONFIG = ROOT / "mkdocs.yml"

if not CONFIG.exists():  # an installed copy of the tests
    pytest.skip("the site is built from a checkout", allow_module_level=True)


def test_every_page_is_in_the_navigation_once():
    listed = re.findall(r": (\S+\.md)$", CONFIG.read_text(encoding="utf-8"), flags=re.MULTILINE)
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted(pages), "mkdocs.yml: nav lists other pages than docs/ holds"


def test_every_public_name_is_on_the_page_of_its_package():
    for package in PACKAGES:
        text = (DOCS / "api" / f"{package}.md").read_text(encoding="utf-8")
        found = Counter(re.findall(r"^::: strudel\.(\w+\.\w+)$", text, flags=re.MULTILINE))
        names = import_module(f"strudel.{package}").__all__
        assert found == Counter(f"{package}.{name}" for name in names)


def test_the_page_of_the_root_links_every_name():
    text = (DOCS / "api" / "root.md").read_text(encoding="utf-8")
    links = re.findall(r"\[`(\w+)`\]\((\w+)\.md#strudel\.(\w+)\.(\w+)\)", text)
    assert all(name == target and page == package for name, page, package, target in links)
    assert sorted(name for name, *_ in links) == sorted(set(strudel.__all__) - {"__version__"})


def test_pictures_for_light_and_dark_pages_come_in_pairs():
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        light = re.findall(r"\((\S+)-light\.svg#gh-light-mode-only\)", text)
        dark = re.findall(r"\((\S+)-dark\.svg#gh-dark-mode-only\)", text)
        assert light == dark, page.name
        for picture in light:
            for theme in ("light", "dark"):
                assert (page.parent / f"{picture}-{theme}.svg").exists(), picture


@pytest.mark.compiled
def test_the_calls_for_questions_in_words_give_answers():
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    text = (DOCS / "queries.md").read_text(encoding="utf-8")
    section = text.partition("## Your question in words")[2].partition("\n## Every query")[0]
    names = {name: getattr(strudel, name) for name in strudel.__all__}
    exec("\n".join(re.findall(r"^>>> (.*)$", section, flags=re.MULTILINE)), names)
    names["patients"] = names["patients"].head(200)
    calls = re.findall(r"^\|.*\| \[?`([^`]+\([^`]+)`", section, flags=re.MULTILINE)
    assert len(calls) == 39
    for call in calls:
        if "..." not in call:
            assert eval(call, names) is not None, call
    plt.close("all")


def test_a_page_says_what_the_result_files_say():
    """`python scripts/write_figures.py` writes the figures again."""
    figures = runpy.run_path(str(ROOT / "scripts" / "write_figures.py"))
    for page in figures["pages"]():
        text = page.read_text(encoding="utf-8")
        assert figures["written"](text) == text, page.name
