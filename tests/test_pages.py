"""Every code block of README.md and of the pages in docs/ runs as it stands and gives what it says.

The pictures of the guide are those that the blocks above them draw.

`page_blocks` says what is done with a block. A page that needs an extra names it at its top, and is
skipped where it is missing.
"""

import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import pytest
import typer

from page_blocks import BLOCK, ROOT, blocks_of, extras_of, missing_extra, run_page
from strudel.cli.main import app

LANGUAGES = ("python", "pycon", "bash", "console", "text")

page_pictures = pytest.importorskip("page_pictures", reason="the pages are in a checkout")

TEXTS = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


def page_id(name):
    """The page and its extras: `pytest -k logic` runs the pages that need that one."""
    return "-".join([name.removeprefix("docs/").removesuffix(".md"), *extras_of(TEXTS[name])])


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::strudel.errors.MissingForAReasonWarning")
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask 2026.8 under pandas 3.1
@pytest.mark.parametrize(
    "name", [name for name, text in TEXTS.items() if BLOCK.search(text)], ids=page_id
)
def test_every_block_runs_and_gives_what_it_says_and_draws(name, tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    extra = missing_extra(TEXTS[name])
    if extra is not None:
        pytest.skip(f"{name} needs pip install 'strudel-pc[{extra}]'")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)

    def draw(words):
        for picture in re.findall(r"images/([\w-]+)-dark\.svg#", words):
            page_pictures.save(tmp_path / f"{picture}-dark.svg")
            kept = ROOT / "docs" / "images" / f"{picture}-dark.svg"
            assert words_of(tmp_path / kept.name) == words_of(kept)

    is_guide = name.startswith("docs/guide/")
    with page_pictures.themed("dark") if is_guide else nullcontext():
        run_page(name, TEXTS[name], draw if is_guide else len)
    plt.close("all")


def words_of(path):
    """What is written in a picture: matplotlib keeps every text beside its letters."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", TEXTS)
def test_blocks_say_what_they_are(name):
    """So that everything is run, and a button copies code without prompts."""
    text = TEXTS[name]
    for language, code, line in blocks_of(text):
        assert language in LANGUAGES, f"{name}, line {line}"
        has_prompts = code.startswith(">>> ")
        assert has_prompts == (language == "pycon"), f"{name}, line {line}: pycon has prompts"
    n_fences = len(re.findall(r"^ *```", text, flags=re.MULTILINE))
    assert n_fences == 2 * len(BLOCK.findall(text)), f"{name}: a block without a language"


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "```console" in text])
def test_commands_that_are_not_run_have_options_that_exist(name):
    commands = typer.main.get_command(app).commands
    for language, code, line in blocks_of(TEXTS[name]):
        for typed in code.splitlines() if language == "console" else ():
            prompt, program, command, *arguments = shlex.split(typed, comments=True)
            assert (prompt, program) == ("$", "strudel"), f"{name}, line {line}"
            options = {"--help"}.union(*(one.opts for one in commands[command].params))
            options = options.union(*(one.secondary_opts for one in commands[command].params))
            used = {word.partition("=")[0] for word in arguments if re.match("--?[a-z]", word)}
            assert used <= options, f"{name}, line {line}: {typed}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "prints\n1"),
        ("```pycon\n>>> 1 + 1\n3\n\n```\n", "Expected:\n    3"),
        ("```pycon\n1 + 1\n```\n", "lines that begin with >>>"),
        ("```bash\nstrudel fit no-such-file.csv\n```\n", "strudel fit no-such-file.csv"),
        ("```bash\nrm -r /\n```\n", "nothing says how to check"),
    ],
)
def test_a_page_that_is_wrong_is_refused(text, fault, capsys):
    with pytest.raises(AssertionError) as caught:
        run_page("page.md", text)
    assert fault in str(caught.value)


def test_blocks_of_a_page_share_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page("page.md", "```python\nx = 1\n```\n\n```pycon\n>>> x\n1\n>>> y = 2\n\n```\n")
    run_page("page.md", "```pycon\n>>> y = 2\n\n```\n\n```python\nprint(y)\n```\n```text\n2\n```\n")


def test_extras_are_read_off_the_top_of_a_page():
    text = (
        "# Title\n\nNeeds `pip install 'strudel-pc[dask,frames]'`.\n\n## One\n\nstrudel-pc[logic]\n"
    )
    assert extras_of(text) == ["dask", "frames"]
    assert extras_of(TEXTS["README.md"]) == extras_of(TEXTS["docs/tutorial.md"]) == []


def test_the_page_of_examples_holds_every_script():
    """`python scripts/write_examples.py` writes them there."""
    text = TEXTS["docs/examples.md"]
    scripts = {path.stem: path.read_text("utf-8") for path in Path(ROOT, "examples").glob("*.py")}
    blocks = [code for language, code, _ in blocks_of(text) if language == "python"]
    assert sorted(blocks) == sorted(scripts.values())
    for name in scripts:
        assert f"](images/examples/{name}.png)" in text
        assert (ROOT / "docs" / "images" / "examples" / f"{name}.png").exists()
