"""Files of other programs, which `read` and `write` recognise by their extension.

In:  a path that ends in one of the extensions of `FORMATS`, with or without ``.gz``.
Out: a `Circuit`, `Vtree`, `ChowLiuTree`, `PredictorCircuit`, `Sdd`, `Nnf`, `Cnf` or `Dnf`.

Files are not trusted: whatever they hold, the result is a model or a `FileFormatError`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import compile_chow_liu
from strudel.circuits.predictor import PredictorCircuit
from strudel.errors import FileFormatError
from strudel.io.formats.decisions import predictor_lines, psdd_lines, read_predictor, read_psdd
from strudel.io.formats.formulas import (
    formula_lines,
    jlc_lines,
    nnf_lines,
    read_cnf,
    read_dnf,
    read_jlc,
    read_nnf,
)
from strudel.io.formats.sdd import read_sdd, sdd_lines
from strudel.io.formats.sum_product import (
    ReadOptions,
    circuit_to_write,
    jpc_lines,
    read_jpc,
    read_spn,
    spn_lines,
)
from strudel.io.formats.text import TextFile, bare_suffix, write_text
from strudel.io.formats.trees import clt_lines, read_clt, read_vtree, vtree_lines
from strudel.logic.formula import Cnf, Dnf, Nnf
from strudel.logic.satisfying_rows import uniform_circuit
from strudel.logic.sdd import Sdd, nnf_from_sdd
from strudel.queries.given import circuit_of
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree, vtree_from_chow_liu

PathLike = str | os.PathLike[str]


class Format(NamedTuple):
    """What an extension stands for."""

    holds: type
    words: str  # for sentences: "a .psdd file holds ..."
    read: Callable[[TextFile, ReadOptions], Any]
    lines: Callable[[Any], Iterable[str]]


PREDICTOR = Format(PredictorCircuit, "a PredictorCircuit", read_predictor, predictor_lines)
FORMATS = {
    ".vtree": Format(Vtree, "a vtree", lambda file, _: read_vtree(file)[0], vtree_lines),
    ".psdd": Format(Circuit, "a circuit", read_psdd, psdd_lines),
    ".jpc": Format(Circuit, "a circuit", read_jpc, jpc_lines),
    ".spn": Format(Circuit, "a circuit", read_spn, spn_lines),
    ".sdd": Format(Sdd, "an Sdd", read_sdd, sdd_lines),
    ".nnf": Format(Nnf, "an Nnf", lambda file, _: read_nnf(file), nnf_lines),
    ".jlc": Format(Nnf, "an Nnf", lambda file, _: read_jlc(file), jlc_lines),
    ".cnf": Format(Cnf, "a Cnf", lambda file, _: read_cnf(file), formula_lines),
    ".dnf": Format(Dnf, "a Dnf", lambda file, _: read_dnf(file), formula_lines),
    ".circuit": PREDICTOR,
    ".glc": PREDICTOR,
    ".clt": Format(ChowLiuTree, "a ChowLiuTree", lambda file, _: read_clt(file), clt_lines),
}


def read(path: PathLike, *, vtree: Vtree | PathLike | None = None, normalize: bool = False) -> Any:
    """Read a file of another program, by its extension.

    Parameters
    ----------
    path : path-like
        Ends in ``.psdd``, ``.vtree``, ``.sdd``, ``.nnf``, ``.cnf``, ``.dnf``, ``.jpc``, ``.jlc``,
        ``.spn``, ``.circuit``, ``.glc`` or ``.clt``; ``.gz`` may follow.
    vtree : Vtree or path-like, optional
        For circuits and SDDs: the vtree to follow. Circuits need none: it is recovered from the
        file. An SDD takes the `.vtree` file of the same name beside it, if there is one.
    normalize : bool
        Accept circuits whose parameters do not add up to one, and make them so without changing
        the distribution, with a `NormalizedWarning`. Otherwise a sum that is off by more than 1e-6
        is an error.

    Returns
    -------
    Circuit, Vtree, ChowLiuTree, PredictorCircuit, Sdd, Nnf, Cnf or Dnf
        By the extension. Variables, which files count from 1, are counted from 0.

    Raises
    ------
    FileFormatError
        If the file breaks the rules of its format, with the number of the line.

    Examples
    --------
    >>> import tempfile
    >>> from strudel.circuits import figure_1_circuit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(figure_1_circuit(), f"{folder}/figure_1.psdd")
    ...     read(f"{folder}/figure_1.psdd")
    Circuit(n_components=1, n_columns=4, n_nodes=13, n_edges=8)
    """
    form = format_of(path)
    node_of_id = None
    if vtree is None and form.holds is Sdd:
        vtree = _vtree_beside(path)
    if vtree is not None and not isinstance(vtree, Vtree):
        vtree, node_of_id = read_vtree(TextFile(vtree))
    file = TextFile(path)
    try:
        return form.read(file, ReadOptions(vtree, node_of_id, normalize))
    except FileFormatError:
        raise
    except (ValueError, OverflowError) as error:  # the rules of what it would be
        file.refuse(str(error).rstrip("."))


def _vtree_beside(path: PathLike) -> Path | None:
    """The `.vtree` file with the name of another file, if there is one."""
    name = Path(path).name.removesuffix(".gz")
    for ending in (".vtree", ".vtree.gz"):
        beside = Path(path).with_name(Path(name).stem + ending)
        if beside.is_file():
            return beside
    return None


def write(model: Any, path: PathLike) -> None:
    """Write a file for other programs, by its extension.

    The file is complete or not written at all, and reads back without loss, but for the names of
    columns in a `.spn` file. A model that the format cannot hold is refused: circuits are over
    columns of 0 and 1, or in a `.jpc` file also of categories. Several components become one
    circuit, whose root chooses among them.

    Parameters
    ----------
    model : Circuit, fitted estimator, Vtree, ChowLiuTree, PredictorCircuit, Sdd, Nnf, Cnf or Dnf
        What the format holds; see `read`. A fitted `RegressionCircuit` or `LogisticCircuit` is
        written as its predictor. Programs that read a `.psdd` or `.sdd`
        file usually also need its vtree: ``write(circuit.vtree, "same_name.vtree")``.
    path : path-like
        Ends in an extension that `read` knows; ``.gz`` may follow.

    Examples
    --------
    >>> import tempfile
    >>> from strudel.trees import balanced_vtree
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(balanced_vtree(4), f"{folder}/balanced.vtree.gz")
    ...     read(f"{folder}/balanced.vtree.gz").to_nested()
    ((0, 1), (2, 3))
    """
    form = format_of(path)
    if form.holds is Circuit and is_model(model):
        model = circuit_to_write(model, bare_suffix(path))
    if form.holds is PredictorCircuit:
        model = getattr(model, "predictor_", model)
    if not isinstance(model, form.holds):
        raise TypeError(
            f"A {bare_suffix(path)} file holds {form.words}, so it cannot hold this "
            f"{type(model).__name__}."
        )
    write_text(path, form.lines(model))


def is_model(model: Any) -> bool:
    """Whether there is a circuit of it."""
    try:
        circuit_of(model)
    except TypeError:
        return False
    return True


def format_of(path: PathLike) -> Format:
    """The format that the extension of a path stands for."""
    suffix = bare_suffix(path)
    if suffix == ".strudel":
        raise FileFormatError(
            f"{os.fspath(path)}: use strudel.load and strudel.save for .strudel files."
        )
    if suffix not in FORMATS:
        raise FileFormatError(
            f"{os.fspath(path)}: its format is not known. The extension {suffix!r} is not one of "
            f"{', '.join(FORMATS)}."
        )
    return FORMATS[suffix]


def as_kind(model: Any, kind: type) -> tuple[Any, str]:
    """What `write` takes for a format, and in words what was done to the model, if anything was.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> as_kind(figure_1_circuit(), Vtree)
    (Vtree(n_vars=4, ...), 'the vtree only')
    """
    if isinstance(model, kind):
        return model, ""
    if kind is Circuit and isinstance(model, ChowLiuTree):
        return compile_chow_liu(model, vtree_from_chow_liu(model)), "compiled"
    if kind is Circuit and isinstance(model, Sdd | Nnf):
        return uniform_circuit(model), "all satisfying rows equally likely"
    if kind is Circuit and is_model(model):
        k = circuit_of(model).n_components
        of_estimator = "the circuit of the estimator" if hasattr(model, "circuit_") else ""
        return model, f"the {k} components as one circuit" if k > 1 else of_estimator
    if kind is Nnf and isinstance(model, Sdd):
        return nnf_from_sdd(model), "without the vtree"
    if kind is Vtree and isinstance(model, ChowLiuTree):
        return vtree_from_chow_liu(model), "the vtree of the tree"
    if kind is Vtree and isinstance(model, Sdd | PredictorCircuit):
        return model.vtree, "the vtree only"
    if kind is Vtree and is_model(model):
        return circuit_of(model).vtree, "the vtree only"
    words = {form.holds: form.words for form in FORMATS.values()}[kind]
    raise ValueError(f"{words.capitalize()} cannot be made from a {type(model).__name__}.")
