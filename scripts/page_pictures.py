"""Draw the pictures of the guide by the code of its pages, for light and for dark pages.

    python scripts/page_pictures.py                    all pages of docs/guide that have pictures
    python scripts/page_pictures.py docs/guide/pictures.md

A picture on a page is the figure that the blocks above it have left. It is linked twice, as
images/NAME-light.svg and images/NAME-dark.svg, and this script writes both files.
"""

import contextlib
import doctest
import io
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parents[1] / "docs"
CLEAR = {"figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none"}
THEMES = {"light": ["default", CLEAR], "dark": ["dark_background", CLEAR]}
PART = re.compile(r"^```pycon\n(?P<code>.*?)^```$|images/(?P<name>[\w-]+)-light\.svg", re.M | re.S)


def pages_with_pictures() -> list[Path]:
    """The pages of the guide whose own code draws pictures."""
    pages = sorted((DOCS / "guide").glob("*.md"))
    return [page for page in pages if pictures_of(page)]


def pictures_of(page: Path) -> list[str]:
    """The names of the pictures of a page, in their order."""
    return [part["name"] for part in _parts(page) if part["name"]]


def draw(page: Path, theme: str, folder: Path) -> None:
    """Run the blocks of a page, and write the figure of every picture on the way."""
    names: dict[str, object] = {"__name__": "__main__"}
    with themed(theme):
        for part in _parts(page):
            if part["name"]:
                save(folder / f"{part['name']}-{theme}.svg")
                continue
            for example in doctest.DocTestParser().get_examples(part["code"]):
                expected = (Exception,) if example.exc_msg else ()  # the page shows a message
                with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(*expected):
                    exec(compile(example.source, page.name, "single"), names)
        plt.close("all")


def themed(theme: str) -> contextlib.AbstractContextManager[None]:
    """Figures inside the block look so; the salt makes the same file whenever one is drawn."""
    return plt.style.context([*THEMES[theme], {"svg.hashsalt": "strudel"}])


def save(path: Path) -> None:
    """Write the figure that was left."""
    plt.gcf().savefig(path, metadata={"Date": None}, bbox_inches="tight", dpi=150)
    path.write_text(shortened(path.read_text(encoding="utf-8")), encoding="utf-8")


def shortened(svg: str) -> str:
    """With coordinates to a hundredth of a point, which is a third less to load."""
    return re.sub(r' (?:d|x|y)="[^"]*"', lambda one: re.sub(r"(\.\d\d)\d+", r"\1", one[0]), svg)


def _parts(page: Path) -> Iterator[re.Match[str]]:
    return PART.finditer(page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    mpl.use("Agg")
    asked = [Path(name).resolve() for name in sys.argv[1:]] or pages_with_pictures()
    for one in asked:
        with tempfile.TemporaryDirectory() as elsewhere, contextlib.chdir(elsewhere):
            for look in THEMES:
                draw(one, look, DOCS / "images")
        print(f"{one.relative_to(DOCS.parent)}: {', '.join(pictures_of(one))}")
