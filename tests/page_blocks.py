"""The code blocks of a page, and how they are run: as they stand, in their order, in one folder.

    python tests/page_blocks.py README.md docs/tutorial.md     in an empty folder, without a network

What is done with a block follows from its language:

    python   run as a script; a `text` block after it is what it prints
    pycon    run as a doctest
    bash     lines that begin with `strudel` are run; others install and build, which .ci/run does
    console  `$ strudel ...`, examples of commands whose files do not exist: nothing is run

Needs nothing but the package, so that it runs where a reader has installed it.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import socket
import sys
import tempfile
import textwrap
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
BUILDS = (
    "pip install ",
    "git clone ",
    "python -m venv ",
    "python examples/",
    "python scripts/",
    "pytest",
    "zensical ",
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks_of(text):
    """The language, the code and the line of every block."""
    for block in BLOCK.finditer(text):
        yield block[2], textwrap.dedent(block[3]), text.count("\n", 0, block.start()) + 2


MODULES = {
    "logic": ["pysdd"],
    "frames": ["polars", "pyarrow"],
    "dask": ["dask", "zarr"],
    "torch": ["torch"],
}


def extras_of(text):
    """The extras that a page names above its second heading, as in `strudel-pc[logic]`."""
    top = text.partition("\n## ")[0]
    found = re.findall(r"strudel-pc\[([\w,]+)\]", top)
    return [extra for names in found for extra in names.split(",")]


def missing_extra(text):
    """The first extra of a page that is not installed, or None."""
    for extra in extras_of(text):
        if any(find_spec(module) is None for module in MODULES[extra]):
            return extra
    return None


def run_page(name, text, on_words=lambda words: None):
    """Run all blocks of a page in the current folder; an AssertionError says what differs.

    `on_words` gets the text before every block and after the last, in its turn.
    """
    names = {"__name__": "__main__"}
    printed = None
    *before, last = BLOCK.sub("\f", text).split("\f")
    for words, (language, code, line) in zip(before, blocks_of(text), strict=True):
        on_words(words)
        place = f"{name}, line {line}"
        if language == "text" and printed is not None:
            assert code == printed, f"{place}: the block above prints\n{printed}"
        printed = None
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * (line - 1) + code, name, "exec"), names)
            printed = out.getvalue()
        elif language == "pycon":
            _run_doctest(code, names, name, line)
        elif language == "bash":
            for command in code.splitlines():
                _run_command(command, place)
    on_words(last)


def _run_doctest(code, names, name, line):
    test = doctest.DocTestParser().get_doctest(code, names, name, name, line - 1)
    assert test.examples, f"{name}, line {line}: a pycon block has lines that begin with >>>"
    failures = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=failures.append, clear_globs=False)
    assert not failures, "".join(failures)
    names.update(test.globs)


def _run_command(line, place):
    from strudel.cli.main import main

    if line.startswith("strudel "):
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(shlex.split(line, comments=True)[1:]) == 0, f"{place}: {line}"
    else:
        assert line.startswith(BUILDS), f"{place}: nothing says how to check {line!r}"


def _no_network(*address):
    raise OSError(f"a page must run without a network, but asks for {address}")


if __name__ == "__main__":
    socket.socket.connect = socket.getaddrinfo = _no_network
    for page in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            run_page(page, (ROOT / page).read_text(encoding="utf-8"))
            os.chdir(ROOT)
        print(f"{page} runs as pasted")
