"""The examples in docs/queries.md run, and its command lines are understood."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from strudel.circuits.builder import CircuitBuilder
from strudel.cli.main import main
from strudel.io.model_file import save
from strudel.trees.vtree import balanced_vtree

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "queries.md").read_text(encoding="utf-8")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_every_python_example_gives_what_it_says():
    text = "\n".join(blocks("python"))
    test = doctest.DocTestParser().get_doctest(text, {}, "queries.md", "docs/queries.md", 0)
    assert len(test.examples) > 30
    results = doctest.DocTestRunner(optionflags=FLAGS).run(test)
    assert results.failed == 0


@pytest.mark.parametrize("line", blocks("bash")[0].splitlines())
def test_every_command_line_works(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save(small_model(), "nltcs.strudel")
    Path("top_half.csv").write_text("x0,x1\n1,0\n0,\n")
    program, *arguments = shlex.split(line)
    assert program == "strudel"
    assert main(arguments) == 0
    assert not capsys.readouterr().err.startswith("strudel:")


def small_model():
    """Eight independent coins."""
    vtree = balanced_vtree(8)
    builder = CircuitBuilder(vtree)
    node = {}
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] >= 0:
            node[v] = builder.add_leaf_sum(int(vtree.node_var[v]), 0.1 + 0.1 * v / vtree.n_nodes)
        else:
            left, right = node[vtree.node_left[v]], node[vtree.node_right[v]]
            node[v] = builder.add_sum([(left, right, 1.0)])
    return builder.build(node[vtree.root])


def test_every_line_of_the_table_leads_to_a_section():
    links = re.findall(r"^\| \[`\w+`\]\(#([\w-]+)\)", PAGE, flags=re.MULTILINE)
    headings = re.findall(r"^## (.*)$", PAGE, flags=re.MULTILINE)
    assert len(links) == 21 + 11
    assert set(links) <= {heading.replace(" ", "-") for heading in headings}
