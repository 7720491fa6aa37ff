"""The scripts in examples/ run, draw, and print what docs/examples.md says.

``STRUDEL_UPDATE_EXAMPLES=1 pytest tests/test_examples.py`` writes what they print, and their
pictures, into the page.
"""

import os
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "examples.md"
PICTURES = ROOT / "docs" / "images" / "examples"
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))

if not SCRIPTS:  # an installed copy of the tests
    pytest.skip("the examples are in a checkout", allow_module_level=True)


def printed_block(name):
    """The part of the page that holds what a script prints."""
    return re.compile(rf"(`examples/{name}\.py`.*?```text\n)(.*?)(```)", re.DOTALL)


@pytest.mark.compiled
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_it_prints_what_the_page_says(script, tmp_path, capsys):
    if "strudel-pc[logic]" in script.read_text(encoding="utf-8"):
        pytest.importorskip("pysdd", reason="needs PySDD: pip install 'strudel-pc[logic]'")
    picture = tmp_path / f"{script.stem}.png"
    runpy.run_path(str(script))["main"](picture=picture)
    printed = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    block = printed_block(script.stem)
    if os.environ.get("STRUDEL_UPDATE_EXAMPLES"):
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(block.sub(lambda m: m[1] + printed + m[3], text), encoding="utf-8")
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / picture.name).write_bytes(picture.read_bytes())
    assert block.search(PAGE.read_text(encoding="utf-8"))[2] == printed


def test_the_page_lists_every_script_and_shows_its_picture():
    text = PAGE.read_text(encoding="utf-8")
    for script in SCRIPTS:
        assert printed_block(script.stem).search(text)
        assert f"](images/examples/{script.stem}.png)" in text
        assert (PICTURES / f"{script.stem}.png").exists()
