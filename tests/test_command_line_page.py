"""The page about the command line lists every command and option as `--help` does.

Run this file to write the list again.
"""

import re
from enum import EnumType
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer

from strudel import Strudel, StrudelClassifier
from strudel.cli.main import app
from strudel.learning.options import METHODS, SEARCHES
from strudel.tables import TableEncoder

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"
MARK = "<!-- The rest is written by: python tests/test_command_line_page.py -->\n"


def commands():
    return typer.main.get_command(app).commands


def one_line(text):
    return " ".join((text or "").replace("|", "\\|").split())


def choices_of(command, parameter):
    """The values of an option that has few."""
    callbacks = {one.callback.__name__: one.callback for one in app.registered_commands}
    hint = get_type_hints(callbacks[command])[parameter.name]
    kinds = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, EnumType)]
    return [choice.value for choice in kinds[0]] if kinds else []


def option_row(command, parameter):
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    help_text = one_line(parameter.help)
    choices = choices_of(command, parameter)
    if choices:
        values = ", ".join(f"`{choice}`" for choice in choices)
        help_text = f"{help_text} One of {values}."
    default = getattr(parameter.default, "value", parameter.default)
    is_shown = default is not None and default is not False and not callable(default)
    return f"| {names} | {help_text}{f' Default: {default}.' if is_shown else ''} |"


def panels(name, options):
    """A table of options for every panel of the help."""
    by_panel = {}
    for option in options:
        by_panel.setdefault(option.rich_help_panel or "Options", []).append(option)
    for panel, own in by_panel.items():
        yield from [f"{panel}:", "", "| | |", "| --- | --- |"]
        yield from (option_row(name, option) for option in own)
        yield ""


def settings():
    """The names that --set takes."""
    yield from ["Names for `--set`:", "", "| | |", "| --- | --- |"]
    for title, model, prefix in (
        ("a circuit", Strudel(n_components=1), ""),
        ("a mixture", Strudel(n_components=10), ""),
        ("a classifier", StrudelClassifier(), ""),
        *((f"`--search {name}`", make(), "search.") for name, make in SEARCHES.items()),
        *((f"`--method {name}`", make(), "method.") for name, make in METHODS.items()),
        ("any", TableEncoder(), "columns."),
    ):
        names = [prefix + option for option in model.get_params(deep=False)]
        yield f"| {title} | {', '.join(f'`{name}`' for name in names)} |"
    yield ""


def reference():
    lines = []
    for name, command in commands().items():
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        usage = " ".join(p.metavar or p.name.upper() for p in arguments)
        lines += [f"### strudel {name}", "", f"`strudel {name} {usage}`".replace(" `", "`"), ""]
        for part in (command.help or "").replace("\f", "").strip().split("\n\n"):
            is_list = part.lstrip().startswith("\b")
            text = part.lstrip("\b\n").strip("\n") if is_list else one_line(part)
            if text.startswith("Examples:"):
                examples = (f"$ {line.strip()}" for line in text.splitlines()[1:])
                lines += ["```console", *examples, "```", ""]
            else:
                lines += ["```text", text, "```", ""] if is_list else [text, ""]
        if arguments:
            lines += ["| | |", "| --- | --- |"]
            lines += [*(f"| `{p.metavar}` | {one_line(p.help)} |" for p in arguments), ""]
        lines += panels(name, options)
        lines += settings() if name == "fit" else []
    return "\n" + "\n".join(lines)


def test_the_page_lists_what_the_commands_have():
    text = PAGE.read_text(encoding="utf-8")
    assert MARK in text
    assert text.partition(MARK)[2] == reference(), f"write it again: python {Path(__file__).name}"


@pytest.mark.parametrize("name", list(commands()))
def test_help_has_an_example_of_the_command(name, capsys):
    from strudel.cli.main import main

    assert main([name, "--help"]) == 0
    assert f"Examples: strudel {name}" in " ".join(capsys.readouterr().out.split())


def test_examples_of_the_page_are_commands():
    text = PAGE.read_text(encoding="utf-8")
    used = set(re.findall(r"\$ strudel (\w+)", text))
    assert used <= set(commands())
    assert used == set(commands())


if __name__ == "__main__":
    head, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(head + mark + reference(), encoding="utf-8")
