"""What every command has in common: help, version, errors."""

import json
import os
import subprocess
import sys

import pytest

from strudel import _version
from strudel._compiling import Compiled
from strudel.cli.main import main

COMMANDS = ("demo", "datasets", "fit", "score", "info", "query", "sample", "plot", "convert")


def test_version(run):
    assert run("--version") == (0, f"strudel {_version.__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_the_commands(run, arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    for command in COMMANDS:
        assert f" {command} " in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fitt",), "Did you mean 'fit'"),
        (("fit",), "DATA"),
        (("fit", "x.csv", "--max-splits", "many"), "--max-splits"),
        (("fit", "x.csv", "--colour", "red"), "--colour"),
        (("fit", "nowhere.csv"), "nowhere.csv"),
        (("fit", "nltc"), "nltcs"),
        (("score", "nowhere.strudel", "x.csv"), "nowhere.strudel"),
        (("info", "nowhere.strudel"), "nowhere.strudel"),
    ],
)
def test_bad_input_gives_exit_code_2_and_one_line(refused, arguments, words):
    assert words in refused(*arguments)


def test_debug_shows_where_it_happened(monkeypatch):
    monkeypatch.setenv("STRUDEL_DEBUG", "1")
    with pytest.raises(FileNotFoundError):
        main(["fit", "nowhere.csv"])


def test_a_fault_of_ours_is_one_line_and_exit_code_1(run, monkeypatch, model):
    import strudel.io.model_file

    def fail(path):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(strudel.io.model_file, "load_held_model", fail)
    code, out, err = run("info", model)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "RuntimeError: two lines" in err
    assert "STRUDEL_DEBUG=1" in err


def test_module_runs_as_a_program():
    result = subprocess.run(
        [sys.executable, "-m", "strudel", "--version"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        timeout=60,
        check=False,
    )
    assert result.returncode == 0
    assert result.stdout == f"strudel {_version.__version__}\n"
    assert result.stderr == ""


def test_help_needs_no_heavy_package():
    code = (
        "import sys; from strudel.cli.main import main; main(['--help']);"
        "print([name for name in ('sklearn', 'numba', 'matplotlib') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        timeout=60,
        check=True,
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_warmup_says_what_was_compiled(run, monkeypatch):
    monkeypatch.setattr("strudel.warmup", lambda: Compiled(3, 1.25))
    assert run("warmup") == (0, "compiled 3 functions in 1 s\n", "")
    assert json.loads(run("warmup", "--json")[1]) == {"n_functions": 3, "seconds": 1.25}
