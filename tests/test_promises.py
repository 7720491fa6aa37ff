"""Every promise of the page names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "promises.md"
NAMES = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("file", "name"), NAMES)
def test_a_promise_is_held_by_a_test(file, name):
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_no_promise_is_without_one():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    promises = [row for row in rows if not re.match(r"\| (promise|---)", row)]
    assert len(promises) > 15
    assert all("::test_" in row for row in promises)
