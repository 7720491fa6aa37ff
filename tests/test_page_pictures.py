"""The pictures of the guide, for light and dark pages; `test_pages.py` draws them.

`python scripts/page_pictures.py` draws them again.
"""

import re

import pytest

page_pictures = pytest.importorskip("page_pictures", reason="pictures are drawn from a checkout")
IMAGES = page_pictures.DOCS / "images"
PAGES = page_pictures.pages_with_pictures()


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
