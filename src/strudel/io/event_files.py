"""Events from files: formulas and SDDs.

In:  a path that ends in ``.cnf`` or ``.sdd``, ``.gz`` accepted.
Out: `Cnf` or `Sdd`. They are what `read` gives, under names that say so.
"""

from __future__ import annotations

from strudel.errors import FileFormatError
from strudel.io.formats.text import bare_suffix
from strudel.io.read_write import PathLike, read
from strudel.logic.formula import Cnf
from strudel.logic.sdd import Sdd
from strudel.trees.vtree import Vtree


def read_cnf(path: PathLike) -> Cnf:
    """Read a formula, for `probability` and `condition`.

    Parameters
    ----------
    path : path-like
        Ends in ``.cnf``; variable 1 of the file is variable 0 of the model, and so on.

    Examples
    --------
    >>> import tempfile
    >>> from strudel import probability, write
    >>> from strudel.circuits import figure_1_circuit
    >>> from strudel.logic import Cnf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Cnf.from_literals([[1, -2, 3]], n_vars=4), f"{folder}/rule.cnf")
    ...     rule = read_cnf(f"{folder}/rule.cnf")
    >>> round(probability(figure_1_circuit(), rule), 4)
    0.94
    """
    _check_suffix(path, ".cnf", "read_cnf")
    formula: Cnf = read(path)
    return formula


def read_sdd(path: PathLike, vtree: Vtree | PathLike | None = None) -> Sdd:
    """Read an SDD, for `probability` and `condition`.

    Parameters
    ----------
    path : path-like
        Ends in ``.sdd``.
    vtree : Vtree or path-like, optional
        The vtree that the SDD follows, or its file; by default the `.vtree` file of the same name
        beside it, if there is one.

    Examples
    --------
    >>> import tempfile
    >>> from strudel import probability, write
    >>> from strudel.circuits import figure_1_circuit
    >>> from strudel.logic import compile_event
    >>> circuit = figure_1_circuit()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(compile_event("X1 | ~X2", circuit.vtree, circuit.feature_names),
    ...           f"{folder}/rule.sdd")
    ...     rule = read_sdd(f"{folder}/rule.sdd", circuit.vtree)
    >>> round(probability(circuit, rule), 4)
    0.616
    """
    _check_suffix(path, ".sdd", "read_sdd")
    sdd: Sdd = read(path, vtree=vtree)
    return sdd


def _check_suffix(path: PathLike, suffix: str, call: str) -> None:
    if bare_suffix(path) != suffix:
        raise FileFormatError(f"{call} reads {suffix} files; read({str(path)!r}) goes by the name.")
