"""The examples in docs/file-formats.md run, and its table lists the formats there are."""

import doctest
import re
from pathlib import Path

from strudel.io.read_write import FORMATS

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "file-formats.md").read_text("utf-8")


def test_every_example_gives_what_it_says():
    text = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    test = doctest.DocTestParser().get_doctest(text, {}, "file-formats.md", "file-formats.md", 0)
    assert len(test.examples) > 15
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.DocTestRunner(optionflags=flags).run(test).failed == 0


def test_the_table_lists_every_extension():
    listed = re.findall(r"`(\.\w+)`", " ".join(re.findall(r"^\| `\..*$", PAGE, flags=re.MULTILINE)))
    assert set(FORMATS) <= set(listed)
