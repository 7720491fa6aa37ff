"""What a release says of itself: one version, dated and described."""

import re
from pathlib import Path

import pytest

import strudel

ROOT = Path(__file__).resolve().parents[1]

if not (ROOT / "CITATION.cff").exists():
    pytest.skip("needs a checkout or an sdist", allow_module_level=True)


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_changelog_begins_with_this_version():
    newest = re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == strudel.__version__


def test_the_citation_names_this_version_and_its_date():
    version = re.search(r"^version: (\S+)$", text_of("CITATION.cff"), re.MULTILINE)
    date = re.search(r"^date-released: (\S+)$", text_of("CITATION.cff"), re.MULTILINE)
    assert version[1] == strudel.__version__
    assert f"## {version[1]} ({date[1]})" in text_of("CHANGELOG.md")
