"""Write the code, the output and the pictures of examples/ into docs/examples.md.

python scripts/write_examples.py                  all of them
python scripts/write_examples.py rankings         one of them
"""

import contextlib
import io
import re
import runpy
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "examples.md"
PICTURES = ROOT / "docs" / "images" / "examples"


def write(name: str) -> None:
    script = ROOT / "examples" / f"{name}.py"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(script), run_name="__main__")
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{name}.png").write_bytes(Path(f"{name}.png").read_bytes())
    text = PAGE.read_text(encoding="utf-8")
    place = re.search(rf"(?<=`examples/{name}\.py`\n\n).*?(?=!\[)", text, re.DOTALL)
    if place is None:
        raise SystemExit(f"{PAGE} must have a line `examples/{name}.py` and a picture below it.")
    blocks = (
        '<details markdown="1">\n<summary>The code</summary>\n\n'
        f"```python\n{script.read_text(encoding='utf-8')}```\n\n</details>\n\n"
        f"```text\n{printed.getvalue()}```\n\n"
    )
    PAGE.write_text(text[: place.start()] + blocks + text[place.end() :], encoding="utf-8")


if __name__ == "__main__":
    mpl.use("Agg")
    for name in sys.argv[1:] or [path.stem for path in sorted((ROOT / "examples").glob("*.py"))]:
        write(name)
