"""The examples in the tutorial and in the pages of docs/guide run and give what they say."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = [DOCS / "tutorial.md", *sorted(DOCS.glob("guide/*.md"))]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_there_are_pages():
    assert len(PAGES) > 5


@pytest.mark.compiled
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_python_example_gives_what_it_says(page):
    text = page.read_text(encoding="utf-8")
    if "strudel-pc[logic]" in text:
        pytest.importorskip("pysdd", reason="needs PySDD: pip install 'strudel-pc[logic]'")
    found = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(found), {}, page.name, str(page), 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test).failed == 0
