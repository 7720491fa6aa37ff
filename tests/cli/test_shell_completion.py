"""Facts about what a shell completes."""

import os

import pytest

from strudel.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("survey.csv", "survey.strudel", "notes.md", ".hidden.csv"):
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "rows.parquet").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("strudel fit nl", "nltcs"),
        ("strudel query m.strudel resp", "responsibilities"),
        ("strudel plot m.strudel dep", "dependencies"),
        ("strudel fit nltcs --comp", "--components"),
        ("strudel im", "impute"),
    ],
)
def test_bash_is_told(folder, monkeypatch, capsys, words, offered):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setenv("_STRUDEL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert main([]) == 0
    assert offered in capsys.readouterr().out.split()


def test_the_script_can_be_shown(capsys, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert main(["--show-completion", "bash"]) == 0
    assert "_STRUDEL_COMPLETE" in capsys.readouterr().out
