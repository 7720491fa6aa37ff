"""Events from files."""

import pytest

from strudel.circuits.examples import figure_1_circuit
from strudel.errors import FileFormatError
from strudel.io.event_files import read_cnf, read_sdd
from strudel.io.read_write import write
from strudel.logic.event_compiler import compile_event
from strudel.logic.formula import Cnf


def test_formulas_and_diagrams_come_back(tmp_path):
    cnf = Cnf.from_literals([[1, -2], [3]], n_vars=4)
    write(cnf, tmp_path / "rule.cnf.gz")
    assert read_cnf(tmp_path / "rule.cnf.gz") == cnf
    vtree = figure_1_circuit().vtree
    sdd = compile_event("exactly(2, x0, x1, x2)", vtree)
    write(sdd, tmp_path / "rule.sdd")
    write(vtree, tmp_path / "other.vtree")
    rows = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]]
    for given in (vtree, tmp_path / "other.vtree"):
        assert read_sdd(tmp_path / "rule.sdd", given).holds(rows).tolist() == [True, False, True]


def test_other_extensions_are_refused(tmp_path):
    for call in (read_cnf, read_sdd):
        with pytest.raises(FileFormatError, match="goes by the name"):
            call(tmp_path / "model.psdd")
