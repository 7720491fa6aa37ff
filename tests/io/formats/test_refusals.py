"""Files that are nearly right: what the refusal says, and that it names the line."""

import numpy as np
import pytest

import strudel
from strudel import read, write
from strudel.circuits import figure_1_circuit
from strudel.circuits.compile import compile_factorized
from strudel.errors import FileFormatError
from strudel.trees import balanced_vtree
from strudel.trees.chow_liu import ChowLiuTree

D4 = "o 1 0\nt 2 0\n1 2 1 0\n"
TITLE = "Logisitic Circuit\n"
REFUSED = {
    "many.nnf": ("nnf 1 0 9999999999\nL 1\n", "line 1: it cannot have 9999999999 variables"),
    "none.nnf": ("nnf 0 0 2\n", "line 1: it has no nodes"),
    "more.nnf": ("nnf 1 0 2\nL 1\nL 2\n", "line 3: 1 nodes were announced, but there are more"),
    "twice.nnf": (D4 + "o 1 0\n", "line 4: a node should be 'kind id 0', each id once"),
    "root.nnf": ("o 2 0\nt 3 0\n2 3 1 0\n", "node 1, the root, is missing"),
    "leaf.nnf": (D4 + "t 3 0\n2 3 0\n1 3 0\n", "line 2: a constant has no children"),
    "end.nnf": ("o 1 0\nt 2\n", "line 2: a line of d4 should end in 0"),
    "form.jlc": ("jlc 2\nL 0 0 1\nQ 1 0\n", "line 3.*'F id', 'T id'"),
    "none.jlc": ("jlc 0\n", "it has no nodes"),
    "none.jpc": ("jpc 0\n", "it has no nodes"),
    "head.jpc": ("L 0 0 1\n", "it does not start with a line 'jpc number-of-nodes'"),
    "bare.jpc": ("jpc\nL 0 0 1\n", "it should start with a line 'jpc number-of-nodes'"),
    "more.jpc": ("jpc 1\nL 0 0 1\nL 1 0 -1\n", "line 3: 1 nodes were announced, but there are"),
    "none.psdd": ("psdd 0\n", "it has no nodes"),
    "empty.spn": ("", "it is empty"),
    "empty.circuit": ("", "it is empty"),
    "form.circuit": (TITLE + "T 0 0 1\n", "line 2.*'T.F id vtree variable weights'"),
    "first.circuit": (TITLE + "D 4 1 1 (0 2)\n", "literals before it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_refusal_says_what_is_wrong(tmp_path, name):
    content, words = REFUSED[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(strudel.FileFormatError, match=words):
        strudel.read(tmp_path / name)


def test_d4_arcs_may_have_no_literals(tmp_path):
    (tmp_path / "a.nnf").write_text("o 1 0\na 2 0\nt 3 0\n1 2 0\n2 3 1 -2 0\n")
    nnf = strudel.read(tmp_path / "a.nnf")
    rows = np.array(list(np.ndindex(2, 2)))
    assert nnf.holds(rows).tolist() == [False, False, True, False]


def test_a_root_with_two_parameters_is_no_chow_liu_file(tmp_path):
    tree = ChowLiuTree(np.array([-1], dtype=np.int32), np.array([[0.2, 0.3]]))
    with pytest.raises(ValueError, match="is a root, but has two different parameters"):
        strudel.write(tree, tmp_path / "a.clt")


def test_a_file_without_its_end_is_refused(tmp_path):
    path = tmp_path / "coins.psdd"
    write(compile_factorized(balanced_vtree(8)), path)
    lines = path.read_text().splitlines()
    n_nodes = sum(line[0] in "LTD" for line in lines)
    for n_missing in (1, 2, 3):
        path.write_text("\n".join(lines[:-n_missing]) + "\n")
        with pytest.raises(FileFormatError, match=f"but there are {n_nodes - n_missing}"):
            read(path)


def test_a_header_may_count_elements_too(tmp_path):
    path = tmp_path / "figure.psdd"
    circuit = figure_1_circuit()
    write(circuit, path)
    lines = path.read_text().splitlines()
    n_elements = sum(int(line.split()[3]) for line in lines if line.startswith("D"))
    head = next(line for line in lines if line.startswith("psdd"))
    longer = f"psdd {int(head.split()[1]) + n_elements}"
    path.write_text("\n".join(longer if line == head else line for line in lines) + "\n")
    assert read(path).n_edges == circuit.n_edges
