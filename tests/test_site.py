"""The documentation site: every page is in the navigation, every public name in the API."""

import re
import runpy
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import strudel
from strudel._lazy import read_contents
from strudel.io.read_write import FORMATS

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


def test_the_places_of_the_glossary_exist():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    places = re.findall(r"`([\w/]+(?:\.py|/))`", text)
    assert len(places) > 80
    assert not [place for place in places if not (ROOT / "src" / "strudel" / place).exists()]


def test_the_files_that_pages_name_exist():
    have = {path.name for path in ROOT.rglob("*.py")}
    named = {
        (page.name, file)
        for page in DOCS.rglob("*.md")
        for file in re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 50
    assert not [place for place in sorted(named) if place[1] not in have]


def test_a_term_of_the_glossary_is_said_once():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    twice = [term for term, n in Counter(terms).items() if n > 1]
    assert twice == ["| term", "| ---"]


def test_every_line_of_the_table_of_queries_leads_to_a_section():
    text = (DOCS / "queries.md").read_text(encoding="utf-8")
    links = re.findall(r"^\| \[`\w+`\]\(#([\w-]+)\)", text, flags=re.MULTILINE)
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert len(links) == 21 + 15
    assert set(links) <= {heading.replace(" ", "-") for heading in headings}


def test_the_table_of_file_formats_lists_every_extension():
    text = (DOCS / "file-formats.md").read_text(encoding="utf-8")
    lines = " ".join(re.findall(r"^\| `\..*$", text, flags=re.MULTILINE))
    assert set(FORMATS) <= set(re.findall(r"`(\.\w+)`", lines))


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
def test_the_pictures_of_the_pages_can_be_drawn_again(tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    monkeypatch.setattr("sys.argv", ["make_figures.py"])
    drawn = runpy.run_path(str(ROOT / "scripts" / "make_figures.py"))
    drawn["write"](tmp_path, list(drawn["FIGURES"]))
    kept = {path.name for path in (DOCS / "images").glob("*.svg")}
    assert {path.name for path in tmp_path.iterdir()} <= kept


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


def test_the_explorer_in_the_guide_is_what_the_code_of_the_guide_writes():
    """`scripts/explorer_in_guide.py` runs that code before the site is built."""
    script = runpy.run_path(str(ROOT / "scripts" / "explorer_in_guide.py"))
    name = script["framed_page"]()
    text = script["GUIDE"].read_text(encoding="utf-8")
    assert len(re.findall(rf'>>> page = explore\(model, "{name}"', text)) == 1
    assert f'<a href="{name}"' in text
    for builds in (".ci/run", ".github/workflows/docs.yml"):
        steps = (ROOT / builds).read_text(encoding="utf-8")
        assert 0 < steps.find("scripts/explorer_in_guide.py") < steps.find("zensical build")
