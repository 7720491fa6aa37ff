"""Write the page that is shown inside docs/guide/explore.md, by the code of that page.

    python scripts/explorer_in_guide.py     before `zensical build` or `zensical serve`

It is written whenever the site is built, and not committed: so it is never older than the package.
"""

import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "guide" / "explore.md"
sys.path.insert(0, str(ROOT / "tests"))


def framed_page() -> str:
    """The name of the page in the frame."""
    (name,) = re.findall(r'<iframe [^>]*src="([^"]+)"', GUIDE.read_text(encoding="utf-8"))
    return name


def write(folder: Path) -> Path:
    """Run the guide up to the block that writes the page, and copy what it wrote."""
    from page_blocks import BLOCK, run_page

    text = GUIDE.read_text(encoding="utf-8")
    block = next(block for block in BLOCK.finditer(text) if f'"{framed_page()}"' in block[3])
    with tempfile.TemporaryDirectory() as elsewhere:
        with contextlib.chdir(elsewhere):
            run_page(GUIDE.name, text[: block.end()])
        return Path(shutil.copy(Path(elsewhere, framed_page()), folder))


if __name__ == "__main__":
    written = write(GUIDE.parent)
    print(f"wrote {written.relative_to(ROOT)}, {written.stat().st_size / 1e3:.0f} kB")
