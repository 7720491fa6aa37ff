"""The pictures of the guide are those that the code of its pages draws, for light and dark pages.

`python scripts/page_pictures.py` draws them again.
"""

import importlib.util
import re
from pathlib import Path

import matplotlib as mpl
import pytest

from page_blocks import missing_extra

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "page_pictures.py"

if not SCRIPT.exists():  # an installed copy of the tests
    pytest.skip("the pictures are drawn from a checkout", allow_module_level=True)

spec = importlib.util.spec_from_file_location("page_pictures", SCRIPT)
page_pictures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page_pictures)
IMAGES = page_pictures.DOCS / "images"
PAGES = page_pictures.pages_with_pictures()


def words_of(path):
    """What is written in a picture: matplotlib keeps every text beside its letters."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


def test_every_page_of_the_guide_has_a_picture():
    assert sorted((page_pictures.DOCS / "guide").glob("*.md")) == PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_picture_is_linked_for_light_and_for_dark_pages(page):
    text = page.read_text(encoding="utf-8")
    names = page_pictures.pictures_of(page)
    assert len(set(names)) == len(names)
    for name in names:
        for theme in ("light", "dark"):
            assert f"(../images/{name}-{theme}.svg#gh-{theme}-mode-only)" in text
            assert (IMAGES / f"{name}-{theme}.svg").exists()
    assert not re.findall(r"\.png\)", text)


@pytest.mark.compiled
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_draws_its_pictures(page, tmp_path, monkeypatch):
    extra = missing_extra(page.read_text(encoding="utf-8"))
    if extra is not None:
        pytest.skip(f"{page.name} needs pip install 'strudel-pc[{extra}]'")
    monkeypatch.chdir(tmp_path)
    backend = mpl.get_backend()
    try:
        page_pictures.draw(page, "dark", tmp_path)
    finally:
        mpl.use(backend)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert [path.stem for path in drawn] == sorted(
        f"{name}-dark" for name in page_pictures.pictures_of(page)
    )
    for path in drawn:
        assert words_of(path) == words_of(IMAGES / path.name)


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*-dark.svg")), ids=lambda path: path.stem)
def test_dark_pictures_have_no_white_boxes(path):
    text = path.read_text(encoding="utf-8")
    assert len(text) < 400_000
    large = re.findall(r'<path d="([^"]*)" style="fill: #ffffff', text)
    assert not [shape for shape in large if shape.count("L") <= 4 and _area(shape) > 2000.0]


def _area(shape):
    """Of the box around a path, in square points."""
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", shape)]
    x, y = numbers[::2], numbers[1::2]
    return (max(x) - min(x)) * (max(y) - min(y)) if y else 0.0
