"""Facts about `.psdd` files that are not whole."""

import pytest

from strudel import read, write
from strudel.circuits import figure_1_circuit
from strudel.circuits.compile import compile_factorized
from strudel.errors import FileFormatError
from strudel.trees import balanced_vtree


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
